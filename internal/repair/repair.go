// Package repair holds the explicit repairs of a task: what no recovery may do by itself, because it ends a life, moves a
// position, or takes something for true that nothing proves. Each is ordered by somebody for a reason, and both go into
// the commit record that the repair writes.
//
// It promises: Plan writes nothing; Do fences before it writes, and what it writes are commits like any other, so a crash
// between any two of its steps leaves a changelog that the next recovery understands, or, in the middle of a reset, one
// that only the end of the reset is allowed to touch. Whatever became of it, the same order may be given again.
package repair

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// Kind says which repair.
type Kind string

// The repairs.
const (
	Reset  Kind = "reset"                    // the life ends, a new one begins empty
	Time   Kind = "reset of the stream time" // stream time and closed ends are set
	Skip   Kind = "skip"                     // the input position moves forwards
	Reseal Kind = "reseal"                   // digest and live count become those of the changelog's fold
	Loss   Kind = "accepted loss"            // goes on without what is gone; by AcceptLoss only
)

// Order is one repair of one task as somebody ordered it.
type Order struct {
	Kind       Kind
	To         record.InputPosition // Skip: where the input goes on. Reset: where it begins, NoInput for what Recovery.Start says
	StreamTime int64                // Time: ms
	// ClosedEnd is the closed end of an aggregation at a stream time, ms; for Time. Aggregations it does not know keep theirs.
	ClosedEnd func(aggregation string, streamTime int64) (closedEnd int64, ok bool)
	// Ahead tells of an entry that it is the clock of a key which is ahead of a stream time; for Time, nil without clocks.
	Ahead      func(key, value []byte, streamTime int64) (bool, error)
	Note       string // who and why
	MaxRecords int    // of one commit
	MaxBytes   int    // of one commit, roughly
}

// Plan tells what Do would do. It writes nothing and disturbs nobody.
func Plan(ctx context.Context, r *recovery.Recovery, o Order) (*Change, error) {
	r.Accept = o.accept()
	found, err := r.Look(ctx, o.Kind == Reseal || o.Kind == Time && o.Ahead != nil)
	if err != nil {
		return nil, err
	}
	change, _, err := o.make(ctx, r, found)
	if err == nil && o.Kind == Reset {
		change.To.Birth = "" // it is not the one that Do will make
	}
	if closed := found.Close(); err == nil {
		err = closed
	}
	return change, err
}

// Do fences the task, whoever owns it, and repairs it. Where there is nothing to repair nothing but a fence record is
// written. After an error the repair may be half done or, unknown to us, whole: order it again.
func Do(ctx context.Context, r *recovery.Recovery, o Order) (change *Change, err error) {
	r.Accept = o.accept()
	found, err := r.Claim(ctx, o.Kind == Reseal || o.Kind == Reset || o.Kind == Time && o.Ahead != nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := found.Close(); err == nil {
			err = closed
		}
	}()
	change, next, err := o.make(ctx, r, found)
	if err != nil || change.Nothing {
		return change, err
	}
	w := &writer{r: r, to: found.Writer}
	if o.Kind == Reset {
		if err := w.clear(ctx, o, found); err != nil {
			return nil, err
		}
	}
	next.Fence, next.MinRetention, next.Note = found.Fence.ID, found.MinRetention, note(o.Note, change)
	if err := w.finish(ctx, &o, next, change.forgotten); err != nil {
		return nil, err
	}
	change.done(next)
	return change, nil
}

// accept is what the repair lets pass.
func (o *Order) accept() recovery.Accept {
	switch o.Kind {
	case Reset:
		return recovery.AcceptFormer
	case Reseal:
		return recovery.AcceptState
	}
	return recovery.AcceptNothing
}

// make makes the commit record that the repair leaves behind, and tells the difference. The record has no fence and no
// note yet.
func (o *Order) make(ctx context.Context, r *recovery.Recovery, found *recovery.Found) (*Change, *record.Commit, error) {
	change := &Change{Partition: r.Partition, Repair: o.Kind}
	if found.Commit == nil && o.Kind != Reset {
		return nil, nil, refuse(r, r.Identity.Changelog.Name, -1, "tidemark run gives it its first",
			"the task has never lived: its changelog holds no commit record, and there is nothing to repair")
	}
	var next *record.Commit
	var err error
	switch o.Kind {
	case Reset:
		next, err = o.birth(ctx, r, found, change)
	case Time:
		next = o.setTime(found.Commit, change)
		err = o.forget(found, next, change)
	case Skip:
		next, err = o.skip(ctx, r, found.Commit, change)
	case Reseal:
		next = o.reseal(found, change)
	default:
		err = fmt.Errorf("repair %q is unknown", o.Kind)
	}
	if err != nil {
		return nil, nil, err
	}
	if found.Commit != nil {
		change.From = standing(found.Commit)
	}
	change.To = standing(next)
	return change, next, nil
}

// after is the commit record that follows another one and changes nothing.
func after(c *record.Commit, mark record.Mark) *record.Commit {
	next := c.Clone()
	next.Number, next.Records, next.Mark = c.Number+1, 0, mark
	return next
}

