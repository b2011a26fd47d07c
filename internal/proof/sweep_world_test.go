package proof

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// The sweep drives one task over the fake cluster and crash file systems, effect by effect, in the order of section 4 and
// section 5, and strikes the process at the n-th effect, for every n. What survives is the cluster, and of the disks what
// may; the next process starts from them.

const (
	sweepIn, sweepOut, sweepLate, sweepDead, sweepLog = "in", "out", "late", "dead", "changelog"
	sweepFetch                                        = 700 // bytes: some records a fetch
	sweepMachines                                     = 4   // as many as can be in use at once, while others sleep
)

// sweepWorld is what outlives processes.
type sweepWorld struct {
	scene    sweepScene
	cluster  *kafkatest.Cluster
	input    []oracle.Message
	disks    [sweepMachines]*storetest.Strict
	durable  [sweepMachines]bool // a checkpoint was published there
	careful  bool                // files may be set aside: something was damaged
	random   *rand.Rand          // ids
	fate     *rand.Rand          // what a power failure leaves
	running  *sweepLife
	fences   int          // so far
	pids     int64        // of processes, so far
	outlived int          // processes that were refused because another one had taken over
	judge    func() error // compares what was committed with what the oracle expects
}

// sweepScene is what the input of a world is like.
type sweepScene struct {
	records int
	maxLag  int64  // ms; not 0: keys have times of their own, one of them is far behind, one falls silent (R35)
	form    string // of the records: "" for objects of plain fields, or one of sweepForms
}

// The scenes: the usual one, one in which keys have times of their own, and one small enough to try every triple.
var (
	sweepUsual  = sweepScene{records: 24}
	sweepClocks = sweepScene{records: 24, maxLag: 45_000}
	sweepSmall  = sweepScene{records: 6}
)

// newSweepWorld makes one. The seed decides what power failures leave.
func newSweepWorld(scene sweepScene, seed uint64) *sweepWorld {
	w := &sweepWorld{scene: scene, cluster: kafkatest.New("cluster"), random: rand.New(rand.NewPCG(1, 2)), fate: rand.New(rand.NewPCG(seed, 4))}
	w.cluster.CreateTopic(sweepIn, 1, nil)
	w.cluster.CreateTopic(sweepLog, 1, nil)
	for _, name := range []string{sweepOut, sweepLate, sweepDead} {
		w.cluster.CreateTopic(name, 1, nil)
	}
	for i := range scene.records {
		w.cluster.Append(sweepIn, 0, scene.reading(i))
	}
	w.input = w.messages(sweepIn)
	for i := range w.disks {
		w.disks[i] = storetest.NewStrict()
	}
	w.judge = w.judgeWhole
	w.cluster.InjectReentrant(w.call)
	return w
}

const sweepStart = 1_704_067_200_000 // 2024-01-01T00:00:00Z

