package tidemark

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// runner owns one task for as long as the group assigns it: life after life, each beginning with a recovery and ending
// with an error or a stop (I8). One goroutine, that of run, touches the task.
type runner struct {
	app       *App
	partition int32
	log       *slog.Logger
	board     *board
	cluster   kafka.Cluster // the App's, watched
	again     bool          // guarded by App.mu: assigned again while stopping
	abandoned chan struct{} // closed when nobody waits for its end any more

	once    sync.Once
	stopped chan struct{}
	woken   chan struct{} // the changelog keeps tombstones for a shorter time than before
	how     stopKind      // valid when stopped is closed

	dir     *store.Dir // of the checkpoints, nil when it could not be opened
	held    *held      // what a life leaves to the next one; nil when there is nothing to trust
	halt    *halt      // the input ends here; nil for nowhere
	blame   *blame     // of the partition, whichever runner it has had
	working bool       // the present life, or the last one, has recovered
	refused refusedTold
	backoff time.Duration
}

// stopKind is how a task is stopped.
type stopKind uint8

const (
	stopNow        stopKind = iota // let go of everything at once
	stopRevoked                    // wait for the commit in flight, drop the open batch
	stopLost                       // the same; the base is left to the next runner, for nobody has said whose the task is now
	stopClean                      // commit the open batch, write a checkpoint if one is due
	stopCheckpoint                 // the same, and write a checkpoint of everything committed since the last one
)

// maxRepeats is how often an error that names a record, a panic or a failed assertion may come at one input position
// before the task stops (I8).
const maxRepeats = 3

// blame counts errors that would come again and again: of work at the same input position, which a recovery does not cure, and of
// recoveries in a row, which the next one does.
type blame struct {
	position   record.InputPosition
	work       int
	recoveries int
}

func newRunner(app *App, partition int32) *runner {
	b := newBoard(app, partition)
	return &runner{app: app, partition: partition, log: app.log.With("partition", partition), stopped: make(chan struct{}),
		abandoned: make(chan struct{}),
		woken:     make(chan struct{}, 1),
		backoff:   firstBackoff, board: b, cluster: watchedCluster{app.options.Cluster, b}}
}

// stop asks the runner to end; the first call decides how. It does not wait.
func (r *runner) stop(how stopKind) {
	r.once.Do(func() {
		r.how = how
		close(r.stopped)
	})
}

// wake makes the task look at what the changelog's settings are now.
func (r *runner) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

func (r *runner) stopping() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// run lives one life after the other until it is stopped, fenced for good, or meets an error that no recovery cures.
func (r *runner) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer r.part()
	for {
		err := r.live(ctx)
		switch {
		case err == nil:
			return nil
		case r.stopping():
			return r.interrupted(err)
		}
		if r.halts(err) {
			continue
		}
		r.failed(err)
		if stop := r.judge(err); stop != nil {
			r.board.stopped(stop)
			return stop
		}
		r.board.recovering()
		r.log.Warn("recovering", "class", kafka.ClassOf(err).String(), "cause", err, "backoff_ms", r.backoff.Milliseconds())
		if !r.pause() {
			return nil
		}
	}
}

// interrupted is judge for a life that was asked to stop before it ended with an error: the next start recovers. What
// would come again there is counted all the same, for a record that takes longer than a session costs the seat each time
// (I8).
func (r *runner) interrupted(err error) error {
	r.log.Warn("stopped in the middle: the next start recovers", "cause", err)
	class := kafka.ClassOf(err)
	if class != kafka.ClassCorrupt && class != kafka.ClassPermanent {
		return nil
	}
	stop := r.repeated(err)
	if class == kafka.ClassCorrupt {
		r.release()
	}
	if stop != nil {
		r.failed(err)
		r.board.stopped(stop)
	}
	return stop
}

// failed tells everybody of a failure.
func (r *runner) failed(err error) {
	r.emit(Event{Partition: r.partition, Kind: EventFailed, Err: err})
	r.app.totals.failed(err)
	r.board.failed(err)
}

