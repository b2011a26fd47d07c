package tidemark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// watchedApp is an App inside a bubble of its own time: an hour of it passes at once.
type watchedApp struct {
	*world
	app   *App
	stop  context.CancelFunc
	ended chan struct{}
	err   error // valid when ended is closed
}

// watched runs test in a bubble with a cluster of its own.
func watched(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) { test(newWorld(t, 2)) })
}

// daemonize runs the job until stopped.
func (w *world) daemonize(change func(*Options)) *watchedApp {
	w.t.Helper()
	o := w.options()
	o.UntilIdle = false
	if change != nil {
		change(&o)
	}
	app, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &watchedApp{world: w, app: app, stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		d.err = app.Run(ctx)
	}()
	w.t.Cleanup(func() { // a bubble must be left empty, by a test that has failed too
		w.cluster.Inject(nil)
		_ = d.end()
	})
	return d
}

// end stops the job and returns what Run says.
func (d *watchedApp) end() error {
	d.stop()
	<-d.ended
	return d.err
}

// after lets time pass and looks.
func (d *watchedApp) after(pass time.Duration) *Status {
	<-time.After(pass)
	synctest.Wait()
	return d.app.Status()
}

// want checks the state of one task, its health, and what its first reason says.
func (d *watchedApp) want(s *Status, partition int, state status.State, health status.Health, says ...string) *status.Task {
	d.t.Helper()
	if len(s.Tasks) <= partition {
		d.t.Fatalf("%d tasks, reasons %+v", len(s.Tasks), s.Reasons)
	}
	t := &s.Tasks[partition]
	what := ""
	if len(t.Reasons) > 0 {
		what = t.Reasons[0].Code + ": " + t.Reasons[0].What
	}
	if t.State != state || t.Health != health {
		d.t.Fatalf("partition %d is %s and %s (%s), want %s and %s", partition, t.State, t.Health, what, state, health)
	}
	for _, text := range says {
		if !strings.Contains(what, text) {
			d.t.Fatalf("partition %d is %s because %q, want %q in it", partition, state, what, text)
		}
	}
	if ready := s.Health == status.Green; s.Ready != ready {
		d.t.Fatalf("ready is %v with health %s", s.Ready, s.Health)
	}
	return t
}

// wantLive checks what a supervisor is told.
func (d *watchedApp) wantLive(s *Status, live bool) {
	d.t.Helper()
	if s.Live != live {
		d.t.Fatalf("live is %v, want %v: %+v", s.Live, live, s.Reasons)
	}
}

// idle waits until everything is committed, and checks that all is well.
func (d *watchedApp) healthy() *Status {
	d.t.Helper()
	s := d.after(time.Minute)
	for i := range s.Tasks {
		t := d.want(s, i, status.Running, status.Green)
		if t.Lag == nil || *t.Lag != 0 || t.SinceProgress != 0 {
			d.t.Fatalf("partition %d: lag %v, %v s since progress", i, t.Lag, t.SinceProgress)
		}
	}
	if !s.Live || !s.Ready || s.Lag == nil || *s.Lag != 0 || len(s.Reasons) != 0 {
		d.t.Fatalf("not well: %+v", s)
	}
	return s
}

var errAway = &kafka.Error{Class: kafka.ClassTransient, Op: "dial", Offset: -1, Err: errors.New("connection refused")}

