package tidemark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// The timeouts of section 5, in the order in which they must grow.
const (
	heartbeat = 250 * time.Millisecond // a planned handover waits for the next one of the others
	session   = 6 * time.Second
	watchdog  = status.Watchdog // an effect that is not answered by then is given up

	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// ErrUnreachable is returned by Run when no broker answered within 30 seconds of its start. A running App never ends
// because brokers are away.
var ErrUnreachable = errors.New("no broker answered")

// ErrDirectory is returned by Run when the state directory cannot be used.
var ErrDirectory = errors.New("state directory")

// App runs one job in this process: the tasks that the group assigns to it. Make it with New, run it with Run, once.
type App struct {
	options Options
	log     *slog.Logger
	dir     *stateDir
	admin   kafka.Admin
	group   kafka.Group
	known   atomic.Pointer[topics]
	lookout *lookout
	offsets *offsetSetter
	joinMS  float64 // from the start of Run to the first assignment
	here    atomic.Pointer[here]
	used    atomic.Int64                // bytes of the states of all tasks
	waiting atomic.Pointer[status.Wait] // what the process as a whole waits for
	totals  totals
	rates   rates

	ran  atomic.Bool
	deaf bool // the job's own code has not come back from the news of a task's end; of Run's goroutine

	stacked atomic.Int64 // when the stacks of all goroutines were logged, by now

	// Only the goroutine of Run changes the maps. It holds mu no longer than that: whoever asks for the Status waits for
	// nobody, neither the job's own code nor a log.
	mu      sync.Mutex
	runners map[int32]*runner
	boards  map[int32]*board // of the runners, and of tasks that have stopped with an error
	ended   chan ended       // runners that are gone
	idle    chan int32       // partitions that have nothing left to do
	targets map[int32]int64
	loading chan struct{} // bounds parallel recoveries (I13)

	accepted     map[int32]bool // guarded by mu: tasks that have had their one recovery that accepts a loss
	inputRoom    *kafka.Room    // for input that is tightly packed
	diskPatience time.Duration  // how long a stop waits for a disk that does not answer
	hung         chan hang      // tasks that do not come back

	seatless bool              // guarded by mu: the seat in the group is lost
	parted   map[int32]*runner // guarded by mu: runners that have ended with the seat, and have left their base
	blames   map[int32]*blame  // guarded by mu: what a partition's runners have failed at; each is its present runner's
}

// ended tells that a runner is gone and why; nil after a stop that was asked for.
type ended struct {
	partition int32
	runner    *runner
	err       error
}

// New checks the options, and names all faults at once. It touches neither disk nor network.
func New(options Options) (*App, error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Files == nil {
		options.Files = store.Disk
	}
	if options.Commit == (Commit{}) {
		options.Commit = DefaultCommit
	}
	options.Checkpoint = cmp.Or(options.Checkpoint, DefaultCheckpoint)
	if faults := options.faults(); len(faults) > 0 {
		return nil, errors.New(strings.Join(faults, "; "))
	}
	return &App{options: options, log: options.Log, runners: map[int32]*runner{}, boards: map[int32]*board{}, ended: make(chan ended),
		idle: make(chan int32), loading: make(chan struct{}, maxLoads), accepted: map[int32]bool{}, parted: map[int32]*runner{},
		blames:       map[int32]*blame{},
		diskPatience: watchdog, inputRoom: kafka.NewRoom(inputExcess()), hung: make(chan hang, 1)}, nil
}

// recordBudget is how many full commits' worth of records all tasks of an instance may have under way together: many busy
// tasks with full batches would wait seconds for each other (hot.md F).
const recordBudget = 4

// commitLimits are the present limits of one commit of one task.
func (a *App) commitLimits() (records, bytes int) {
	c, tasks := a.options.Commit, max(a.running(), 1)
	if tasks <= recordBudget {
		return c.MaxRecords, c.MaxBytes
	}
	return max(c.MaxRecords*recordBudget/tasks, min(c.MaxRecords, leastRecords)), max(c.MaxBytes*recordBudget/tasks, min(c.MaxBytes, leastBytes))
}

// Below these a commit costs more than what is in it.
const (
	leastRecords = 1000
	leastBytes   = 256 << 10
)

// inputLimit is the present size of one read of one task's input: the tasks share it, for each has three reads in
// memory, decoded to about twice their size (I13).
func (a *App) inputLimit() int { return max(inputBudget/max(a.running(), 1), leastInput) }

const (
	inputBudget = 4 << 20
	leastInput  = 128 << 10
)

// inputApart is how far apart the reads of a task that keeps up begin. Input that trickles in would else be asked for as
// often as a producer writes, by each task: the instance as a whole asks 1,000 times a second, which a broker hardly
// feels, or once per commit of each task. A reading after a pause does not wait, nor does a task that is behind.
func (a *App) inputApart() time.Duration {
	return min(time.Duration(a.running())*time.Millisecond, a.interval())
}

// maxLoads is how many tasks of one process load or replay at the same time.
const maxLoads = 4

// Run runs the job until the context ends, which is a clean stop: open batches are committed, checkpoints that are due
// are written, the seat in the group is kept or given up as the options say. With UntilIdle it also returns when all
// input that was there at its start is committed and nothing due is left. An error says what stopped the job. A second call
// is refused.
func (a *App) Run(ctx context.Context) (err error) {
	if a.ran.Swap(true) {
		return errors.New("this App has been run: make a new one with New")
	}
	var notes []string
	if a.dir, notes, err = openStateDir(a.options.StateDir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.dir.close()) }()
	for _, note := range notes {
		a.log.Warn(note)
	}
	a.here.Store(&here{started: time.Now(), instance: a.dir.identity.UUID, path: a.dir.absolute(), limit: stateLimit(&a.options)})
	a.await(status.ForBroker, "a broker to answer")
	if a.options.Listen != "" {
		page, err := a.serve()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, page.close()) }()
	}
	if a.admin, err = a.options.Cluster.Admin(); err != nil {
		return err
	}
	defer a.admin.Close()
	if err := a.prepare(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if a.options.UntilIdle {
		if a.targets, err = a.highWatermarks(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
	if err := a.newcomer(ctx); err != nil {
		return err
	}
	if err := a.join(); err != nil {
		return err
	}
	a.offsets = startOffsetSetter(a.group, a.log)
	a.lookout = a.startLookout()
	defer a.watch()()
	err = a.supervise(ctx)
	a.lookout.stop()
	a.offsets.close()
	a.quit()
	return err
}

// join takes a seat in the group: the old one when the directory has an identity that outlives the process, else a new
// one after the old one is evicted (section 5, Membership).
func (a *App) join() (err error) {
	a.group, err = a.options.Cluster.Group(kafka.GroupOptions{
		Group: a.options.Job, Topic: a.options.Input, Instance: a.dir.instance, Evict: a.dir.identity.Member,
		Session: session, Heartbeat: heartbeat,
		Joined: func(id string) {
			if err := a.dir.setMember(id); err != nil {
				a.log.Warn("member id not written down: after a crash the next start waits for the session to end", "error", err)
			}
		},
	})
	return err
}

// supervise starts and stops tasks as the group assigns them, until the context ends, everything is idle, or a task
// has stopped for good.
func (a *App) supervise(ctx context.Context) error {
	idle := newIdleness(a)
	joining, joined := now(), false
	a.await(status.ForGroup, "the group to give this process its partitions")
	var failed error
	for {
		select {
		case <-ctx.Done():
			a.log.Info("stopping: what is open is committed first")
			err := errors.Join(failed, a.stopAll(stopClean))
			a.log.Info("stopped")
			return err
		case assigned, ok := <-a.group.Assignments():
			if !ok {
				return errors.Join(a.whyOver(ctx), failed, a.stopAll(stopNow))
			}
			if !joined { // before the first task, which reads it
				a.joinMS, joined = milliseconds(now()-joining), true
			}
			a.offsets.assigned(assigned)
			a.assign(ctx, assigned)
			a.waiting.Store(nil)
			idle.assigned(assigned)
		case p := <-a.idle:
			idle.own(p)
		case h := <-a.hung:
			if a.abandon(h) {
				return errors.Join(h.err, failed, a.stopAll(stopClean))
			}
		case e := <-a.ended:
			_, hung := a.forget(e)
			if e.err != nil {
				failed = errors.Join(failed, e.err)
				a.log.Error("task stopped", "partition", e.partition, "error", e.err)
			}
			if hung != nil {
				return errors.Join(hung, failed, a.stopAll(stopClean))
			}
		case err := <-a.lookout.lost:
			// What was consumed belongs to something else: nothing of it is committed or told any more.
			a.offsets.silence()
			return errors.Join(failed, err, a.stopAll(stopNow))
		case <-idle.poll():
			idle.others(ctx)
		}
		if failed != nil && (a.options.UntilIdle || a.running() == 0) {
			return errors.Join(failed, a.stopAll(stopClean))
		}
		if a.options.UntilIdle && idle.reached() {
			return a.stopAll(stopCheckpoint)
		}
	}
}

// assign starts the tasks that are new in the list and stops those that are not in it any more; the others go on
// undisturbed.
func (a *App) assign(ctx context.Context, partitions []int32) {
	wanted := map[int32]bool{}
	for _, p := range partitions {
		wanted[p] = true
	}
	a.distribute(ctx, partitions, wanted)
	a.letGo(func(p int32) bool { return !a.seatless && !wanted[p] })
	a.log.Info("assigned", "partitions", partitions)
}

func (a *App) distribute(ctx context.Context, partitions []int32, wanted map[int32]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seatless = partitions == nil
	how := stopRevoked
	if a.seatless {
		how = stopLost
	}
	for _, b := range a.boards {
		b.seatLost(a.seatless)
	}
	for p, r := range a.runners {
		if !wanted[p] {
			r.stop(how)
			r.again = false
		}
	}
	maps.DeleteFunc(a.boards, func(p int32, b *board) bool { return !wanted[p] && a.runners[p] == nil && b.lost.Load() == nil })
	for _, p := range partitions {
		if p >= a.topics().identity.Input.Partitions {
			a.lookout.hurry() // the input has grown: a stop, before anything of the new partition is read (S61)
			continue
		}
		if r := a.runners[p]; r == nil {
			a.start(ctx, p)
		} else if r.stopping() {
			r.again = true // assigned again before the old life ended: forget starts the next one
		}
	}
}

// start is called with mu held.
func (a *App) start(ctx context.Context, partition int32) {
	r := newRunner(a, partition)
	if a.blames[partition] == nil {
		a.blames[partition] = &blame{}
	}
	r.blame = a.blames[partition]
	r.inherit(a.parted[partition])
	delete(a.parted, partition)
	a.runners[partition], a.boards[partition] = r, r.board
	go func() {
		err := r.run(context.WithoutCancel(ctx))
		select {
		case a.ended <- ended{partition, r, err}:
		case <-r.abandoned:
		}
	}()
}

// forget takes a runner off the list, and starts its next life where the partition has come back meanwhile. It tells
// whether the runner was on it, and returns the error of the job's own code that does not come back from the news.
func (a *App) forget(e ended) (known bool, hung error) {
	if !a.strike(e) {
		return false, nil // abandoned, and come back after all
	}
	hung = a.closed(Event{Partition: e.partition, Kind: EventClosed, Err: e.err})
	if e.runner.again && e.err == nil {
		a.mu.Lock()
		a.start(context.Background(), e.partition)
		a.mu.Unlock()
	}
	a.letGo(func(p int32) bool { return !a.seatless && p == e.partition })
	return true, hung
}

// strike takes a runner off the list, if it is there, and puts it where its base can be inherited.
func (a *App) strike(e ended) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runners[e.partition] != e.runner {
		return false
	}
	delete(a.runners, e.partition)
	if b := a.boards[e.partition]; e.err == nil && b.lost.Load() == nil {
		delete(a.boards, e.partition) // what stopped with an error, or with the seat, is shown until the group has spoken
	}
	a.parted[e.partition] = e.runner
	return true
}

// letGo gives the bases up that runners have left, where it is said.
func (a *App) letGo(where func(int32) bool) {
	var gone []*runner
	a.mu.Lock()
	for p, r := range a.parted {
		if where(p) {
			gone = append(gone, r)
			delete(a.parted, p)
		}
	}
	a.mu.Unlock()
	for _, r := range gone {
		r.release()
	}
}

func (a *App) running() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.runners)
}

