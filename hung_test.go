package tidemark

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
)

// Brokers that are away for longer than a session cost the seat, and not the state in memory: when the process has a seat
// again it replays onto its base what was committed meanwhile, by itself or by others (I8, R25).
func TestSeatLostKeepsTheBase(t *testing.T) {
	for name, between := range map[string]func(w *world){
		"nobody else": func(*world) {},
		"another owner": func(w *world) {
			other := w.daemonize(func(o *Options) { o.StateDir, o.Leave = filepath.Join(w.dir, "other"), true })
			w.produce(3_000)
			other.after(10 * time.Second)
			if err := other.end(); err != nil {
				w.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(w *world) {
				w.produce(3_000)
				d := w.daemonize(nil)
				before := d.healthy()
				if !w.cluster.Evict("job", "job-member-1") {
					t.Fatal("the seat was not lost")
				}
				d.after(20 * time.Second)
				between(w)
				if n := w.cluster.Readmit("job"); n != 1 {
					t.Fatalf("%d processes have a seat again", n)
				}
				w.produce(3_000)
				after := d.healthy()
				for p := range after.Tasks {
					r := after.Tasks[p].Recoveries
					if r.LiveBase != 1 || r.Checkpoint+r.FullReplay+r.Birth != 0 {
						t.Errorf("partition %d: recoveries %+v, want one from the live base", p, r)
					}
				}
				if before.Memory.Used == 0 || after.Memory.Used > 2*before.Memory.Used {
					t.Errorf("%d bytes of state, before %d: a base was counted twice", after.Memory.Used, before.Memory.Used)
				}
				if err := d.end(); err != nil {
					t.Error(err)
				}
				w.results()
				if left := d.app.used.Load(); left != 0 {
					t.Errorf("%d bytes of state are left", left)
				}
			})
		})
	}
}

// A base is kept only as long as nobody has said whose the task is.
func TestBaseOfALostTaskIsGivenBack(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(3_000)
		d := w.daemonize(nil)
		before := d.healthy()
		w.cluster.Evict("job", "job-member-1")
		other := w.daemonize(func(o *Options) { o.StateDir = filepath.Join(w.dir, "other") })
		kept := d.after(10 * time.Second)
		if kept.Memory.Used != before.Memory.Used {
			t.Errorf("%d bytes of state while the seat is lost, before it was %d", kept.Memory.Used, before.Memory.Used)
		}
		w.cluster.Readmit("job")
		after := d.after(10 * time.Second)
		if len(after.Tasks) != 1 || after.Memory.Used >= before.Memory.Used || after.Memory.Used == 0 {
			t.Errorf("%d tasks with %d bytes of state, want one with less than %d", len(after.Tasks), after.Memory.Used, before.Memory.Used)
		}
		if err := errors.Join(d.end(), other.end()); err != nil {
			t.Error(err)
		}
	})
}

// A panic beside the task's own goroutine is that task's crash: it recovers, the third time at one input position it stops,
// and the other task does not notice (I8).
func TestPanicBesideTheTask(t *testing.T) {
	for _, step := range []string{"commit.send", "commit.end", "commit.ended", "checkpoint.slice", "checkpoint.publish"} {
		for name, most := range map[string]int32{"once": 1, "always": 1 << 30} {
			if most > 1 && step == "commit.ended" {
				continue // what is committed is behind the task: it does not come to the same position again
			}
			t.Run(step+" "+name, func(t *testing.T) {
				w := newWorld(t, 2)
				w.produce(1_000)
				var panics atomic.Int32
				d := w.start(w.dir, func(o *Options) {
					o.Checkpoint = time.Nanosecond
					o.Commit.MaxRecords = 1 << 20 // all of the input is one commit
					o.At = func(_ context.Context, p int32, at string) error {
						if p == 0 && at == step && panics.Load() < most {
							panics.Add(1)
							panic("poisoned")
						}
						return nil
					}
				})
				if most > 1 {
					e := d.until("the stop", func(e Event) bool { return e.Kind == EventClosed && e.Partition == 0 })
					if e.Err == nil || !strings.Contains(e.Err.Error(), "panic: poisoned") || panics.Load() < maxRepeats {
						t.Errorf("stopped after %d panics with %v", panics.Load(), e.Err)
					}
				} else {
					d.until("a checkpoint after the panic", func(e Event) bool { return e.Kind == EventCheckpoint && e.Partition == 0 && panics.Load() == 1 })
				}
				d.until("work of the other task", func(e Event) bool { return e.Kind == EventCommitted && e.Partition == 1 })
				if err := d.end(); (err != nil) != (most > 1) {
					t.Errorf("Run says %v", err)
				}
			})
		}
	}
}

