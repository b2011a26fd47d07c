package tidemark

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// newcomer refuses a configuration that is not this job's before it takes a seat in the group (R8). A seat alone does
// harm: tasks of the running job would move to a process that can only refuse them, and stand still until its session
// ends. What the group has offsets of has lived; one such task that is ours by its changelog is enough, for a fault of
// a single task is told by its own recovery, and stops nothing else. Nothing is written, and a broker that does not
// answer soon is not waited for: the tasks judge the same again.
func (a *App) newcomer(ctx context.Context) error {
	a.await(status.ForBroker, "the changelog to say whether this configuration is the job's")
	ctx, cancel := context.WithTimeout(ctx, newcomerLimit)
	defer cancel()
	lived, err := a.admin.GroupOffsets(ctx, a.options.Job, a.options.Input)
	if err != nil {
		return permanent(err)
	}
	var refused error
	for _, p := range slices.Sorted(maps.Keys(lived)) {
		if p >= a.topics().identity.Input.Partitions {
			continue
		}
		err := a.look(ctx, p, lived[p])
		if permanent(err) == nil {
			return nil
		}
		if refused == nil {
			refused = err
		}
	}
	return refused
}

// newcomerLimit bounds what the look before the start may cost it. With brokers at rest it is milliseconds.
const newcomerLimit = 2 * time.Second

// permanent drops an error that may go away: the tasks meet it again, and know how to wait.
func permanent(err error) error {
	if class := kafka.ClassOf(err); err != nil && (class == kafka.ClassPermanent || class == kafka.ClassLost) {
		return err
	}
	return nil
}

// look judges one task as its recovery would before the fence.
func (a *App) look(ctx context.Context, partition int32, offset kafka.GroupOffset) error {
	proc, err := a.processor(partition)
	if err != nil {
		return err
	}
	rec := a.recoveryOf(a.options.Cluster, partition, proc)
	rec.GroupOffset = func(context.Context) (kafka.GroupOffset, bool, error) { return offset, true, nil }
	rec.Accept = a.acceptable(partition)
	_, err = rec.Look(ctx, false)
	return err
}

// aggregations are those of a Processor as a birth record takes them.
func aggregations(proc Processor) []record.AggregationState {
	var states []record.AggregationState
	for _, g := range proc.Aggregations() {
		states = append(states, record.AggregationState{Name: g.Name, Fingerprint: g.Fingerprint, ClosedEnd: record.NoTime})
	}
	return states
}
