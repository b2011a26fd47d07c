package tidemark

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// nothingLeft checks that only the calling goroutine is left in the bubble of a test.
func (w *world) nothingLeft() {
	w.t.Helper()
	synctest.Wait()
	for _, stack := range bubble() {
		w.t.Errorf("left behind:\n%s", stack)
	}
}

var bubbled = regexp.MustCompile(`^goroutine \d+ \[[^\n]*synctest bubble (\d+)`)

// bubble are the stacks of the other goroutines of the caller's bubble, without those that are the bubble.
func bubble() (others [][]byte) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	all := bytes.Split(stacks, []byte("\n\n"))
	own := bubbled.FindSubmatch(all[0])
	for _, stack := range all[1:] {
		if in := bubbled.FindSubmatch(stack); own != nil && in != nil && bytes.Equal(in[1], own[1]) && !bytes.Contains(stack, []byte("\ntesting/synctest.")) {
			others = append(others, stack)
		}
	}
	return others
}

// lent is a cluster that counts what it has given out and not got back.
type lent struct {
	kafka.Cluster
	open, most *atomic.Int64
}

type (
	lentLog struct {
		kafka.Log
		c lent
	}
	lentWriter struct {
		kafka.Writer
		c lent
	}
	lentAdmin struct {
		kafka.Admin
		c lent
	}
	lentGroup struct {
		kafka.Group
		c lent
	}
)

func (c lent) count(err error) error {
	if err == nil {
		c.most.Store(max(c.most.Load(), c.open.Add(1)))
	}
	return err
}

func (c lent) Log(topic string, partition int32) (kafka.Log, error) {
	log, err := c.Cluster.Log(topic, partition)
	return lentLog{log, c}, c.count(err)
}

func (c lent) Writer(id string) (kafka.Writer, error) {
	writer, err := c.Cluster.Writer(id)
	return lentWriter{writer, c}, c.count(err)
}

func (c lent) Admin() (kafka.Admin, error) {
	admin, err := c.Cluster.Admin()
	return lentAdmin{admin, c}, c.count(err)
}

func (c lent) Group(o kafka.GroupOptions) (kafka.Group, error) {
	group, err := c.Cluster.Group(o)
	return lentGroup{group, c}, c.count(err)
}

func (l lentLog) Close()    { l.c.open.Add(-1); l.Log.Close() }
func (l lentWriter) Close() { l.c.open.Add(-1); l.Writer.Close() }
func (l lentAdmin) Close()  { l.c.open.Add(-1); l.Admin.Close() }
func (l lentGroup) Close()  { l.c.open.Add(-1); l.Group.Close() }

func (l lentGroup) Leave(ctx context.Context) error {
	l.c.open.Add(-1)
	return l.Group.Leave(ctx)
}

// panicsAt makes the callback of a job a panic for one kind of event of task 0.
func panicsAt(kind EventKind) func(*Options) {
	return func(o *Options) {
		o.Progress = func(e Event) {
			if e.Kind == kind && e.Partition == 0 {
				panic("poisoned")
			}
		}
	}
}

// placeless is a tally that cannot say where its entries belong, as after a mistake in a job's own code.
type placeless struct{ tally }

func (*placeless) Place(_, _ []byte) (Place, error) { panic("poisoned") }

// hangs makes requests of one kind hang, after the first few.
func hangs(op kafkatest.Op, after int) func(kafkatest.Call) kafkatest.Verdict {
	return func(c kafkatest.Call) kafkatest.Verdict {
		if c.Op == op && c.N > after {
			return kafkatest.Hang()
		}
		return kafkatest.Verdict{}
	}
}

// way is one in which Run can end.
type way struct {
	change func(*Options) // of a job that was there before
	then   func(d *watchedApp)
	says   string // what Run says, "" for nothing
}