// TestD06NothingToDoIsWell: an empty topic is no trouble, for an hour.
func TestD06NothingToDoIsWell(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(nil)
		d.healthy()
		d.after(time.Hour)
		s := d.healthy()
		if len(s.Tasks) != 2 || s.Tasks[0].StreamTime != nil || s.Tasks[0].Commit.Number != 0 || s.Tasks[0].Recoveries.Birth != 1 {
			t.Errorf("status %+v", s.Tasks)
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestD06BrokersAway: a restart would cost a restore and help nobody, so the process is live, and says what for it waits.
func TestD06BrokersAway(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(10)
		d := w.daemonize(nil)
		d.healthy()
		w.cluster.Inject(func(kafkatest.Call) kafkatest.Verdict { return kafkatest.Fail(errAway) })
		s := d.after(10 * time.Second)
		d.want(s, 0, status.Waiting, status.Amber, "broker", "connection refused")
		d.wantLive(s, true)
		s = d.after(2 * time.Minute)
		task := d.want(s, 0, status.Waiting, status.Red, "broker", "connection refused")
		d.wantLive(s, true)
		if task.SinceProgress < 100 || *task.Reasons[0].Partition != 0 || task.LastError.Class != "transient" || s.Totals.Failures.Transient < 3 {
			t.Errorf("task %+v, failures %+v", task, s.Totals.Failures)
		}
		if w.cluster.Injected(kafkatest.OpFetch) == 0 {
			t.Error("no fetch failed: the fault did not happen")
		}
		w.cluster.Inject(nil)
		w.produce(10)
		d.healthy()
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestD06SeatLost: brokers that are away for longer than a session cost the seat in the group and with it the tasks. They
// stay in sight, with what is waited for, until the group has said whose they are.
func TestD06SeatLost(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(10)
		d := w.daemonize(nil)
		d.healthy()
		w.cluster.Inject(func(kafkatest.Call) kafkatest.Verdict { return kafkatest.Fail(errAway) })
		if !w.cluster.Evict("job", "job-member-1") {
			t.Fatal("the seat was not lost")
		}
		s := d.after(20 * time.Second)
		for p := range 2 {
			d.want(s, p, status.Waiting, status.Amber, "broker", "connection refused")
		}
		s = d.after(100 * time.Second)
		for p := range 2 {
			task := d.want(s, p, status.Waiting, status.Red, "broker", "connection refused")
			if task.SinceProgress < 100 || task.LiveEntries == 0 || *task.Reasons[0].Partition != int32(p) {
				t.Errorf("%+v", task)
			}
		}
		d.wantLive(s, true)
		if w.cluster.Injected(kafkatest.OpCluster) == 0 {
			t.Error("nobody asked for a broker: the fault did not happen")
		}
		w.cluster.Inject(nil)
		d.want(d.after(10*time.Second), 0, status.Waiting, status.Red, "group", "take this process in again")
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestD06NotEnoughReplicas: what the commit waits for has a name, through all the recoveries that succeed meanwhile.
func TestD06NotEnoughReplicas(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(nil)
		d.healthy()
		refuse := &kafka.Error{Class: kafka.ClassTransient, Op: "send", Topic: "out", Partition: 1, Offset: -1, Err: errors.New("NOT_ENOUGH_REPLICAS")}
		w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			if c.Op == kafkatest.OpSend && c.TransactionalID == "changelog-1" && string(c.Messages[len(c.Messages)-1].Key) != "" && len(c.Messages) > 1 {
				return kafkatest.Fail(refuse)
			}
			return kafkatest.Verdict{}
		})
		w.produce(100)
		for range 5 {
			s := d.after(5 * time.Second)
			d.want(s, 0, status.Running, status.Green)
			d.want(s, 1, status.Waiting, status.Amber, "broker", "out/1", "NOT_ENOUGH_REPLICAS")
			d.wantLive(s, true)
		}
		s := d.after(10 * time.Second)
		d.want(s, 1, status.Waiting, status.Red, "out/1", "NOT_ENOUGH_REPLICAS")
		d.wantLive(s, true)
		if n := s.Tasks[1].Recoveries.LiveBase; n < 3 || w.cluster.Injected(kafkatest.OpSend) < 3 {
			t.Errorf("%d recoveries, %d refusals: the fault did not happen", n, w.cluster.Injected(kafkatest.OpSend))
		}
		w.cluster.Inject(nil)
		d.healthy()
		if err := d.end(); err != nil {
			t.Error(err)
		}
		w.results()
	})
}

