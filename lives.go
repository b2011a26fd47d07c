package tidemark

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// held is what one life of a task leaves to the next: its base, exactly the state at the last commit known to have
// succeeded (R25), and the task with its index over it.
type held struct {
	store     *store.Memory
	task      *task.Task
	committed *record.Commit
	position  record.ChangelogPosition
	timeMS    int64 // broker time at position; errors make it older
}

// inputWait is how long a read of the input waits for something to come.
const inputWait = 500 * time.Millisecond

// fresh is how old a look at the topics may be that a recovery relies on.
const fresh = time.Second

// release lets go of the base.
func (r *runner) release() {
	if r.held == nil {
		return
	}
	r.board.use(store.Usage{})
	if err := r.held.store.Close(); err != nil {
		r.log.Warn("memory of the state not given back", "error", err)
	}
	r.held = nil
}

// part lets go of the base at the runner's end. Where only the seat was lost it stays: brokers that were away for a
// session cost no restore when they are back. The next recovery judges the base like a checkpoint, by birth, commit
// number, position and age, and replays onto it what others have committed meanwhile (I8, R13), so it does not matter
// who owned the task in between.
func (r *runner) part() {
	if !r.stopping() || r.how != stopLost {
		r.release()
	}
}

// inherit takes over the base that an earlier runner of the task has left.
func (r *runner) inherit(old *runner) {
	if old == nil || old.held == nil {
		return
	}
	r.held, old.held = old.held, nil
	old.board.use(store.Usage{})
	r.board.use(r.held.store.Usage())
}

// recover runs the one recovery path and makes a life out of what it proved.
func (r *runner) recover(ctx context.Context) (*life, error) {
	started := now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // a recovery is interrupted by any stop
		select {
		case <-r.stopped:
			cancel(nil)
		case <-ctx.Done():
		}
	}()
	r.board.recovering()
	r.emit(Event{Partition: r.partition, Kind: EventRecovering})
	if err := r.app.lookout.check(ctx, now()-fresh); err != nil {
		return nil, err
	}
	proc, err := r.processor()
	if err != nil {
		return nil, err
	}
	r.app.totals.know(proc.Aggregations())
	r.openDir()
	turn := &turn{free: r.app.loading, board: r.board}
	defer turn.end()
	rec := r.recovery(ctx, proc, turn, cancel)
	var made *life
	begun := false
	defer func() {
		if begun { // else an error, or a panic of the job's own code
			return
		}
		if made != nil {
			made.undo()
		}
		r.useBase()
	}()
	recovered, err := rec.Run(ctx)
	if err != nil {
		interrupted := rec.Report()
		r.warnings(&interrupted)
		if full := context.Cause(ctx); kafka.ClassOf(full) == kafka.ClassPermanent {
			return nil, full // the state does not fit
		}
		return nil, err
	}
	if err := r.acceptLoss(ctx, rec, recovered); err != nil {
		return nil, err
	}
	made = &life{r: r, recovered: recovered, started: started, settled: record.NoInput}
	if err := made.open(proc); err != nil {
		return nil, err
	}
	begun = true
	return made, nil
}

// undo lets go of what a life that does not begin was given, and of what it has made. A base that is held is the runner's.
func (l *life) undo() {
	if l.silence != nil { // made last
		l.end()
		return
	}
	if l.log != nil {
		l.log.Close()
	}
	l.recovered.Writer.Close()
	if held := l.r.held; held == nil || held.store != l.recovered.Store {
		if err := l.recovered.Store.Close(); err != nil {
			l.r.log.Warn("memory of the state not given back", "error", err)
		}
	}
}

// useBase shows what the base takes, after a recovery that has come to nothing: what it had in memory is given back, and
// counted on it would leave less and less room for others (I13).
func (r *runner) useBase() {
	u := store.Usage{}
	if r.held != nil {
		u = r.held.store.Usage()
	}
	r.board.use(u)
}

// warnings says what a recovery found on its way, be it one that did not come to its end.
func (r *runner) warnings(report *recovery.Report) {
	for _, warning := range report.Warnings {
		r.log.Warn(warning)
	}
}

// turn bounds how many tasks load and replay at the same time (I13). It is taken with the load, not before: a task that
// waits for another producer's transaction must not hold up the others.
type turn struct {
	free  chan struct{}
	board *board
	taken bool
}

func (t *turn) at(ctx context.Context, step recovery.Step) error {
	switch {
	case step == recovery.StepLoad && !t.taken:
		defer t.board.wait(status.ForTurn, fmt.Sprintf("a turn: %d other tasks of this process load their state", maxLoads))()
		select {
		case t.free <- struct{}{}:
			t.taken = true
		case <-ctx.Done():
			return ctx.Err()
		}
	case step == recovery.StepAnchor:
		t.end()
	}
	return nil
}

func (t *turn) end() {
	if t.taken {
		<-t.free
		t.taken = false
	}
}

// processor returns the Processor of the held task, or a new one.
func (r *runner) processor() (Processor, error) {
	if r.held != nil {
		return r.held.task.Processor(), nil
	}
	return r.app.processor(r.partition)
}

