package bench

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

const start = 1_704_067_200_000 // 2024-01-01T00:00:00Z

// config is the job that is measured: everything of design section 7 is on.
func config() job.Config {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time = []string{"device"}, []string{"value"}, "ts"
	return job.Config{Input: "readings", Format: format, Partitioner: job.Murmur2, Aggregations: []job.Aggregation{
		{Name: "hourly", Window: window.Tumbling{Size: 3_600_000}, Functions: aggregate.Plain},
	}}
}

// inputs makes n readings of the given number of devices, those that murmur2 places in partition 0 of four, at step ms.
func inputs(n, devices int, step float64) []task.Input {
	var names [][]byte
	for i := 0; len(names) < devices; i++ {
		name := fmt.Appendf(nil, "d-%06d", i)
		if job.Murmur2.Partition(name, 4) == 0 {
			names = append(names, name)
		}
	}
	in := make([]task.Input, n)
	for i := range in {
		name := names[i*7919%devices]
		at := start + int64(float64(i)*step)
		in[i] = task.Input{Offset: int64(i), Epoch: -1, Timestamp: at, Key: name, Value: readingText(name, at, i)}
	}
	return in
}

// readingText is the JSON text of the i-th reading, 55 bytes.
func readingText(name []byte, at int64, i int) []byte {
	value := append([]byte(`{"device":"`), name...)
	value = strconv.AppendInt(append(value, `","ts":`...), at, 10)
	value = strconv.AppendFloat(append(value, `,"value":`...), float64(2000+i*31%1500)/100, 'f', 2, 64)
	return append(value, '}')
}

// placed is a record with its partition.
type placed struct {
	partition  int32
	key, value []byte
}

// anywhere makes n readings in the partitions murmur2 gives them, of four.
func anywhere(n, devices int, step float64) []placed {
	list := make([]placed, n)
	for i := range list {
		name := fmt.Appendf(nil, "d-%06d", i*7919%devices)
		list[i] = placed{job.Murmur2.Partition(name, 4), name, readingText(name, start+int64(float64(i)*step), i)}
	}
	return list
}

// machine is a task with all its parts and no broker: commits succeed at once.
type machine struct {
	task *task.Task
	base *store.Memory
}

func newMachine(b *testing.B, expected int, config job.Config) *machine {
	limits := job.Limits{Changelog: 1 << 20, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20}
	proc, err := job.New(config, 0, 4, limits)
	if err != nil {
		b.Fatal(err)
	}
	m := &machine{base: store.NewMemory(record.Count(expected))}
	birth := &record.Commit{Birth: 1, Fence: 1, Epoch: -1, Anchor: record.Anchor{Offset: -1}, StreamTime: record.NoTime, SetterOffset: -1,
		MinRetention: 7_200_000}
	m.base.Prove()
	if m.task, err = task.New(m.base, proc, birth, task.Options{Job: "bench", MaxRecords: 50_000, MaxBytes: 16 << 20}); err != nil {
		b.Fatal(err)
	}
	return m
}

// fold folds all of in, committing whenever a batch is full.
func (m *machine) fold(b *testing.B, in []task.Input) {
	for len(in) > 0 {
		n, err := m.task.Fold(in[:min(len(in), 2048)])
		if err != nil {
			b.Fatal(err)
		}
		if in = in[n:]; m.task.Full() {
			m.commit(b)
		}
	}
}

func (m *machine) commit(b *testing.B) {
	m.begin(b)
	m.settle(b)
}

func (m *machine) begin(b *testing.B) {
	if _, err := m.task.Begin(); err != nil {
		b.Fatal(err)
	}
}

