package store

// Touch reads what Set and Unset of keys with these hashes will look at: their index slots and then the entries found
// there. The reads of one call do not wait for each other, so that a replay that touches a few records ahead meets
// memory in its caches. The result has no meaning; it keeps the reads from being removed.
func (m *Memory) Touch(hashes []uint64) (sum uint64) {
	for _, hash := range hashes {
		if s := &m.shards[shardOf(hash)]; s.bits != 0 {
			sum += s.slots(&m.arena).get(tagOf(hash) >> (tagBits - s.bits))
		}
	}
	for _, hash := range hashes {
		s := &m.shards[shardOf(hash)]
		if s.bits == 0 {
			continue
		}
		tag := tagOf(hash)
		if slot := s.slots(&m.arena).get(tag >> (tagBits - s.bits)); slot != 0 && slotTag(slot) == tag {
			sum += entry(m.arena.mem(slotRef(slot))).head()
		}
	}
	return sum
}
