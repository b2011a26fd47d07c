package tidemark

import (
	"context"
	"slices"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// highWatermarks takes the end of every input partition, the mark up to which UntilIdle works (I5, V8).
func (a *App) highWatermarks(ctx context.Context) (map[int32]int64, error) {
	targets, first := map[int32]int64{}, a.contact()
	for p := range a.topics().identity.Input.Partitions {
		log, err := a.options.Cluster.Log(a.options.Input, p)
		if err != nil {
			return nil, err
		}
		targets[p], err = a.highWatermark(ctx, log, first)
		log.Close()
		if err != nil || ctx.Err() != nil {
			return nil, err
		}
	}
	return targets, nil
}

// highWatermark waits for a partition's leader as long as for a broker at first contact: until here nothing has begun.
func (a *App) highWatermark(ctx context.Context, log kafka.Log, first *contact) (int64, error) {
	for {
		offsets, err := log.Offsets(ctx)
		if err == nil {
			return offsets.HighWatermark, nil
		}
		if again, err := first.again(ctx, err); !again {
			return 0, err
		}
	}
}

// idleness finds out when all input that was there at the start has been committed by somebody (UntilIdle): own tasks
// say so, for the partitions of others the group's offset is asked. A partition whose owner is gone is assigned to us
// in the end.
type idleness struct {
	app    *App
	mine   []int32
	done   map[int32]bool
	ticker *time.Ticker
}

const pollOthers = 200 * time.Millisecond

func newIdleness(a *App) *idleness {
	i := &idleness{app: a, done: map[int32]bool{}}
	if a.options.UntilIdle {
		i.ticker = time.NewTicker(pollOthers)
	}
	return i
}

// poll ticks when the group should be asked; never without UntilIdle.
func (i *idleness) poll() <-chan time.Time {
	if i.ticker == nil {
		return nil
	}
	return i.ticker.C
}

func (i *idleness) assigned(partitions []int32) { i.mine = partitions }

// own notes that one of our tasks has committed everything up to its target.
func (i *idleness) own(partition int32) { i.done[partition] = true }

// others asks the group for the partitions that are not ours.
func (i *idleness) others(ctx context.Context) {
	waiting := false
	for p := range i.app.targets {
		waiting = waiting || !i.done[p] && !slices.Contains(i.mine, p)
	}
	if !waiting || i.mine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*heartbeat) // whoever asks here starts and stops the tasks
	defer cancel()
	offsets, err := i.app.group.Offsets(ctx)
	if err != nil {
		i.app.log.Warn("group offsets not read, asked again", "error", err)
		return
	}
	for p, target := range i.app.targets {
		if at, ok := offsets[p]; ok && !slices.Contains(i.mine, p) && int64(at.Next) >= target {
			i.done[p] = true
		}
	}
}

func (i *idleness) reached() bool { return len(i.done) == len(i.app.targets) }
