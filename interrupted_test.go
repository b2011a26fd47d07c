package tidemark

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
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

// newLongWorld is one in which a job with a long changelog has lived, and has no local state.
func newLongWorld(t *testing.T) *world {
	w := newWorld(t, 2)
	w.produce(6_000)
	o := w.options()
	o.Commit.MaxRecords = 4
	w.run(o)
	if err := os.RemoveAll(filepath.Join(w.dir, "job")); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestS53ProcessesThatNeverLiveLongEnough: with its local state lost a job is started again and again, and each process is
// stopped long before it could have restored a task. With a checkpoint interval that is shorter than such a life all tasks
// are restored in the end; with a longer one none ever is. What comes out then is right.
func TestS53ProcessesThatNeverLiveLongEnough(t *testing.T) {
	const tries, perLife = 60, 60
	for name, interval := range map[string]time.Duration{"a part in each life": time.Nanosecond, "none": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newLongWorld(t)
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

// What an interrupted replay could not keep is said although it does not come to its end: nobody else ever would (S53, S34).
func TestS53SaysWhatIsNotKept(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(6_000)
	o := w.options()
	o.Commit.MaxRecords = 4
	w.run(o)
	if err := os.RemoveAll(filepath.Join(w.dir, "job")); err != nil {
		t.Fatal(err)
	}
	var log said
	w.shortLife(time.Nanosecond, 60, map[int32]string{}, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Files = storetest.Hook(store.Disk, func(op storetest.Op, do func() error) error {
			if op.Kind == "write" && strings.Contains(op.Path, ".checkpoint") {
				return syscall.ENOSPC
			}
			return do()
		})
	})
	if n := len(log.lines("is not kept")); n < 1 || n > 2 {
		t.Errorf("it was said %d times of two tasks: %s", n, log.text.String())
	}
}

// shortLife runs the job until its replays have taken so many fetches, and notes which tasks were recovered, and from what.
func (w *world) shortLife(interval time.Duration, fetches int, from map[int32]string, change ...func(*Options)) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	o := w.options()
	spent := &atomic.Bool{}
	o.Cluster, o.Checkpoint, o.UntilIdle = narrow{w.cluster, spent}, interval, false
	for _, c := range change {
		c(&o)
	}
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
