package kafka

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
)

// TestBrokersAwayForASession: a broker that is silent for longer than a session costs the seat in the group, and not the
// state in memory: when it is back, every task goes on from its base (I8, R25, D06).
func TestBrokersAwayForASession(t *testing.T) {
	b := kafkarun.Start(t)
	c := newCrewAt(t, b.Addr, 1, 3*time.Minute, 2, nil)
	i := c.settledOnce(c.jobs[0])
	c.flow(12, 500)()
	c.committing(i)
	seen := len(i.log())
	c.must(b.Signal(syscall.SIGSTOP))
	away := time.NewTimer(session * 2)
	defer away.Stop()
	<-away.C
	c.must(b.Signal(syscall.SIGCONT))
	c.await("the loss of the seat", func() bool {
		return slices.ContainsFunc(i.log()[seen:], func(l line) bool { return l.Msg == "assigned" && l.Assigned == nil })
	}, i)
	c.flow(13, 500)()
	c.await("every task to be at work again", func() bool { return i.stand().settled() && len(i.stand().owned) == 2 }, i)
	reports := 0
	for _, l := range i.log()[seen:] {
		if l.Report == nil {
			continue
		}
		if reports++; l.Report.From != "live base" {
			t.Errorf("partition %d recovered from %q, want the live base", l.Report.Partition, l.Report.From)
		}
	}
	if reports < 2 {
		t.Errorf("%d recoveries, want one of each task", reports)
	}
	c.must(i.Stop())
	c.prove(c.jobs[0])
}
