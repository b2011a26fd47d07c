package kafkatest

import (
	"context"
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// EpochEnd implements kafka.Log.
func (r *reader) EpochEnd(ctx context.Context, epoch int32) (end int64, known bool, err error) {
	if epoch < 0 {
		return 0, false, nil
	}
	call := Call{Op: OpOffsets, Topic: r.topic, Partition: r.partition}
	err = r.cluster.pass(ctx, call, func(int) error {
		p, err := r.locate("end of a leader epoch")
		if err != nil {
			return err
		}
		end, known = p.epochEnd(epoch)
		return nil
	})
	return end, known, err
}

// epochEnd is where the records of an epoch, and of those before it, end.
func (p *partition) epochEnd(epoch int32) (end int64, known bool) {
	for i := range p.entries {
		if e := &p.entries[i]; e.Epoch > epoch {
			return e.Offset, i > 0 // before the first one nothing is known any more
		}
	}
	return p.end, true
}

// cut is the error of a log that has lost what was read of it before its epoch changed (R16, S28).
func (r *reader) cut(p *partition) error {
	if end, known := p.epochEnd(r.epoch); p.epoch != r.epoch && r.reached > p.start && known && end < r.reached {
		return fail(kafka.ClassLost, "fetch", r.topic, r.partition, end, fmt.Errorf(
			"the log was read up to offset %d under leader epoch %d, and that epoch ends at offset %d", r.reached, r.epoch, end))
	}
	r.epoch = p.epoch
	return nil
}
