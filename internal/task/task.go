package task

import (
	"errors"
	"fmt"
	"math"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// Options are the limits of a task and what its outputs are signed with.
type Options struct {
	Job        string
	Partition  int32
	MaxRecords int    // records of one commit, at least 4
	MaxBytes   int    // rough bytes of one commit
	TZData     string // version of the time zone data in use, for the commit records; "" keeps what they say
}

// Task is the state of one input partition and the machine that moves it. It starts at a proved base and its last
// commit record. Not safe for concurrent use.
type Task struct {
	options   Options
	view      View
	preparer  Preparer // the Processor, if it is one,
	hashes    []uint64 // and what it returned last
	spare     *overlay
	committed *record.Commit // the commit record the base stands for
	batch     Batch          // the commit in flight
	messages  []Message
	record    []byte   // the encoded commit record
	origin    []Header // the header of this commit's results
	lastIn    []byte   // key and value of the last consumed record, not yet hashed
	lastKey   int      // length of the key in lastIn
	lastAt    int64    // offset of the last consumed record
	holdInput bool     // the next commit takes no input (section 4, slices)
	waiting   int      // due windows left by the last commit
	lowered   bool     // the open batch has a smaller MinRetention than the commit before it
}

// ErrPermanent is wrapped by an error of a Processor that no recovery cures: the task stops at once instead of trying
// the record again.
var ErrPermanent = errors.New("the job cannot go on with this input")

// InputError says that the input is not the log it was: the task must stop.
type InputError struct {
	Offset int64
	What   string
}

// Error names the offset and what is wrong with it.
func (e *InputError) Error() string { return fmt.Sprintf("input offset %d: %s", e.Offset, e.What) }

// New makes a task from its committed base and commit record, which it keeps. The commit record's aggregations are
// matched with the Processor's by name; a changed fingerprint is an error, a new aggregation starts empty from here on.
// Every entry of the base is asked for its place in time, so that all that is due will be closed.
func New(base Base, proc Processor, committed *record.Commit, options Options) (*Task, error) {
	t := &Task{options: options, committed: committed.Clone(), spare: &overlay{}}
	if err := matchAggregations(t.committed, proc.Aggregations()); err != nil {
		return nil, err
	}
	t.view = View{base: base, proc: proc, open: &overlay{meta: *t.committed.Clone()}, due: newDueIndex(len(proc.Aggregations())),
		starts: newStartIndex(), traits: proc.Aggregations(), arena: math.MaxUint32}
	t.preparer, _ = proc.(Preparer)
	if err := t.index(); err != nil {
		return nil, err
	}
	t.waiting = t.view.due.waiting
	return t, nil
}

// index builds the close-time index from the base.
func (t *Task) index() (err error) {
	t.view.base.All(func(hash uint64, key, value []byte) bool {
		var place Place
		if place, err = t.view.place(key, value); err == nil {
			err = t.view.schedule(place, hash, key)
		}
		return err == nil
	})
	return err
}

// Replayed tells the task that recovery has changed an entry of the live base (I8, R25) from old to value, nil standing
// for no entry, so that the close-time index follows.
func (t *Task) Replayed(hash uint64, key, old, value []byte) error {
	if old == nil && value == nil {
		return nil
	}
	if old != nil && value != nil {
		return t.changed(hash, key, old, value)
	}
	live := value
	if value == nil {
		live = old
	}
	place, err := t.view.place(key, live)
	switch {
	case err != nil:
		return err
	case value != nil:
		if err := t.view.schedule(place, hash, key); err != nil {
			return err
		}
		return t.replayedClock(place, key, record.NoTime)
	case t.view.isOrdered(place.Aggregation):
		t.view.leave(place, key)
		if place.Start == ClockStart && t.view.isKeyed(place.Aggregation) {
			return t.view.release(place, key)
		}
	default:
		t.view.due.forget(place)
	}
	return nil
}

// replayedClock makes the windows due that a clock closes, if the entry is one.
func (t *Task) replayedClock(place Place, key []byte, before int64) error {
	if place.Start != ClockStart || !t.view.isKeyed(place.Aggregation) {
		return nil
	}
	return t.view.CloseKey(place.Aggregation, head(key), before, place.End)
}

// changed is Replayed for an entry that stays: one of an ordered aggregation may end earlier than its element says, when
// another entry with its key has gone in between.
func (t *Task) changed(hash uint64, key, old, value []byte) error {
	before, err := t.view.place(key, old)
	if err != nil || !t.view.isOrdered(before.Aggregation) {
		return err
	}
	after, err := t.view.place(key, value)
	switch {
	case err != nil || after.End == before.End:
		return err
	case after.End > before.End:
		return t.replayedClock(after, key, before.End)
	}
	t.view.due.addMoving(after, hash, t.view.closed(after))
	return nil
}

// Resume takes the task up again after a recovery on its live base, at the commit record that recovery found last. The
// overlays must have been dropped.
func (t *Task) Resume(committed *record.Commit) error {
	c := committed.Clone()
	if err := matchAggregations(c, t.view.proc.Aggregations()); err != nil {
		return err
	}
	t.committed = c
	t.Drop()
	return nil
}

// matchAggregations puts the configured aggregations first, in the Processor's order; those that are not configured any
// more follow while they still have a place in the record.
func matchAggregations(c *record.Commit, configured []Aggregation) error {
	old := c.Aggregations
	c.Aggregations = make([]record.AggregationState, 0, len(configured))
	known := map[string]bool{}
	for _, want := range configured {
		known[want.Name] = true
		state := record.AggregationState{Name: want.Name, Fingerprint: want.Fingerprint, ClosedEnd: record.NoTime,
			Since: c.Counters.Accepted}
		for _, have := range old {
			if have.Name != want.Name {
				continue
			}
			if have.Fingerprint != want.Fingerprint {
				return fmt.Errorf("aggregation %q means something else than the state in the changelog (fingerprint %016x, was %016x): "+
					"give the changed aggregation a new name, or take the change back", want.Name, want.Fingerprint, have.Fingerprint)
			}
			state = have
		}
		c.Aggregations = append(c.Aggregations, state)
	}
	return nil
}

// foldWork is how many touches of entries are enough for one Fold: a fraction of a second (I12).
const foldWork = 1 << 19

// Fold processes input records in order until all are consumed, the open batch is full, or enough was done for the caller
// to look around, and returns how many were consumed. Records below the expected position are dropped and counted; a leader epoch that goes back is an
// *InputError. Any other error is a failed assertion of the Processor.
func (t *Task) Fold(in []Input) (consumed int, err error) {
	m := &t.view.open.meta
	last := -1
	t.view.work = 0
	for i := range in {
		if t.Full() || t.view.work >= foldWork {
			break
		}
		if i%aheadRecords == 0 {
			t.prepare(in[i:])
		}
		r := &in[i]
		consumed = i + 1
		if record.InputPosition(r.Offset) < m.Position {
			m.Counters.Repeated++
			continue
		}
		if r.Epoch >= 0 && r.Epoch < m.Epoch { // an unknown one says nothing, and forgets nothing
			return i, &InputError{r.Offset, fmt.Sprintf("leader epoch %d after %d: the log was cut and filled again", r.Epoch, m.Epoch)}
		}
		t.view.touched = touched{}
		if err := t.view.proc.Process(&t.view, r); err != nil {
			return i, fmt.Errorf("input offset %d: %w", r.Offset, err)
		}
		if t.view.overfull != nil {
			return i, fmt.Errorf("input offset %d: %w", r.Offset, t.view.overfull)
		}
		m.Position, m.Epoch = record.InputPosition(r.Offset)+1, max(m.Epoch, r.Epoch)
		t.view.open.inputs++
		last = i
	}
	if last >= 0 {
		t.lastIn = append(append(t.lastIn[:0], in[last].Key...), in[last].Value...)
		t.lastKey, t.lastAt = len(in[last].Key), in[last].Offset
	}
	return consumed, nil
}

// prepare looks ahead at the next records, if that is worth it; what was prepared before is void in any case.
func (t *Task) prepare(in []Input) {
	if t.preparer == nil {
		return
	}
	n := 0
	if t.view.wide() {
		n = min(aheadRecords, len(in))
	}
	t.hashes = t.preparer.Prepare(in[:n], t.hashes[:0])
	t.view.touchAll(t.hashes)
}

// anchor is the anchor after the records folded so far.
func (t *Task) anchor(before record.Anchor) record.Anchor {
	if t.view.open.inputs == 0 {
		return before
	}
	return record.Anchor{Offset: t.lastAt, Hash: record.EntryDigest(t.lastIn, t.lastKey)}
}

// PassMarkers moves the position over offsets that deliver nothing: everything below next has been consumed.
func (t *Task) PassMarkers(next record.InputPosition) {
	if m := &t.view.open.meta; next > m.Position {
		m.Position = next
	}
}

// Fenced tells the task which fence its next commits are written under, the changelog's present delete.retention.ms, and
// the hash of the outputs they are written to. It is called after New and Resume, before the first Begin.
func (t *Task) Fenced(fence record.FenceID, retentionMS int64, outputs uint64) {
	m := &t.view.open.meta
	m.Fence, m.OutputHash = fence, outputs
	if t.options.TZData != "" {
		m.TZData = t.options.TZData
	}
	t.lowered = false
	t.Retain(retentionMS)
}

// Retain tells the task the changelog's present delete.retention.ms. The smallest ever seen is kept in the commit record;
// a smaller one is committed without waiting for input, for it may be raised again before there is any (R13).
func (t *Task) Retain(retentionMS int64) {
	if m := &t.view.open.meta; retentionMS > 0 && (m.MinRetention == 0 || retentionMS < m.MinRetention) {
		m.MinRetention, t.lowered = retentionMS, true
	}
}

// Tick moves the stream time on by so many ms, for silence has lasted so long (section 7): like a reading it goes into the
// commit and the closed ends follow, so that a replay agrees. It does nothing, and says so, while no window is open that
// it could close, and before the first reading. Measuring the silence is the caller's part.
func (t *Task) Tick(ms int64) (ticked bool, err error) {
	ticker, ok := t.view.proc.(Ticker)
	if !ok || t.StreamTime() == record.NoTime || !t.opens() {
		return false, nil
	}
	t.view.AdvanceStreamTime(t.StreamTime()+ms, nil, -1)
	t.view.open.ticks++
	return true, ticker.Ticked(&t.view)
}

// opens tells whether a window is open.
func (t *Task) opens() bool {
	for i := range t.view.traits {
		if t.nextEnd(i) != record.NoTime {
			return true
		}
	}
	return false
}

// Limit changes the limits of the next commits, as in Options.
func (t *Task) Limit(maxRecords, maxBytes int) {
	t.options.MaxRecords, t.options.MaxBytes = maxRecords, maxBytes
}

// Full tells that the open batch must be committed before more input is folded. While due windows wait, input may take
// half of a commit; and none when the backlog of due windows has grown.
func (t *Task) Full() bool {
	o := t.view.open
	if t.holdInput {
		return true
	}
	records, bytes := t.options.MaxRecords, t.options.MaxBytes
	if t.view.due.waiting > 0 {
		records, bytes = records/2, bytes/2
	}
	return o.records() >= records || o.bytes >= bytes
}

// Dirty tells that there is something to commit: consumed input, due windows, or a smaller retention of tombstones.
func (t *Task) Dirty() bool { return !t.view.open.empty() || t.view.due.waiting > 0 || t.lowered }

// InFlight tells that a commit is under way.
func (t *Task) InFlight() bool { return t.view.flight != nil }

// Committed is the commit record that the base stands for. Callers must not modify it.
func (t *Task) Committed() *record.Commit { return t.committed }

// Base is the committed state; between merges it does not change.
func (t *Task) Base() Base { return t.view.base }

// Processor is the logic the task was made with.
func (t *Task) Processor() Processor { return t.view.proc }

// Waiting is the number of due windows that are not yet emitted.
func (t *Task) Waiting() int { return t.view.due.waiting }

// Open is the number of committed entries that wait for their window to close.
func (t *Task) Open() int {
	return max(0, int(t.view.base.Live())-t.view.starts.clocks-t.view.due.waiting)
}

// Clocks is the number of clocks of keys, of all Keyed aggregations.
func (t *Task) Clocks() int { return t.view.starts.clocks }

// NextEnd is the end of the first window of an aggregation that is open, in ms, and record.NoTime when none is, or when
// an entry cannot be read, which its close will report. While windows wait to be emitted an entry that has grown out of
// being due may be overlooked. It is record.NoTime for a Keyed aggregation too, for no time closes its windows.
func (t *Task) NextEnd(aggregation int) int64 {
	if t.view.isKeyed(aggregation) {
		return record.NoTime
	}
	return t.nextEnd(aggregation)
}

// nextEnd is NextEnd, and for a Keyed aggregation the end of a clock or a window before which nothing closes by the floor.
func (t *Task) nextEnd(aggregation int) int64 {
	if !t.view.isOrdered(aggregation) {
		return t.view.due.next(aggregation)
	}
	end, err := t.view.nextMoving(aggregation)
	if err != nil {
		return record.NoTime
	}
	return end
}

// Position is the input position after everything folded so far, committed or not.
func (t *Task) Position() record.InputPosition { return t.view.open.meta.Position }

// StreamTime is the stream time after everything folded so far, in ms.
func (t *Task) StreamTime() int64 { return t.view.open.meta.StreamTime }
