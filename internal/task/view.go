package task

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// recordOverhead is what a record costs on the wire beside key and value, roughly: it keeps transactions under
// commit.max_bytes (I13).
const recordOverhead = 32

// minValue is the size assumed for a value that is not encoded yet.
const minValue = 64

// View is a task's whole state as the next reading sees it: the base, under the overlay of the commit in flight, under
// the open overlay. Everything a Processor reads or changes goes through it, so that dropping the overlays drops
// everything that is not known to be committed (V10).
type View struct {
	base   Base
	proc   Processor
	flight *overlay // the commit in flight; nil when there is none
	open   *overlay
	due    *dueIndex
	starts *startIndex   // of the ordered aggregations
	traits []Aggregation // of the Processor
	text   []byte        // scratch: key and value of the entry being loaded
	found  []byte        // scratch: key of the due entry
	probe  []byte        // scratch: key of an entry that is looked for
	clock  []byte        // scratch: key of a clock
	search search        // of locate
	ahead  ahead         // what is about to be looked up

	touched  touched // by the present record
	work     int     // touches since Fold was called
	arena    uint64  // bytes that keys, values and outputs of a batch may have each: what their offsets can name
	overfull error   // an output that did not fit
}

// touched is what View.Touched returns.
type touched struct{ records, bytes int }

// PerRecord is what a record of a commit is counted with beside its key, in bytes.
const PerRecord = minValue + recordOverhead

// Touched is how much the present input record has touched so far: the records that its entries are in a commit, and their
// keys with PerRecord bytes for each. An entry counts once, as two records where updates of it are told, whether the batch
// holds it already or not, so that it depends on the input alone (I11).
func (v *View) Touched() (records, bytes int) { return v.touched.records, v.touched.bytes }

// meet counts the touch of an entry.
func (v *View) meet(d *dirty) {
	v.work++
	present := uint32(v.open.inputs) + 1
	if d.record == present {
		return
	}
	d.record = present
	n := 1
	if at := d.place.Aggregation; at >= 0 && v.traits[at].Updates && d.place.Start != ClockStart {
		n = 2
	}
	v.touched.records += n
	v.touched.bytes += n * (int(d.keyLen) + PerRecord)
}

// fits is an error when an arena of the open batch that has some bytes cannot take more: their offsets would wrap, and
// entries be written under the keys of others (I13).
func (v *View) fits(what string, have, more int) error {
	if uint64(have)+uint64(more) <= v.arena {
		return nil
	}
	return fmt.Errorf("the %s of one commit would have %d bytes with another %d, at most %d are possible: a record must touch less, "+
		"or commit.max_records and commit.max_bytes be smaller", what, uint64(have)+uint64(more), more, v.arena)
}

// StreamTime returns the task's stream time in ms, record.NoTime before the first reading.
func (v *View) StreamTime() int64 { return v.open.meta.StreamTime }

// AdvanceStreamTime raises the stream time to t if that is later; key and offset name the record that did it. Stream
// time never goes back.
func (v *View) AdvanceStreamTime(t int64, key []byte, offset int64) {
	m := &v.open.meta
	if t <= m.StreamTime {
		return
	}
	m.StreamTime, m.SetterOffset = t, offset
	m.SetterKey = append(m.SetterKey[:0], key[:min(len(key), record.MaxSetterKey)]...)
}

// Vouch notes that a device has reached a time, and raises the stream time to what quorum devices have reached, if that
// is later: to the quorum-th largest of the latest times of all devices (R11). The largest ones are kept, which is
// exact: a device that is not among them enters with its next reading that is later than they are.
func (v *View) Vouch(quorum int, device record.Digest, t int64, key []byte, offset int64) {
	list := v.open.meta.Quorum
	at, least := -1, 0
	for i := range list {
		if list[i].Device == device {
			at = i
		}
		if list[i].Time < list[least].Time {
			least = i
		}
	}
	switch {
	case at >= 0:
		list[at].Time = max(list[at].Time, t)
	case len(list) < quorum:
		list = append(list, record.Vouch{Device: device, Time: t})
	case t > list[least].Time:
		list[least] = record.Vouch{Device: device, Time: t}
	default:
		return
	}
	v.open.meta.Quorum = list
	if len(list) == quorum {
		reached := t
		for i := range list {
			reached = min(reached, list[i].Time)
		}
		v.AdvanceStreamTime(reached, key, offset)
	}
}

// Vouched is how many devices are kept for a quorum; Forget lets them go down to n, the latest first.
func (v *View) Vouched() int { return len(v.open.meta.Quorum) }

