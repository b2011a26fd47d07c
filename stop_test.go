package tidemark

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// hanging makes the tasks of some partitions hang at input offset 30 and beyond, until the channel is closed.
func hanging(release <-chan struct{}, partitions ...int32) func(*Options) {
	return func(o *Options) {
		o.Processor = func(p, _ int32, _ Limits) (Processor, error) {
			return &odd{at: func(offset int64) error {
				if offset >= 30 && slices.Contains(partitions, p) {
					<-release
				}
				return nil
			}}, nil
		}
	}
}

// gone waits until the process has ended by itself.
func (d *watchedApp) gone(limit time.Duration) {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(limit):
		d.t.Fatalf("%s later the process still stands", limit)
	}
}

// wantHung checks that a process has ended because of tasks that hang.
func (d *watchedApp) wantHung(partitions ...string) {
	d.t.Helper()
	wants(d.t, d.err, append(partitions, "has not come back")...)
	if kafka.ClassOf(d.err) != kafka.ClassPermanent {
		d.t.Errorf("class %s", kafka.ClassOf(d.err))
	}
}

// A stop does not wait for ever for a task that hangs, and says meanwhile what it waits for, once in the log and all the
// time in the status (I12).
func TestStopWhileATaskHangs(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		defer close(release)
		var log said
		d := w.daemonize(func(o *Options) {
			hanging(release, 0)(o)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		w.produce(100)
		s := d.after(5 * time.Second)
		if s.Waiting != nil {
			t.Errorf("waits for %+v before the stop", s.Waiting)
		}
		d.stop()
		s = d.after(slowStop + time.Second)
		if s.Waiting == nil || s.Waiting.For != status.ForTasks || !strings.Contains(s.Waiting.What, "[0]") {
			t.Errorf("a stop waits, and the status says %+v", s.Waiting)
		}
		d.gone(surrender + 5*time.Second)
		d.wantHung("in/0")
		if lines := log.lines("the stop waits"); len(lines) != 1 || !strings.Contains(lines[0], "partitions=[0]") {
			t.Errorf("the log says %q", lines)
		}
		if n := len(w.cluster.Committed("changelog", 1)); n == 0 {
			t.Error("the other task has committed nothing")
		}
	})
}

// Two tasks that hang at the same time end the process like one: Run gives up one after the other (I12). The stacks of
// a hang are in the log once, and not once a second (I13).
func TestTwoTasksHang(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		defer close(release)
		var log said
		d := w.daemonize(func(o *Options) {
			hanging(release, 0, 1)(o)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		w.produce(100)
		d.gone(surrender + watchdog)
		d.wantHung("in/0", "in/1")
		if n := len(log.lines("goroutines of a process")); n != 1 {
			t.Errorf("the stacks of two tasks that have hung since the same moment are in the log %d times", n)
		}
	})
}

// A process whose Run is held up, here by a callback of its own, is told of a hang at each look and logs it once (I13).
func TestStacksAreLoggedOnce(t *testing.T) {
	watched(t, func(w *world) {
		release, held := make(chan struct{}), make(chan struct{})
		defer close(release)
		var log said
		d := w.daemonize(func(o *Options) {
			hanging(release, 0)(o)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.Progress = func(e Event) {
				if e.Kind == EventClosed && e.Partition == 1 {
					<-held
				}
			}
		})
		w.produce(100)
		d.after(5 * time.Second)
		d.stop()
		d.after(surrender + time.Minute)
		if n := len(log.lines("goroutines of a process")); n != 1 {
			t.Errorf("the stacks of one hang are in the log %d times", n)
		}
		close(held)
		d.gone(time.Minute)
		d.wantHung("in/0")
	})
}