// reading makes an input of three devices that closes windows, comes late, and is bad, here and there.
func (s sweepScene) reading(i int) kafka.Record {
	device := fmt.Sprintf("d%d", i%3)
	at := int64(sweepStart + i*7_000)
	if s.form != "" {
		return sweepForms[s.form].record(i)
	}
	switch {
	case s.maxLag == 0:
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

func (s sweepScene) job() job.Config {
	format, by := reading.DefaultFormat(), []string(nil)
	format.Key, format.Values, format.Time, format.Unit = []string{"device"}, []string{"value"}, "ts", reading.Milliseconds
	if s.form != "" {
		format, by = sweepForms[s.form].format(), sweepForms[s.form].by
	}
	return job.Config{Input: sweepIn, Format: format, PartitionedBy: by, Partitioner: job.Unchecked, MaxLag: s.maxLag, Dedup: job.Dedup{Within: sweepDedup}, Aggregations: []job.Aggregation{
		{Name: "short", Window: window.Hopping{Size: 10_000, Step: 6_000}, Functions: aggregate.Plain},
		{Name: "long", Window: window.Tumbling{Size: 60_000}, Grace: 20_000, Functions: aggregate.All, Percents: sweepPercents},
		{Name: "visits", Window: window.Session{Gap: 25_000}, Grace: 10_000, Functions: aggregate.Plain},
	}}
}

func (s sweepScene) oracle() *oracle.Config {
	c := oracle.Defaults()
	c.Key, c.Values, c.Time = []string{"device"}, []string{"value"}, oracle.TimeField{Name: "ts", Unit: "ms"}
	c.Partitioner, c.Partitions, c.Dedup.Within, c.MaxLag = "unchecked", 1, sweepDedup, s.maxLag
	if s.form != "" {
		sweepForms[s.form].tell(&c)
	}
	c.Aggregations = []oracle.Aggregation{
		{Name: "short", Size: 10_000, Step: 6_000, Functions: aggregate.Plain.Names()},
		{Name: "long", Size: 60_000, Grace: 20_000, Functions: aggregate.Names(aggregate.All, sweepPercents)},
		{Name: "visits", Gap: 25_000, Grace: 10_000, Functions: aggregate.Plain.Names()},
	}
	return &c
}

// call passes each request to the cluster: those that change something are effects, and a send has one in its middle.
func (w *sweepWorld) call(c kafkatest.Call) kafkatest.Verdict {
	l := w.running
	var err error
	switch c.Op {
	case kafkatest.OpFence, kafkatest.OpCommit:
		err = l.effect(string(c.Op))
	case kafkatest.OpSend:
		if err = l.effect("send"); err == nil && len(c.Messages) > 1 {
			if err := l.effect("half sent"); err != nil {
				return kafkatest.ApplyPart(len(c.Messages)/2, err)
			}
		}
	default:
		err = l.alive()
	}
	if err != nil {
		return kafkatest.Fail(err)
	}
	if c.Op == kafkatest.OpFence {
		w.fences++
		l.fence = w.fences
	}
	return kafkatest.Verdict{}
}

// files is a machine's disk as a process reaches it: each operation that changes something is an effect.
func (l *sweepLife) files(disk *storetest.Strict) vfs.FS {
	return storetest.Hook(disk, func(op storetest.Op, do func() error) error {
		err := l.alive()
		if op.Changes() {
			what := "file"
			if strings.Contains(op.Path+op.To, ".damaged") {
				what = "file set aside"
			}
			err = l.effect(what + " " + op.Kind)
		}
		if err != nil {
			return err
		}
		return do()
	})
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

// blow is what happens to a process at its n-th effect.
type blow struct {
	at  int // from 1; 0 for never
	how string
}

// What may happen to a process.
const (
	byKill      = "kill"      // it dies; the next one starts on the same machine
	byPower     = "power"     // and its machine lost what was not synced
	byLoss      = "loss"      // the next one starts on another machine, which may have older files
	bySleep     = "sleep"     // it does nothing until another one, elsewhere, took over and ended; then it goes on
	byOversleep = "oversleep" // it does nothing until everything else has happened
)

var sweepHows = []string{byKill, byPower, byLoss, bySleep, byOversleep}

func (s blow) String() string { return fmt.Sprintf("%s at effect %d", s.how, s.at) }

// errCrash is the death of the process at an effect: nothing after it happens, nothing is closed or cleaned up.
var errCrash = errors.New("crash")

// live is the life of one process on a machine: it does what is to be done until something strikes. While it sleeps, the
// world goes on as meanwhile says. The error is errCrash for a death.
func (w *sweepWorld) live(machine int, s blow, meanwhile func() error, what func(*sweepLife) error) (*sweepLife, error) {
	w.pids++
	l := &sweepLife{sweepWorld: w, blow: s, meanwhile: meanwhile, pid: w.pids, machine: machine}
	l.fs = l.files(w.disks[machine])
	was := w.running
	w.running = l
	err := what(l)
	w.running = was
	switch {
	case l.disturbed != nil:
		return l, l.disturbed
	case l.dead:
		err = errCrash
	}
	if l.dead && s.how == byPower {
		w.disks[machine] = w.disks[machine].Crash(func(_ string, n int) int { return w.fate.IntN(n) })
	}
	return l, err
}

// alive refuses everything to a process that is dead.
func (l *sweepLife) alive() error {
	if l.dead {
		return errCrash
	}
	return nil
}

// effect is passed before each effect.
func (l *sweepLife) effect(name string) error {
	if l.dead {
		return errCrash
	}
	l.effects++
	l.names = append(l.names, l.doing+": "+name)
	if l.effects != l.blow.at {
		return nil
	}
	l.struck = true
	if l.meanwhile == nil {
		l.dead = true
		return errCrash
	}
	l.disturbed = l.meanwhile()
	l.running = l
	if l.disturbed != nil {
		l.dead = true
	}
	return l.alive()
}
