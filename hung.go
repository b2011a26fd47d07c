package tidemark

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// surrender is how long a task's own goroutine may be stuck. Then the process ends: no other goroutine can end it, its
// partition stands still and, as the group client goes on without it, would for ever. From the watchdog on /livez fails,
// so whoever supervises the process may act before. What keeps a task from its work but not from its goroutine, such as
// brokers or the disk of a checkpoint, ends no process (R24, I12).
const surrender = 3 * watchdog

// still is what a task was stuck in at the last looks. Looks are counted instead of time, which also passes while the
// process is suspended.
type still struct {
	since int64 // when it began, as of tick(), or a recovery's step by its own time
	looks int
}

// giveUpHung tells supervise of a task that does not come back.
func (a *App) giveUpHung(seen map[int32]still, all []*board, s *Status) {
	stuck := map[int32]bool{}
	for i := range s.Tasks {
		stuck[s.Tasks[i].Partition] = s.Tasks[i].State == status.Stuck
	}
	for _, b := range all {
		since := b.hungSince()
		if !stuck[b.partition] || since == 0 || since != seen[b.partition].since {
			seen[b.partition] = still{since: since}
			continue
		}
		n := still{since, seen[b.partition].looks + 1}
		seen[b.partition] = n
		if time.Duration(n.looks)*lookEvery < surrender-watchdog {
			continue
		}
		stacks := make([]byte, 1<<20)
		a.log.Error("goroutines of a process with a task that hangs", "partition", b.partition, "stacks", string(stacks[:runtime.Stack(stacks, true)]))
		err := &kafka.Error{Class: kafka.ClassPermanent, Op: "work", Topic: a.options.Input, Partition: b.partition, Offset: -1,
			Err:  fmt.Errorf("the task has not come back for more than %s: the process ends, for nothing else ends that", surrender),
			Hint: "the stacks of its goroutines are in the log; a start goes on where the last commit is"}
		select {
		case a.hung <- ended{partition: b.partition, err: err}:
		default: // told already
		}
	}
}

// hungSince is when that began which the task's own goroutine is at, 0 when it waits for something to come.
func (b *board) hungSince() int64 {
	if a := b.account.Load(); a.state == status.Recovering && a.blocked.IsZero() && !b.asking() {
		return a.stepped.UnixNano()
	}
	return b.work.since.Load()
}

// asking tells whether a broker has been asked for something and has not answered.
func (b *board) asking() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.clients, func(o *op) bool { return o.since.Load() != 0 })
}

// abandon stops waiting for a task that hangs. Should it come back, it finds itself stopped.
func (a *App) abandon(e ended) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.runners[e.partition]
	if r == nil {
		return
	}
	r.stop(stopNow)
	r.board.stopped(e.err)
	close(r.abandoned)
	delete(a.runners, e.partition)
}
