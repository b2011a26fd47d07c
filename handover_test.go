package tidemark

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// A checkpoint begun before the first commit of a life stands at our fence record, and that record's time is the broker
// time of it: what a newer owner writes after it may be compacted from then on, however long the recovery took (R13).
func TestCheckpointOfRecoveredStateIsAsOldAsTheFence(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(100)
	w.run(w.options())
	d := w.start(t.TempDir(), func(o *Options) {
		o.Checkpoint = time.Nanosecond
		o.At = func(_ context.Context, _ int32, step string) error {
			if step == "recover.prove" {
				<-time.After(100 * time.Millisecond) // a long recovery: only time makes the difference
			}
			return nil
		}
	})
	e := d.until("a checkpoint", func(e Event) bool { return e.Kind == EventCheckpoint })
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
	files, err := store.List(store.Disk, filepath.Dir(e.Path))
	if err != nil {
		t.Fatal(err)
	}
	times := map[int64]int64{}
	for _, r := range w.cluster.Entries("changelog", e.Partition) {
		times[r.Offset] = r.Timestamp
	}
	checked := 0
	for _, f := range files {
		if f.Info == nil {
			continue
		}
		checked++
		header := f.Info.Header
		if before := times[int64(header.Begin)-1]; header.BrokerTime > before {
			t.Errorf("%s: broker time %d of position %d, the record before it is of %d", f.Path, header.BrokerTime, header.Begin, before)
		}
	}
	if checked == 0 {
		t.Fatal("no checkpoint looked at")
	}
}

// A disk that takes longer to fail than checkpoints take to come due must not hold up a stop for ever (I12).
func TestStopTriesOneCheckpoint(t *testing.T) {
	const enough = 1000
	w := newWorld(t, 2)
	w.produce(100)
	var tried atomic.Int32
	o := w.options() // a run until idle tries one of each task at its end, and before that none is due
	o.At = func(_ context.Context, _ int32, step string) error {
		if step != "checkpoint.slice" || tried.Add(1) > enough {
			return nil // ends a stop that tries again and again
		}
		return errors.New("input/output error")
	}
	w.run(o)
	if n := tried.Load(); n != 2 {
		t.Fatalf("%d attempts at a checkpoint, want one of each task", n)
	}
}

// failsOnce is a group that refuses the first position it is told.
type failsOnce struct {
	kafka.Group
	calls atomic.Int32
	after func() // before the refusal is answered
	told  chan int32
}

func (g *failsOnce) SetOffset(_ context.Context, partition int32, _ record.InputPosition, _ string) error {
	if g.calls.Add(1) == 1 {
		g.after()
		return errors.New("rebalance in progress")
	}
	g.told <- partition
	return nil
}

// Where no commit follows, a position that could not be told is told again: another instance may wait for it. One of a
// partition that has gone to another owner is not, for it would move the new owner's position back.
func TestOffsetIsToldAgainWhileItIsOurs(t *testing.T) {
	for _, ours := range []bool{true, false} {
		g := &failsOnce{told: make(chan int32, 2), after: func() {}}
		s := startOffsetSetter(g, slog.New(slog.DiscardHandler))
		s.assigned([]int32{0, 1})
		want := int32(0)
		if !ours {
			want = 1
			g.after = func() {
				s.assigned([]int32{1})
				s.set(1, 9, 1, 1)
			}
		}
		s.set(0, 7, 1, 1)
		select {
		case p := <-g.told:
			if p != want {
				t.Errorf("ours %v: told of partition %d, want %d", ours, p, want)
			}
		case <-time.After(5 * time.Second):
			t.Errorf("ours %v: not told again", ours)
		}
		s.close()
		if len(g.told) > 0 {
			t.Errorf("ours %v: told of partition %d too", ours, <-g.told)
		}
	}
}