// skip moves the position over what the task shall not read. Offsets are counted, not records: what lies between may be
// gone, and markers and holes look the same then. The anchor stays: it is the last record consumed, and still proves the
// log.
func (o *Order) skip(ctx context.Context, r *recovery.Recovery, c *record.Commit, change *Change) (*record.Commit, error) {
	in := r.Identity.Input.Name
	bounds, err := inputBounds(ctx, r)
	if err != nil {
		return nil, err
	}
	switch {
	case o.To < c.Position:
		return nil, refuse(r, in, int64(c.Position), "a skip goes forwards only: what was consumed is in the state already",
			"the task stands at offset %d, the skip would go back to %d", c.Position, o.To)
	case int64(o.To) > bounds.HighWatermark:
		return nil, refuse(r, in, int64(c.Position), "skip to the end of the log at most",
			"the log ends at offset %d, the skip would go to %d", bounds.HighWatermark, o.To)
	}
	change.Nothing = o.To == c.Position
	next := after(c, record.MarkSkip)
	passOver(next, o.To, record.Count(o.To-c.Position))
	return next, nil
}

// passOver moves the position to where the input goes on, and counts what was never read as skipped (I9). The leader
// epoch of the last record says nothing about what comes then.
func passOver(c *record.Commit, to record.InputPosition, gone record.Count) {
	c.Counters.In += gone
	c.Counters.Skipped += gone
	c.Position, c.Epoch = to, -1
}

// setTime sets the stream time, and what follows from it.
func (o *Order) setTime(c *record.Commit, change *Change) *record.Commit {
	next := after(c, record.MarkTime)
	next.StreamTime, next.SetterKey, next.SetterOffset = o.StreamTime, nil, -1
	next.Quorum = nil // or the next reading would bring the old time back
	change.Nothing = next.StreamTime == c.StreamTime
	for i := range next.Aggregations {
		a := &next.Aggregations[i]
		end, ok := o.ClosedEnd(a.Name, o.StreamTime)
		if !ok || end == a.ClosedEnd {
			continue
		}
		change.Nothing = false
		if end < a.ClosedEnd {
			change.warn("PUBLISHED WINDOWS MAY BE PUBLISHED AGAIN: windows of %s that end after %s and up to %s were closed; "+
				"readings that come for them from now on open them anew, and make a second final result of those readings alone",
				a.Name, moment(end), moment(a.ClosedEnd))
		} else {
			change.warn("windows of %s that end up to %s close at once: readings that come for them from now on are late", a.Name, moment(end))
		}
		a.ClosedEnd = end
	}
	return next
}

// reseal takes the fold of the changelog for the state.
func (o *Order) reseal(found *recovery.Found, change *Change) *record.Commit {
	next := after(found.Commit, record.MarkReseal)
	next.Digest, next.Live = found.Store.Digest(), found.Store.Live()
	change.Nothing = next.Digest == found.Commit.Digest && next.Live == found.Commit.Live
	if !change.Nothing {
		change.warn("the state is taken as the changelog has it: whatever made it differ from commit %d stays in it", found.Commit.Number)
	}
	return next
}

func inputBounds(ctx context.Context, r *recovery.Recovery) (kafka.Offsets, error) {
	log, err := r.Cluster.Log(r.Identity.Input.Name, r.Partition)
	if err != nil {
		return kafka.Offsets{}, err
	}
	defer log.Close()
	return log.Offsets(ctx)
}

// refuse makes the error of an order that cannot be carried out.
func refuse(r *recovery.Recovery, topic string, offset int64, hint, format string, args ...any) error {
	return &kafka.Error{Class: kafka.ClassPermanent, Op: "repair", Topic: topic, Partition: r.Partition, Offset: offset, Hint: hint,
		Err: fmt.Errorf(format, args...)}
}

// note is what goes into the commit record: who and why, then what.
func note(who string, change *Change) string {
	parts := []string{who}
	for _, d := range change.Differences() {
		parts = append(parts, fmt.Sprintf("%s %s -> %s", d.What, d.From, d.To))
	}
	text := strings.Join(parts, "; ")
	if len(text) <= record.MaxText {
		return text
	}
	text = text[:record.MaxText]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text
}

// writer commits to one changelog partition.
type writer struct {
	r  *recovery.Recovery
	to kafka.Writer
}

// commit writes messages and, after them, the commit record that speaks for them. It returns the position behind it.
func (w *writer) commit(ctx context.Context, c *record.Commit, messages []kafka.Message) (record.ChangelogPosition, error) {
	if err := c.Check(); err != nil {
		return 0, refuse(w.r, w.r.Identity.Changelog.Name, -1, "", "%w", err)
	}
	messages = append(messages, w.message(record.CommitKey, c.Append(nil)))
	if err := w.at("send"); err != nil {
		return 0, err
	}
	offsets, err := w.to.Send(ctx, messages)
	if err != nil {
		return 0, err
	}
	position := record.ChangelogPosition(offsets[len(offsets)-1] + 1)
	if err := w.at("commit"); err != nil {
		return 0, err
	}
	if err := w.to.Commit(ctx); err != nil {
		return 0, err
	}
	return position, w.at("committed")
}

// at passes a step to the crash tests.
func (w *writer) at(step recovery.Step) error {
	if w.r.At == nil {
		return nil
	}
	return w.r.At(step)
}

func (w *writer) message(key, value []byte) kafka.Message {
	return kafka.Message{Topic: w.r.Identity.Changelog.Name, Partition: w.r.Partition, Key: key, Value: value}
}
