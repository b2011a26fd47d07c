package store

import (
	"encoding/binary"
	"math/bits"
)

// Limits and shape of a shard.
const (
	shardBits  = 10
	shardCount = 1 << shardBits
	tagBits    = 64 - refBits

	minIndexBits = 3 // 8 slots: one cache line
	maxIndexBits = chunkBits - 3
	minPageBytes = 256
	maxPageBytes = 64 << 10 // pages for large entries are larger

	// minDead is the dead space, in units, below which a shard is not worth compacting.
	minDead = 32
)

// shardOf returns the shard of a key's hash: its top bits, so that the order of shards is the order of hashes.
func shardOf(hash uint64) uint64 { return hash >> (64 - shardBits) }

// tagOf returns the bits of a hash that an index slot holds: those below the shard's. An entry's home in the index is
// the top of the tag, so that growing an index needs no entry.
func tagOf(hash uint64) uint64 { return hash << shardBits >> (64 - tagBits) }

// limit is the number of entries that an index of 1<<bits slots takes: 13 of 16, above which chains grow long.
func limit(bits uint8) uint32 { return 1 << bits * 13 / 16 }

// indexBits is the size of the smallest index for n entries.
func indexBits(n uint64) uint8 {
	b := uint8(minIndexBits)
	for b < maxIndexBits && uint64(limit(b)) < n {
		b++
	}
	return b
}

// shard is one of the 1,024 parts of a Memory. It holds no pointers. Its pages form a chain, newest first: each begins
// with a unit that holds the page before it and the size class of itself. Entries follow each other in a page, dead
// ones included; a zero unit ends those of a page that is not the newest.
type shard struct {
	index ref // slots: tag and ref of an entry, 0 for a free one
	page  ref // newest page
	free  ref // the dead entry whose room is used next
	live  uint32
	used  uint32 // units of all entries in the pages, dead ones included
	dead  uint32 // units of dead entries
	plan  uint32 // units that the shard is expected to reach; larger pages are made for more
	fill  uint32 // units used in the newest page
	bits  uint8  // log2 of the slots; 0: no index yet, and room for no entry
	class uint8  // log2 of the newest page's bytes
}

// entry is the memory from an entry's head on: a unit with the lengths of key (16 bits) and value (24 bits) and the
// number of units it takes (24 bits), then key and value adjacent. A dead entry has lengths of 0, and after its head the
// place of the one that died before it.
type entry []byte

const (
	keyLenBits   = 16
	valueLenBits = 24
	headBytes    = unitBytes
)

func (e entry) head() uint64 { return binary.LittleEndian.Uint64(e) }

func headKey(head uint64) int      { return int(head & (1<<keyLenBits - 1)) }
func headValue(head uint64) int    { return int(head >> keyLenBits & (1<<valueLenBits - 1)) }
func headUnits(head uint64) uint32 { return uint32(head >> (keyLenBits + valueLenBits)) }

// split returns the key and value of an entry. They point into the arena.
func (e entry) split() (key, value []byte) {
	head := e.head()
	k, v := headBytes+headKey(head), headValue(head)
	return e[headBytes:k:k], e[k : k+v : k+v]
}

func (e entry) write(units uint32, key, value []byte) {
	head := uint64(len(key)) | uint64(len(value))<<keyLenBits | uint64(units)<<(keyLenBits+valueLenBits)
	binary.LittleEndian.PutUint64(e, head)
	copy(e[headBytes:], key)
	copy(e[headBytes+len(key):], value)
}

// bury marks an entry dead: its room is the next to be used.
func (s *shard) bury(a *arena, place ref) {
	e := entry(a.mem(place))
	units := headUnits(e.head())
	e.write(units, nil, nil)
	binary.LittleEndian.PutUint64(e[headBytes:], uint64(s.free))
	s.free = place
	s.dead += units
}

// unitsOf is the units of an entry: a value that grows within its last unit stays where it is.
func unitsOf(keyLen, valueLen int) uint32 {
	return uint32((headBytes + keyLen + valueLen + unitBytes - 1) / unitBytes)
}

// slots is an index as memory.
type slots []byte

func (t slots) get(i uint64) uint64    { return binary.LittleEndian.Uint64(t[i*8:]) }
func (t slots) set(i uint64, s uint64) { binary.LittleEndian.PutUint64(t[i*8:], s) }

func slotTag(s uint64) uint64 { return s >> refBits }
func slotRef(s uint64) ref    { return ref(s & (1<<refBits - 1)) }

func (s *shard) slots(a *arena) slots { return slots(a.block(s.index, 8<<s.bits)) }