// settle carries out what is left of a commit.
func (m *machine) settle(b *testing.B) {
	for effect := m.task.Next(); effect != task.EffectNone; effect = m.task.Next() {
		if err := m.task.Did(effect); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFoldKinds is BenchmarkFold of 25,000 devices in other ways than by windows of an hour that the task's stream time
// closes: by the key's own time (R35), in windows of which ten overlap, in sessions that each reading makes longer, and in
// sessions of one reading each, which close all the time. A commit has 16,384 readings, however many entries these are.
func BenchmarkFoldKinds(b *testing.B) {
	hour := int64(3_600_000)
	for _, c := range []struct {
		name   string
		change func(*job.Config)
	}{
		{"plain", func(*job.Config) {}},
		{"with_clocks", func(c *job.Config) { c.MaxLag = 24 * hour }},
		{"tenfold", func(c *job.Config) { c.Aggregations[0].Window = window.Hopping{Size: hour, Step: hour / 10} }},
		{"long_sessions", func(c *job.Config) { c.Aggregations[0].Window = window.Session{Gap: hour} }},
		{"short_sessions", func(c *job.Config) { c.Aggregations[0].Window = window.Session{Gap: 30_000} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			config := config()
			c.change(&config)
			benchmarkFold(b, config, 25_000, 2.88, 16_384)
		})
	}
}

// BenchmarkFold folds readings from JSON bytes, commits included: windows close and are emitted, values are encoded and
// merged into the store, the digest is carried on. What is left out is the broker.
func BenchmarkFold(b *testing.B) {
	for _, c := range []struct {
		name    string
		devices int
		step    float64
	}{
		{"1k_devices", 1_000, 0.72},
		{"25k_devices", 25_000, 2.88},
		{"250k_devices", 250_000, 2.88},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkFold(b, config(), c.devices, c.step, 0) })
	}
}

// benchmarkFold commits after so many readings, with 0 when a commit is full.
func benchmarkFold(b *testing.B, config job.Config, devices int, step float64, perCommit int) {
	const round = 1 << 20
	all := inputs(round, devices, step)
	m := newMachine(b, 2*devices, config)
	if perCommit > 0 {
		m.task.Limit(1<<30, 1<<40)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += round {
		n := min(round, b.N-done)
		for part := range slices.Chunk(all[:n], cmp.Or(perCommit, n)) {
			if m.fold(b, part); perCommit > 0 {
				m.commit(b)
			}
		}
		b.StopTimer()
		advance(all, int64(float64(round)*step))
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "readings/s")
}

// BenchmarkFoldInTurn is what four tasks do in the whole job of docs/performance.md, in turn, so that they take each other's place in
// the caches: a window holds two readings, and a commit is in flight while the readings of the next one are folded.
func BenchmarkFoldInTurn(b *testing.B) {
	const round, tasks, step, perCommit = 1 << 18, 4, 80, 1 << 14
	random := rand.New(rand.NewPCG(1, 2))
	all := inputs(round, 25_000, step)
	random.Shuffle(round, func(i, j int) { all[i].Key, all[j].Key = all[j].Key, all[i].Key })
	memory := make([]byte, 0, round*72) // as a fetch has them: one behind the other
	for i := range all {
		at := len(memory)
		memory = append(append(memory, all[i].Key...), readingText(all[i].Key, all[i].Timestamp, i)...)
		all[i].Key, all[i].Value = memory[at:][:8:8], memory[at+8:len(memory):len(memory)]
	}
	var list []*machine
	for range tasks {
		list = append(list, newMachine(b, 0, config()))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += round * tasks {
		for at := 0; at < round; at += perCommit {
			for chunk := at; chunk < at+perCommit; chunk += 2048 {
				for _, m := range list {
					m.fold(b, all[chunk:chunk+2048])
				}
			}
			for _, m := range list {
				m.settle(b)
				m.begin(b)
			}
		}
		b.StopTimer()
		advance(all, round*step)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "readings/s")
}

// advance moves the inputs on in time and offset, for the next round.
func advance(in []task.Input, by int64) {
	const prefix = len(`{"device":"d-000000","ts":`)
	for i := range in {
		in[i].Offset += int64(len(in))
		in[i].Timestamp += by
		copy(in[i].Value[prefix:], strconv.FormatInt(in[i].Timestamp, 10))
	}
}

// BenchmarkCommitEncode encodes a commit of 50,000 dirty keys; the time is per key.
func BenchmarkCommitEncode(b *testing.B) {
	const keys = 49_998
	in := inputs(keys, keys, 0.01)
	m := newMachine(b, keys, config())
	b.ReportAllocs()
	b.StopTimer()
	b.ResetTimer()
	for done := 0; done < b.N; done += keys {
		m.fold(b, in)
		b.StartTimer()
		m.begin(b)
		b.StopTimer()
		m.settle(b)
		advance(in, 0)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "keys/s")
}