// slowStop is how long a stop takes before it says what it waits for.
const slowStop = 5 * time.Second

// stopAll stops every task and waits until all are gone: ended, or given up because they hang. A stop that takes long is
// neither silent nor without an end (I12).
func (a *App) stopAll(how stopKind) (failed error) {
	a.mu.Lock()
	for _, r := range a.runners {
		r.again = false
		r.stop(how)
	}
	a.mu.Unlock()
	slow := time.NewTimer(slowStop)
	defer slow.Stop()
	told := false
	for a.running() > 0 {
		if told {
			a.await(status.ForTasks, fmt.Sprintf("the tasks of partitions %v to end: the job stops", slices.Sorted(maps.Keys(a.runners))))
		}
		select {
		case e := <-a.ended:
			if known, hung := a.forget(e); known {
				failed = errors.Join(failed, e.err, hung)
			}
		case h := <-a.hung:
			if a.abandon(h) {
				failed = errors.Join(failed, h.err)
			}
		case <-a.idle:
		case err := <-a.lookout.lost: // as in supervise
			a.offsets.silence()
			failed = errors.Join(failed, err)
		case <-slow.C:
			told = true
			a.log.Warn("the stop waits for tasks that have not ended", "partitions", slices.Sorted(maps.Keys(a.runners)))
		}
	}
	if told {
		a.waiting.Store(nil)
	}
	a.letGo(func(int32) bool { return true })
	return failed
}

