package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// Sizes of reads. The first window of a tail read covers a small last commit; growing by 4 keeps the last step behind
// a large aborted commit from reading much more than it must.
const (
	firstWindow  = 64
	windowGrowth = 4
	fetchBytes   = 4 << 20
	fetchWait    = 250 * time.Millisecond
)

// tail is what a tail read found.
type tail struct {
	commit   *record.Commit // the last commit record, nil for none
	commitAt int64          // its offset, -1
	fence    *record.Fence  // the last fence record that was passed on the way, nil for none
	fenceAt  int64
	fenceMS  int64 // broker time of fence
	updateAt int64 // offset of an update that was passed on the way, -1 for none
}

// changelog reads one changelog partition for a recovery.
type changelog struct {
	log       kafka.Log
	topic     string
	partition int32
	// stuck is called when a fetch below the end of what is to be read found nothing. It returns nil to try again,
	// errEnd to take what has been read for all there is.
	stuck func(position int64, o kafka.Offsets) error
	// ending is set for the end of a life: a commit or fence record of it that is damaged is passed by.
	ending bool
}

var errEnd = errors.New("nothing more is delivered")

// fail makes an error of the given class at an offset of the partition.
func (c *changelog) fail(class kafka.Class, op string, offset int64, hint, format string, args ...any) error {
	return &kafka.Error{Class: class, Op: op, Topic: c.topic, Partition: c.partition, Offset: offset, Hint: hint,
		Err: fmt.Errorf(format, args...)}
}

// walk delivers the records of [from, to) in order, and where the reader stands after each fetch.
func (c *changelog) walk(ctx context.Context, from, to int64, each func(*kafka.Record) error) error {
	for position := from; position < to; {
		f, err := look(ctx, c.log, position, fetchBytes)
		if kafka.ClassOf(err) == kafka.ClassLost {
			if position, err = c.passDeleted(ctx, position, err); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		for i := range f.Records {
			r := &f.Records[i]
			if r.Offset >= to {
				return nil
			}
			if err := c.inOrder(r, position, f.Stable); err != nil {
				return err
			}
			if err := each(r); err != nil {
				return err
			}
		}
		if f.Next == position {
			if err := c.stuck(position, f.Offsets); errors.Is(err, errEnd) {
				return nil
			} else if err != nil {
				return err
			}
		}
		position = f.Next
	}
	return nil
}

// look fetches what is there, and waits only when nothing is: a fetch that may wait takes a connection to itself.
func look(ctx context.Context, log kafka.Log, position int64, maxBytes int) (kafka.Fetched, error) {
	f, err := log.Fetch(ctx, position, maxBytes, 0)
	if err != nil || f.Next != position {
		return f, err
	}
	return log.Fetch(ctx, position, maxBytes, fetchWait)
}

// passDeleted goes on at the log start when it has moved past the position since it was asked for (S24). A walk looks
// for the last of something, so what is gone below does not matter to it. Any other loss stays one.
func (c *changelog) passDeleted(ctx context.Context, position int64, lost error) (int64, error) {
	o, err := c.log.Offsets(ctx)
	switch {
	case err != nil:
		return position, err
	case o.Start > position:
		return o.Start, nil
	}
	return position, lost
}

// inOrder refuses what no reader may be given: a record at or beyond the last stable offset of the same answer (S21), or
// one below the position asked for.
func (c *changelog) inOrder(r *kafka.Record, position, stable int64) error {
	if r.Offset >= position && r.Offset < stable {
		return nil
	}
	return c.fail(kafka.ClassPermanent, "read changelog", r.Offset, "the broker is faulty",
		"a record was delivered that lies outside [%d, %d), the position asked for and the last stable offset", position, stable)
}

// readTail reads [lowest, end) backwards in growing windows until what is looked for has been delivered. A commit ends
// with its commit record, so for that one this is one fetch as a rule.
func (c *changelog) readTail(ctx context.Context, lowest, end int64, found func(*tail) bool) (tail, error) {
	t := tail{commitAt: -1, fenceAt: -1, updateAt: -1}
	width := int64(firstWindow)
	if defect.NoCommitIsNew {
		width, lowest = 4, max(lowest, end-4)
	}
	for high := end; high > lowest && !found(&t); width *= windowGrowth {
		low := max(lowest, high-width)
		if err := c.readWindow(ctx, low, high, &t); err != nil {
			return t, err
		}
		high = low
	}
	return t, nil
}

// What a tail read looks for.
func aCommit(t *tail) bool { return t.commit != nil }
func aFence(t *tail) bool  { return t.fence != nil }

// readWindow reads [low, high) into t, which holds what was found above.
func (c *changelog) readWindow(ctx context.Context, low, high int64, t *tail) error {
	var commit, fence kafka.Record
	commit.Offset, fence.Offset = -1, -1
	err := c.walk(ctx, low, high, func(r *kafka.Record) error {
		switch kind, ok := record.KindOf(r.Key); {
		case !ok:
			return c.unknownKind(r)
		case kind == record.KindCommit:
			commit = *r
		case kind == record.KindFence:
			fence = *r
		default:
			t.updateAt = max(t.updateAt, r.Offset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if fence.Offset >= 0 && t.fence == nil {
		if t.fence, err = record.ParseFence(fence.Value); err == nil {
			t.fenceAt, t.fenceMS = fence.Offset, fence.Timestamp
		} else if t.fence = nil; !c.ending || newerFormat(err) {
			return c.unreadable(&fence, err)
		}
	}
	if commit.Offset >= 0 && t.commit == nil {
		if t.commit, err = record.ParseCommit(commit.Value); err == nil {
			t.commitAt = commit.Offset
		} else if t.commit = nil; !c.ending || newerFormat(err) {
			return c.unreadable(&commit, err)
		}
	}
	return nil
}

// unknownKind stops at a key that this program does not know: what it means for the state cannot be guessed (S63).
func (c *changelog) unknownKind(r *kafka.Record) error {
	return c.fail(kafka.ClassPermanent, "read changelog", r.Offset, "use the newer tidemark that wrote it, or repair the changelog",
		"key %.32x is of no kind that changelog format %d knows", r.Key, record.CommitFormat)
}

// newerFormat tells whether a record cannot be read because a newer program wrote it, which is no damage.
func newerFormat(err error) bool {
	var format *record.FormatError
	return errors.As(err, &format)
}

// unreadable stops at a commit or fence record that cannot be read: newer, which is no damage, or damaged.
func (c *changelog) unreadable(r *kafka.Record, err error) error {
	hint := "restore the topic; tidemark changelog verify says what else is damaged, and tidemark reset begins a new life"
	if newerFormat(err) {
		hint = "use the newer tidemark that wrote it"
	}
	return c.fail(kafka.ClassPermanent, "read changelog", r.Offset, hint, "%w", err)
}