// What hangs in the last work of a stop, or in the callback for what a task has done, hangs like any other work (I12, R24).
func TestHungInAStop(t *testing.T) {
	for name, change := range map[string]func(o *Options, release <-chan struct{}){
		"the last commit": func(o *Options, release <-chan struct{}) {
			o.Commit.Interval = time.Hour
			o.Processor = func(p, _ int32, _ Limits) (Processor, error) { return &slowEncoder{p: p, release: release}, nil }
		},
		"the news of a checkpoint": func(o *Options, release <-chan struct{}) {
			o.Checkpoint = 500 * time.Millisecond
			o.Progress = func(e Event) {
				if e.Kind == EventCheckpoint && e.Partition == 0 {
					<-release
				}
			}
		},
		"the news of a recovery": func(o *Options, release <-chan struct{}) {
			o.Progress = func(e Event) {
				if e.Kind == EventRecovered && e.Partition == 0 {
					<-release
				}
			}
		},
		"the news of a failure": func(o *Options, release <-chan struct{}) {
			failed := false
			o.At = func(_ context.Context, p int32, step string) error {
				if p == 0 && step == "commit.send" && !failed {
					failed = true
					return errAway
				}
				return nil
			}
			o.Progress = func(e Event) {
				if e.Kind == EventFailed && e.Partition == 0 {
					<-release
				}
			}
		},
		"any news": func(o *Options, release <-chan struct{}) { // of the end that it makes of the task, too
			o.Progress = func(e Event) {
				if e.Partition == 0 && e.Kind != EventRecovering {
					<-release
				}
			}
		},
		"the news of the end": func(o *Options, release <-chan struct{}) {
			o.Progress = func(e Event) {
				if e.Partition == 0 && e.Kind == EventClosed {
					<-release
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(w *world) {
				release := make(chan struct{})
				defer close(release)
				w.produce(40)
				d := w.daemonize(func(o *Options) { change(o, release) })
				d.after(time.Second)
				w.produce(100)
				d.after(time.Second)
				d.stop()
				d.gone(surrender + watchdog)
				d.wantHung("in/0")
			})
		})
	}
}

// slowEncoder hangs where a commit is made of what is folded, from input offset 50 on.
type slowEncoder struct {
	tally
	p       int32
	release <-chan struct{}
	last    int64
}

func (s *slowEncoder) Process(v *View, in *Input) error {
	s.last = in.Offset
	return s.tally.Process(v, in)
}

func (s *slowEncoder) Encode(slot Slot, dst []byte) []byte {
	if s.p == 0 && s.last >= 50 {
		<-s.release
	}
	return s.tally.Encode(slot, dst)
}

// A task that was given up while a stop waited for it does nothing more when it comes back: nobody holds its state
// directory for it any more.
func TestAbandonedTaskIsOver(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		come := sync.OnceFunc(func() { close(release) })
		defer come()
		w.produce(40)
		var after []string
		var log said
		var over atomic.Bool
		d := w.daemonize(func(o *Options) {
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			o.Commit.Interval, o.Checkpoint = time.Hour, time.Nanosecond
			o.Processor = func(p, _ int32, _ Limits) (Processor, error) { return &slowEncoder{p: p, release: release}, nil }
			o.At = func(_ context.Context, p int32, step string) error {
				if p == 0 && over.Load() {
					after = append(after, step)
				}
				return nil
			}
		})
		d.after(time.Second)
		w.produce(100)
		d.after(time.Second)
		d.stop()
		d.gone(surrender + watchdog)
		d.wantHung("in/0")
		over.Store(true)
		come()
		<-time.After(time.Minute)
		w.nothingLeft()
		if slices.ContainsFunc(after, func(step string) bool { return strings.HasPrefix(step, "checkpoint") }) {
			t.Errorf("given up, it has gone on with %q", after)
		}
		if panics := log.lines("panic"); len(panics) > 0 {
			t.Errorf("it has met what is gone: %s", panics[0])
		}
	})
}

// What Progress is told of a task that has ended it may compare with the Status (it was a deadlock), and the next life of
// a partition that is there again begins after that.
func TestStatusInProgress(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(2_000)
	var app *App
	closed := make(chan *Status, 2)
	o := w.options()
	o.Progress = func(e Event) {
		if s := app.Status(); e.Kind == EventClosed {
			closed <- s
		}
	}
	app, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- app.Run(t.Context()) }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Run does not return: deadlock")
	}
	for n := range 2 {
		if s := <-closed; len(s.Tasks) != 1-n {
			t.Errorf("%d tasks after %d have been closed", len(s.Tasks), n+1)
		}
	}
}