// find looks an entry up. It returns its slot and place; place 0 when there is none, and then the slot is where it
// would go. The shard must have an index.
func (s *shard) find(a *arena, hash uint64, key []byte) (at uint64, place ref) {
	t, tag, mask := s.slots(a), tagOf(hash), uint64(1)<<s.bits-1
	for at = tag >> (tagBits - s.bits); ; at = (at + 1) & mask {
		slot := t.get(at)
		if slot == 0 {
			return at, 0
		}
		if slotTag(slot) != tag {
			continue
		}
		e := entry(a.mem(slotRef(slot)))
		if k := headKey(e.head()); k == len(key) && string(e[headBytes:headBytes+k]) == string(key) {
			return at, slotRef(slot)
		}
	}
}

// put inserts or replaces an entry: in its place, in the room of a dead one, or at the end of the pages. Before it adds
// a page to a shard of which more than a fifth is dead, it compacts (M4). It returns the old value's length, -1 when there
// was none. An error means that there is no memory.
func (s *shard) put(a *arena, hash uint64, key, value []byte) (old int, err error) {
	if s.live >= limit(s.bits) {
		if err := s.resize(a, max(s.bits+1, minIndexBits)); err != nil {
			return -1, err
		}
	}
	at, place := s.find(a, hash, key)
	need := unitsOf(len(key), len(value))
	old = -1
	if place != 0 {
		e := entry(a.mem(place))
		head := e.head()
		old = headValue(head)
		// An entry that shrank below half is moved, so that its room is not lost.
		if units := headUnits(head); need <= units && units <= 2*need {
			e.write(units, key, value)
			return old, nil
		}
	}
	fresh, have := s.reuse(a, need)
	if fresh == 0 {
		if s.full(need) && s.wastes(4) {
			if err := s.compact(a); err != nil {
				return old, err
			}
			at, place = s.find(a, hash, key)
		}
		if fresh, err = s.room(a, need); err != nil {
			return old, err
		}
		have = need
	}
	entry(a.mem(fresh)).write(have, key, value)
	s.slots(a).set(at, tagOf(hash)<<refBits|uint64(fresh))
	if place == 0 {
		s.live++
		return old, nil
	}
	s.bury(a, place)
	return old, s.shrink(a)
}

// reuse takes the room of the entry that died last when it fits, with an eighth and a unit to spare: windows of one job
// take about the same. Otherwise that room is left to the next compaction, so that a put looks at one place only. It
// returns the place and its units, 0 when there is none.
func (s *shard) reuse(a *arena, need uint32) (place ref, have uint32) {
	if s.free == 0 {
		return 0, 0
	}
	place = s.free
	e := entry(a.mem(place))
	have = headUnits(e.head())
	s.free = ref(binary.LittleEndian.Uint64(e[headBytes:]))
	if have < need || have > need+need/8+1 {
		return 0, 0
	}
	s.dead -= have
	return place, have
}

// remove deletes an entry and returns its value's length, -1 when there was none.
func (s *shard) remove(a *arena, hash uint64, key []byte) (old int, err error) {
	if s.bits == 0 {
		return -1, nil
	}
	at, place := s.find(a, hash, key)
	if place == 0 {
		return -1, nil
	}
	old = headValue(entry(a.mem(place)).head())
	s.bury(a, place)
	s.erase(a, at)
	s.live--
	return old, s.shrink(a)
}

// erase empties a slot and moves those after it up, so that no chain is broken and no marker is left.
func (s *shard) erase(a *arena, hole uint64) {
	t, mask := s.slots(a), uint64(1)<<s.bits-1
	for at := (hole + 1) & mask; ; at = (at + 1) & mask {
		slot := t.get(at)
		if slot == 0 {
			break
		}
		home := slotTag(slot) >> (tagBits - s.bits)
		if (at-home)&mask >= (at-hole)&mask {
			t.set(hole, slot)
			hole = at
		}
	}
	t.set(hole, 0)
}

// resize makes an index of 1<<bits slots. The entries are not touched.
func (s *shard) resize(a *arena, bits uint8) error {
	index, err := a.alloc(bits + 3)
	if err != nil {
		return err
	}
	t, mask := slots(a.block(index, 8<<bits)), uint64(1)<<bits-1
	clear(t)
	if s.bits != 0 {
		for old := s.slots(a); len(old) > 0; old = old[8:] {
			slot := old.get(0)
			if slot == 0 {
				continue
			}
			at := slotTag(slot) >> (tagBits - bits)
			for t.get(at) != 0 {
				at = (at + 1) & mask
			}
			t.set(at, slot)
		}
		a.release(s.index, s.bits+3)
	}
	s.index, s.bits = index, bits
	return nil
}