// judge is the table of I8: what an error means for the task. It returns the error that stops the task, nil to go on
// with a recovery.
func (r *runner) judge(err error) error {
	switch class := kafka.ClassOf(err); class {
	case kafka.ClassTransient:
		return nil
	case kafka.ClassFenced:
		// The group is asked at the start of the next life; two heartbeats let it notice first (V11).
		r.backoff = 2 * heartbeat
		return nil
	case kafka.ClassLost:
		var e *kafka.Error
		if errors.As(err, &e) && r.app.isOutput(e.Topic) {
			return nil // it was made again: the next life writes to the new one, with a warning (D17)
		}
		return r.explain(err)
	case kafka.ClassCorrupt:
		stop := r.repeated(err)
		r.release()
		return stop
	default:
		return err
	}
}

// explain says in words what has become of the topics where that is why data are gone.
func (r *runner) explain(lost error) error {
	ctx, cancel := context.WithTimeout(context.Background(), session)
	defer cancel()
	if fault := r.app.lookout.check(ctx, now()); kafka.ClassOf(fault) == kafka.ClassLost {
		return errors.Join(fault, lost)
	}
	return lost
}

// repeated stops the task at the third error at one input position, and at the third recovery in a row that fails.
func (r *runner) repeated(err error) error {
	at := record.NoInput
	if r.held != nil {
		at = r.held.committed.Position
	}
	b := r.blame
	count := &b.recoveries
	if r.working {
		if b.position != at {
			b.position, b.work = at, 0
		}
		count = &b.work
	}
	if *count++; *count < maxRepeats {
		return nil
	}
	return fmt.Errorf("%s/%d: the same failure %d times after input position %d: %w: "+
		"find the cause, or pass the record with tidemark skip", r.app.options.Input, r.partition, maxRepeats, at, err)
}

// emit tells of an event. Progress is the job's own code: where it hangs, the task hangs.
func (r *runner) emit(e Event) {
	if work := &r.board.work; work.since.Load() == 0 {
		work.begin(&opWork, -1)
		defer work.end()
	}
	r.app.emit(e)
}

// pause waits out the back-off; a stop ends it.
func (r *runner) pause() bool {
	timer := time.NewTimer(r.backoff)
	defer timer.Stop()
	r.backoff = min(2*r.backoff, maxBackoff)
	select {
	case <-r.stopped:
		return false
	case <-timer.C:
		return true
	}
}

// live recovers the task and works until something goes wrong or it is stopped. A panic is an error like any other: it
// ends the life, not the process.
func (r *runner) live(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = kafka.Recovered(cause, "process", r.app.options.Input, r.partition)
		}
		var p *kafka.Panic
		if errors.As(err, &p) {
			r.log.Error("panic", "cause", p.Cause, "stack", string(p.Stack))
		}
	}()
	r.working = false
	l, err := r.recover(ctx)
	if err != nil {
		return err
	}
	r.working, r.blame.recoveries = true, 0
	defer l.end()
	return l.work(ctx)
}

// life is a recovered task at work.
type life struct {
	r         *runner
	recovered *recovery.Recovered
	started   time.Duration // of the recovery
	task      *task.Task
	sender    *sender
	log       kafka.Log // of the input
	input     *kafka.ReadAhead
	fetched   *kafka.Read          // the last one taken ...
	pending   []task.Input         // ... and what is left of its records
	next      record.InputPosition // the reader's position after pending
	begun     time.Time            // start of the last commit
	batch     *task.Batch          // the last commit
	settled   record.InputPosition // the last position told to the group
	idle      bool                 // told the App
	saver     *saver
	silence   *silence
	shown     facts // last, on the board
}

// foldChunk is how many records are folded before the loop looks around again.
const foldChunk = 2048

