package tidemark

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// watchedCluster shows on a task's board every request to the cluster that has not been answered, whoever makes it: so a
// recovery, a reader and a commit are under one watchdog (R24), and none of them needs to know.
type watchedCluster struct {
	kafka.Cluster
	board *board
}

// Log implements kafka.Cluster.
func (c watchedCluster) Log(topic string, partition int32) (kafka.Log, error) {
	log, err := c.Cluster.Log(topic, partition)
	if err != nil {
		return nil, err
	}
	w := &watchedLog{log: log, board: c.board, topic: topic, op: c.board.open(fmt.Sprintf("%s/%d", topic, partition))}
	if topic == c.board.app.options.Changelog.Topic {
		c.board.changelog.Store(w)
	}
	return w, nil
}

// Writer implements kafka.Cluster.
func (c watchedCluster) Writer(transactionalID string) (kafka.Writer, error) {
	writer, err := c.Cluster.Writer(transactionalID)
	if err != nil {
		return nil, err
	}
	return &watchedWriter{writer: writer, board: c.board, op: c.board.open(transactionalID)}, nil
}

// watchedLog remembers where the partition stood at the last answer.
type watchedLog struct {
	log   kafka.Log
	board *board
	topic string
	op    *op
	seen  atomic.Pointer[seen]

	fetched atomic.Int64 // when a fetch was last answered, ns as of now()
}

// seen is what an answer said of a partition.
type seen struct {
	kafka.Offsets
	next   int64     // the reader's position
	held   time.Time // since when the last stable offset stands where it is, below the end
	behind time.Time // when there was last something new for a reader that was at the end
}

// Offsets implements kafka.Log.
func (l *watchedLog) Offsets(ctx context.Context) (kafka.Offsets, error) {
	l.op.begin(&opOffsets, -1)
	defer l.board.answer(l.op)
	o, err := l.log.Offsets(ctx)
	if err == nil {
		l.see(o, -1)
	}
	return o, err
}

// OffsetAt implements kafka.Log.
func (l *watchedLog) OffsetAt(ctx context.Context, timestamp int64) (int64, error) {
	l.op.begin(&opOffsets, -1)
	defer l.board.answer(l.op)
	return l.log.OffsetAt(ctx, timestamp)
}

// EpochEnd implements kafka.Log.
func (l *watchedLog) EpochEnd(ctx context.Context, epoch int32) (end int64, known bool, err error) {
	l.op.begin(&opOffsets, -1)
	defer l.board.answer(l.op)
	return l.log.EpochEnd(ctx, epoch)
}

// Fetch implements kafka.Log.
func (l *watchedLog) Fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (kafka.Fetched, error) {
	l.op.begin(&opFetch, position)
	defer l.board.answer(l.op)
	f, err := l.log.Fetch(ctx, position, maxBytes, wait)
	if err == nil {
		l.see(f.Offsets, f.Next)
		l.fetched.Store(int64(now())) // last: whoever finds this new finds what was seen new too
	}
	return f, err
}

func (l *watchedLog) see(o kafka.Offsets, next int64) {
	old := l.seen.Load()
	if old != nil && old.Offsets == o && old.next == next {
		return
	}
	now := time.Now()
	s := &seen{Offsets: o, next: next, held: now, behind: now}
	if old != nil && old.Stable == o.Stable && old.Stable < old.HighWatermark {
		s.held = old.held
	}
	if old != nil && old.next < old.HighWatermark {
		s.behind = old.behind
	}
	l.seen.Store(s)
}

// Close implements kafka.Log.
func (l *watchedLog) Close() {
	l.board.close(l.op)
	l.log.Close()
}

// watchedWriter shows the requests of a writer.
type watchedWriter struct {
	writer kafka.Writer
	board  *board
	op     *op
}

// Fence implements kafka.Writer.
func (w *watchedWriter) Fence(ctx context.Context) (kafka.Producer, error) {
	w.op.begin(&opFence, -1)
	defer w.board.answer(w.op)
	return w.writer.Fence(ctx)
}

// Send implements kafka.Writer.
func (w *watchedWriter) Send(ctx context.Context, messages []kafka.Message) ([]int64, error) {
	w.op.begin(&opSend, -1)
	defer w.board.answer(w.op)
	return w.writer.Send(ctx, messages)
}

// Commit implements kafka.Writer.
func (w *watchedWriter) Commit(ctx context.Context) error {
	w.op.begin(&opCommit, -1)
	defer w.board.answer(w.op)
	return w.writer.Commit(ctx)
}

// Close implements kafka.Writer.
func (w *watchedWriter) Close() {
	w.board.close(w.op)
	w.writer.Close()
}
