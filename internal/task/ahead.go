package task

// Most of what a look-up costs are cache misses, one after the other: of the table, of the entry, of its key. Those of
// different entries can wait side by side, if they are read before the first of them is worked on. What is read so has
// no meaning: it may be stale, or another entry's.

// aheadMax is how many entries are touched together.
const aheadMax = 16

// aheadRecords is how many records are prepared together.
const aheadRecords = 8

// aheadLeast is how many entries a task has before its records are prepared: fewer stay in the caches by themselves.
const aheadLeast = 2048

// ahead are the hashes of entries that are about to be looked up.
type ahead struct {
	hashes [aheadMax]uint64
	sum    uint64 // keeps the reads from being removed
}

// wide tells whether it is worth looking ahead.
func (v *View) wide() bool { return len(v.open.entries)+int(v.base.Live()) >= aheadLeast }

// touchAll reads what looking up entries with these hashes will look at.
func (v *View) touchAll(hashes []uint64) {
	v.ahead.sum += v.open.touch(hashes)
	if v.flight != nil {
		v.ahead.sum += v.flight.touch(hashes)
	}
	v.ahead.sum += v.base.Touch(hashes)
}

// touchBase reads what merging these entries into the base will look at.
func (v *View) touchBase(entries []dirty) {
	hashes := v.ahead.hashes[:0]
	for i := range entries {
		if entries[i].write() {
			hashes = append(hashes, entries[i].hash)
		}
	}
	v.ahead.sum += v.base.Touch(hashes)
}

// touch reads what find will look at, table first, then entries, then keys.
func (o *overlay) touch(hashes []uint64) (sum uint64) {
	if len(o.entries) == 0 {
		return 0
	}
	for _, hash := range hashes {
		sum += o.table[hash>>o.shift]
	}
	for _, hash := range hashes {
		if word := o.table[hash>>o.shift]; word>>32 == hash&lowHalf {
			sum += o.entries[uint32(word)-1].hash
		}
	}
	for _, hash := range hashes {
		if word := o.table[hash>>o.shift]; word>>32 == hash&lowHalf {
			if at := o.entries[uint32(word)-1].keyOff; int(at) < len(o.keys) {
				sum += uint64(o.keys[at])
			}
		}
	}
	return sum
}