// work folds input and commits until an error or a stop. It never waits without an event that ends the wait: input, the
// outcome of a commit, the pace of commits, a checkpoint's next slice, a stop.
func (l *life) work(ctx context.Context) error {
	pace := time.NewTimer(0)
	defer pace.Stop()
	work := &l.r.board.work
	defer work.end()
	for {
		work.begin(&opWork, -1)
		if err := l.fold(); err != nil {
			return err
		}
		if err := l.beginIfDue(pace); err != nil {
			return err
		}
		l.settle()
		l.saver.startIfDue()
		var more <-chan struct{}
		if len(l.ready()) > 0 && !l.task.Full() {
			more = always
		}
		var fetched <-chan *kafka.Read
		if len(l.pending) == 0 {
			fetched = l.input.Reads()
		}
		work.end()
		select {
		case <-l.r.stopped:
			work.begin(&opWork, -1)
			return l.finish()
		case <-ctx.Done():
			return ctx.Err()
		case s := <-l.sender.results:
			work.begin(&opWork, -1)
			if err := l.committed(s); err != nil {
				return err
			}
		case read := <-fetched:
			if err := l.read(read); err != nil {
				return err
			}
		case <-l.silence.lasts():
			work.begin(&opWork, -1)
			if err := l.silent(); err != nil {
				return err
			}
		case <-l.saver.wants():
			work.begin(&opWork, -1)
			if err := l.saver.slice(); err != nil {
				return err
			}
		case o := <-l.saver.outcome():
			if err := l.saver.ended(o); err != nil {
				return err
			}
		case <-l.saver.due.C:
			l.saver.armed = false
		case <-l.r.woken:
			l.task.Retain(l.r.app.topics().retention)
		case <-more:
		case <-pace.C:
		}
	}
}

// always is a channel that is always ready.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// fold folds a chunk of what was fetched.
func (l *life) fold() error {
	if len(l.pending) == 0 || l.task.Full() {
		return nil
	}
	if err := l.r.board.room("fold", 0); err != nil {
		return err
	}
	in := l.ready()
	if len(in) == 0 && !l.task.Dirty() && !l.task.InFlight() {
		return l.r.halt.err
	}
	n, err := l.task.Fold(in)
	if err != nil {
		return l.inputError(err)
	}
	l.pending = l.pending[n:]
	l.passed()
	return nil
}

// passed moves the position over markers when all that was fetched is folded.
func (l *life) passed() {
	if len(l.pending) == 0 {
		l.pending = nil
		if l.fetched != nil {
			l.fetched.Served()
		}
		l.task.PassMarkers(l.next)
	}
}

func (l *life) inputError(err error) error {
	class := kafka.ClassCorrupt
	offset := int64(-1)
	var input *task.InputError
	switch {
	case errors.As(err, &input):
		class, offset = kafka.ClassLost, input.Offset
	case errors.Is(err, task.ErrPermanent):
		class = kafka.ClassPermanent
	}
	return &kafka.Error{Class: class, Op: "fold", Topic: l.r.app.options.Input, Partition: l.r.partition, Offset: offset, Err: err}
}

// beginIfDue begins a commit when nothing is in flight and the batch is full, or the last commit began long enough ago.
func (l *life) beginIfDue(pace *time.Timer) error {
	if l.task.InFlight() || !l.task.Dirty() {
		return nil
	}
	if wait := l.r.app.interval() - time.Since(l.begun); wait > 0 && !l.task.Full() {
		pace.Reset(wait)
		return nil
	}
	return l.begin()
}

func (l *life) begin() error {
	l.begun = time.Now()
	l.task.Limit(l.r.app.commitLimits())
	batch, err := l.task.Begin()
	if err != nil {
		return l.corrupt("begin commit", err)
	}
	l.batch = batch
	l.sender.batches <- batch
	if defect.StateFirst {
		return l.merge()
	}
	return nil
}

// merge makes the commit in flight part of the base.
func (l *life) merge() error {
	for _, effect := range []task.Effect{task.EffectSend, task.EffectEnd} {
		if err := l.task.Did(effect); err != nil {
			return l.corrupt("merge commit", err)
		}
	}
	l.r.held.committed = l.task.Committed()
	return nil
}