// Forget keeps the n devices of a quorum that have reached the latest times.
func (v *View) Forget(n int) {
	list := v.open.meta.Quorum
	slices.SortStableFunc(list, func(a, b record.Vouch) int { return cmp.Compare(b.Time, a.Time) })
	v.open.meta.Quorum = list[:min(n, len(list))]
}

// ClosedEnd returns the end up to which windows of an aggregation are due and out of reach, in ms.
func (v *View) ClosedEnd(aggregation int) int64 {
	return v.open.meta.Aggregations[aggregation].ClosedEnd
}

// RaiseClosedEnd raises the closed end of an aggregation, if that is later: from here on every window with end <= end
// is due, whether it has been emitted or not. It never falls (V6).
func (v *View) RaiseClosedEnd(aggregation int, end int64) {
	state := &v.open.meta.Aggregations[aggregation]
	if end <= state.ClosedEnd {
		return
	}
	state.ClosedEnd = end
	v.due.close(aggregation, end)
}

// Counters are the task's counters (I9), to be added to.
func (v *View) Counters() *record.Counters { return &v.open.meta.Counters }

// Aggregation is the state of one aggregation; its counters are to be added to, the rest has methods of its own.
func (v *View) Aggregation(aggregation int) *record.AggregationState {
	return &v.open.meta.Aggregations[aggregation]
}

// Emit writes a record to a sink with the commit of this batch. Key and value are copied, headers are kept. What does not
// fit fails the fold, or the commit that it is a part of.
func (v *View) Emit(sink Sink, aggregation int, key, value []byte, headers []Header) {
	if err := v.fits("outputs", len(v.open.outText), len(key)+len(value)); err != nil {
		v.overfull = err
		return
	}
	v.open.emit(sink, aggregation, key, value, headers)
}

// Find tells where the entry of a key stands, and whether there is one, without touching it.
func (v *View) Find(key []byte) (place Place, ok bool, err error) {
	return v.stands(record.Hash(key), key)
}

func (v *View) stands(hash uint64, key []byte) (place Place, ok bool, err error) {
	if at := v.open.find(hash, key); at >= 0 {
		d := &v.open.entries[at]
		return d.place, !d.deleted, nil
	}
	value, ok := v.below(hash, key)
	if !ok {
		return Place{}, false, nil
	}
	place, err = v.place(key, value)
	return place, err == nil, err
}

// Touch makes the entry of a key dirty and returns its slot. The first touch since the last commit loads the entry into
// the slot; fresh tells that the entry did not exist and is born now, at place. One that exists stays where it is. An entry is deleted by Delete only.
func (v *View) Touch(key []byte, place Place) (slot Slot, fresh bool, err error) {
	return v.touch(record.Hash(key), key, place)
}

func (v *View) touch(hash uint64, key []byte, place Place) (Slot, bool, error) {
	if at := v.open.find(hash, key); at >= 0 {
		d := &v.open.entries[at]
		if !d.deleted {
			v.meet(d)
			return Slot(at), false, nil
		}
		return Slot(at), true, v.revive(at, place)
	}
	if err := v.fits("keys", len(v.open.keys), len(key)); err != nil {
		return 0, false, err
	}
	value, existed := v.below(hash, key)
	if existed && place.Aggregation != Removed {
		var err error
		if place, err = v.place(key, value); err != nil {
			return 0, false, err
		}
	}
	at := v.open.insert(hash, key)
	d := &v.open.entries[at]
	d.place, d.below, d.existed = place, place, existed
	v.meet(d)
	v.open.writes++
	v.open.updates += v.updates(d)
	v.open.bytes += len(key) + max(len(value), minValue) + recordOverhead
	if existed {
		v.text = append(append(v.text[:0], key...), value...)
		d.old = record.EntryDigest(v.text, len(key))
		value = v.text[len(key):]
	} else {
		value = nil
		if err := v.schedule(place, hash, v.open.key(d)); err != nil {
			return 0, false, err
		}
	}
	if err := v.proc.Load(Slot(at), v.open.key(d), value); err != nil {
		return 0, false, fmt.Errorf("entry %s: %w", describe(key), err)
	}
	return Slot(at), !existed, nil
}

// revive brings back an entry that was deleted since the last commit.
func (v *View) revive(at int, place Place) error {
	d := &v.open.entries[at]
	if !d.write() {
		v.open.writes++
	}
	before := v.updates(d)
	d.deleted, d.gone, d.place = false, false, place
	v.meet(d)
	v.open.updates += v.updates(d) - before
	if err := v.schedule(place, d.hash, v.open.key(d)); err != nil {
		return err
	}
	return v.proc.Load(Slot(at), v.open.key(d), nil)
}

