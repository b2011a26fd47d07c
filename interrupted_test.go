package tidemark

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// narrow is a cluster that hands out little of the changelog at a time, and nothing any more when the life is spent.
type narrow struct {
	kafka.Cluster
	spent *atomic.Bool
}

type narrowLog struct {
	kafka.Log
	spent *atomic.Bool
}

func (c narrow) Log(topic string, partition int32) (kafka.Log, error) {
	log, err := c.Cluster.Log(topic, partition)
	if topic == "changelog" && err == nil {
		log = narrowLog{log, c.spent}
	}
	return log, err
}

func (l narrowLog) Fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (kafka.Fetched, error) {
	if l.spent.Load() {
		<-ctx.Done()
		return kafka.Fetched{}, ctx.Err()
	}
	return l.Log.Fetch(ctx, position, min(maxBytes, 300), wait)
}

// TestS53ProcessesThatNeverLiveLongEnough: with its local state lost a job is started again and again, and each process is
// stopped long before it could have restored a task. With a checkpoint interval that is shorter than such a life all tasks
// are restored in the end; with a longer one none ever is. What comes out then is right.
func TestS53ProcessesThatNeverLiveLongEnough(t *testing.T) {
	const tries, perLife = 60, 60
	for name, interval := range map[string]time.Duration{"a part in each life": time.Nanosecond, "none": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.produce(6_000)
			o := w.options()
			o.Commit.MaxRecords = 4 // a long changelog
			w.run(o)
			if err := os.RemoveAll(filepath.Join(w.dir, "job")); err != nil {
				t.Fatal(err)
			}
			lives, from := 0, map[int32]string{}
			for ; lives < tries && len(from) < 2; lives++ {
				w.shortLife(interval, perLife, from)
			}
			t.Logf("%d lives, recovered %v", lives, from)
			if interval == time.Hour {
				if len(from) != 0 {
					t.Errorf("a task was restored in a life that was to be too short: %v", from)
				}
			} else if lives < 4 || len(from) < 2 || from[0] != "checkpoint" || from[1] != "checkpoint" {
				t.Errorf("after %d lives recovered %v, want both tasks, from parts, and not at once", lives, from)
			}
			w.produce(2_000)
			w.run(w.options())
			w.results()
		})
	}
}

// shortLife runs the job until its replays have taken so many fetches, and notes which tasks were recovered, and from what.
func (w *world) shortLife(interval time.Duration, fetches int, from map[int32]string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	o := w.options()
	spent := &atomic.Bool{}
	o.Cluster, o.Checkpoint, o.UntilIdle = narrow{w.cluster, spent}, interval, false
	var mu sync.Mutex
	o.Progress = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e.Kind == EventRecovered:
			if from[e.Partition] = e.Recovery.From; len(from) == 2 {
				cancel()
			}
		case e.Kind == EventProgress && e.Progress.Step == recovery.StepReplay:
			if fetches--; fetches == 0 {
				spent.Store(true)
				cancel()
			}
		}
	}
	app, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := app.Run(ctx); err != nil {
		w.t.Fatal(err)
	}
}