// committed takes the outcome of the commit in flight: success merges it into the base, anything else ends this life.
func (l *life) committed(s sent) error {
	if s.err != nil {
		return s.err
	}
	inputs, closed, before := l.batch.Inputs, l.batch.Closed, l.task.Committed()
	if l.batch.Commit.Counters.DeadLettered != before.Counters.DeadLettered {
		l.r.app.totals.letters.add(l.batch.Messages)
	}
	l.r.board.committed(before, l.batch.Commit)
	l.r.tellRefused(&before.Counters, &l.batch.Commit.Counters, l.batch.Messages, l.task.Processor())
	if !defect.StateFirst {
		if err := l.merge(); err != nil {
			return err
		}
	}
	l.r.held.position, l.r.held.timeMS = s.position, l.brokerTime(l.begun)
	l.r.backoff = firstBackoff
	l.r.board.trouble.Store(nil)
	l.r.app.totals.committed(before, l.task.Committed(), inputs, s.took)
	l.r.app.totals.warn(l.r.log)
	l.shown.at, l.shown.took = time.Now(), s.took
	l.reportFirst()
	l.tellGroup()
	if err := l.task.Did(task.EffectOffset); err != nil {
		return l.corrupt("end commit", err)
	}
	l.r.emit(Event{Partition: l.r.partition, Kind: EventCommitted, Commit: l.task.Committed(), Inputs: inputs, Closed: closed,
		Waiting: l.task.Waiting(), Took: s.took})
	if l.task.Waiting() == 0 {
		l.reach(l.task.Committed().Position)
	}
	return nil
}

func (l *life) corrupt(op string, err error) error {
	o := l.r.app.options
	return &kafka.Error{Class: kafka.ClassCorrupt, Op: op, Topic: o.Changelog.Topic, Partition: l.r.partition, Offset: -1, Err: err}
}

// tellGroup sets the group's offset to the position of everything committed.
func (l *life) tellGroup() {
	c := l.task.Committed()
	next := c.Position
	switch {
	case !l.task.Dirty() && !l.task.InFlight():
		next = l.task.Position() // past markers, so that lag reaches zero
	case l.task.Waiting() > 0:
		// Lag stays while due windows are to be emitted: another process's UntilIdle, which has nothing else to go by,
		// must not take the partition for done and leave them where they are.
		next = max(next-1, 0)
	}
	l.settled = next
	l.show()
	l.r.app.offsets.set(l.r.partition, next, c.Birth, c.Number)
}

// settle tells the group of markers passed while there was nothing to commit, and the App of a task that has reached
// its target.
func (l *life) settle() {
	if len(l.pending) > 0 || l.task.Dirty() || l.task.InFlight() {
		return
	}
	if l.task.Position() != l.settled {
		l.tellGroup()
	}
	l.showEnd()
	l.reach(l.task.Position())
}

// reach tells the App when everything up to the task's target is committed. What comes after it does not count: input
// that never pauses must not keep a run with UntilIdle alive.
func (l *life) reach(committed record.InputPosition) {
	target, ok := l.r.app.targets[l.r.partition]
	if !ok || l.idle || int64(committed) < target {
		return
	}
	l.idle = true
	select {
	case l.r.app.idle <- l.r.partition:
	case <-l.r.stopped:
	}
}

// finish ends the life after a stop: the commit in flight is waited for, and after a clean stop what is folded is
// committed and a checkpoint written if due. What runs here is watched like all work: a stop that hangs would never end.
func (l *life) finish() error {
	how := l.r.how
	if how == stopNow || l.r.isAbandoned() {
		return nil
	}
	if err := l.await(); err != nil {
		return err
	}
	if how == stopRevoked || how == stopLost {
		l.task.Drop()
		return nil
	}
	if l.task.Dirty() {
		if err := l.begin(); err != nil {
			return err
		}
		if err := l.await(); err != nil {
			return err
		}
	}
	if l.r.isAbandoned() {
		return nil
	}
	return l.saver.finish(how == stopCheckpoint)
}

// await waits for the commit in flight.
func (l *life) await() error {
	if !l.task.InFlight() {
		return nil
	}
	l.r.board.work.end()
	s := <-l.sender.results
	l.r.board.work.begin(&opWork, -1)
	return l.committed(s)
}

// end lets go of what belongs to this life; base and commit record stay for the next one.
func (l *life) end() {
	l.r.board.work.begin(&opEnd, -1)
	defer l.r.board.work.end()
	l.input.Stop()
	if l.fetched != nil {
		l.fetched.Served()
	}
	l.log.Close()
	l.sender.close()
	l.saver.drop()
	l.task.Drop()
}
