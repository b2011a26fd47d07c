package tidemark

import (
	"context"
	"log/slog"
	"sync"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// offsetSetter tells the group where the tasks stand, for lag tools and for other instances' UntilIdle (section 4, step
// 4). Only the newest position of each partition is of interest, so a slow group delays nobody; a failure is made good
// by the next commit.
type offsetSetter struct {
	group   kafka.Group
	log     *slog.Logger
	mu      sync.Mutex
	newest  map[int32]kafka.GroupOffset
	changed chan struct{}
	done    chan struct{}
}

func startOffsetSetter(group kafka.Group, log *slog.Logger) *offsetSetter {
	s := &offsetSetter{group: group, log: log, newest: map[int32]kafka.GroupOffset{}, changed: make(chan struct{}, 1),
		done: make(chan struct{})}
	go s.run()
	return s
}

// set notes a position; it does not wait.
func (s *offsetSetter) set(partition int32, next record.InputPosition, birth record.BirthID, number uint64) {
	s.mu.Lock()
	s.newest[partition] = kafka.GroupOffset{Next: next, Metadata: record.Metadata(birth, number)}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *offsetSetter) run() {
	defer close(s.done)
	for range s.changed {
		s.flush()
	}
	s.flush()
}

func (s *offsetSetter) flush() {
	s.mu.Lock()
	newest := s.newest
	s.newest = map[int32]kafka.GroupOffset{}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), session)
	defer cancel()
	for p, o := range newest {
		if err := s.group.SetOffset(ctx, p, o.Next, o.Metadata); err != nil {
			s.log.Debug("group offset not set, the next commit sets it", "partition", p, "error", err)
		}
	}
}

// close sets what is outstanding and returns.
func (s *offsetSetter) close() {
	close(s.changed)
	<-s.done
}
