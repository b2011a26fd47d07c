package tidemark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// daemon is an App running in the background of a test.
type daemon struct {
	t      *testing.T
	app    *App
	stop   context.CancelFunc
	done   chan error
	mu     sync.Mutex
	events []Event
	seen   chan struct{} // after each event; buffered, one is enough
}

func (w *world) start(dir string, change func(*Options)) *daemon {
	o := w.options()
	o.StateDir, o.UntilIdle = dir, false
	return launch(w.t, o, change)
}

// launch runs a job until it is stopped, at the latest at the test's end.
func launch(t *testing.T, o Options, change func(*Options)) *daemon {
	d := &daemon{t: t, done: make(chan error, 1), seen: make(chan struct{}, 1)}
	o.Progress = func(e Event) {
		d.mu.Lock()
		d.events = append(d.events, e)
		d.mu.Unlock()
		select {
		case d.seen <- struct{}{}:
		default:
		}
	}
	if change != nil {
		change(&o)
	}
	app, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.app, d.stop = app, cancel
	go func() { d.done <- app.Run(ctx) }()
	t.Cleanup(cancel)
	return d
}

// until waits for an event that the condition holds for.
func (d *daemon) until(what string, is func(Event) bool) Event {
	d.t.Helper()
	limit := time.After(20 * time.Second)
	for from := 0; ; {
		d.mu.Lock()
		for ; from < len(d.events); from++ {
			if is(d.events[from]) {
				defer d.mu.Unlock()
				return d.events[from]
			}
		}
		d.mu.Unlock()
		select {
		case <-d.seen:
		case err := <-d.done:
			d.t.Fatalf("ended with %v while waiting for %s", err, what)
		case <-limit:
			d.t.Fatalf("waited 20 s for %s", what)
		}
	}
}

func (d *daemon) end() error {
	d.stop()
	select {
	case err := <-d.done:
		return err
	case <-time.After(20 * time.Second):
		d.t.Fatal("no end 20 s after the stop")
		return nil
	}
}

func recoveredOn(p int32) func(Event) bool {
	return func(e Event) bool { return e.Kind == EventRecovered && e.Partition == p }
}

// TestSecondInstanceTakesOver lets a second process join, take a task over, and the first one end: tasks that stay are
// not touched, and every result is published once (W31).
func TestSecondInstanceTakesOver(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(8_000)
	a := w.start(filepath.Join(w.dir, "a"), nil)
	a.until("partition 0", recoveredOn(0))
	a.until("partition 1", recoveredOn(1))
	b := w.start(filepath.Join(w.dir, "b"), nil)
	a.until("the handover", func(e Event) bool { return e.Kind == EventClosed && e.Partition == 1 })
	b.until("partition 1", recoveredOn(1))
	w.produce(8_000)
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	for _, e := range a.events {
		if e.Kind == EventClosed && e.Partition == 0 && e.Err != nil {
			t.Errorf("partition 0 stayed with a, yet it ended with %v", e.Err)
		}
	}
	if n := count(a, recoveredOn(0)); n != 1 {
		t.Errorf("partition 0 stayed with a, yet it was recovered %d times", n)
	}
	if err := b.end(); err != nil {
		t.Fatal(err)
	}
	o := w.options()
	o.StateDir = filepath.Join(w.dir, "c")
	for _, name := range []string{"job-member-1", "job-member-2"} {
		w.cluster.Evict("job", name)
	}
	w.run(o)
	w.results()
}

func count(d *daemon, is func(Event) bool) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.events {
		if is(e) {
			n++
		}
	}
	return n
}

// TestZombieIsInvisible pauses an owner inside a commit, lets another process take over, and wakes the first: nothing of
// its commit is visible, it asks the group and does not fight (R8, S07).
func TestZombieIsInvisible(t *testing.T) {
	for _, step := range []string{"commit.send", "commit.end"} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t, 2)
			w.produce(6_000)
			paused, wake := make(chan struct{}), make(chan struct{})
			var once sync.Once
			a := w.start(filepath.Join(w.dir, "a"), func(o *Options) {
				o.At = func(_ context.Context, p int32, at string) error {
					if p == 0 && at == step {
						once.Do(func() {
							close(paused)
							<-wake
						})
					}
					return nil
				}
			})
			<-paused
			w.cluster.Evict("job", "job-member-1")
			b := w.start(filepath.Join(w.dir, "b"), nil)
			b.until("partition 0", recoveredOn(0))
			b.until("partition 1", recoveredOn(1))
			b.until("a commit", func(e Event) bool { return e.Kind == EventCommitted && e.Partition == 0 })
			fences := w.cluster.Calls(kafkatest.OpFence)
			close(wake)
			a.until("the end of the zombie's task", func(e Event) bool { return e.Kind == EventClosed && e.Partition == 0 })
			if got := w.cluster.Calls(kafkatest.OpFence); got != fences {
				t.Errorf("%d fences after the zombie woke: it fights", got-fences)
			}
			if err := errors.Join(a.end(), b.end()); err != nil {
				t.Fatal(err)
			}
			w.cluster.Evict("job", "job-member-2")
			o := w.options()
			o.StateDir = filepath.Join(w.dir, "c")
			w.run(o)
			w.results()
		})
	}
}

