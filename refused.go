package tidemark

import (
	"slices"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// What became of the readings of a task in the last minute is counted in slots.
const (
	refusedSlot  = 10 * time.Second
	refusedSlots = 6
)

// refusals are readings by the slot of the monotonic clock in which they were committed. They are replaced, never changed.
type refusals struct {
	slots [refusedSlots]refusalsOf
	since time.Time // since when the share is too large; zero while it is not
}

type refusalsOf struct {
	slot     int64
	in, dead int64
}

// slotNow is the present slot.
func slotNow() int64 { return int64(now() / refusedSlot) }

// with are the refusals and what a commit adds to them.
func (r *refusals) with(slot int64, before, after *record.Counters) *refusals {
	next := *r
	of := &next.slots[((slot%refusedSlots)+refusedSlots)%refusedSlots]
	if of.slot != slot {
		*of = refusalsOf{slot: slot}
	}
	of.in += int64(after.In - before.In)
	of.dead += int64(after.DeadLettered - before.DeadLettered)
	switch s := next.share(slot); {
	case !s.TooLarge():
		next.since = time.Time{}
	case next.since.IsZero():
		next.since = time.Now()
	}
	return &next
}

// share is what of the readings of the last slots was refused.
func (r *refusals) share(slot int64) (s status.Share) {
	for _, of := range r.slots {
		if of.slot > slot-refusedSlots && of.slot <= slot {
			s.In, s.Refused = s.In+of.in, s.Refused+of.dead
		}
	}
	s.Since = r.since
	return s
}

// committed shows what became of the readings of a commit (D27).
func (b *board) committed(before, after *record.Commit) {
	b.refusals.Store(b.refusals.Load().with(slotNow(), &before.Counters, &after.Counters))
}

// How often a task tells in the log that readings are refused, after the first time: a device that has always sent nonsense is
// no news, and most of the readings being refused is (D13).
const (
	tellRefused     = time.Hour
	tellManyRefused = 10 * time.Minute
)

// refusedTold is what a task has told of readings that were refused.
type refusedTold struct {
	before   bool
	at       time.Duration // by now
	in, dead record.Count  // since then
}

// nearer is a Processor that knows which field was perhaps meant by one that a record lacks; that of the command does.
type nearer interface {
	Near(reason, field string, value []byte) string
}

// tellRefused tells of the readings that a commit has refused, while its messages are still there: the first one, and then now and then, with how many there were.
// Without it a misspelt field makes a dead letter of every reading, and nobody hears of it.
func (r *runner) tellRefused(before, after *record.Counters, messages []task.Message, of Processor) {
	t, dead := &r.refused, after.DeadLettered-before.DeadLettered
	t.in, t.dead = t.in+after.In-before.In, t.dead+dead
	if dead == 0 {
		return
	}
	pause := tellRefused
	if r.board.refusals.Load().share(slotNow()).TooLarge() {
		pause = tellManyRefused
	}
	if t.before && now()-t.at < pause {
		return
	}
	i := slices.IndexFunc(messages, func(m task.Message) bool { return m.Sink == task.SinkDead })
	if i < 0 {
		return
	}
	m := &messages[i]
	header := func(name string) string { return string(record.HeaderOf(m.Headers, name)) }
	reason, field := header(job.HeaderReason), header(job.HeaderField)
	args := []any{"dead_letters", r.app.options.DeadLetter, "refused", t.dead, "of", t.in, "offset", header(job.HeaderOffset), "reason", reason}
	if field != "" {
		args = append(args, "field", field)
	}
	args = append(args, "detail", header(job.HeaderDetail))
	if n, ok := of.(nearer); ok {
		if like := n.Near(reason, field, m.Value); like != "" {
			args = append(args, "did_you_mean", like)
		}
	}
	r.log.Warn("readings are refused: each is a dead letter that says why", args...)
	*t = refusedTold{before: true, at: now()}
}
