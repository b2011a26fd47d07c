package proof

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

var (
	deepFlag   = flag.Int("sweep.deep", 300, "crash triples drawn by the three-deep sweep")
	strideFlag = flag.Int("sweep.stride", 53, "every which pair of crashes is tried; 1 for all")
)

// errCrash is the death of the process at an effect: nothing after it happens, nothing is closed or cleaned up.
var errCrash = errors.New("crash")

// The sweep drives one task over the fake cluster, effect by effect, in the order of section 4 and section 5, and lets
// the process die before the n-th effect, for every n. Effects are the steps of a recovery, of a commit, of setting the
// group's offset, of a checkpoint. What survives is the cluster and the file system; the next process starts from them.
const (
	sweepIn, sweepOut, sweepLate, sweepDead, sweepLog = "in", "out", "late", "dead", "changelog"
	sweepFetch                                        = 700 // bytes: some records a fetch
)

type sweepWorld struct {
	cluster *kafkatest.Cluster
	fs      *vfs.MemFS
	random  *rand.Rand
	crashAt int // effect before which the process dies; 0 for never
	effects int // so far in this process
	names   []string
	maxLag  int64 // ms; not 0: keys have times of their own, one of them is far behind, one falls silent (R35)
}

func newSweepWorld(maxLag int64) *sweepWorld {
	w := &sweepWorld{cluster: kafkatest.New("cluster"), fs: vfs.NewMem(), random: rand.New(rand.NewPCG(1, 2)), maxLag: maxLag}
	w.cluster.CreateTopic(sweepIn, 1, nil)
	w.cluster.CreateTopic(sweepLog, 1, nil)
	for _, name := range []string{sweepOut, sweepLate, sweepDead} {
		w.cluster.CreateTopic(name, 1, nil)
	}
	for i := range 24 {
		w.cluster.Append(sweepIn, 0, w.reading(i))
	}
	return w
}

// sweepLag is the lag of worlds in which keys have times of their own.
const sweepLag = 45_000 // ms

const sweepStart = 1_704_067_200_000 // 2024-01-01T00:00:00Z

// reading makes an input of three devices that closes windows, comes late, and is bad, here and there.
func (w *sweepWorld) reading(i int) kafka.Record {
	device := fmt.Sprintf("d%d", i%3)
	at := int64(sweepStart + i*7_000)
	switch {
	case w.maxLag == 0:
	case device == "d2":
		at -= 40_000
	case device == "d1" && i > 12:
		device = "d0"
	}
	value := fmt.Sprintf(`{"device":%q,"ts":%d,"value":%d.25}`, device, at, i)
	switch i {
	case 9, 17:
		value = fmt.Sprintf(`{"device":%q,"ts":%d,"value":1e16}`, device, sweepStart+5) // late
	case 5: // comes again
		value = fmt.Sprintf(`{"device":%q,"ts":%d,"value":1e17}`, device, sweepStart+2*7_000)
	case 11:
		value = `{"device":"d2","ts":` // broken
	case 14:
		value = fmt.Sprintf(`{"device":%q,"ts":%d,"value":null}`, device, at)
	}
	return kafka.Record{Key: []byte(device), Value: []byte(value), Timestamp: at}
}

const sweepDedup = 20_000 // ms

const sweepPercents aggregate.Percents = 1<<0 | 1<<45 // p50 and p95

func sweepJob(maxLag int64) job.Config {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time, format.Unit = []string{"device"}, []string{"value"}, "ts", reading.Milliseconds
	return job.Config{Input: sweepIn, Format: format, Partitioner: job.Unchecked, MaxLag: maxLag, Dedup: job.Dedup{Within: sweepDedup}, Aggregations: []job.Aggregation{
		{Name: "short", Window: window.Hopping{Size: 10_000, Step: 6_000}, Functions: aggregate.Plain},
		{Name: "long", Window: window.Tumbling{Size: 60_000}, Grace: 20_000, Functions: aggregate.All, Percents: sweepPercents},
		{Name: "visits", Window: window.Session{Gap: 25_000}, Grace: 10_000, Functions: aggregate.Plain},
	}}
}

func sweepOracle(maxLag int64) *oracle.Config {
	c := oracle.Defaults()
	c.Key, c.Values, c.Time = []string{"device"}, []string{"value"}, oracle.TimeField{Name: "ts", Unit: "ms"}
	c.Partitioner, c.Partitions, c.Dedup.Within, c.MaxLag = "unchecked", 1, sweepDedup, maxLag
	c.Aggregations = []oracle.Aggregation{
		{Name: "short", Size: 10_000, Step: 6_000, Functions: aggregate.Plain.Names()},
		{Name: "long", Size: 60_000, Grace: 20_000, Functions: aggregate.Names(aggregate.All, sweepPercents)},
		{Name: "visits", Gap: 25_000, Grace: 10_000, Functions: aggregate.Plain.Names()},
	}
	return &c
}