// A disk that never answers holds up neither a stop for ever nor a recovery: a checkpoint is never needed (I6, I12).
func TestHungDiskHoldsNothingUp(t *testing.T) {
	watched(t, func(w *world) {
		release, hung := make(chan struct{}), make(chan struct{}, 10)
		w.produce(100)
		d := w.daemonize(func(o *Options) {
			o.Checkpoint = time.Second
			o.At = func(_ context.Context, p int32, step string) error {
				if p == 0 && step == "checkpoint.publish" {
					hung <- struct{}{}
					<-release
				}
				return nil
			}
		})
		<-hung
		lost := 0
		w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			if c.Op == kafkatest.OpCommit && c.TransactionalID == "changelog-0" && lost == 0 {
				lost++
				return kafkatest.ApplyThenFail(errAway)
			}
			return kafkatest.Verdict{}
		})
		w.produce(100)
		s := d.after(10 * time.Second)
		if lost != 1 || s.Tasks[0].Recoveries.LiveBase != 1 || s.Tasks[0].State != status.Running || *s.Tasks[0].Lag != 0 {
			t.Errorf("%d commits lost, partition 0: %+v", lost, s.Tasks[0])
		}
		if s.Tasks[0].SaveFailed == nil || !strings.Contains(s.Tasks[0].SaveFailed.What, "still being written") {
			t.Errorf("the disk hangs, and nothing tells: %+v", s.Tasks[0].SaveFailed)
		}
		stopped := time.Now()
		if err := d.end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(stopped); took > watchdog+2*dropPatience {
			t.Errorf("the stop took %v", took)
		}
		close(release)
	})
}

// A stop that begins a last checkpoint on a disk that never answers gives it up.
func TestStopGivesUpAHungDisk(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		w.produce(100)
		var tried atomic.Int32
		o := w.options()
		o.At = func(_ context.Context, p int32, step string) error {
			if p == 0 && step == "checkpoint.publish" {
				tried.Add(1)
				<-release
			}
			return nil
		}
		began := time.Now()
		w.run(o) // until idle: it ends with a checkpoint of all that was committed
		if took := time.Since(began); tried.Load() != 1 || took < watchdog || took > watchdog+5*time.Second {
			t.Errorf("%d checkpoints were begun, the run took %v", tried.Load(), took)
		}
		close(release)
	})
}