// faulty is a tally that fails at one input offset of partition 0.
type faulty struct {
	tally
	fail func() error
}

func (f *faulty) Process(v *View, in *Input) error {
	if in.Offset == 1_500 {
		if err := f.fail(); err != nil {
			return err
		}
	}
	return f.tally.Process(v, in)
}

// TestRepeatedFailureStopsTheTask meets a record that panics, fails an assertion, or cannot be got past: the third time,
// or at once, the task stops and names the input position; the other task goes on (I8, R7).
func TestRepeatedFailureStopsTheTask(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func() error
		tries int
		want  string
	}{
		"panic":     {func() error { panic("poisoned record") }, 3, "poisoned record"},
		"assertion": {func() error { return errors.New("negative count") }, 3, "negative count"},
		"permanent": {func() error { return fmt.Errorf("wrong setting: %w", task.ErrPermanent) }, 1, "wrong setting"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.produce(6_000)
			var mu sync.Mutex
			tries := 0
			d := w.start(w.dir, func(o *Options) {
				o.Processor = func(p, _ int32, _ Limits) (Processor, error) {
					if p != 0 {
						return &tally{}, nil
					}
					return &faulty{fail: func() error {
						mu.Lock()
						tries++
						mu.Unlock()
						return c.fail()
					}}, nil
				}
			})
			e := d.until("the stop", func(e Event) bool { return e.Kind == EventClosed && e.Partition == 0 })
			if e.Err == nil || !strings.Contains(e.Err.Error(), c.want) || !strings.Contains(e.Err.Error(), "in/0") {
				t.Errorf("stopped with %v, want the cause and the partition", e.Err)
			}
			if tries != c.tries {
				t.Errorf("%d tries, want %d", tries, c.tries)
			}
			d.until("work of the other task", func(e Event) bool { return e.Kind == EventCommitted && e.Partition == 1 })
			if err := d.end(); err == nil {
				t.Error("the process ended without the error of its stopped task")
			}
		})
	}
}

// TestMissingInputIsWaitedFor starts before the input exists (S82).
func TestMissingInputIsWaitedFor(t *testing.T) {
	w := &world{t: t, cluster: kafkatest.New("cluster"), dir: t.TempDir()}
	asked := make(chan struct{}, 100)
	w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
		if c.Op == kafkatest.OpTopics {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		return kafkatest.Verdict{}
	})
	d := w.start(w.dir, func(o *Options) { o.Topics.Create = false })
	<-asked
	<-asked
	for _, name := range []string{"in", "out", "dead"} {
		w.cluster.CreateTopic(name, 2, nil)
	}
	d.until("partition 0", recoveredOn(0))
	if err := d.end(); err != nil {
		t.Fatal(err)
	}

	o := w.options()
	o.Input, o.Topics.Create = "nowhere", false
	app, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("until idle without an input: %v, want an error that names the topic", err)
	}
}

// TestChangelogThatLosesStateIsRefused names the value found, the value wanted and the repair (S62).
func TestChangelogThatLosesStateIsRefused(t *testing.T) {
	w := newWorld(t, 2)
	w.cluster.CreateTopic("changelog", 4, map[string]string{"cleanup.policy": "compact,delete", "message.timestamp.type": "CreateTime"})
	app, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	err = app.Run(t.Context())
	for _, want := range []string{"cleanup.policy=compact,delete", "wanted compact", "--add-config cleanup.policy=compact",
		"message.timestamp.type=CreateTime", "4 partitions and input in has 2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if kafka.ClassOf(err) != kafka.ClassPermanent {
		t.Errorf("class %v", kafka.ClassOf(err))
	}
	if n := w.cluster.Calls(kafkatest.OpFence); n != 0 {
		t.Errorf("%d fences before the refusal", n)
	}
}