// Delete removes the entry of a slot without a result: a tombstone in the commit, or nothing at all for an entry born
// since the last one. Its element stays in the index and stands for nothing.
func (v *View) Delete(slot Slot) {
	if d := &v.open.entries[slot]; !d.deleted {
		if !v.isOrdered(d.place.Aggregation) {
			v.due.forget(d.place)
		}
		v.remove(d, d.existed)
	}
}

// remove deletes an entry; gone tells that it is told as gone.
func (v *View) remove(d *dirty, gone bool) {
	before := v.updates(d)
	d.deleted, d.gone = true, gone
	v.open.updates += v.updates(d) - before
	if v.isOrdered(d.place.Aggregation) {
		v.leave(d.place, v.open.key(d))
	}
	if !d.write() {
		v.open.writes--
	}
}

// below looks an entry up under the open overlay.
func (v *View) below(hash uint64, key []byte) (value []byte, ok bool) {
	if v.flight != nil {
		if at := v.flight.find(hash, key); at >= 0 {
			d := &v.flight.entries[at]
			return v.flight.value(d), !d.deleted
		}
	}
	return v.base.Get(hash, key)
}

// schedule puts an entry into the indexes.
func (v *View) schedule(place Place, hash uint64, key []byte) error {
	if !v.isOrdered(place.Aggregation) {
		v.due.add(place, hash, v.closedEnd(place.Aggregation))
		return nil
	}
	v.enter(place, key)
	return v.file(place, hash, key)
}

// place asks the Processor where an entry stands.
func (v *View) place(key, value []byte) (Place, error) {
	place, err := v.proc.Place(key, value)
	if err != nil {
		return place, fmt.Errorf("entry %s: %w", describe(key), err)
	}
	return place, nil
}

// closedEnd is ClosedEnd for any aggregation of a Place; entries of a removed one are always due.
func (v *View) closedEnd(aggregation int) int64 {
	if aggregation == Removed {
		return record.NoTime
	}
	return v.open.meta.Aggregations[aggregation].ClosedEnd
}

// closeNext emits and deletes the next due window. It returns false when none is left.
func (v *View) closeNext() (bool, error) {
	for {
		place, hash, moving, ok := v.due.take()
		if !ok {
			return false, nil
		}
		key, at, err := v.locate(place, hash)
		switch {
		case err != nil:
			return false, err
		case key == nil && moving: // merged away, or dropped
		case key == nil:
			v.due.missed(place) // its overlay was dropped
		case at.End > place.End: // it has grown since
			err = v.file(at, hash, key)
		case v.isKeyed(at.Aggregation):
			var ripe bool
			if ripe, err = v.ripe(at, hash, key); ripe && err == nil {
				return true, v.closeEntry(hash, key, at)
			}
		default:
			return true, v.closeEntry(hash, key, at)
		}
		if err != nil {
			return false, err
		}
	}
}

func (v *View) closeEntry(hash uint64, key []byte, place Place) error {
	slot, _, err := v.touch(hash, key, place)
	if err != nil {
		return err
	}
	clock := place.Start == ClockStart && v.isKeyed(place.Aggregation)
	if place.Aggregation != Removed && !clock {
		key = v.open.key(&v.open.entries[slot])
		if err := v.proc.Close(v, slot, key, place); err != nil {
			return fmt.Errorf("close %s: %w", describe(key), err)
		}
		v.open.meta.Aggregations[place.Aggregation].Results++
	}
	v.remove(&v.open.entries[slot], false)
	return nil
}

// updates is how many updates a commit tells of an entry.
func (v *View) updates(d *dirty) int {
	if d.place.Aggregation < 0 || !v.traits[d.place.Aggregation].Updates || d.deleted && !d.gone || d.place.Start == ClockStart {
		return 0
	}
	return 1
}

// tell emits the updates of the open overlay.
func (v *View) tell() error {
	if v.open.updates == 0 {
		return nil
	}
	updater, ok := v.proc.(Updater)
	if !ok {
		return fmt.Errorf("aggregations with updates of a processor that tells none: %T", v.proc)
	}
	for i := range v.open.entries {
		d := &v.open.entries[i]
		if v.updates(d) == 0 {
			continue
		}
		if err := updater.Update(v, Slot(i), v.open.key(d), d.place, d.gone); err != nil {
			return fmt.Errorf("update %s: %w", describe(v.open.key(d)), err)
		}
	}
	v.open.updates = 0
	return nil
}

// search is a look-up by hash under way. It is kept, so that closing a window allocates nothing.
type search struct {
	place    Place
	hash     uint64
	there    bool  // an entry was found: its key is in View.found,
	found    Place // and this is where it is
	err      error
	fromBase func(key, value []byte) bool
}

