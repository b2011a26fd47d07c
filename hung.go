package tidemark

import (
	"fmt"
	"maps"
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
	told  bool // the stacks are in the log
}

// hang is a task that does not come back.
type hang struct {
	board *board
	err   error
}

// giveUpHung tells Run of tasks that do not come back. The stacks of all goroutines go to the log once for each hang, and
// not at each look at it (I13); Run is told until it has listened, for it takes one after the other.
func (a *App) giveUpHung(seen map[*board]still, all []*board, s *Status) {
	stuck := map[int32]bool{}
	for i := range s.Tasks {
		stuck[s.Tasks[i].Partition] = s.Tasks[i].State == status.Stuck
	}
	var hung []hang
	var fresh []int32
	for _, b := range all {
		since := b.hungSince()
		if !stuck[b.partition] || since == 0 || since != seen[b].since {
			seen[b] = still{since: since}
			continue
		}
		n := seen[b]
		n.looks++
		if time.Duration(n.looks)*lookEvery >= surrender-watchdog {
			hung = append(hung, hang{b, a.hungError(b.partition)})
			if !n.told {
				n.told, fresh = true, append(fresh, b.partition)
			}
		}
		seen[b] = n
	}
	maps.DeleteFunc(seen, func(b *board, _ still) bool { return !slices.Contains(all, b) })
	if len(fresh) > 0 {
		a.logStacks(fresh)
	}
	for _, h := range hung {
		select {
		case a.hung <- h:
		default: // there is another one to listen to first
		}
	}
}

func (a *App) logStacks(partitions []int32) {
	a.stacked.Store(int64(now()))
	stacks := make([]byte, 1<<20)
	a.log.Error("goroutines of a process with tasks that hang", "partitions", partitions, "stacks", string(stacks[:runtime.Stack(stacks, true)]))
}

// closed tells that a task has ended. Run waits for the job's own code that is told, and nobody watches Run: what does not come
// back from it hangs like a task, and is told of no other end (I12).
func (a *App) closed(e Event) error {
	if a.deaf {
		return nil
	}
	begun, back := now(), make(chan struct{})
	go func() {
		defer close(back)
		a.emit(e)
	}()
	late := time.NewTimer(surrender)
	defer late.Stop()
	select {
	case <-back:
		return nil
	case <-late.C:
		a.deaf = true
		if time.Duration(a.stacked.Load()) < begun { // else those of another hang, which show this one too
			a.logStacks([]int32{e.Partition})
		}
		return a.hungError(e.Partition)
	}
}

func (a *App) hungError(partition int32) error {
	return &kafka.Error{Class: kafka.ClassPermanent, Op: "work", Topic: a.options.Input, Partition: partition, Offset: -1,
		Err:  fmt.Errorf("the task has not come back for more than %s: the process ends, for nothing else ends that", surrender),
		Hint: "the stacks of its goroutines are in the log; a start goes on where the last commit is"}
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

// abandon stops waiting for a task that hangs, and tells whether it was waited for. Should it come back, it finds itself
// stopped, and does nothing more.
func (a *App) abandon(h hang) bool {
	p := h.board.partition
	r := a.runners[p]
	if r == nil || r.board != h.board {
		return false // it has ended after all, or was abandoned before
	}
	r.stop(stopNow)
	close(r.abandoned)
	h.board.stopped(h.err)
	a.mu.Lock()
	delete(a.runners, p)
	a.mu.Unlock()
	a.log.Error("task given up", "partition", p, "error", h.err)
	go a.emit(Event{Partition: p, Kind: EventClosed, Err: h.err}) // what it is told may be what hangs
	return true
}

// isAbandoned tells whether somebody waits for the runner's end. Nobody holds its state directory for it any more, nor
// its seat.
func (r *runner) isAbandoned() bool {
	select {
	case <-r.abandoned:
		return true
	default:
		return false
	}
}