// TestS34StartNeedsNoRoom starts where everything is written down already: nothing is written again, so that a full disk is
// in no start's way.
func TestS34StartNeedsNoRoom(t *testing.T) {
	path := t.TempDir()
	open := func() (id, lock os.FileInfo) {
		t.Helper()
		dir, _, err := openStateDir(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := dir.close(); err != nil {
			t.Fatal(err)
		}
		id, err1 := os.Stat(filepath.Join(path, idFile))
		lock, err2 := os.Stat(filepath.Join(path, lockFile))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return id, lock
	}
	id, lock := open()
	sameID, sameLock := open()
	if !os.SameFile(id, sameID) || !id.ModTime().Equal(sameID.ModTime()) {
		t.Error("the second start wrote the identity again")
	}
	if lock.Size() != sameLock.Size() || lock.Size() == 0 {
		t.Errorf("the lock file had %d bytes and has %d", lock.Size(), sameLock.Size())
	}
}

// TestStateDirectory holds the rules of section 5, Membership, for directories (S77, S78, R22).
func TestStateDirectory(t *testing.T) {
	root := t.TempDir()
	first := filepath.Join(root, "a")
	dir, _, err := openStateDir(first)
	if err != nil {
		t.Fatal(err)
	}
	if dir.instance != "" {
		t.Error("a directory made in this run has an instance id")
	}
	if _, _, err := openStateDir(first); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d on host %s:", os.Getpid(), hostname())) {
		t.Errorf("second process: %v", err)
	}
	if err := dir.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(first, lockFile), []byte("1\nsome other host"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, _, err := openStateDir(first) // the content of the lock file is for people only
	if err != nil {
		t.Fatal(err)
	}
	if !volumeOf(first).ephemeral && again.instance == "" {
		t.Error("a directory that outlived its process has no instance id")
	}
	if again.identity.UUID != dir.identity.UUID {
		t.Error("another uuid for the same directory")
	}
	raw, err := os.ReadFile(filepath.Join(first, idFile))
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(root, "b")
	if err := os.MkdirAll(second, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(second, idFile), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	copied, notes, err := openStateDir(second)
	if err != nil {
		t.Fatal(err)
	}
	if copied.identity.UUID == again.identity.UUID || len(notes) != 1 || copied.instance == again.instance && again.instance != "" {
		t.Errorf("a copied directory keeps its identity: %+v, notes %q", copied.identity, notes)
	}
	if err := errors.Join(copied.close(), again.close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(first, idFile), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openStateDir(first); err == nil || !strings.Contains(err.Error(), idFile) {
		t.Errorf("damaged id: %v", err)
	}
	var id identity
	if err := json.Unmarshal(raw, &id); err != nil || id.UUID == "" {
		t.Errorf("id file %s: %v", raw, err)
	}
}

// TestFailuresAtOtherPositionsAreNotAdded meets a record that fails once at many positions: the task goes on (I8).
func TestFailuresAtOtherPositionsAreNotAdded(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(8_000)
	failed := map[int64]bool{}
	o := w.options()
	o.Commit.MaxRecords = 8 // commits between the failures
	o.Processor = func(p, _ int32, _ Limits) (Processor, error) {
		if p != 0 {
			return &tally{}, nil
		}
		return &stumbling{failed: failed}, nil
	}
	w.run(o)
	w.results()
	if len(failed) < 2*maxRepeats {
		t.Fatalf("%d failures: the test has not tested", len(failed))
	}
}

// stumbling is a tally that panics once at every 500th offset.
type stumbling struct {
	tally
	failed map[int64]bool
}

func (s *stumbling) Process(v *View, in *Input) error {
	if in.Offset%500 == 499 && !s.failed[in.Offset] {
		s.failed[in.Offset] = true
		panic("stumbled")
	}
	return s.tally.Process(v, in)
}

// TestRestartAtOnceWaitsForTheDyingHolder starts while the former process has not yet let go of its lock, as after a
// SIGKILL of one with much memory.
func TestRestartAtOnceWaitsForTheDyingHolder(t *testing.T) {
	path := t.TempDir()
	first, _, err := openStateDir(path)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		second, _, err := openStateDir(path)
		if err == nil {
			err = second.close()
		}
		opened <- err
	}()
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("a restart at once is refused: %v", err)
	}
}

// The lag of a partition stays while due windows are still to be emitted, also when all input is committed: another
// process's UntilIdle goes by it, and must not end before somebody has emitted them (I10).
func TestLagStaysWhileWindowsAreDue(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(2*tallyWindow + 2) // the last record of each partition closes all windows before it
	end := w.cluster.Offsets("in", 0).HighWatermark
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	options := w.options()
	options.UntilIdle, options.Commit.MaxRecords = false, 8
	stuck := &kafka.Error{Class: kafka.ClassTransient, Op: "end transaction", Offset: -1, Err: context.DeadlineExceeded}
	var met atomic.Int32 // the partition
	met.Store(-1)
	options.Progress = func(e Event) {
		if e.Kind == EventCommitted && int64(e.Commit.Position) == end && e.Waiting > 0 && met.CompareAndSwap(-1, e.Partition) {
			w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict { // nothing is committed any more
				if c.Op == kafkatest.OpCommit {
					return kafkatest.Fail(stuck)
				}
				return kafkatest.Verdict{}
			})
			cancel()
		}
	}
	app, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	_ = app.Run(ctx) // its last commits fail
	if met.Load() < 0 {
		t.Fatal("no commit with windows left was met")
	}
	w.cluster.Inject(nil)
	admin, _ := w.cluster.Admin()
	offsets, err := admin.GroupOffsets(t.Context(), "job", "in")
	if err != nil || int64(offsets[met.Load()].Next) >= end {
		t.Errorf("the group knows all of partition %d as done, %+v (%v), and windows wait", met.Load(), offsets, err)
	}
	members, err := admin.Members(t.Context(), "job")
	if err != nil || len(members) != 1 {
		t.Fatal(members, err)
	}
	w.cluster.Evict("job", members[0].ID)
	w.dir = t.TempDir()
	w.run(w.options())
	w.results()
}