// D08: a stop does not wait for the checkpoint of a state that takes a minute to write. Nothing is lost, and the next start
// sweeps what was left of it.
func TestD08StopOfALargeState(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(100)
		var slow atomic.Bool
		var writes atomic.Int32
		d := w.daemonize(func(o *Options) {
			o.Checkpoint = time.Second
			o.Files = storetest.Hook(store.Disk, func(op storetest.Op, do func() error) error {
				if slow.Load() && op.Kind == "write" {
					writes.Add(1)
					wait(context.Background(), 20*time.Second)
				}
				return do()
			})
		})
		before := d.after(10 * time.Second)
		slow.Store(true)
		w.produce(100)
		d.after(10 * time.Second) // one of each task is under way
		began := time.Now()
		if err := d.end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); writes.Load() == 0 || took < stopPatience || took > stopPatience+dropPatience+time.Second {
			t.Errorf("the stop took %v, %d writes were slow", took, writes.Load())
		}
		slow.Store(false)
		w.produce(1)
		d = w.daemonize(nil)
		s := d.after(10 * time.Second)
		for i := range s.Tasks {
			if a, b := s.Tasks[i].Readings.In, before.Tasks[i].Readings.In; a <= b || s.Tasks[i].LiveEntries == 0 {
				t.Errorf("partition %d: %d readings, and %d before", i, a, b)
			}
		}
		if in := s.Tasks[0].Readings.In + s.Tasks[1].Readings.In; in != 201 {
			t.Errorf("%d readings, want 201", in)
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestHungTaskEndsTheProcess: what hangs in the job's own code can be ended by nothing but the end of the process. The
// other tasks commit what they have, and a start goes on (I12, R24).
func TestHungTaskEndsTheProcess(t *testing.T) {
	watched(t, func(w *world) {
		release := make(chan struct{})
		d := w.daemonize(func(o *Options) {
			o.Processor = func(p, _ int32, _ Limits) (Processor, error) {
				return &odd{at: func(offset int64) error {
					if p == 0 && offset == 30 {
						<-release
					}
					return nil
				}}, nil
			}
		})
		w.produce(100)
		d.wantLive(d.after(watchdog+2*time.Second), false)
		select {
		case <-d.ended:
			t.Fatal("ended before a supervisor could act: ", d.err)
		case <-time.After(surrender - watchdog - 5*time.Second):
		}
		w.produce(100)
		select {
		case <-d.ended:
		case <-time.After(watchdog):
			t.Fatal("the process stands still for ever")
		}
		if d.err == nil || !strings.Contains(d.err.Error(), "in/0") || !strings.Contains(d.err.Error(), "has not come back") || kafka.ClassOf(d.err) != kafka.ClassPermanent {
			t.Errorf("Run says %v", d.err)
		}
		if n := len(w.cluster.Committed("changelog", 1)); n == 0 {
			t.Error("the other task has committed nothing")
		}
		close(release) // the task comes back to a process that has given it up
		w.cluster.Evict("job", "job-member-1")
		w.run(w.options())
		w.results()
	})
}

// TestPoisonThatCostsTheSeat: a record that is folded for longer than a session, and then fails, is left by a runner that
// was asked to stop, and met by the next one. The third time it stops the task all the same (I8, I13).
func TestPoisonThatCostsTheSeat(t *testing.T) {
	watched(t, func(w *world) {
		met := 0
		d := w.daemonize(func(o *Options) {
			o.Processor = func(p, _ int32, _ Limits) (Processor, error) {
				return &odd{at: func(offset int64) error {
					if p != 0 || offset != 30 || met > maxRepeats {
						return nil
					}
					met++
					if !w.cluster.Evict("job", fmt.Sprint("job-member-", met)) {
						t.Error("the seat was not lost")
					}
					<-time.After(session)
					go func() {
						<-time.After(time.Second)
						w.cluster.Readmit("job")
					}()
					return errors.New("poisoned")
				}}, nil
			}
		})
		w.produce(100)
		d.want(d.after(time.Minute), 0, status.Stopped, status.Red, "stopped", "the same failure 3 times after input position", "poisoned")
		if met != maxRepeats {
			t.Errorf("met %d times", met)
		}
	})
}

// Failures of recoveries that the next one has cured are not the same failure: after any number of seats lost and found again,
// each with one, the task works.
func TestCuredRecoveriesAreNotCounted(t *testing.T) {
	watched(t, func(w *world) {
		lives, failures := 0, 0
		d := w.daemonize(func(o *Options) {
			o.At = func(_ context.Context, p int32, step string) error {
				if p != 0 || step != "recover.load" && step != "recover.plan" {
					return nil
				}
				if failures < lives {
					failures++
					panic("a bad day")
				}
				return nil
			}
		})
		w.produce(100)
		d.after(5 * time.Second)
		for lives = 1; lives <= 2*maxRepeats; lives++ {
			if !w.cluster.Evict("job", fmt.Sprint("job-member-", lives)) {
				t.Fatal("the seat was not lost")
			}
			d.after(time.Second)
			w.cluster.Readmit("job")
			d.want(d.after(10*time.Second), 0, status.Running, status.Green)
		}
		if failures != 2*maxRepeats {
			t.Errorf("%d recoveries have failed", failures)
		}
	})
}

// A replay that writes down what it has does not stand still (S53, I12): a disk that takes a minute for it ends no process.
func TestPartsOfAReplayAreProgress(t *testing.T) {
	watched(t, func(w *world) {
		app, err := New(w.options())
		if err != nil {
			t.Fatal(err)
		}
		b := newBoard(app, 0)
		b.recovering()
		b.step(recovery.StepReplay)
		for kept := range record.Bytes(4) {
			b.progress(&recovery.Progress{Step: recovery.StepReplay, Done: 5, Kept: kept, Waiting: -1})
			<-time.After(status.Restore - time.Second)
			if s := b.task(time.Now()); s.State != status.Recovering {
				t.Errorf("%d bytes of parts written: %s", kept, s.State)
			}
		}
		<-time.After(2 * time.Second)
		if s := b.task(time.Now()); s.State != status.Stuck {
			t.Errorf("nothing has come for %v: %s", status.Restore+time.Second, s.State)
		}
	})
}
