package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// The topics, and the name of the job.
const (
	jobName   = "job"
	inTopic   = "in"
	between   = "between"
	logTopic  = "changelog"
	ofRelay   = "-rekey" // behind the names of the job and its changelog, of those of the relay before it
	lateTopic = "late"
	deadTopic = "dead"
)

const (
	session = tidemark.Session
	limit   = 10 * time.Minute // of a run to the end, and of any trouble: something stands still
)

// world is a cluster with instances on it, and one scenario that they go through.
type world struct {
	s         *scenario
	plant     *plant
	dir       string // on the real disk: what an instance has beside its checkpoints
	cluster   *kafkatest.Cluster
	feed      *feeder
	instances []*instance
	calm      chan struct{} // closed when no fault happens any more
	log       *slog.Logger

	mu     sync.Mutex
	faults []error // what must not have happened
	tally
}

// tally counts what has happened.
type tally struct {
	crashes   int            // processes ended, power failures among them
	powers    int            // of these
	met       int            // hurts that struck at their point
	pauses    int            // of running processes
	stops     int            // planned
	lives     int            // processes started
	injected  int            // requests that failed
	broken    int            // operations of disks that failed
	recovered map[string]int // by where they began
	kept      int            // parts of replays, by recoveries that came to their end
	points    map[string]int // where processes were ended
	kinds     map[string]int // scenarios by what is in them
}

func (t *tally) add(o *tally) {
	t.crashes += o.crashes
	t.powers += o.powers
	t.met += o.met
	t.pauses += o.pauses
	t.stops += o.stops
	t.lives += o.lives
	t.injected += o.injected
	t.broken += o.broken
	t.kept += o.kept
	for k, n := range o.recovered {
		t.recovered[k] += n
	}
	for k, n := range o.points {
		t.points[k] += n
	}
	for k, n := range o.kinds {
		t.kinds[k] += n
	}
}

func newTally() tally {
	return tally{recovered: map[string]int{}, points: map[string]int{}, kinds: map[string]int{}}
}

func newWorld(s *scenario, p *plant, dir string, log *slog.Logger) *world {
	w := &world{s: s, plant: p, dir: dir, cluster: kafkatest.New("cluster"), calm: make(chan struct{}), log: log, tally: newTally(),
		feed: newFeeder(s)}
	w.cluster.CreateTopic(inTopic, s.Partitions, nil)
	for _, a := range s.Aggregations {
		w.cluster.CreateTopic(resultTopic(a.Name), s.Partitions, resultConfigs(&a))
	}
	w.cluster.CreateTopic(lateTopic, s.Partitions, nil)
	w.cluster.CreateTopic(deadTopic, s.Partitions, nil)
	for _, kind := range s.kinds() {
		w.kinds[kind]++
	}
	if slices.ContainsFunc(s.Events, func(e event) bool { return e.Kind == "compact" }) {
		w.cluster.CreateTopic(logTopic, s.tasks(), kafka.ChangelogConfigs) // otherwise the first instance makes it
	}
	for n := range s.Instances {
		i := &instance{w: w, number: n, path: filepath.Join(dir, fmt.Sprint(n)), random: rand.New(rand.NewPCG(s.Seed, uint64(n)))}
		i.newDisk(storetest.NewStrict())
		w.instances = append(w.instances, i)
	}
	return w
}

// resultConfigs are the settings of a result topic.
func resultConfigs(a *aggregation) map[string]string {
	if a.Current {
		return map[string]string{"cleanup.policy": "compact"}
	}
	return nil
}

// tasks is how many tasks the job has.
func (s *scenario) tasks() int32 {
	if s.Between > 0 {
		return s.Between
	}
	return s.Partitions
}

func resultTopic(aggregation string) string { return "results-" + aggregation }

// fault notes what must not have happened.
func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Errorf(format, args...))
}

func (w *world) count(f func(t *tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.tally)
}

// run tells the story to its end and judges it. It is called in a bubble, which it leaves empty.
func (w *world) run() error {
	w.cluster.Inject(w.inject)
	var story sync.WaitGroup
	story.Go(w.flow)
	story.Go(w.happen)
	for _, i := range w.instances {
		story.Go(i.direct)
	}
	story.Wait()
	close(w.calm)
	w.cluster.Inject(nil)
	w.cluster.HoldMarkers(false)
	w.cluster.ReleaseMarkers()
	for _, i := range w.instances {
		i.end()
	}
	var failed error
	var seen string
	// Once to the end, from a directory of the story; then again, from another one and from nothing: nothing may change.
	for n, from := range []*instance{w.instances[0], w.instances[len(w.instances)-1], w.newcomer()} {
		if failed = from.untilIdle(); failed != nil {
			failed = fmt.Errorf("run %d to the end: %w", n+1, failed)
			break
		}
		if n == 0 {
			failed, seen = w.judge(), w.seen()
		} else if after := w.seen(); after != seen {
			failed = fmt.Errorf("another start changes what there is, from\n%s\nto\n%s", seen, after)
		}
		if failed != nil {
			failed = fmt.Errorf("after run %d to the end: %w", n+1, failed)
			break
		}
	}
	return errors.Join(append(w.faults, failed)...)
}

