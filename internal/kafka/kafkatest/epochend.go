package kafkatest

import "context"

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
		end, known = p.end, true
		for i := range p.entries {
			if e := &p.entries[i]; e.Epoch > epoch {
				end, known = e.Offset, i > 0 // before the first one nothing is known any more
				break
			}
		}
		return nil
	})
	return end, known, err
}
