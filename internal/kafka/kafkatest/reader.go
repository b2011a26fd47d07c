package kafkatest

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// reader is one kafka.Log.
type reader struct {
	cluster   *Cluster
	topic     string
	partition int32
	id        record.TopicID // of the topic at the first request
	epoch     int32          // of the leader at the last request
	reached   int64          // the furthest position that was read from, or up to
}

// locate returns the partition, which must be of the topic that was met first.
func (r *reader) locate(op string) (*partition, error) {
	p, id, err := r.cluster.findLocked(op, r.topic, r.partition)
	if err != nil {
		return nil, err
	}
	if !r.id.Known() {
		r.id = id
	}
	if r.id != id {
		return nil, fail(kafka.ClassLost, op, r.topic, r.partition, -1, fmt.Errorf("%w: had %v, is %v", errTopicID, r.id, id))
	}
	return p, nil
}

// Offsets implements kafka.Log.
func (r *reader) Offsets(ctx context.Context) (o kafka.Offsets, err error) {
	call := Call{Op: OpOffsets, Topic: r.topic, Partition: r.partition}
	err = r.cluster.pass(ctx, call, func(int) error {
		p, err := r.locate("offsets")
		if err == nil {
			o = p.offsets()
		}
		return err
	})
	return o, err
}

// Fetch implements kafka.Log.
func (r *reader) Fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (kafka.Fetched, error) {
	call := Call{Op: OpFetch, Topic: r.topic, Partition: r.partition, Position: position}
	var f kafka.Fetched
	var changed chan struct{}
	look := func(int) error {
		p, err := r.locate("fetch")
		if err != nil {
			return err
		}
		if o := p.offsets(); position < o.Start || position > o.HighWatermark {
			return outOfRange("fetch", r.topic, r.partition, position, o)
		}
		if err := r.cut(p); err != nil {
			return err
		}
		f, changed = p.fetch(position, maxBytes), r.cluster.changed
		r.reached = max(r.reached, f.Next)
		return nil
	}
	if err := r.cluster.pass(ctx, call, look); err != nil || f.Next > position || wait <= 0 {
		return f, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return f, nil
		case <-ctx.Done():
			return kafka.Fetched{}, fail(kafka.ClassTransient, "fetch", r.topic, r.partition, position, ctx.Err())
		case <-changed:
		}
		r.cluster.mu.Lock()
		err := look(-1)
		r.cluster.mu.Unlock()
		if err != nil || f.Next > position {
			return f, err
		}
	}
}

// Close implements kafka.Log.
func (r *reader) Close() {}