// newcomer is an instance with an empty disk.
func (w *world) newcomer() *instance {
	i := &instance{w: w, number: len(w.instances), path: filepath.Join(w.dir, "newcomer"), random: rand.New(rand.NewPCG(w.s.Seed, 99))}
	i.newDisk(storetest.NewStrict())
	return i
}

// flow feeds the waves.
func (w *world) flow() {
	began := time.Now()
	waves := append([]wave(nil), w.s.Waves...)
	for len(waves) > 0 {
		first := 0
		for n := range waves {
			if waves[n].At < waves[first].At {
				first = n
			}
		}
		next := waves[first]
		waves = append(waves[:first], waves[first+1:]...)
		<-time.After(time.Until(began.Add(time.Duration(next.At) * time.Millisecond)))
		for p, records := range w.feed.wave(next) {
			if len(records) > 0 {
				w.cluster.Append(inTopic, int32(p), records...)
			}
		}
	}
}

// happen lets the events happen.
func (w *world) happen() {
	var all sync.WaitGroup
	for _, e := range w.s.Events {
		all.Go(func() {
			<-time.After(time.Duration(e.At) * time.Millisecond)
			switch e.Kind {
			case "compact":
				for p := range w.s.tasks() {
					w.cluster.Compact(logTopic, p)
				}
			case "clock":
				w.cluster.Advance([]time.Duration{3 * time.Hour, time.Hour, -time.Hour, 24 * time.Hour}[e.For%4])
			case "markers":
				w.cluster.HoldMarkers(true)
				<-time.After(time.Duration(e.For) * time.Millisecond)
				w.cluster.HoldMarkers(false)
				w.cluster.ReleaseMarkers()
			case "abort":
				log, tasks := logTopic, w.s.tasks()
				if w.s.Between > 0 && e.For%2 == 0 {
					log, tasks = logTopic+ofRelay, w.s.Partitions
				}
				w.cluster.AbortTransaction(fmt.Sprintf("%s-%d", log, int32(e.For)%tasks))
			case "away":
				<-time.After(time.Duration(e.For) * time.Millisecond) // inject looks at the time
			}
		})
	}
	all.Wait()
}

var (
	errAway = &kafka.Error{Class: kafka.ClassTransient, Op: "request", Offset: -1, Err: errors.New("the broker is away")}
	errLost = &kafka.Error{Class: kafka.ClassTransient, Op: "request", Offset: -1, Err: errors.New("the answer was lost")}
	errAck  = &kafka.Error{Class: kafka.ClassFenced, Op: "request", Offset: -1, Err: errors.New("PRODUCER_FENCED, without a reason")}
)

// inject is the cluster's hook: the request faults of the scenario.
func (w *world) inject(c kafkatest.Call) kafkatest.Verdict {
	now := time.Since(epoch).Milliseconds()
	for _, e := range w.s.Events {
		if c.Op == kafkatest.OpJoin {
			break // a client joins in the background, and waits for the broker as long as it takes
		}
		if e.Kind == "away" && now >= e.At && now < e.At+e.For {
			w.count(func(t *tally) { t.injected++ })
			return kafkatest.Fail(errAway)
		}
	}
	for _, q := range w.s.Requests {
		if q.Op != string(c.Op) || q.N != c.N {
			continue
		}
		w.count(func(t *tally) { t.injected++ })
		switch q.How {
		case "lost":
			return kafkatest.ApplyThenFail(errLost)
		case "part":
			return kafkatest.ApplyPart(q.Part, errLost)
		case "hang":
			return kafkatest.Hang()
		case "fenced":
			return kafkatest.Fail(errAck)
		}
		return kafkatest.Fail(errLost)
	}
	return kafkatest.Verdict{}
}

// epoch is when time begins in a bubble.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// parts are the options of the jobs that a process of an instance runs: the relay, if there is one, and the job.
func (w *world) parts(i *instance, l *life) []tidemark.Options {
	job := w.options(i, l)
	if w.s.Between == 0 {
		return []tidemark.Options{job}
	}
	relay := job
	relay.Job, relay.Changelog.Topic, relay.StateDir = jobName+ofRelay, logTopic+ofRelay, filepath.Join(i.path, "rekey")
	relay.Results, relay.Compacted, relay.Late, relay.Relay = []string{between}, nil, "", &tidemark.Relay{Partitions: w.s.Between}
	relay.Processor = w.relayConfig().Processor
	job.Input, job.Topics.InputLater = between, true
	return []tidemark.Options{relay, job}
}