// effect is passed before each effect.
func (w *sweepWorld) effect(name string) error {
	w.effects++
	w.names = append(w.names, name)
	if w.effects == w.crashAt {
		return errCrash
	}
	return nil
}

// process is one life of the process: it dies before effect crashAt, or works until nothing is left to do.
func (w *sweepWorld) process(crashAt int) error {
	w.crashAt, w.effects, w.names = crashAt, 0, nil
	p := &sweepProcess{sweepWorld: w}
	if err := p.recover(); err != nil {
		return err
	}
	return p.work()
}

type sweepProcess struct {
	*sweepWorld
	dir       *store.Dir
	recovered *recovery.Recovered
	task      *task.Task
	writer    kafka.Writer
	position  record.ChangelogPosition
	input     kafka.Log
	next      int64
	pending   []kafka.Record
	commits   int
}

func (p *sweepProcess) recover() (err error) {
	admin, _ := p.cluster.Admin()
	found, err := admin.Topics(context.Background(), sweepIn, sweepLog, sweepOut, sweepLate, sweepDead)
	if err != nil {
		return err
	}
	if p.dir, err = store.OpenDir(p.fs, "state/job/p0"); err != nil {
		return err
	}
	proc, err := job.New(sweepJob(p.maxLag), 0, 1, job.Limits{Changelog: 1 << 20, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20})
	if err != nil {
		return err
	}
	rec := &recovery.Recovery{
		Cluster: p.cluster, Job: "job", Identity: record.Identity{ClusterID: "cluster", Input: found[sweepIn].Topic,
			Changelog: found[sweepLog].Topic, Outputs: []record.Topic{found[sweepOut].Topic}},
		RetentionMS: 7_200_000, Host: "host", Version: "test",
		Ask:         func(context.Context) (bool, error) { return true, nil },
		GroupOffset: p.groupOffset,
		Start:       func(context.Context) (record.InputPosition, error) { return 0, nil },
		Checkpoints: p.dir, Random: p.random.Uint64, Now: func() time.Duration { return 0 },
		At: func(step recovery.Step) error { return p.effect("recover " + string(step)) },
	}
	for _, a := range proc.Aggregations() {
		rec.Aggregations = append(rec.Aggregations, record.AggregationState{Name: a.Name, Fingerprint: a.Fingerprint, ClosedEnd: record.NoTime})
	}
	if p.recovered, err = rec.Run(context.Background()); err != nil {
		return err
	}
	if p.task, err = task.New(p.recovered.Store, proc, p.recovered.Commit, task.Options{Job: "job", MaxRecords: 7, MaxBytes: 1 << 20}); err != nil {
		return err
	}
	p.task.Fenced(p.recovered.Fence.ID, 7_200_000, p.recovered.Commit.OutputHash)
	p.writer, p.position, p.next = p.recovered.Writer, p.recovered.Position, int64(p.recovered.Commit.Position)
	p.input, err = p.cluster.Log(sweepIn, 0)
	return err
}

func (p *sweepProcess) groupOffset(ctx context.Context) (kafka.GroupOffset, bool, error) {
	g, err := p.cluster.Group(kafka.GroupOptions{Group: "job", Topic: sweepIn})
	if err != nil {
		return kafka.GroupOffset{}, false, err
	}
	defer g.Close()
	offsets, err := g.Offsets(ctx)
	o, ok := offsets[0]
	return o, ok, err
}

// work commits until all input is consumed and nothing is due, with batch n+1 folded before commit n is known, and a
// checkpoint after every second commit.
func (p *sweepProcess) work() error {
	for {
		if err := p.fold(); err != nil {
			return err
		}
		if !p.task.Dirty() {
			return nil
		}
		batch, err := p.task.Begin()
		if err != nil {
			return err
		}
		if err := p.fold(); err != nil {
			return err
		}
		if err := p.commit(batch); err != nil {
			return err
		}
		if p.commits++; p.commits%2 == 0 {
			if err := p.checkpoint(); err != nil {
				return err
			}
		}
	}
}

// fold reads and folds what there is until the batch is full.
func (p *sweepProcess) fold() error {
	for !p.task.Full() {
		if len(p.pending) == 0 {
			f, err := p.input.Fetch(context.Background(), p.next, sweepFetch, 0)
			if err != nil || f.Next == p.next {
				return err
			}
			p.pending, p.next = f.Records, f.Next
		}
		n, err := p.task.Fold(p.pending)
		if err != nil {
			return err
		}
		if p.pending = p.pending[n:]; len(p.pending) == 0 {
			p.task.PassMarkers(record.InputPosition(p.next))
		}
	}
	return nil
}

