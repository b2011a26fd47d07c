package tidemark

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// offsetSetter tells the group where the tasks stand, for lag tools and for other instances' UntilIdle (section 4, step
// 4). Only the newest position of each partition is of interest, told once a heartbeat: a slow group delays nobody, and
// a commit costs the coordinator nothing. A position that could not be told is told again after a heartbeat, unless a newer
// one has come: where input has ended no commit follows to make it good, and another instance may be waiting for it. What
// the group refuses for good is told to people instead, once.
type offsetSetter struct {
	group   kafka.Group
	log     *slog.Logger
	mu      sync.Mutex
	mine    []int32 // the assigned partitions
	silent  bool    // nothing is told any more
	refused bool    // by the group, which the log has said; of the goroutine of run
	newest  map[int32]kafka.GroupOffset
	changed chan struct{}
	end     chan struct{} // closed by close; a task that was given up may still come back and set
	done    chan struct{}
}

func startOffsetSetter(group kafka.Group, log *slog.Logger) *offsetSetter {
	s := &offsetSetter{group: group, log: log, newest: map[int32]kafka.GroupOffset{}, changed: make(chan struct{}, 1),
		end: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s
}

// assigned drops what is outstanding for partitions that are not ours any more: told late, it would move the new owner's
// position back.
func (s *offsetSetter) assigned(partitions []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mine = partitions
	maps.DeleteFunc(s.newest, func(p int32, _ kafka.GroupOffset) bool { return !slices.Contains(partitions, p) })
}

// silence drops what is outstanding and all that comes: the topic may be another one now, in which no position of ours
// means anything (S10).
func (s *offsetSetter) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
	clear(s.newest)
}

// set notes a position; it does not wait.
func (s *offsetSetter) set(partition int32, next record.InputPosition, birth record.BirthID, number uint64) {
	s.mu.Lock()
	if !s.silent {
		s.newest[partition] = kafka.GroupOffset{Next: next, Metadata: record.Metadata(birth, number)}
	}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *offsetSetter) run() {
	defer close(s.done)
	var pause <-chan time.Time // nothing is told before it ends
	due := false
	for {
		select {
		case <-s.changed:
			due = true
		case <-s.end:
			s.flush()
			return
		case <-pause:
			pause = nil
		}
		if due && pause == nil {
			due = s.flush() > 0
			pause = time.After(heartbeat)
		}
	}
}

// flush tells the group the newest positions, keeps those that it could not, and returns how many these are.
func (s *offsetSetter) flush() (left int) {
	s.mu.Lock()
	newest := s.newest
	s.newest = map[int32]kafka.GroupOffset{}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), session)
	defer cancel()
	for p, o := range newest {
		switch err := s.group.SetOffset(ctx, p, o.Next, o.Metadata); {
		case err == nil:
			s.refused = false
		case kafka.ClassOf(err) == kafka.ClassPermanent:
			if !s.refused {
				s.log.Warn("the group refuses the offset: lag tools, and other instances with --until-idle, do not see what is committed; the state does not need it",
					"partition", p, "error", err)
			}
			s.refused = true // the next commit tries again
		default:
			s.log.Debug("group offset not set, tried again", "partition", p, "error", err)
			s.keep(p, o)
			left++
		}
	}
	return left
}

// keep takes a position back that could not be told, unless there is a newer one or another owner tells his.
func (s *offsetSetter) keep(partition int32, o kafka.GroupOffset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, newer := s.newest[partition]; !newer && !s.silent && slices.Contains(s.mine, partition) {
		s.newest[partition] = o
	}
}

// close sets what is outstanding and returns.
func (s *offsetSetter) close() {
	close(s.end)
	<-s.done
}