// processor makes the Processor of a partition. What is wrong with it is permanent: another attempt would be told the same.
// Its aggregations have a result topic each, or the first result of one that has none would be a panic.
func (a *App) processor(partition int32) (Processor, error) {
	proc, err := a.options.Processor(partition, a.topics().identity.Input.Partitions, a.topics().limits)
	switch {
	case err != nil:
	case proc == nil:
		err = errors.New("Options.Processor has returned none")
	case a.options.Relay == nil:
		all := proc.Aggregations()
		has, named := len(all), len(a.options.Results)
		for has > named && all[has-1].Silent {
			has--
		}
		if has != named {
			err = fmt.Errorf("it has %d aggregations, and Options.Results names %d topics: name one for each, in the Processor's order", has, named)
		}
	}
	if err != nil {
		return nil, &kafka.Error{Class: kafka.ClassPermanent, Op: "make the processor of", Topic: a.options.Input, Partition: partition, Offset: -1, Err: err}
	}
	return proc, nil
}

func (r *runner) recovery(ctx context.Context, proc Processor, turn *turn, cancel context.CancelCauseFunc) *recovery.Recovery {
	a := r.app
	rec := a.recoveryOf(r.cluster, r.partition, proc)
	rec.Ask, rec.GroupOffset, rec.Checkpoints, rec.Accept = r.ask, r.groupOffset, r.dir, a.acceptable(r.partition)
	rec.Keep, rec.FetchBytes = a.options.Checkpoint, replayBytes()
	rec.At = func(step recovery.Step) error {
		r.board.step(step)
		if err := turn.at(ctx, step); err != nil {
			return err
		}
		if err := r.roomFor(step); err != nil {
			return err
		}
		return r.at(ctx, "recover."+string(step))
	}
	rec.Progress = func(p recovery.Progress) {
		r.board.progress(&p)
		if err := r.board.room("replay", 0); err != nil && r.held == nil {
			cancel(err)
		}
		r.emit(Event{Partition: r.partition, Kind: EventProgress, Progress: &p})
	}
	if h := r.held; h != nil {
		rec.Live = &recovery.Live{Store: h.store, Position: h.position, TimeMS: h.timeMS, Commit: h.committed, Changed: h.task.Replayed}
	}
	return rec
}

// recoveryOf is a recovery of a task as far as all have it in common; who owns the task, and how to ask, is left open.
func (a *App) recoveryOf(cluster kafka.Cluster, partition int32, proc Processor) *recovery.Recovery {
	return &recovery.Recovery{
		Cluster: cluster, Job: a.options.Job, Partition: partition, Identity: a.topics().identity, Aggregations: aggregations(proc),
		RetentionMS: a.topics().retention, TZData: a.options.TZData,
		Host: hostname(), PID: int64(os.Getpid()), Version: a.options.Version,
		Start:  func(ctx context.Context) (record.InputPosition, error) { return a.startOffset(ctx, cluster, partition) },
		Random: random,
		Now:    now,
	}
}

// ask asks the group whether the partition is still ours. A rebalance is waited for as long as it takes.
func (r *runner) ask(ctx context.Context) (bool, error) {
	defer r.board.wait(status.ForGroup, "the group "+r.app.options.Job+" to agree who owns the partition")()
	return r.app.group.Ask(ctx, r.partition)
}

// groupOffset asks where the group stands. While that is not answered the task waits for a broker: it does not hang.
func (r *runner) groupOffset(ctx context.Context) (kafka.GroupOffset, bool, error) {
	defer r.board.wait(status.ForBroker, "the offsets of group "+r.app.options.Job)()
	ctx, cancel := context.WithTimeout(ctx, watchdog)
	defer cancel()
	offsets, err := r.app.group.Offsets(ctx)
	offset, ok := offsets[r.partition]
	return offset, ok, err
}

// startOffset resolves where a task that is born begins to read.
func (a *App) startOffset(ctx context.Context, cluster kafka.Cluster, partition int32) (record.InputPosition, error) {
	o := a.options
	log, err := cluster.Log(o.Input, partition)
	if err != nil {
		return record.NoInput, err
	}
	defer log.Close()
	if !o.Start.Time.IsZero() {
		at, err := log.OffsetAt(ctx, o.Start.Time.UnixMilli())
		return record.InputPosition(at), err
	}
	offsets, err := log.Offsets(ctx)
	if o.Start.Latest {
		return record.InputPosition(offsets.HighWatermark), err
	}
	return record.InputPosition(offsets.Start), err
}

// at passes a named step to the crash tests.
func (r *runner) at(ctx context.Context, step string) error {
	if r.app.options.At == nil {
		return nil
	}
	return r.app.options.At(ctx, r.partition, step)
}

