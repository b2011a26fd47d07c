package tidemark

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// processed makes the options those of a job with windows of one kind, which counts.
func processed(o *Options, kind window.Kind) {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time = []string{"device"}, []string{"value"}, "ts"
	config := job.Config{Input: "in", Format: format, Partitioner: job.Unchecked, Aggregations: []job.Aggregation{
		{Name: "table", Window: kind, Functions: aggregate.Count}}}
	o.Processor = config.Processor
}

// W22: old readings, read today, are taken as they are: nothing is measured against the present. An hour of readings of
// one second each, two partitions of which one is a year older, at one go and a hundred at a time, with the record timestamps
// of then and of today: the same 59 windows, byte for byte, and none is late.
func TestW22BackfillIsNotDropped(t *testing.T) {
	const hour, year = 3600, 365 * 86_400_000
	var want []string
	for name, c := range map[string]struct {
		pieces int64
		today  bool
	}{"at one go": {1, false}, "in pieces": {36, false}, "sent today": {1, true}, "sent today, in pieces": {36, true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			var mu sync.Mutex
			late, commits := record.Count(0), 0
			for i := range int64(hour) {
				for p := range int32(2) {
					at := int64(silenceStart) + i*1000 - int64(p)*year
					r := kafka.Record{Key: []byte("a"), Timestamp: at, Value: fmt.Appendf(nil, `{"device":"a","ts":%d,"value":1}`, at)}
					if c.today {
						r.Timestamp = time.Now().UnixMilli()
					}
					w.cluster.Append("in", p, r)
				}
				if (i+1)%(hour/c.pieces) != 0 {
					continue
				}
				o := w.options()
				processed(&o, window.Tumbling{Size: window.Minute})
				o.Progress = func(e Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == EventCommitted {
						commits++
						late += e.Commit.Aggregations[0].Late + e.Commit.Counters.DeadLettered
					}
				}
				w.run(o)
			}
			if commits < 2*int(c.pieces) {
				t.Errorf("%d commits", commits)
			}
			var got []string
			for p := range int32(2) {
				results := w.cluster.Committed("out", p)
				if len(results) != 59 {
					t.Fatalf("partition %d: %d windows, want 59", p, len(results))
				}
				for i, r := range results {
					start := int64(silenceStart) - int64(p)*year + int64(i)*window.Minute
					if text := string(r.Value); text != fmt.Sprintf(`{"agg":"table","key":["a"],"start":%d,"end":%d,"count":60,"final":true}`, start, start+window.Minute) {
						t.Fatalf("partition %d, result %d: %s", p, i, text)
					}
					got = append(got, string(r.Key)+string(r.Value))
				}
			}
			if late != 0 {
				t.Errorf("%d late or refused", late)
			}
			if want == nil {
				want = got
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Error("other results than at another speed")
			}
		})
	}
}

// oneShot is a job whose devices send one reading each, in rounds.
type oneShot struct {
	*world
	kind    window.Kind
	devices int
	runs    int

	peak, used int64 // bytes of the state: most of all, and now
	live       record.Count
	replayed   record.Count // of the last start
}

// emptyTask is what a task without entries takes, at the most.
const emptyTask = 64 << 10