// An App that cannot write its log, because nobody reads it, still answers who asks how it stands (I12).
func TestStatusWhileTheLogIsHeldUp(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		defer close(release)
		d := w.daemonize(func(o *Options) { o.Log = slog.New(heldUp{slog.DiscardHandler, release, "assigned"}) })
		answered := make(chan *Status, 1)
		go func() { answered <- d.after(time.Second) }()
		select {
		case s := <-answered:
			if len(s.Tasks) != 2 {
				t.Errorf("%d tasks", len(s.Tasks))
			}
		case <-time.After(time.Minute):
			t.Error("no answer")
		}
	})
}

// heldUp is a log that does not take one message until it is released.
type heldUp struct {
	slog.Handler
	release <-chan struct{}
	message string
}

func (h heldUp) Enabled(context.Context, slog.Level) bool { return true }
func (h heldUp) WithAttrs([]slog.Attr) slog.Handler       { return h }

func (h heldUp) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		<-h.release
	}
	return nil
}

// The disk that a stop has given up answers after all: the checkpoint's goroutine ends then, and its file is gone.
func TestGivenUpCheckpointEnds(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		for i := range 100_000 { // more than one slice
			w.cluster.Append("in", 0, kafka.Record{Key: fmt.Append(nil, i), Timestamp: silenceStart,
				Value: fmt.Appendf(nil, `{"device":"%d","ts":%d,"value":1}`, i, silenceStart)})
		}
		o := w.options()
		windowed(&o)
		o.Commit = DefaultCommit
		var slices atomic.Int32
		o.At = func(_ context.Context, p int32, step string) error {
			if p == 0 && step == "checkpoint.slice" {
				if slices.Add(1) == 2 {
					<-release
				}
			}
			return nil
		}
		began := time.Now()
		w.run(o)
		if took := time.Since(began); slices.Load() != 2 || took < watchdog {
			t.Errorf("%d slices, the run took %s: the disk did not hang", slices.Load(), took)
		}
		close(release)
		w.nothingLeft()
	})
}

// A second Run is refused: channels, boards and seats are those of one.
func TestRunOnce(t *testing.T) {
	w := newWorld(t, 2)
	app, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := w.cluster.Calls(kafkatest.OpCluster)
	if err := app.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "make a new one") {
		t.Errorf("%v", err)
	}
	if n := w.cluster.Calls(kafkatest.OpCluster) - calls; n != 0 {
		t.Errorf("%d questions to the cluster", n)
	}
}

// Brokers that do not say who holds back a reader do not hold up the judgement of the tasks (I12): a task that hangs ends the
// process as soon as ever.
func TestHungWhileBrokersDoNotAnswer(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		defer close(release)
		w.produce(10)
		d := w.daemonize(hanging(release, 0))
		d.healthy()
		stranger, err := w.cluster.Writer("stranger")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stranger.Fence(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := stranger.Send(t.Context(), []kafka.Message{{Topic: "in", Partition: 1, Key: []byte("k"), Value: []byte("v")}}); err != nil {
			t.Fatal(err)
		}
		w.cluster.Inject(hangs(kafkatest.OpOpen, 0))
		d.after(inputHeld)
		w.produce(100)
		d.gone(surrender + watchdog)
		d.wantHung("in/0")
		if n := w.cluster.Injected(kafkatest.OpOpen); n < 3 {
			t.Errorf("%d questions without an answer: the fault did not happen", n)
		}
	})
}

// What the job stands on may change while a stop waits, too: nothing of what is committed then is told the group, for it is
// the position in another topic (S10).
func TestTopicMadeAgainInAStop(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(10)
		var held atomic.Bool
		committing := make(chan struct{}, 1)
		d := w.daemonize(func(o *Options) {
			o.At = func(ctx context.Context, p int32, step string) error {
				if p == 0 && step == "commit.ended" && held.Load() {
					committing <- struct{}{}
					wait(ctx, 15*time.Second)
				}
				return nil
			}
		})
		d.healthy()
		held.Store(true)
		before := w.groupOffset(0)
		w.produce(10)
		<-committing
		d.stop()
		d.after(time.Second) // it has read its last
		w.remake("in", 2, nil)
		d.gone(time.Minute)
		wants(t, d.err, "the state belongs to something else")
		if after := w.groupOffset(0); after != before {
			t.Errorf("the group was told %+v, before it was %+v", after, before)
		}
	})
}