// locate finds the live entry that an element of the index stands for, nil when there is none, and where it is by now:
// an entry of an ordered aggregation may have grown. Where several keys of one window have the same hash the one that
// ends first is taken, then the least, so that the order does not depend on where they lie (I11).
func (v *View) locate(place Place, hash uint64) (least []byte, found Place, err error) {
	s := &v.search
	s.place, s.hash, s.there, s.err = place, hash, false, nil
	v.open.each(hash, func(at int) bool {
		if d := &v.open.entries[at]; !d.deleted {
			v.keep(v.open.key(d), d.place)
		}
		return true
	})
	if v.flight != nil {
		v.flight.each(hash, func(at int) bool {
			if d := &v.flight.entries[at]; !d.deleted && v.open.find(hash, v.flight.key(d)) < 0 {
				v.keep(v.flight.key(d), d.place)
			}
			return true
		})
	}
	if s.fromBase == nil {
		s.fromBase = v.keepFromBase
	}
	v.base.Find(hash, s.fromBase)
	if !s.there {
		return nil, Place{}, s.err
	}
	return v.found, s.found, s.err
}

// keepFromBase looks at an entry of the base, unless an overlay hides it.
func (v *View) keepFromBase(key, value []byte) bool {
	s := &v.search
	if v.open.find(s.hash, key) >= 0 || v.flight != nil && v.flight.find(s.hash, key) >= 0 {
		return true
	}
	var at Place
	if at, s.err = v.place(key, value); s.err == nil {
		v.keep(key, at)
	}
	return s.err == nil
}

// keep takes an entry for the one that is looked for, if it is, and goes before what was found so far.
func (v *View) keep(key []byte, at Place) {
	s := &v.search
	grown := v.isOrdered(s.place.Aggregation) && at.Aggregation == s.place.Aggregation && at.Start == s.place.Start
	if at != s.place && !grown {
		return
	}
	if !s.there || at.End < s.found.End || at.End == s.found.End && string(key) < string(v.found) {
		v.found = append(v.found[:0], key...)
		s.there, s.found = true, at
	}
}

// drop forgets both overlays, the upper one first, and takes the committed progress up again.
func (v *View) drop(committed *record.Commit) {
	v.forget(v.open)
	if v.flight != nil {
		v.forget(v.flight)
	}
	v.flight, v.overfull = nil, nil
	v.open.reset()
	v.open.meta = *committed.Clone()
	v.due.requeue(v.closed)
}

// closed is how far closed ends reach an element of the index. Windows that a key's clock has closed stay due until they
// are looked at.
func (v *View) closed(place Place) int64 {
	if v.isWindowOfKey(place) {
		return math.MaxInt64
	}
	return v.closedEnd(place.Aggregation)
}

// forget brings the indexes back to what is below an overlay: elements it took out come back, where they were, and those
// it put in stand for nothing.
func (v *View) forget(o *overlay) {
	for i := range o.entries {
		d := &o.entries[i]
		moved := d.existed && !d.deleted && d.place != d.below
		if v.isOrdered(d.below.Aggregation) {
			v.forgetOrdered(d, o.key(d), moved)
			continue
		}
		if moved || !d.existed && !d.deleted {
			v.due.forget(d.place)
		}
		if moved || d.existed && d.deleted {
			v.due.add(d.below, d.hash, v.closedEnd(d.below.Aggregation))
		}
	}
}

// forgetOrdered does so for an entry of an ordered aggregation. Its element may still be where it was: then there are two.
func (v *View) forgetOrdered(d *dirty, key []byte, moved bool) {
	switch {
	case d.existed && d.deleted:
		v.enter(d.below, key)
		v.due.addMoving(d.below, d.hash, v.closed(d.below))
	case moved:
		v.due.addMoving(d.below, d.hash, v.closed(d.below))
	case !d.existed && !d.deleted:
		v.leave(d.place, key)
	}
}

// shownKey bounds what errors show of a changelog key, which may have 64 KiB: they are logged again and again, and stand
// in the status (I13).
const shownKey = 100

// describe names a changelog key for people, a long one by its beginning and its length.
func describe(key []byte) string {
	parsed, err := record.ParseEntryKey(key)
	if err != nil {
		return fmt.Sprintf("%.48x of %d bytes", key, len(key))
	}
	text := fmt.Sprintf("%s %q", parsed.Aggregation, parsed.Fields)
	if len(text) > shownKey {
		text = fmt.Sprintf("%s... of %d bytes", strings.ToValidUTF8(text[:shownKey], ""), len(key))
	}
	return fmt.Sprintf("%s start %d", text, parsed.Start)
}