// start runs until idle with nothing on this machine's disk.
func (o *oneShot) start() {
	o.t.Helper()
	options := o.options()
	processed(&options, o.kind)
	o.runs++
	options.StateDir = filepath.Join(o.dir, strconv.Itoa(o.runs))
	options.Topics.Partitions, options.Commit = 1, Commit{Interval: time.Millisecond, MaxRecords: 50_000, MaxBytes: 16 << 20}
	options.Log = nil
	var app *App
	options.Progress = func(e Event) {
		switch e.Kind {
		case EventRecovered:
			o.replayed, o.live = e.Recovery.Records, e.Recovery.Live
			o.used = app.Status().Memory.Used
		case EventCommitted:
			o.live, o.used = e.Commit.Live, app.Status().Memory.Used
		}
		o.peak = max(o.peak, o.used)
	}
	app, err := New(options)
	if err != nil {
		o.t.Fatal(err)
	}
	if err := app.Run(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
}

// fill sends one reading of each device of a round.
func (o *oneShot) fill(round int64) {
	records := make([]kafka.Record, 0, 1000)
	for i := range o.devices {
		at := silenceStart + round*600_000 + int64(i%20_000)
		records = append(records, kafka.Record{Key: fmt.Appendf(nil, "d%d-%d", round, i), Timestamp: at,
			Value: fmt.Appendf(nil, `{"device":"d%d-%d","ts":%d,"value":1}`, round, i, at)})
		if len(records) == cap(records) || i == o.devices-1 {
			o.cluster.Append("in", 0, records...)
			records = records[:0]
		}
	}
}

// finish closes the windows of a round, and takes down what the topics hold of it.
func (o *oneShot) finish(round int64) (results, tombstones int) {
	o.t.Helper()
	o.reading(0, round*600_000+300_000) // of the device a, which closes all others
	o.start()
	seen := map[string]bool{}
	for _, r := range o.cluster.Committed("out", 0) {
		if string(r.Key) != "a" {
			if seen[string(r.Key)] {
				o.t.Fatalf("two results of %s", r.Key)
			}
			seen[string(r.Key)] = true
		}
	}
	last := map[string]bool{}
	for _, r := range o.cluster.Committed("changelog", 0) {
		if kind, _ := record.KindOf(r.Key); kind == record.KindEntry {
			last[string(r.Key)] = r.Value == nil
		}
	}
	for _, gone := range last {
		if gone {
			tombstones++
		}
	}
	for _, topic := range []string{"in", "out"} {
		o.cluster.DeleteRecords(topic, 0, o.cluster.Offsets(topic, 0).HighWatermark)
	}
	for range 2 { // the second cleaning takes the tombstones
		o.cluster.Compact("changelog", 0)
		o.cluster.Advance(24 * time.Hour)
	}
	return len(seen), tombstones
}

// W28: devices that send once leave nothing behind, though everything local is lost while their windows are open, round
// after round: each has its result, its entry a tombstone, and after compaction a start is as small as after the first
// round. make oneshot does it with a million devices in ten rounds.
func TestW28OneShotDevicesLeaveNothing(t *testing.T) {
	devices, rounds := 5_000, int64(3)
	if text := os.Getenv("TIDEMARK_TEST_DEVICES"); text != "" {
		var err error
		if devices, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		rounds = 10
	}
	for name, kind := range map[string]window.Kind{"tumbling": window.Tumbling{Size: window.Minute}, "sessions": window.Session{Gap: 30 * window.Second}} {
		t.Run(name, func(t *testing.T) {
			o := &oneShot{world: newWorld(t, 1), kind: kind, devices: devices}
			var first record.Count
			for round := range rounds {
				began := time.Now()
				o.fill(round)
				o.start()
				if open := int(o.live); open != devices {
					t.Fatalf("round %d: %d entries while all are open", round, open)
				}
				results, tombstones := o.finish(round)
				if results != devices || tombstones < devices {
					t.Fatalf("round %d: %d results and %d tombstones, want %d", round, results, tombstones, devices)
				}
				o.start() // with the log compacted
				if o.live != 1 || o.used > max(o.peak/20, emptyTask) {
					t.Fatalf("round %d: %d entries in %d bytes are left, %d at the most", round, o.live, o.used, o.peak)
				}
				if round == 0 {
					first = o.replayed
				}
				if o.replayed > first+first/10+8 {
					t.Fatalf("round %d: a start replays %d records, after the first round %d", round, o.replayed, first)
				}
				t.Logf("round %d of %d devices: %v, %d bytes at the most, %d at the end, %d records replayed", round, devices,
					time.Since(began).Round(time.Millisecond), o.peak, o.used, o.replayed)
			}
		})
	}
}