// commit carries the effects out. A send dies in the middle too, with half of its records written.
func (p *sweepProcess) commit(batch *task.Batch) error {
	ctx := context.Background()
	messages := make([]kafka.Message, len(batch.Messages))
	topics := map[task.Sink]string{task.SinkChangelog: sweepLog, task.SinkResult: sweepOut, task.SinkLate: sweepLate, task.SinkDead: sweepDead}
	for i, m := range batch.Messages {
		messages[i] = kafka.Message{Topic: topics[m.Sink], Key: m.Key, Value: m.Value, Headers: m.Headers}
	}
	for effect := p.task.Next(); effect != task.EffectNone; effect = p.task.Next() {
		if err := p.effect("commit " + effect.String()); err != nil {
			return err
		}
		switch effect {
		case task.EffectSend:
			half := len(messages) / 2
			if _, err := p.writer.Send(ctx, messages[:half]); err != nil {
				return err
			}
			if err := p.effect("commit half sent"); err != nil {
				return err
			}
			offsets, err := p.writer.Send(ctx, messages[half:])
			if err != nil {
				return err
			}
			p.position = record.ChangelogPosition(offsets[len(offsets)-1] + 1)
		case task.EffectEnd:
			if err := p.writer.Commit(ctx); err != nil {
				return err
			}
			if err := p.effect("commit ended, not merged"); err != nil {
				return err
			}
		case task.EffectOffset:
			c := p.task.Committed()
			p.cluster.SetGroupOffset("job", 0, kafka.GroupOffset{Next: c.Position, Metadata: record.Metadata(c.Birth, c.Number)})
		}
		if err := p.task.Did(effect); err != nil {
			return err
		}
	}
	return p.effect("commit done")
}

func (p *sweepProcess) checkpoint() error {
	held := p.recovered.Store
	if err := p.effect("checkpoint create"); err != nil {
		return err
	}
	w, err := p.dir.Create(&store.Header{Begin: p.position, BrokerTime: p.recovered.FenceMS, Fence: p.recovered.Fence, Commit: *p.task.Committed()})
	if err != nil {
		return err
	}
	scan := held.StartScan()
	for done := false; !done; {
		var piece []byte
		piece, done = scan.Next(nil)
		if err := p.effect("checkpoint slice"); err != nil {
			return err
		}
		if err := w.WriteBlock(piece); err != nil {
			return err
		}
	}
	if err := p.effect("checkpoint publish"); err != nil {
		return err
	}
	_, err = w.Publish(p.position, store.Sum{Digest: held.Digest(), Live: held.Live()}, scan.Delta())
	return errors.Join(err, p.effect("checkpoint published"))
}

// messages are the committed records of a topic, as the oracle takes them.
func (w *sweepWorld) messages(topic string) []oracle.Message {
	var list []oracle.Message
	for _, r := range w.cluster.Committed(topic, 0) {
		m := oracle.Message{Record: oracle.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, oracle.Header(h))
		}
		list = append(list, m)
	}
	return list
}

// sweepExpected is what the last input was worth; the input of most worlds is the same.
var sweepExpected struct {
	input    []oracle.Message
	expected *Expected
}

func (w *sweepWorld) expected() *Expected {
	input := w.messages(sweepIn)
	if s := &sweepExpected; s.expected == nil || !reflect.DeepEqual(s.input, input) {
		s.input, s.expected = input, Expect(sweepOracle(w.maxLag), [][]oracle.Message{input})
	}
	return sweepExpected.expected
}

// judge compares everything that was committed with what the oracle expects.
func (w *sweepWorld) judge() error {
	want := w.expected()
	fold, err := oracle.FoldChangelog(w.messages(sweepLog))
	if err != nil {
		return err
	}
	got := &Observed{Live: []oracle.Entry{}, Results: []Line{}, Late: []Output{}, Dead: []Output{},
		Counters: []Counters{{Task: fold.Last.Counters, Aggregations: fold.Last.Aggregations, StreamTime: fold.Last.StreamTime}}}
	for _, e := range fold.Live {
		got.Live = append(got.Live, e)
	}
	for _, m := range w.messages(sweepOut) {
		l, err := ParseLine(m.Value, fmt.Sprintf("out at offset %d", m.Offset))
		if err != nil {
			return err
		}
		got.Results = append(got.Results, l)
	}
	for _, to := range []struct {
		topic string
		list  *[]Output
	}{{sweepLate, &got.Late}, {sweepDead, &got.Dead}} {
		for _, m := range w.messages(to.topic) {
			o, err := ParseOutput(m)
			if err != nil {
				return err
			}
			*to.list = append(*to.list, o)
		}
	}
	if anomalies := Compare(want, got); len(anomalies) > 0 {
		return errors.New(Report(anomalies, 5))
	}
	return nil
}

