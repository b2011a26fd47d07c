package tidemark

import (
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/status"
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