// open makes the task out of what was recovered, or takes the held one up again, and starts reading and sending.
func (l *life) open(proc Processor) (err error) {
	r, rec := l.r, l.recovered
	if defect.GroupOffset {
		if o, ok, err := r.groupOffset(context.Background()); ok && err == nil {
			rec.Commit.Position = o.Next
		}
	}
	if defect.OffByOne {
		rec.Commit.Position++
	}
	if defect.CheckpointWithoutCommit && rec.Report.Checkpoint != "" && rec.Report.Records == 0 {
		rec.Commit.Position = 0
	}
	if defect.StreamTimeLost {
		rec.Commit.StreamTime = record.NoTime
	}
	if r.held != nil && r.held.store == rec.Store {
		err = r.held.task.Resume(rec.Commit)
	} else {
		r.release()
		r.held, err = newHeld(rec, proc, r.app.taskOptions(r.partition))
	}
	if err != nil { // of class Corrupt: a base that is held is let go of
		return l.corrupt("take up state", err)
	}
	h := r.held
	// Not the present time: what a newer owner wrote while we recovered lies after position and counts from its own time
	// (section 6, Age).
	h.committed, h.position, h.timeMS = rec.Commit, rec.Position, rec.FenceMS
	l.task = h.task
	known := r.app.topics()
	if before, now := rec.Commit.TZData, r.app.options.TZData; before != "" && now != "" && before != now {
		r.log.Warn("another version of the time zone data: calendar windows that are open keep their ends, later ones follow it", "before", before, "now", now)
	}
	l.task.Fenced(rec.Fence.ID, known.retention, known.identity.OutputHash())
	if l.log, err = r.cluster.Log(r.app.options.Input, r.partition); err != nil {
		return err
	}
	r.board.input.Store(l.log.(*watchedLog))
	l.next = rec.Commit.Position
	l.input = kafka.NewReadAhead(l.log, int64(rec.Commit.Position), kafka.Pace{MaxBytes: r.app.inputLimit, Wait: inputWait,
		Room: r.app.inputRoom, Apart: r.app.inputApart})
	l.sender = startSender(rec.Writer, r.app.sinks(known, r.partition), rec.Position, r.at)
	l.saver = newSaver(l)
	l.silence = newSilence(&r.app.options)
	rec.Report.Phases.Join = r.app.joinMS
	l.showRecovered()
	r.log.Info("recovered", "from", rec.Report.From, "why", rec.Report.Why, "commit", rec.Commit.Number, "live", rec.Commit.Live,
		"replayed", rec.Report.Records, "ms", math.Round(milliseconds(now()-l.started)))
	r.warnings(&rec.Report)
	r.emit(Event{Partition: r.partition, Kind: EventRecovered, Recovery: &rec.Report, Commit: rec.Commit, Waiting: l.task.Waiting()})
	return nil
}

func newHeld(rec *recovery.Recovered, proc Processor, options task.Options) (*held, error) {
	t, err := task.New(rec.Store, proc, rec.Commit, options)
	if err != nil {
		return nil, err
	}
	return &held{store: rec.Store, task: t}, nil
}

// brokerTime is the broker's time at a moment of this life by the rule of section 6: append time of our fence record
// plus what has passed on the monotonic clock since it was delivered to us. The wall clock is not used (R13).
func (l *life) brokerTime(at time.Time) int64 {
	since := at.Sub(processStart) - l.recovered.FenceSeen
	return l.recovered.FenceMS + since.Milliseconds()
}

// processStart is the origin of the monotonic clock.
var processStart = time.Now()

// now is the monotonic clock.
func now() time.Duration { return time.Since(processStart) }

// tick is now as a number that is never 0, and moment the time that a tick was. It has a monotonic part, so that what is
// measured from it does not change when somebody sets the clock of the machine (W20).
func tick() int64 {
	if t := int64(now()); t != 0 {
		return t
	}
	return 1
}

func moment(tick int64) time.Time { return time.Now().Add(time.Duration(tick) - now()) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// reportFirst tells of the first commit after a recovery: the end of the time from crash to work.
func (l *life) reportFirst() {
	report := &l.recovered.Report
	if report.Phases.FirstCommit != 0 {
		return
	}
	report.Phases.FirstCommit = milliseconds(now() - l.started)
	shown := *report
	l.r.board.report.Store(&shown)
}

// taskOptions are the limits of one task: the instance's budget of records is shared by its tasks, so that many busy
// ones do not wait seconds for each other.
func (a *App) taskOptions(partition int32) task.Options {
	return task.Options{Job: a.options.Job, Partition: partition, MaxRecords: a.options.Commit.MaxRecords, MaxBytes: a.options.Commit.MaxBytes,
		TZData: a.options.TZData}
}

func (a *App) sinks(known *topics, partition int32) sinkTopics {
	written := append([]record.Topic{known.identity.Changelog}, known.identity.Outputs...)
	to := func(name string) target {
		for _, t := range written {
			if t.Name == name && t.Partitions > 0 {
				return target{topic: name, partition: partition % t.Partitions}
			}
		}
		return target{}
	}
	s := sinkTopics{changelog: to(a.options.Changelog.Topic), late: to(a.options.Late), dead: to(a.options.DeadLetter)}
	for _, name := range a.options.Results {
		s.results = append(s.results, to(name))
		if i := len(s.results) - 1; a.options.Relay != nil {
			s.results[i].keyed = known.partitions(name)
		}
	}
	return s
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it would end the program
	return binary.LittleEndian.Uint64(b[:])
}
