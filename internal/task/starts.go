package task

import (
	"slices"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// startIndex knows the starts of the live entries of each key of the ordered aggregations, so that the neighbours of a
// time are found in a logarithm of their number (I13). Keys are told apart by the hash of their head, the changelog key
// without the start: a start may belong to another key with the same hash, and whoever is given one looks the entry up.
//
// It is a multiset for the View as a whole. Nearly all keys have one entry: those cost two words and no pointer.
type startIndex struct {
	one  map[uint64]int64
	many map[uint64][]int64 // sorted; at least two
	size int
	only [1]int64

	clocks int // of Keyed aggregations, which are not among the starts
}

func newStartIndex() *startIndex {
	return &startIndex{one: map[uint64]int64{}, many: map[uint64][]int64{}}
}

// list returns the starts of a key in ascending order, valid until the next call.
func (x *startIndex) list(head uint64) []int64 {
	if start, ok := x.one[head]; ok {
		x.only[0] = start
		return x.only[:]
	}
	return x.many[head]
}

func (x *startIndex) add(head uint64, start int64) {
	x.size++
	if first, ok := x.one[head]; ok {
		delete(x.one, head)
		x.many[head] = []int64{min(first, start), max(first, start)}
		return
	}
	starts, ok := x.many[head]
	if !ok {
		x.one[head] = start
		return
	}
	at, _ := slices.BinarySearch(starts, start)
	x.many[head] = slices.Insert(starts, at, start)
}

// remove takes out one start that was added.
func (x *startIndex) remove(head uint64, start int64) {
	x.size--
	starts, ok := x.many[head]
	if !ok {
		delete(x.one, head)
		return
	}
	at, _ := slices.BinarySearch(starts, start)
	if at == 0 {
		starts = starts[1:] // windows close in the order of time: nothing is moved
	} else {
		starts = slices.Delete(starts, at, at+1)
	}
	if len(starts) > 1 {
		x.many[head] = starts
		return
	}
	delete(x.many, head)
	x.one[head] = starts[0]
}

// head is the changelog key without its start.
func head(key []byte) []byte { return key[:len(key)-startBytes] }

// startBytes is the size of the start at the end of an entry's key.
const startBytes = 8

// Around finds the neighbours of a time among the live entries of one key of an ordered aggregation: the last one that
// starts at t or before, and the first one that starts after it. head is the changelog key without its start. Where there
// is none the place's Aggregation is Removed.
func (v *View) Around(head []byte, t int64) (before, after Place, err error) {
	before.Aggregation, after.Aggregation = Removed, Removed
	starts := v.starts.list(record.Hash(head))
	at, _ := slices.BinarySearch(starts, t+1)
	for i := at - 1; i >= 0 && before.Aggregation == Removed && err == nil; i-- {
		before, _, err = v.peek(head, starts[i])
	}
	for i := at; i < len(starts) && after.Aggregation == Removed && err == nil; i++ {
		after, _, err = v.peek(head, starts[i])
	}
	return before, after, err
}

// peek returns where a live entry stands in time, and the hash of its key, without making it dirty.
func (v *View) peek(head []byte, start int64) (place Place, hash uint64, err error) {
	v.probe = record.AppendStart(append(v.probe[:0], head...), start)
	hash = record.Hash(v.probe)
	place, ok, err := v.stands(hash, v.probe)
	if !ok {
		place.Aggregation = Removed
	}
	return place, hash, err
}

// Move changes the end of a dirty entry of an ordered aggregation; its start stays. The index of due windows follows
// when the old end is due: an entry's element never stands behind its end.
func (v *View) Move(slot Slot, end int64) { v.open.entries[slot].place.End = end }

// crowded is how many elements of the due index may stand for nothing before it is built anew, beside one for each
// live entry.
const crowded = 1 << 16

// tidy builds the index of ordered aggregations anew when most of it stands for entries that were merged away or
// dropped, so that it stays in proportion to what lives (I13).
func (v *View) tidy() error {
	if v.due.moving() <= 2*(v.starts.size+v.starts.clocks)+crowded {
		return nil
	}
	return v.reorder()
}

// reorder builds the index of ordered aggregations from what lives.
func (v *View) reorder() (err error) {
	v.due.forgetMoving()
	v.starts = newStartIndex()
	v.base.All(func(hash uint64, key, value []byte) bool {
		if v.open.find(hash, key) >= 0 || v.flight != nil && v.flight.find(hash, key) >= 0 {
			return true
		}
		var place Place
		if place, err = v.place(key, value); err == nil && v.isOrdered(place.Aggregation) {
			err = v.schedule(place, hash, key)
		}
		return err == nil
	})
	for _, o := range [...]*overlay{v.open, v.flight} {
		for i := 0; o != nil && err == nil && i < len(o.entries); i++ {
			d := &o.entries[i]
			if !d.deleted && v.isOrdered(d.place.Aggregation) && (o == v.open || v.open.find(d.hash, o.key(d)) < 0) {
				err = v.schedule(d.place, d.hash, o.key(d))
			}
		}
	}
	return err
}

// nextMoving is NextEnd for an ordered aggregation: elements that stand for nothing, or for an entry that has grown, are
// put right on the way.
func (v *View) nextMoving(aggregation int) (int64, error) {
	for {
		place, hash, ok := v.due.firstMoving(aggregation)
		if !ok {
			return record.NoTime, nil
		}
		key, at, err := v.locate(place, hash)
		if err != nil || key != nil && at.End <= place.End {
			return place.End, err
		}
		v.due.dropMoving(aggregation)
		if key != nil {
			if err := v.file(at, hash, key); err != nil {
				return record.NoTime, err
			}
		}
	}
}

func (v *View) isOrdered(aggregation int) bool {
	return aggregation >= 0 && v.traits[aggregation].Ordered
}