// whyOver says why the group gives no more assignments: a seat that another process has taken is told with what to do.
func (a *App) whyOver(ctx context.Context) error {
	if _, err := a.group.Ask(ctx, 0); err != nil {
		return err
	}
	return errors.New("the group has closed")
}

// quit leaves the group for good or keeps the seat for a restart.
func (a *App) quit() {
	if !a.options.Leave && !a.options.UntilIdle {
		a.group.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), session)
	defer cancel()
	if err := a.group.Leave(ctx); err != nil {
		a.log.Warn("seat in the group not given up: it ends with the session", "error", err)
	}
}

func (a *App) emit(e Event) {
	if a.options.Progress != nil {
		a.options.Progress(e)
	}
}

// topics are the job's topics as they were last seen.
func (a *App) topics() *topics { return a.known.Load() }

// interval is the time between commits of one task that are not full: never below the configured one, and longer where
// the instance as a whole would commit too often (R19).
func (a *App) interval() time.Duration {
	interval := a.options.Commit.Interval
	if budget := a.options.Commit.MaxPerSecond; budget > 0 {
		interval = max(interval, time.Duration(a.running())*time.Second/time.Duration(budget))
	}
	return interval
}

// hostname is the name of this machine for fence records.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// wait waits for d and tells whether the context is still alive.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
