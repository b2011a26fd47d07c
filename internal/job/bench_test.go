package job

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// newBench is a task over an empty base, with room for any batch, and n readings of its devices in one hour. With a lag
// they are all ahead of their records, so that these move the clocks of the keys.
func newBench(b testing.TB, n, devices int, kind window.Kind, functions aggregate.Functions, maxLag int64) (*task.Task, *Job, []task.Input) {
	config := minutes(0)
	config.MaxLag, config.Format.MaxAhead = maxLag, reading.NoMaxAhead
	config.Aggregations[0].Window, config.Aggregations[0].Functions = kind, functions
	if functions&aggregate.Quantiles != 0 {
		config.Aggregations[0].Percents = aggregate.AllPercents
	}
	j, err := New(config, 0, 1, roomy)
	if err != nil {
		b.Fatal(err)
	}
	t, err := task.New(&entries{values: map[string][]byte{}}, j, &record.Commit{Birth: 7, Fence: 9, Epoch: -1,
		Anchor: record.Anchor{Offset: -1}, StreamTime: record.NoTime, SetterOffset: -1, MinRetention: 1},
		task.Options{Job: "bench", MaxRecords: 1 << 30, MaxBytes: 1 << 40})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	in := make([]task.Input, n)
	for i := range in {
		device := fmt.Sprintf("dev-%06d", i%devices)
		at, counts := t0+int64(i), t0+int64(i)
		if maxLag > 0 {
			at = t0 + window.Hour - 1
		}
		in[i] = task.Input{Offset: int64(i), Epoch: 1, Timestamp: counts, Key: []byte(device), Value: fmt.Appendf(nil,
			`{"device":"%s","ts":%d,"value":%.2f}`, device, at, 20+random.NormFloat64())}
	}
	return t, j, in
}

// hourly are windows of an hour, tenfold the same with ten of them over each time.
var (
	hourly  = window.Tumbling{Size: window.Hour}
	tenfold = window.Hopping{Size: window.Hour, Step: window.Hour / 10}
)

// BenchmarkProcess is one reading from its bytes into a window that is in cache: scan, key and partition check, order of
// judgement, View, exact fold. With ten windows it is to cost at most four times as much as with one.
func BenchmarkProcess(b *testing.B) {
	for _, c := range []struct {
		name      string
		devices   int
		kind      window.Kind
		functions aggregate.Functions
		maxLag    int64
	}{
		{"1000 devices", 1000, hourly, aggregate.Plain, 0}, {"100000 devices", 100_000, hourly, aggregate.Plain, 0},
		{"1000 devices in ten windows", 1000, tenfold, aggregate.Plain, 0}, {"1000 devices, all functions", 1000, hourly, aggregate.All, 0},
		{"1000 devices with clocks", 1000, hourly, aggregate.Plain, window.Hour}, {"100000 devices with clocks", 100_000, hourly, aggregate.Plain, window.Hour},
	} {
		b.Run(c.name, func(b *testing.B) {
			t, _, in := newBench(b, c.devices, c.devices, c.kind, c.functions, c.maxLag)
			fold(b, t, in)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; {
				n := min(len(in), b.N-done)
				again(in[:n], len(in))
				fold(b, t, in[:n])
				again(in[n:], len(in))
				done += n
			}
		})
	}
}

// again makes of readings the next ones: later in the input, and in time by their records.
func again(in []task.Input, by int) {
	for i := range in {
		in[i].Offset, in[i].Timestamp = in[i].Offset+int64(by), in[i].Timestamp+1
	}
}

func fold(b testing.TB, t *task.Task, in []task.Input) {
	if n, err := t.Fold(in); err != nil || n != len(in) {
		b.Fatalf("folded %d of %d: %v", n, len(in), err)
	}
}

// TestProcessAllocatesNothing for accepted readings whose windows are dirty already.
func TestProcessAllocatesNothing(t *testing.T) {
	for _, kind := range []window.Kind{hourly, tenfold, window.Session{Gap: window.Hour}} {
		for _, maxLag := range []int64{0, window.Hour} {
			machine, _, in := newBench(t, 1000, 1000, kind, aggregate.All, maxLag)
			fold(t, machine, in)
			allocs := testing.AllocsPerRun(20, func() {
				again(in, len(in))
				fold(t, machine, in)
			})
			if allocs != 0 {
				t.Errorf("%v, lag %d: %v allocations for %d readings", kind, maxLag, allocs, len(in))
			}
		}
	}
}

// filled is an accumulator of a hundred readings.
func filled() []aggregate.Accumulator {
	list := make([]aggregate.Accumulator, 1)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		list[0].Add(float64(int(2000+100*random.NormFloat64()))/100, &aggregate.At{Time: t0, Offset: int64(i)})
	}
	return list
}

var bytesSink []byte

func BenchmarkResult(b *testing.B) {
	config := minutes(0)
	l := newLayout(&config)
	key := record.AppendStart(record.AppendField(record.EntryPrefix(nil, "minute"), []byte("dev-000123")), t0)
	numbers := filled()
	b.ReportAllocs()
	for b.Loop() {
		bytesSink = l.tables[0].appendResult(bytesSink[:0], key, window.Span{Start: t0, End: t0 + 60_000}, numbers, true)
	}
	b.ReportMetric(float64(len(bytesSink)), "bytes")
}

func BenchmarkEncodeEntry(b *testing.B) {
	config, numbers := minutes(0), filled()
	l := newLayout(&config)
	b.ReportAllocs()
	for b.Loop() {
		bytesSink = l.tables[0].encode(bytesSink[:0], 0, numbers)
	}
	b.ReportMetric(float64(len(bytesSink)), "bytes")
}

func BenchmarkLoadEntry(b *testing.B) {
	config := minutes(0)
	l := newLayout(&config)
	value := l.tables[0].encode(nil, 0, filled())
	into := make([]aggregate.Accumulator, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.decode(value, &l.tables[0], into); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	config := minutes(0)
	l := newLayout(&config)
	key := record.AppendStart(record.AppendField(record.EntryPrefix(nil, "minute"), []byte("dev-000123")), t0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.place(key, nil); err != nil {
			b.Fatal(err)
		}
	}
}