// room finds place for an entry at the end of the newest page.
func (s *shard) room(a *arena, units uint32) (ref, error) {
	if s.full(units) {
		if err := s.addPage(a, units); err != nil {
			return 0, err
		}
	}
	r := s.page + ref(s.fill)
	s.fill += units
	s.used += units
	return r, nil
}

// full tells whether the newest page has no room for so many units.
func (s *shard) full(units uint32) bool { return s.page == 0 || s.fill+units > 1<<s.class/unitBytes }

// addPage makes a new newest page. It is large enough for several entries and small against the shard, so that little
// is lost at its end.
func (s *shard) addPage(a *arena, units uint32) error {
	need := int64(units+1) * unitBytes
	total := int64(max(s.used, s.plan)) * unitBytes
	want := max(minPageBytes, min(total/32, maxPageBytes), min(total/4, 8*need), need)
	class := uint8(min(bits.Len64(uint64(want-1)), max(chunkBits-3, bits.Len64(uint64(need-1)))))
	page, err := a.alloc(class)
	if err != nil {
		return err
	}
	if s.page != 0 && s.fill < 1<<s.class/unitBytes {
		binary.LittleEndian.PutUint64(a.mem(s.page+ref(s.fill)), 0)
	}
	binary.LittleEndian.PutUint64(a.mem(page), uint64(s.page)|uint64(s.class)<<refBits)
	s.page, s.class, s.fill = page, class, 1
	return nil
}

// shrink gives back what a shard does not need any more: all of it when nothing lives, a third of the pages when that
// much is dead (M4). Below that, what died is room for what comes: windows close together, and others open then.
func (s *shard) shrink(a *arena) error {
	if s.live == 0 {
		s.empty(a)
		return nil
	}
	if s.wastes(2) {
		return s.compact(a)
	}
	return nil
}

// wastes tells whether dead entries take more than that part of what the live ones take.
func (s *shard) wastes(part uint32) bool { return s.dead >= minDead && s.dead > (s.used-s.dead)/part }

// compact copies the live entries to new pages, in the order of the index, and fits the index to what is left.
func (s *shard) compact(a *arena) error {
	page, class := s.page, s.class
	*s = shard{index: s.index, bits: s.bits, live: s.live, plan: s.used - s.dead}
	for t := s.slots(a); len(t) > 0; t = t[8:] {
		slot := t.get(0)
		if slot == 0 {
			continue
		}
		key, value := entry(a.mem(slotRef(slot))).split()
		need := unitsOf(len(key), len(value))
		fresh, err := s.room(a, need)
		if err != nil {
			return err
		}
		entry(a.mem(fresh)).write(need, key, value)
		t.set(0, slotTag(slot)<<refBits|uint64(fresh))
	}
	s.releasePages(a, page, class)
	if fit := indexBits(uint64(s.live) * 5 / 4); fit < s.bits {
		return s.resize(a, fit)
	}
	return nil
}

// empty gives back all that the shard has.
func (s *shard) empty(a *arena) {
	s.releasePages(a, s.page, s.class)
	a.release(s.index, s.bits+3)
	*s = shard{}
}

func (s *shard) releasePages(a *arena, page ref, class uint8) {
	for page != 0 {
		head := binary.LittleEndian.Uint64(a.mem(page))
		a.release(page, class)
		page, class = slotRef(head), uint8(head>>refBits)
	}
}

// each calls fn with every live entry until it returns false: key and value adjacent, and the key's length. They point
// into the arena.
func (s *shard) each(a *arena, fn func(keyValue []byte, keyLen int) bool) bool {
	for page, end := s.page, s.fill; page != 0; {
		mem := a.block(page, int64(end)*unitBytes)
		for at := unitBytes; at < len(mem); {
			head := entry(mem[at:]).head()
			if headUnits(head) == 0 {
				break
			}
			if k := headKey(head); k != 0 {
				first := at + headBytes
				if !fn(mem[first:first+k+headValue(head)], k) {
					return false
				}
			}
			at += int(headUnits(head)) * unitBytes
		}
		head := binary.LittleEndian.Uint64(mem)
		page, end = slotRef(head), 1<<(head>>refBits)/unitBytes
	}
	return true
}

// reserve prepares an empty shard for n entries of together so many units.
func (s *shard) reserve(a *arena, n, units uint32) error {
	s.plan = units
	return s.resize(a, indexBits(uint64(n)))
}