// TestUnansweredRequests: a request that is never answered is noticed after 20 s, wherever it is made.
func TestUnansweredRequests(t *testing.T) {
	for name, c := range map[string]struct {
		hangs func(kafkatest.Call) bool
		op    kafkatest.Op
		says  string
	}{
		"fetch of the input": {func(c kafkatest.Call) bool { return c.Op == kafkatest.OpFetch && c.Topic == "in" }, kafkatest.OpFetch, "stuck: fetch in/0 from offset 0"},
		"fence":              {func(c kafkatest.Call) bool { return c.Op == kafkatest.OpFence }, kafkatest.OpFence, "stuck: fence changelog-0"},
		"the fence record":   {func(c kafkatest.Call) bool { return c.Op == kafkatest.OpSend }, kafkatest.OpSend, "stuck: send the records of changelog-0"},
		"tail":               {func(c kafkatest.Call) bool { return c.Op == kafkatest.OpFetch }, kafkatest.OpFetch, "stuck: fetch changelog/0"},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(w *world) {
				w.cluster.Inject(func(call kafkatest.Call) kafkatest.Verdict {
					if c.hangs(call) {
						return kafkatest.Hang()
					}
					return kafkatest.Verdict{}
				})
				d := w.daemonize(nil)
				s := d.after(19 * time.Second)
				d.wantLive(s, true)
				s = d.after(2 * time.Second)
				d.want(s, 0, status.Stuck, status.Red, c.says)
				d.wantLive(s, false)
				if w.cluster.Injected(c.op) == 0 {
					t.Error("nothing hung: the fault did not happen")
				}
				w.cluster.Inject(nil)
				if err := d.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestUnansweredCommit: the commit is given up after 20 s and goes through recovery, again and again; the name stays.
func TestUnansweredCommit(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(nil)
		d.healthy()
		commits := 0
		w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			if c.Op != kafkatest.OpCommit {
				return kafkatest.Verdict{}
			}
			if c.TransactionalID != "changelog-0" {
				return kafkatest.Verdict{}
			}
			if commits++; commits%2 == 0 {
				return kafkatest.Verdict{} // that of the fence record
			}
			return kafkatest.Hang()
		})
		w.produce(10)
		d.want(d.after(10*time.Second), 0, status.Running, status.Green)
		s := d.after(12 * time.Second)
		d.want(s, 0, status.Waiting, status.Amber, "broker", "commit")
		s = d.after(80 * time.Second)
		d.want(s, 0, status.Waiting, status.Red, "broker", "commit", "deadline")
		d.wantLive(s, true)
		if n := w.cluster.Injected(kafkatest.OpCommit); n < 3 {
			t.Errorf("%d commits hung: the fault did not happen", n)
		}
		w.cluster.Inject(nil)
		d.healthy()
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestS47HangingTransaction: a transaction that nobody will end is named with its producer, in the changelog during a
// recovery and in the input while running; the process stays live and goes on by itself when it is ended.
func TestS47HangingTransaction(t *testing.T) {
	hang := func(w *world, topic string) (producer int64, offset int64) {
		writer, err := w.cluster.Writer("stranger")
		if err != nil {
			w.t.Fatal(err)
		}
		p, err := writer.Fence(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		offsets, err := writer.Send(w.t.Context(), []kafka.Message{{Topic: topic, Key: []byte("k"), Value: []byte("v")}})
		if err != nil {
			w.t.Fatal(err)
		}
		return p.ID, offsets[0]
	}
	t.Run("changelog", func(t *testing.T) {
		watched(t, func(w *world) {
			w.produce(10)
			d := w.daemonize(nil)
			d.healthy()
			producer, offset := hang(w, "changelog")
			lost := true
			w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
				if c.Op == kafkatest.OpCommit && c.TransactionalID == "changelog-0" && lost {
					lost = false
					return kafkatest.ApplyThenFail(errAway)
				}
				return kafkatest.Verdict{}
			})
			w.produce(10)
			says := fmt.Sprintf("producer id %d, which holds changelog/0 at offset %d", producer, offset)
			d.want(d.after(10*time.Second), 0, status.Waiting, status.Amber, "transaction", says)
			s := d.after(30 * time.Second)
			d.want(s, 0, status.Waiting, status.Red, "transaction", says)
			d.wantLive(s, true)
			if lost || s.Tasks[0].Recovery.Step != "tail" {
				t.Errorf("the recovery is at %+v", s.Tasks[0].Recovery)
			}
			w.cluster.AbortTransaction("stranger")
			d.healthy()
			if err := d.end(); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("input", func(t *testing.T) {
		watched(t, func(w *world) {
			w.produce(10)
			d := w.daemonize(nil)
			d.healthy()
			producer, offset := hang(w, "in")
			w.produce(10)
			d.want(d.after(5*time.Second), 0, status.Running, status.Green) // a transactional producer at work
			says := fmt.Sprintf("producer id %d, which holds in/0 at offset %d", producer, offset)
			s := d.after(15 * time.Second)
			d.want(s, 0, status.Waiting, status.Amber, "transaction", says)
			s = d.after(20 * time.Second)
			task := d.want(s, 0, status.Waiting, status.Red, "transaction", says)
			d.wantLive(s, true)
			if *task.Lag != 6 {
				t.Errorf("lag %d, want the stranger's record and 5 of ours", *task.Lag)
			}
			w.cluster.AbortTransaction("stranger")
			d.healthy()
			if err := d.end(); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestHolderThatIsNotFound: where brokers do not say whose transaction it is, the wait is named without the producer, and
// with it as soon as they do.
func TestHolderThatIsNotFound(t *testing.T) {
	for class, answer := range map[string]kafkatest.Verdict{
		"transient": kafkatest.Fail(errAway),
		"unknown":   kafkatest.ApplyThenFail(errAway),
		"permanent": kafkatest.Fail(&kafka.Error{Class: kafka.ClassPermanent, Op: "describe producers", Offset: -1, Err: errors.New("TOPIC_AUTHORIZATION_FAILED")}),
	} {
		t.Run(class, func(t *testing.T) {
			watched(t, func(w *world) {
				d := w.daemonize(nil)
				d.healthy()
				writer, err := w.cluster.Writer("stranger")
				if err != nil {
					t.Fatal(err)
				}
				producer, err := writer.Fence(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if _, err := writer.Send(t.Context(), []kafka.Message{{Topic: "in", Key: []byte("k"), Value: []byte("v")}}); err != nil {
					t.Fatal(err)
				}
				w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
					if c.Op == kafkatest.OpOpen {
						return answer
					}
					return kafkatest.Verdict{}
				})
				d.want(d.after(15*time.Second), 0, status.Waiting, status.Amber, "transaction", "an open transaction of another producer, which holds in/0 at offset 0")
				if w.cluster.Injected(kafkatest.OpOpen) == 0 {
					t.Error("nobody was asked")
				}
				w.cluster.Inject(nil)
				d.want(d.after(5*time.Second), 0, status.Waiting, status.Amber, "transaction", fmt.Sprintf("producer id %d", producer.ID))
				w.cluster.AbortTransaction("stranger")
				d.healthy()
				if err := d.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestDamagedInputDropsTheBase: what contradicts itself makes the base worth nothing; it is made again from the changelog,
// and at the third time at one position the task stops and names the place (I8).
func TestDamagedInputDropsTheBase(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(100)
		d := w.daemonize(nil)
		d.healthy()
		damaged := &kafka.Error{Class: kafka.ClassCorrupt, Op: "fetch", Topic: "in", Partition: 0, Offset: 55, Err: errors.New("checksum")}
		damage := func(position int64, times *int) {
			w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
				if c.Op != kafkatest.OpFetch || c.Topic != "in" || c.Partition != 0 || c.Position < position || *times == 0 {
					return kafkatest.Verdict{}
				}
				*times--
				return kafkatest.Fail(damaged)
			})
			w.produce(10) // 5 of this partition, which the fetch under way still brings
		}
		before, times := d.app.Status().Tasks[0].Recoveries, 2
		damage(55, &times)
		s := d.healthy()
		if r := s.Tasks[0].Recoveries; r.LiveBase != before.LiveBase || r.FullReplay != before.FullReplay+2 || times != 0 {
			t.Errorf("recoveries %+v, before %+v, want two from an empty store; %d faults left", r, before, times)
		}
		times = 1000
		damage(60, &times)
		d.want(d.after(time.Minute), 0, status.Stopped, status.Red, "stopped", "the same failure 3 times after input position", "in/0 at offset 55: checksum", "tidemark skip")
		if err := d.end(); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("the job has ended with %v", err)
		}
	})
}

// TestUntilIdleWaitsForTheInputsEnd: a partition without a leader at the start of a run until idle is waited for as brokers
// are, with its name; after 30 s the run gives up as one that has reached no broker, and not before.
func TestUntilIdleWaitsForTheInputsEnd(t *testing.T) {
	for _, away := range []time.Duration{25 * time.Second, time.Hour} {
		t.Run(away.String(), func(t *testing.T) {
			watched(t, func(w *world) {
				w.produce(2_000)
				begun := time.Now()
				w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
					if c.Op == kafkatest.OpOffsets && c.Topic == "in" && time.Since(begun) < away {
						return kafkatest.Fail(errAway)
					}
					return kafkatest.Verdict{}
				})
				d := w.daemonize(func(o *Options) { o.UntilIdle = true })
				if s := d.after(20 * time.Second); s.Waiting == nil || !strings.Contains(s.Waiting.What, errAway.Error()) {
					t.Errorf("it waits for %+v", s.Waiting)
				}
				<-d.ended
				if waited := time.Since(begun); away < firstContact {
					if d.err != nil {
						t.Errorf("ended with %v", d.err)
					}
					w.results()
				} else if !errors.Is(d.err, ErrUnreachable) || waited < firstContact {
					t.Errorf("ended after %v with %v", waited, d.err)
				}
				if w.cluster.Injected(kafkatest.OpOffsets) == 0 {
					t.Error("nobody asked")
				}
			})
		})
	}
}

// TestGroupThatDoesNotAgree: a rebalance is waited for as long as it takes, with its name.
func TestGroupThatDoesNotAgree(t *testing.T) {
	watched(t, func(w *world) {
		w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			if c.Op == kafkatest.OpAsk {
				return kafkatest.Hang()
			}
			return kafkatest.Verdict{}
		})
		d := w.daemonize(nil)
		d.want(d.after(10*time.Second), 0, status.Waiting, status.Amber, "group", "group job")
		s := d.after(time.Minute)
		d.want(s, 0, status.Waiting, status.Red, "group")
		d.wantLive(s, true)
		if w.cluster.Injected(kafkatest.OpAsk) == 0 {
			t.Error("the fault did not happen")
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// odd is a Processor that does something else at one offset.
type odd struct {
	tally
	at func(offset int64) error
}

func (o *odd) Process(v *View, in *Input) error {
	if err := o.at(in.Offset); err != nil {
		return err
	}
	return o.tally.Process(v, in)
}

// TestD06OneOfTwoTasksStops: the other one goes on, and what has stopped stays visible with its error.
func TestD06OneOfTwoTasksStops(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(func(o *Options) {
			o.Processor = func(p, _ int32, _ Limits) (Processor, error) {
				return &odd{at: func(offset int64) error {
					if p == 1 && offset == 30 {
						return fmt.Errorf("%w: the 30th record", task.ErrPermanent)
					}
					return nil
				}}, nil
			}
		})
		w.produce(100)
		s := d.after(time.Minute)
		d.want(s, 0, status.Running, status.Green)
		stopped := d.want(s, 1, status.Stopped, status.Red, "stopped", "in/1", "the 30th record")
		d.wantLive(s, false)
		if stopped.SinceProgress < 50 || stopped.LastError.Class != "permanent" || *stopped.Reasons[0].Partition != 1 {
			t.Errorf("%+v", stopped)
		}
		if err := d.end(); err == nil || !strings.Contains(err.Error(), "the 30th record") {
			t.Errorf("Run says %v", err)
		}
	})
}

// TestD06ProcessorHangs: the job's own code is under the watchdog too.
func TestD06ProcessorHangs(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		d := w.daemonize(func(o *Options) {
			o.Processor = func(int32, int32, Limits) (Processor, error) {
				return &odd{at: func(offset int64) error {
					if offset == 30 {
						<-release
					}
					return nil
				}}, nil
			}
		})
		w.produce(100)
		d.wantLive(d.after(19*time.Second), true)
		s := d.after(3 * time.Second)
		d.want(s, 0, status.Stuck, status.Red, "work on task 0", "20s")
		d.wantLive(s, false)
		close(release)
		d.healthy()
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestBehindAndStill: whatever else keeps a task from its input is noticed in the end (I12).
func TestBehindAndStill(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		d := w.daemonize(func(o *Options) {
			o.At = func(_ context.Context, _ int32, step string) error {
				if step == "commit.send" {
					<-release
				}
				return nil
			}
		})
		w.produce(100)
		d.wantLive(d.after(29*time.Second), true)
		s := d.after(3 * time.Second)
		d.want(s, 0, status.Stuck, status.Red, "in/0 from offset 0", "50 records")
		d.wantLive(s, false)
		close(release)
		d.healthy()
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestD06LongRestore: a restore that goes on is live, however long it takes, and tells how far it is.
func TestD06LongRestore(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(4000)
		o := w.options()
		o.Commit.MaxRecords = 8
		w.run(o)
		var slow atomic.Bool
		slow.Store(true)
		w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			if c.Op == kafkatest.OpFetch && c.Topic == "changelog" && slow.Load() {
				return kafkatest.Slow(15 * time.Second)
			}
			return kafkatest.Verdict{}
		})
		d := w.daemonize(func(o *Options) { o.StateDir = w.t.TempDir() })
		s := d.after(20 * time.Second) // the look before the start takes one fetch
		d.want(s, 0, status.Recovering, status.Amber, "recovering, step")
		d.wantLive(s, true)
		slow.Store(false)
		s = d.healthy()
		if r := s.Tasks[0].Recovered; r == nil || r.From != "full replay" || r.Replayed == 0 || s.Tasks[0].EstimatedRecovery <= 0 {
			t.Errorf("%+v", s.Tasks[0])
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestD10CheckpointThatCannotBeWritten is red and harms nothing else; a success ends it.
func TestD10CheckpointThatCannotBeWritten(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(func(o *Options) { o.Checkpoint = time.Second })
		w.produce(10)
		s := d.healthy()
		if c := s.Tasks[0].Checkpoint; c == nil || c.Bytes == 0 || c.Age < 1 || !strings.HasPrefix(c.Path, w.dir) {
			t.Fatalf("checkpoint %+v", c)
		}
		dir := filepath.Join(w.dir, "job", "p0")
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		w.produce(10)
		s = d.after(time.Minute)
		d.want(s, 0, status.Running, status.Red, "checkpoint: ", dir)
		d.wantLive(s, true)
		if s.Totals.CheckpointFailures == 0 || *s.Lag != 0 || s.Tasks[0].Checkpoint == nil {
			t.Errorf("%+v", s)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		s = d.healthy()
		if s.Tasks[0].SaveFailed != nil {
			t.Errorf("still failed: %+v", s.Tasks[0].SaveFailed)
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestD06DiskHangs: a sync that never ends is noticed after a minute.
func TestD06DiskHangs(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(nil)
		d.healthy()
		d.app.shown()[0].disk.begin(&opPublish, -1)
		d.wantLive(d.after(59*time.Second), true)
		s := d.after(2 * time.Second)
		d.want(s, 0, status.Stuck, status.Red, "publish a checkpoint of task 0")
		d.wantLive(s, false)
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestProcessWaits: before there are tasks the process itself says what it waits for, and a process without tasks knows
// no lag (D27).
func TestProcessWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, cluster: kafkatest.New("cluster"), dir: t.TempDir()}
		d := w.daemonize(func(o *Options) { o.Topics.Create = false })
		s := d.after(10 * time.Second)
		if s.Waiting == nil || s.Waiting.For != status.ForInputTopic || !strings.Contains(s.Waiting.What, "topic in ") || s.Ready || !s.Live || s.Lag != nil {
			t.Fatalf("%+v, waiting %+v", s, s.Waiting)
		}
		w.cluster.CreateTopic("in", 1, nil)
		w.cluster.CreateTopic("out", 1, nil)
		w.cluster.CreateTopic("dead", 1, nil)
		d.healthy()
		second := w.daemonize(func(o *Options) { o.StateDir = t.TempDir() })
		s = second.after(10 * time.Second)
		if s.Ready || !s.Live || s.Lag != nil || len(s.Tasks) != 0 || s.Reasons[0].Code != "unassigned" {
			t.Fatalf("second: %+v", s)
		}
		if err := errors.Join(d.end(), second.end()); err != nil {
			t.Error(err)
		}
	})
}

// TestStatusTellsWhereATaskStands compares what is told with what was produced.
func TestStatusTellsWhereATaskStands(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(func(o *Options) { o.Checkpoint = 10 * time.Second })
		w.produce(5_000)
		s := d.healthy()
		one := &s.Tasks[0]
		if *one.Position != 2500 || *one.End != 2500 || *one.StreamTime != 2499 || one.Setter.Offset != 2499 || one.Setter.Key != "k0" {
			t.Errorf("position %d of %d, stream time %d by %+v", *one.Position, *one.End, *one.StreamTime, one.Setter)
		}
		g := one.Aggregations[0]
		if g.Name != "tally" || *g.ClosedEnd != 2499 || *g.NextClose != 3000 || g.Folded != 2500 || g.Results != 14 || one.OpenWindows != 7 || one.DueWindows != 0 {
			t.Errorf("aggregation %+v, open %d, due %d", g, one.OpenWindows, one.DueWindows)
		}
		if one.Readings.In != 2500 || one.Readings.Accepted != 2500 || one.LiveEntries != 7 || one.MemoryUsed == 0 || one.Commit.At == nil ||
			one.Commit.Number == 0 || one.Anchor != "none" || one.Checkpoint == nil || one.Recoveries != (status.Recoveries{Birth: 1}) {
			t.Errorf("%+v", one)
		}
		total := s.Totals
		if total.Records != 5000 || total.Readings.Accepted != 5000 || total.Aggregations[0].Folded != 5000 || total.Aggregations[0].Results != 28 ||
			total.Commits != total.CommitSeconds.Count || total.Checkpoints == 0 || s.Memory.Used != one.MemoryUsed+s.Tasks[1].MemoryUsed {
			t.Errorf("totals %+v, memory %+v", total, s.Memory)
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
		d = w.daemonize(nil)
		s = d.healthy()
		one = &s.Tasks[0]
		if one.Anchor != "proved" || one.Recovered.From != "checkpoint" || one.Checkpoint == nil || one.Checkpoint.Age < 60 || one.Readings.In != 2500 ||
			s.Totals.Records != 0 || one.Commit.At != nil || s.Totals.Recoveries.Checkpoint != 2 {
			t.Errorf("after a restart: %+v, recovered %+v, checkpoint %+v", one, one.Recovered, one.Checkpoint)
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestStatusWhileBusy looks all the time while tasks work and fail: what is seen of one task is of one commit (I9).
func TestStatusWhileBusy(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(20_000)
	w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
		if c.Op == kafkatest.OpCommit && c.N > 4 && c.N%5 == 0 {
			return kafkatest.ApplyThenFail(errAway)
		}
		return kafkatest.Verdict{}
	})
	o := w.options()
	o.Commit = Commit{MaxRecords: 16, MaxBytes: 1 << 20}
	app, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	looks := 0
	for ended := false; !ended; looks++ {
		select {
		case err = <-done:
			ended = true
		default:
			s := app.Status()
			for i := range s.Tasks {
				r, g := s.Tasks[i].Readings, s.Tasks[i].Aggregations
				if r.In != r.Accepted || len(g) > 0 && g[0].Folded != r.Accepted || s.Tasks[i].Lag != nil && *s.Tasks[i].Lag < 0 {
					t.Fatalf("%+v", s.Tasks[i])
				}
			}
		}
	}
	if err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
	w.results()
	total := app.Status().Totals
	if looks < 10 || w.cluster.Injected(kafkatest.OpCommit) == 0 || total.Failures.Transient == 0 || total.Recoveries.LiveBase == 0 {
		t.Errorf("looked %d times, totals %+v", looks, total)
	}
}