// ways are those in which Run can end; a stop is added to those that do not end by themselves.
func ways(w *world, release chan struct{}) map[string]way {
	inject := func(hook func(kafkatest.Call) kafkatest.Verdict) func(*Options) {
		return func(*Options) { w.cluster.Inject(hook) }
	}
	moment := func(d *watchedApp) { d.after(time.Second) }
	return map[string]way{
		"stop":                   {then: moment},
		"stop at once":           {},
		"until idle":             {change: func(o *Options) { o.UntilIdle = true }, then: func(d *watchedApp) { <-d.ended }},
		"stop in a fetch":        {change: inject(hangs(kafkatest.OpFetch, 60)), then: func(d *watchedApp) { d.after(30 * time.Second) }},
		"stop in a commit":       {change: inject(hangs(kafkatest.OpCommit, 4)), then: func(d *watchedApp) { d.after(3 * time.Second) }},
		"stop without brokers":   {change: inject(hangs(kafkatest.OpCluster, 0)), then: moment},
		"stop at the newcomer":   {change: inject(hangs(kafkatest.OpGroupOffsets, 0)), then: moment},
		"stop in a recovery":     {change: inject(hangs(kafkatest.OpFence, 0)), then: moment},
		"stop without a group":   {change: inject(hangs(kafkatest.OpAsk, 0)), then: moment},
		"stop without a seat":    {then: func(d *watchedApp) { moment(d); w.cluster.Evict("job", "job-member-2"); moment(d) }},
		"stop of the lookout":    {change: inject(hangs(kafkatest.OpTopics, 4)), then: func(d *watchedApp) { d.after(7 * time.Second) }},
		"no broker at the start": {change: inject(func(kafkatest.Call) kafkatest.Verdict { return kafkatest.Fail(errAway) }), then: func(d *watchedApp) { <-d.ended }, says: "no broker answered"},
		"no seat": {change: inject(func(c kafkatest.Call) (v kafkatest.Verdict) {
			if c.Op == kafkatest.OpJoin {
				v = kafkatest.Fail(errAway)
			}
			return v
		}), then: func(d *watchedApp) { <-d.ended }, says: "connection refused"},
		"another configuration": {change: func(o *Options) {
			o.Processor = func(int32, int32, Limits) (Processor, error) { return &renamed{}, nil }
		}, then: func(d *watchedApp) { <-d.ended }, says: "fingerprint"},
		"another topic": {then: func(d *watchedApp) { moment(d); w.remake("in", 2, nil); <-d.ended }, says: "something else"},
		"a task that stops": {change: func(o *Options) {
			o.UntilIdle = true
			o.Processor = func(p, _ int32, _ Limits) (Processor, error) {
				return &odd{at: func(int64) error { return errors.Join(task.ErrPermanent, errors.New("no more")) }}, nil
			}
		}, then: func(d *watchedApp) { <-d.ended }, says: "no more"},
		"a task that hangs": {change: hanging(release, 0), then: func(d *watchedApp) {
			<-d.ended
			close(release)
			<-time.After(time.Minute)
		}, says: "has not come back"},
		"a panic at a recovery":     {change: panicsAt(EventRecovered), then: func(d *watchedApp) { d.after(time.Minute) }, says: "poisoned"},
		"a panic while it recovers": {change: panicsAt(EventRecovering), then: func(d *watchedApp) { d.after(time.Minute) }, says: "poisoned"},
		"a panic at a commit":       {change: panicsAt(EventCommitted), then: func(d *watchedApp) { d.after(time.Minute) }},
		"a panic over what is restored": {change: func(o *Options) {
			o.Processor = func(int32, int32, Limits) (Processor, error) { return &placeless{}, nil }
		}, then: func(d *watchedApp) { <-d.ended }, says: "poisoned"},
	}
}

// However Run ends, it leaves no goroutine, gives everything back that the cluster has lent it, and counts no memory that it
// has not (I13).
func TestRunLeavesNothing(t *testing.T) {
	for name := range ways(nil, nil) {
		t.Run(name, func(t *testing.T) {
			watched(t, func(w *world) {
				w.produce(100)
				w.run(w.options())
				w.produce(100)
				end := ways(w, make(chan struct{}))[name]
				c := lent{w.cluster, new(atomic.Int64), new(atomic.Int64)}
				d := w.daemonize(func(o *Options) {
					o.Cluster = c
					if end.change != nil {
						end.change(o)
					}
				})
				if end.then != nil {
					end.then(d)
				}
				err := d.end()
				if (end.says == "") != (err == nil) || end.says != "" && !strings.Contains(err.Error(), end.says) {
					t.Errorf("Run says %v, want %q", err, end.says)
				}
				w.nothingLeft()
				if open := c.open.Load(); open != 0 || c.most.Load() == 0 {
					t.Errorf("%d of at most %d logs, writers, seats and others of the cluster are still open", open, c.most.Load())
				}
				if used := d.app.used.Load(); used != 0 && end.says != "has not come back" {
					t.Errorf("%d bytes of state are counted", used)
				}
			})
		})
	}
}

// A recovery that comes to nothing takes no memory any more, and must not be counted as if it did: after some of them there
// would be no room for anything (R30).
func TestFailedRecoveryTakesNoRoom(t *testing.T) {
	w := newLongWorld(t)
	o := w.options()
	o.Cluster = narrow{w.cluster, &atomic.Bool{}}
	var app *App
	var most atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fetches := atomic.Int64{}
	o.Progress = func(e Event) {
		if e.Kind == EventProgress && e.Progress.Step == recovery.StepReplay {
			most.Store(max(most.Load(), app.used.Load()))
			if fetches.Add(1) == 20 {
				cancel()
			}
		}
	}
	app, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if used := app.used.Load(); used != 0 || most.Load() == 0 {
		t.Errorf("%d bytes of state are counted after a replay that took %d", used, most.Load())
	}
}
