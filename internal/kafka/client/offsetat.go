package client

import "context"

// OffsetAt is described in package kafka.
func (l *log) OffsetAt(ctx context.Context, timestamp int64) (int64, error) {
	var out int64
	err := l.persist(ctx, "ask for the offset of a time", -1, func(ctx context.Context) (err error) {
		if out, err = l.list(ctx, max(timestamp, 0)); err == nil && out < 0 {
			out, err = l.list(ctx, -1) // every record is older
		}
		return err
	})
	return out, err
}