// options are those of a process of an instance.
func (w *world) options(i *instance, l *life) tidemark.Options {
	o := tidemark.Options{
		Job: jobName, Cluster: &seam{w.cluster, l, w.plant, time.Duration(w.s.Narrow) * time.Millisecond}, Input: inTopic, Late: lateTopic, DeadLetter: deadTopic,
		Changelog: tidemark.Changelog{Topic: logTopic}, StateDir: i.path, Files: i.files(l),
		Commit:     tidemark.Commit{Interval: time.Duration(w.s.Interval) * time.Millisecond, MaxRecords: w.s.MaxRecords, MaxBytes: w.s.MaxBytes},
		Checkpoint: time.Duration(w.s.Checkpoint) * time.Millisecond,
		MaxBytes:   1 << 30, // asking the machine for its memory takes longer than the rest of a start
		Version:    "sim",
		Log:        w.log.With("instance", i.number),
		Progress:   i.progress,
		At: func(ctx context.Context, _ int32, step string) error {
			return l.pass(ctx, "step "+step, func() error { return nil })
		},
		Processor: w.jobConfig().Processor,
	}
	for _, a := range w.s.Aggregations {
		o.Results = append(o.Results, resultTopic(a.Name))
		if a.Current {
			o.Compacted = append(o.Compacted, resultTopic(a.Name))
		}
	}
	return o
}

// relayConfig is that of the relay before the job.
func (w *world) relayConfig() job.Config {
	c := w.jobConfig()
	c.Input, c.Part, c.Partitioner, c.Quorum, c.Dedup, c.Aggregations = inTopic, job.Relay, job.Unchecked, 0, job.Dedup{}, nil
	return c
}

func (w *world) jobConfig() job.Config {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time, format.Unit = []string{"device"}, []string{"v"}, "ts", reading.Milliseconds
	c := job.Config{Input: inTopic, Format: format, Partitioner: job.Unchecked, MaxLag: w.s.MaxLag, Quorum: w.s.Quorum, Dedup: job.Dedup{Within: w.s.Dedup}}
	if w.s.Between > 0 {
		c.Input, c.Part, c.Partitioner = between, job.Relayed, job.Murmur2
	}
	for _, a := range w.s.Aggregations {
		var functions aggregate.Functions
		var percents aggregate.Percents
		for _, name := range a.Functions {
			f, p, err := aggregate.ParseFunction(name)
			if err != nil {
				panic(err)
			}
			functions, percents = functions|f, percents|p
		}
		c.Aggregations = append(c.Aggregations, job.Aggregation{Name: a.Name, Window: a.kind(), Grace: a.Grace, Functions: functions, Percents: percents,
			Updates: a.Updates, Current: a.Current})
	}
	if w.plant.job != nil {
		w.plant.job(&c)
	}
	return c
}

// kind is the kind of window.
func (a *aggregation) kind() window.Kind {
	switch {
	case a.Gap > 0:
		return window.Session{Gap: a.Gap}
	case a.Unit != "":
		unit, failed := window.ParseUnit(a.Unit)
		kind, err := window.NewCalendar(unit, a.Zone)
		if err = errors.Join(failed, err); err != nil {
			panic(err)
		}
		return kind
	case a.Step > 0:
		return window.Hopping{Size: a.Size, Step: a.Step, Offset: a.Offset}
	}
	return window.Tumbling{Size: a.Size, Offset: a.Offset}
}

// untilIdle runs an instance until everything is committed.
func (i *instance) untilIdle() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	l := newLife(cancel)
	err := i.run(ctx, l, true)
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("not idle after %v", limit)
	}
	i.leave(l)
	return err
}

// run is one process from its start to its end.
func (i *instance) run(ctx context.Context, l *life, untilIdle bool) error {
	i.w.count(func(t *tally) { t.lives++ })
	err := i.work(ctx, l, untilIdle)
	l.err = err
	close(l.over) // what was still under way ends with the process: a slow disk that its stop gave up on
	close(l.ended)
	return err
}

// work runs the jobs of a process as the command does: side by side, and the first that ends stops the other; until idle
// one after the other.
func (i *instance) work(ctx context.Context, l *life, untilIdle bool) (failed error) {
	parts := i.w.parts(i, l)
	one := func(ctx context.Context, options tidemark.Options) error {
		options.UntilIdle = untilIdle
		app, err := tidemark.New(options)
		if err != nil {
			return err
		}
		return app.Run(ctx)
	}
	if untilIdle || len(parts) == 1 {
		for n := 0; n < len(parts) && failed == nil && ctx.Err() == nil; n++ {
			failed = one(ctx, parts[n])
		}
		return failed
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failures := make([]error, len(parts))
	var group sync.WaitGroup
	for n, options := range parts {
		group.Go(func() {
			defer stop()
			failures[n] = one(ctx, options)
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// scratch makes a directory for a scenario. One on a file system in memory has no identity that outlives a process, so its
// instances take seats as dynamic members; the others have static ids from their second life on.
func scratch(seed uint64) (string, error) {
	if info, err := os.Stat("/dev/shm"); seed%4 == 0 && err == nil && info.IsDir() {
		return os.MkdirTemp("/dev/shm", "tidemark-sim-")
	}
	return os.MkdirTemp("", "tidemark-sim-")
}
