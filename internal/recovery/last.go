package recovery

import (
	"context"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// Last reads the last commit record of a changelog partition, for those who only look: nothing is fenced. It is nil for
// one that holds none, be it of a task that is not born or of a job that never was.
func Last(ctx context.Context, log kafka.Log, topic string, partition int32) (*record.Commit, error) {
	o, err := log.Offsets(ctx)
	if err != nil {
		return nil, err
	}
	c := changelog{log: log, topic: topic, partition: partition, stuck: patience()}
	t, err := c.readTail(ctx, o.Start, o.Stable, aCommit)
	return t.commit, err
}