// crashThrough runs a world through crashes at the given effects, then to its end, and judges it. It returns how many
// of the crashes happened.
func crashThrough(w *sweepWorld, crashes ...int) (happened int, err error) {
	for _, at := range crashes {
		switch err := w.process(at); {
		case errors.Is(err, errCrash):
			happened++
		case err != nil:
			return happened, err
		}
	}
	if err := w.process(0); err != nil {
		return happened, fmt.Errorf("the last process: %w", err)
	}
	if err := w.judge(); err != nil {
		return happened, err
	}
	if err := w.process(0); err != nil { // once more: nothing may change
		return happened, fmt.Errorf("the restart: %w", err)
	}
	return happened, w.judge()
}

// TestSweepEveryEffect dies before every effect of a first start and run, and before effects of the process that comes
// after it, and compares with the oracle each time. `make sweep` tries every pair.
func TestSweepEveryEffect(t *testing.T) { sweepEveryEffect(t, 0, *strideFlag) }

// TestSweepKeysWithClocks is that with keys that have times of their own (R35), and fewer pairs unless all are tried.
func TestSweepKeysWithClocks(t *testing.T) {
	stride := *strideFlag
	if stride > 1 {
		stride *= 5
	}
	sweepEveryEffect(t, sweepLag, stride)
	clocks, o := 0, sweepExpected.expected.Outcomes[0]
	for id := range o.Remembered {
		if strings.HasSuffix(id, fmt.Sprint(" ", task.ClockStart)) {
			clocks++
		}
	}
	if len(o.Late) == 0 || clocks == 0 || clocks == 9 {
		t.Errorf("%d late, %d clocks of 3 keys in 3 aggregations at the end: the input does not show what clocks do", len(o.Late), clocks)
	}
}

func sweepEveryEffect(t *testing.T, maxLag int64, stride int) {
	clean := newSweepWorld(maxLag)
	if _, err := crashThrough(clean); err != nil {
		t.Fatal(err)
	}
	probe := newSweepWorld(maxLag)
	if err := probe.process(0); err != nil {
		t.Fatal(err)
	}
	total, pairs := probe.effects, 0
	met := map[string]bool{}
	for first := 1; first <= total; first++ {
		w := newSweepWorld(maxLag)
		if happened, err := crashThrough(w, first); err != nil || happened != 1 {
			t.Fatalf("crash before effect %d (%s): %v", first, probe.names[first-1], err)
		}
		met[probe.names[first-1]] = true
		for second := 1 + first%stride; ; second += stride {
			w := newSweepWorld(maxLag)
			happened, err := crashThrough(w, first, second)
			if err != nil {
				t.Fatalf("crash before effect %d (%s), then before effect %d (%s): %v", first, probe.names[first-1], second,
					w.names[min(second, len(w.names))-1], err)
			}
			if happened < 2 {
				break
			}
			pairs++
		}
	}
	for _, want := range []string{"recover birth-send", "commit half sent", "commit ended, not merged", "commit offset", "checkpoint publish"} {
		if !met[want] {
			t.Errorf("effect %q was never met: %s", want, strings.Join(slices.Compact(slices.Sorted(slices.Values(probe.names))), ", "))
		}
	}
	t.Logf("%d effects, %d pairs: %d crashes", total, pairs, total+2*pairs)
}

// TestSweepThreeDeep draws triples of crashes.
func TestSweepThreeDeep(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	three := 0
	for range *deepFlag {
		crashes := []int{1 + rng.IntN(120), 1 + rng.IntN(60), 1 + rng.IntN(60)}
		happened, err := crashThrough(newSweepWorld(int64(rng.IntN(2))*sweepLag), crashes...)
		if err != nil {
			t.Fatalf("crashes before effects %v: %v", crashes, err)
		}
		if happened == 3 {
			three++
		}
	}
	t.Logf("%d runs crashed three times: %d crashes", three, 3*three)
	if three == 0 {
		t.Fatal("no run was crashed three times")
	}
}

// TestFleetHasEveryFunction: the kill loops run all functions there are.
func TestFleetHasEveryFunction(t *testing.T) {
	for _, name := range aggregate.All.Names() {
		if !slices.Contains(every, name) {
			t.Errorf("no %s", name)
		}
	}
	if !slices.Contains(every, "p50") || !slices.Contains(every, "p99") {
		t.Error("no percentiles")
	}
}
