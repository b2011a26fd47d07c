package task

import (
	"math"
	"slices"
	"sort"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// Aggregations that are Keyed have, beside their windows, one entry for each key with a time of its own: its clock, whose
// end is how far the key's windows are closed, however far behind the others it is (R35). What is closed for all, the
// aggregation's closed end, is then only a floor for those who fall far behind or silent, and forgets clocks: one whose end
// the floor has reached says nothing any more, is no different from none, and is deleted like a due window (I13).
//
// A window whose key has a clock has no element in the due index. It gets one when it comes due: by the clock at once
// (CloseKey), by the floor when that reaches the clock, which it does first (release). So the index holds one element
// for each key, not one for each window that the floor would come upon long after the key has closed it. A clock that is not
// in the base yet stands for no window: when its overlay is dropped it leaves nothing that would bring the window to mind.

// ClockStart stands in the changelog key of a clock in place of a window's start: before any time.
const ClockStart = -1 << 48

// RaiseKeyClosedEnd raises the closed end of one key of a Keyed aggregation to end, if that is later than what is closed
// of it already; head is the changelog key without the start. closed is where it is then, the aggregation's floor counted.
// Where it was raised, slot is that of the key's clock and before its end until now, record.NoTime for none; all windows
// of the key that end after that and up to end have to be closed with CloseKey. Else slot is -1.
func (v *View) RaiseKeyClosedEnd(aggregation int, head []byte, end int64) (closed int64, slot Slot, before int64, err error) {
	v.clock = record.AppendStart(append(v.clock[:0], head...), ClockStart)
	hash := record.Hash(v.clock)
	before = record.NoTime
	clock, ok, err := v.stands(hash, v.clock)
	if ok {
		before = clock.End
	}
	if closed = max(v.ClosedEnd(aggregation), before); err != nil || end <= closed {
		return closed, -1, before, err
	}
	slot, _, err = v.touch(hash, v.clock, Place{Aggregation: aggregation, Start: ClockStart, End: end})
	if err == nil {
		v.Move(slot, end)
	}
	return end, slot, before, err
}

// CloseKey makes the windows of one key due that end after the one time and up to the other.
func (v *View) CloseKey(aggregation int, head []byte, after, upTo int64) error {
	starts := v.starts.list(record.Hash(head))
	var err error
	first := 0
	if len(starts) > fewStarts { // else all are looked at: one of another key with the same hash cannot mislead
		first = sort.Search(len(starts), func(i int) bool {
			place, _, failed := v.peek(head, starts[i])
			if failed != nil {
				err = failed
			}
			return place.Aggregation != aggregation && starts[i] > after || place.Aggregation == aggregation && place.End > after
		})
	}
	for _, start := range starts[first:] {
		if start > upTo || err != nil {
			break
		}
		var place Place
		var hash uint64
		if place, hash, err = v.peek(head, start); err == nil && place.Aggregation == aggregation && place.End > after && place.End <= upTo {
			v.due.addMoving(place, hash, math.MaxInt64)
		}
	}
	return err
}

// fewStarts is how many windows of a key are looked at one after the other.
const fewStarts = 16

// clockOf finds the clock of a window's key; committed tells that the base has one too.
func (v *View) clockOf(key []byte) (end int64, ok, committed bool, err error) {
	v.clock = record.AppendStart(append(v.clock[:0], head(key)...), ClockStart)
	hash := record.Hash(v.clock)
	place, ok, err := v.stands(hash, v.clock)
	committed = ok
	for _, o := range [...]*overlay{v.open, v.flight} {
		if o == nil || !committed {
			continue
		}
		if at := o.find(hash, v.clock); at >= 0 {
			committed = o.entries[at].existed
		}
	}
	return place.End, ok, committed, err
}

// file puts the element of an entry of an ordered aggregation where it belongs: nowhere while a committed clock stands for it.
func (v *View) file(place Place, hash uint64, key []byte) error {
	closed := v.closedEnd(place.Aggregation)
	if v.isWindowOfKey(place) && place.End > closed {
		end, ok, committed, err := v.clockOf(key)
		switch {
		case err != nil:
			return err
		case committed && place.End > end:
			return nil
		case ok && place.End <= end:
			closed = end
		}
	}
	v.due.addMoving(place, hash, closed)
	return nil
}

// ripe tells whether an entry of a Keyed aggregation whose element was taken is really due. One that is not was brought
// back by a dropped overlay, and is filed anew. The windows that a clock has stood for get elements before it goes.
func (v *View) ripe(place Place, hash uint64, key []byte) (bool, error) {
	if place.End <= v.closedEnd(place.Aggregation) {
		if place.Start != ClockStart {
			return true, nil
		}
		return true, v.release(place, key)
	}
	if place.Start != ClockStart {
		if end, ok, _, err := v.clockOf(key); err != nil || ok && place.End <= end {
			return true, err
		}
	}
	return false, v.file(place, hash, key)
}

// release gives elements of their own to the windows that a clock stands for.
func (v *View) release(clock Place, key []byte) error {
	closed := v.closedEnd(clock.Aggregation)
	for _, start := range slices.Clone(v.starts.list(record.Hash(head(key)))) {
		place, hash, err := v.peek(head(key), start)
		if err != nil {
			return err
		}
		if place.Aggregation == clock.Aggregation && place.End > clock.End {
			v.due.addMoving(place, hash, closed)
		}
	}
	return nil
}

func (v *View) isKeyed(aggregation int) bool { return aggregation >= 0 && v.traits[aggregation].Keyed }

// isWindowOfKey tells of an entry that its key's clock may close it.
func (v *View) isWindowOfKey(place Place) bool {
	return place.Start != ClockStart && v.isKeyed(place.Aggregation)
}

// enter and leave keep the starts of ordered aggregations, and the number of clocks, which are found by their keys.
func (v *View) enter(place Place, key []byte) {
	if place.Start == ClockStart && v.isKeyed(place.Aggregation) {
		v.starts.clocks++
		return
	}
	v.starts.add(record.Hash(head(key)), place.Start)
}

func (v *View) leave(place Place, key []byte) {
	if place.Start == ClockStart && v.isKeyed(place.Aggregation) {
		v.starts.clocks--
		return
	}
	v.starts.remove(record.Hash(head(key)), place.Start)
}
