package tidemark

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// tally is a Processor that counts records per key in windows of 1,000 offsets: small, and with every part of the
// contract in it.
type tally struct{ counts []uint64 }

const tallyWindow = 1000

func (c *tally) Aggregations() []Aggregation { return []Aggregation{{Name: "tally", Fingerprint: 1}} }

func (c *tally) Process(v *View, in *Input) error {
	v.Counters().In++
	v.Counters().Accepted++
	v.AdvanceStreamTime(in.Offset, in.Key, in.Offset)
	start := in.Offset / tallyWindow * tallyWindow
	v.RaiseClosedEnd(0, v.StreamTime())
	key := record.AppendStart(record.AppendField(record.EntryPrefix(nil, "tally"), in.Key), start)
	slot, _, err := v.Touch(key, Place{Aggregation: 0, Start: start, End: start + tallyWindow})
	if err != nil {
		return err
	}
	c.counts[slot]++
	v.Aggregation(0).Folded++
	return nil
}

func (c *tally) Load(slot Slot, _, value []byte) error {
	for len(c.counts) <= int(slot) {
		c.counts = append(c.counts, 0)
	}
	c.counts[slot] = 0
	if value != nil {
		c.counts[slot] = binary.BigEndian.Uint64(value)
	}
	return nil
}

func (c *tally) Encode(slot Slot, dst []byte) []byte {
	return binary.BigEndian.AppendUint64(dst, c.counts[slot])
}

func (c *tally) Close(v *View, slot Slot, key []byte, place Place) error {
	parsed, err := record.ParseEntryKey(key)
	if err != nil {
		return err
	}
	v.Emit(task.SinkResult, 0, []byte(parsed.Fields[0]), fmt.Appendf(nil, "%d %d", place.Start, c.counts[slot]), nil)
	return nil
}

func (c *tally) Place(key, _ []byte) (Place, error) {
	start := record.Start(key)
	return Place{Aggregation: 0, Start: start, End: start + tallyWindow}, nil
}

// world is a cluster with the topics of a tally job.
type world struct {
	t       *testing.T
	cluster *kafkatest.Cluster
	dir     string
	offset  int
}

// united is a log in which no number is without its unit: as JSON a duration is a number of nanoseconds that does not say so.
type united struct {
	slog.Handler
	t *testing.T
}

func (u united) WithAttrs(attrs []slog.Attr) slog.Handler {
	return united{u.Handler.WithAttrs(attrs), u.t}
}

func (u united) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindDuration {
			u.t.Errorf("log %q: %s is a duration without a unit", r.Message, a.Key)
		}
		return true
	})
	return u.Handler.Handle(ctx, r)
}

func newWorld(t *testing.T, partitions int32) *world {
	w := &world{t: t, cluster: kafkatest.New("cluster"), dir: t.TempDir()}
	w.cluster.CreateTopic("in", partitions, nil)
	return w
}

func (w *world) produce(n int) {
	partitions := int32(2)
	for range n {
		key := fmt.Appendf(nil, "k%d", w.offset%7)
		w.cluster.Append("in", int32(w.offset)%partitions, kafka.Record{Key: key, Value: key})
		w.offset++
	}
}

func (w *world) options() Options {
	return Options{
		Job: "job", Cluster: w.cluster, Input: "in", Results: []string{"out"}, DeadLetter: "dead",
		Changelog: Changelog{Topic: "changelog"}, Topics: TopicDefaults{Create: true, Partitions: 2},
		Processor: func(int32, int32, Limits) (Processor, error) { return &tally{}, nil },
		StateDir:  w.dir, Commit: Commit{Interval: 10 * time.Millisecond, MaxRecords: 500, MaxBytes: 1 << 20},
		Checkpoint: time.Hour, UntilIdle: true,
		Log: slog.New(united{slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}), w.t}),
	}
}

func (w *world) run(options Options) {
	w.t.Helper()
	app, err := New(options)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	if err := app.Run(ctx); err != nil {
		w.t.Fatal(err)
	}
	if ctx.Err() != nil {
		w.t.Fatal("not idle within 30 s")
	}
}

// results checks that each window below the end of its partition was published once, with the right count.
func (w *world) results() {
	w.t.Helper()
	for p := range int32(2) {
		want := map[string]int{}
		for _, r := range w.cluster.Committed("in", p) {
			if end := w.cluster.Offsets("in", p).HighWatermark - 1; r.Offset/tallyWindow*tallyWindow+tallyWindow <= end {
				want[fmt.Sprintf("%s %d", r.Key, r.Offset/tallyWindow*tallyWindow)]++
			}
		}
		for _, r := range w.cluster.Committed("out", p) {
			var start, count int
			if _, err := fmt.Sscan(string(r.Value), &start, &count); err != nil {
				w.t.Fatal(err)
			}
			name := fmt.Sprintf("%s %d", r.Key, start)
			if want[name] != count {
				w.t.Errorf("partition %d window %s: count %d, want %d (published twice, or wrong)", p, name, count, want[name])
			}
			delete(want, name)
		}
		if len(want) > 0 {
			w.t.Errorf("partition %d: %d windows never published: %v", p, len(want), want)
		}
	}
}

// TestUntilIdle runs a job to its end, twice, with more input between, and checks every result.
func TestUntilIdle(t *testing.T) {
	w := newWorld(t, 2)
	for range 3 {
		w.produce(7_000)
		w.run(w.options())
		w.results()
	}
}

// TestUntilIdleWhileInputFlows lets more input come with every commit, so that the task always has something folded: what
// was there at the start is committed all the same, and the run ends. Found by verify, whose readings flow on.
func TestUntilIdleWhileInputFlows(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(1_000)
	options := w.options()
	var mu sync.Mutex
	commits := 0
	options.At = func(ctx context.Context, _ int32, step string) error {
		if step == "commit.send" {
			mu.Lock()
			commits++
			w.produce(20)
			mu.Unlock()
			wait(ctx, 5*time.Millisecond) // while it is fetched and folded
		}
		return nil
	}
	w.run(options)
	if commits > 200 {
		t.Errorf("it ended after %d commits: by chance", commits)
	}
}

// TestAmbiguousCommitsCostMilliseconds loses answers of EndTxn, applied or not, and checks that the base stays (R25) and
// that every result is right.
func TestAmbiguousCommitsCostMilliseconds(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(6_000)
	lost := &kafka.Error{Class: kafka.ClassTransient, Op: "end transaction", Offset: -1, Err: context.DeadlineExceeded}
	w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
		switch {
		case c.Op == kafkatest.OpCommit && c.N%90 == 0:
			return kafkatest.ApplyThenFail(lost)
		case c.Op == kafkatest.OpCommit && c.N%100 == 0:
			return kafkatest.Fail(lost)
		case c.Op == kafkatest.OpSend && c.N%110 == 0:
			return kafkatest.ApplyPart(3, lost)
		}
		return kafkatest.Verdict{}
	})
	var mu sync.Mutex
	from := map[string]int{}
	options := w.options()
	options.Commit.MaxRecords = 8
	options.Progress = func(e Event) {
		if e.Kind == EventRecovered {
			mu.Lock()
			from[e.Recovery.From]++
			mu.Unlock()
		}
	}
	w.run(options)
	w.results()
	if w.cluster.Injected(kafkatest.OpCommit) < 4 || from["live base"] < 4 {
		t.Fatalf("%d commits lost, recoveries %v: the fault did not happen", w.cluster.Injected(kafkatest.OpCommit), from)
	}
}
