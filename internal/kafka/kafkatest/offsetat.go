package kafkatest

import "context"

// OffsetAt implements kafka.Log.
func (r *reader) OffsetAt(ctx context.Context, timestamp int64) (at int64, err error) {
	call := Call{Op: OpOffsets, Topic: r.topic, Partition: r.partition}
	err = r.cluster.pass(ctx, call, func(int) error {
		p, err := r.locate("offset of a time")
		if err != nil {
			return err
		}
		at = p.end
		for i := range p.entries {
			if p.entries[i].Timestamp >= timestamp {
				at = p.entries[i].Offset
				break
			}
		}
		return nil
	})
	return at, err
}
