// Package recovery brings a task from nothing, or from what its last life left, to the end of its changelog, and proves
// that it is there. Run in this file is section 5 of the design as code: read it from top to bottom to know the order,
// and DESIGN.md for why the order is that one.
//
// It promises: nobody is fenced by a configuration that is not this job's (I4); the end is our own fence record, never a
// timer or an empty poll (I5); a checkpoint is never needed, and committed data that is gone is a stop, not a shorter
// truth (I6); what Run returns was proved against the last commit record (I7); what it could not know it says.
package recovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// Recovery is one recovery of one task: what it needs to know, and the seams through which it acts. All fields without
// a stated default are required. It is used once, by one goroutine.
type Recovery struct {
	Cluster      kafka.Cluster
	Job          string
	Partition    int32                     // of input and changelog alike
	Identity     record.Identity           // as the cluster describes it now
	Aggregations []record.AggregationState // name and fingerprint of each configured one; a birth record takes them as they are
	RetentionMS  int64                     // the changelog's present delete.retention.ms
	TZData       string                    // goes into a birth record
	Host         string                    // for people, in the fence record; so are PID and Version
	PID          int64
	Version      string

	// Ask asks the group whether the partition is still assigned to us, by a heartbeat sent after the call began (V11).
	Ask func(context.Context) (bool, error)
	// GroupOffset is the group's offset of the partition; ok is false when there is none.
	GroupOffset func(context.Context) (offset kafka.GroupOffset, ok bool, err error)
	// Start resolves where a task that is born begins to read. It is asked after the fence, at a birth only.
	Start func(context.Context) (record.InputPosition, error)
	// Checkpoints are the task's checkpoint files; nil when there are none to be had.
	Checkpoints *store.Dir
	// FetchBytes is the size of one fetch of a replay; 0 for 8 MiB.
	FetchBytes int
	// Keep is how long a replay goes on before it keeps what it has among the Checkpoints, again and again; 0 for never.
	Keep time.Duration
	// Live is the base of a task that goes through I8, nil for a start of the process.
	Live *Live
	// Accept is what an explicit repair lets pass; AcceptNothing for a start.
	Accept Accept

	Random   func() uint64        // for fence and birth ids: unpredictable, never twice the same
	Now      func() time.Duration // a monotonic clock
	At       func(Step) error     // called before each step; an error ends the recovery there; may be nil
	Progress func(Progress)       // may be nil

	report Report
}

// Live is the committed base of a task after an unknown outcome (I8): fold of all below Position, which may hold later
// values already.
type Live struct {
	Store    *store.Memory
	Position record.ChangelogPosition
	TimeMS   int64 // broker time at Position; errors make it older, never younger
	Commit   *record.Commit
	// Changed is told of every entry before the replay changes it, nil standing for no entry, so that the task's index
	// follows; may be nil.
	Changed func(hash uint64, key, old, value []byte) error
}

// Recovered is a task ready to go on: fenced, proved, with a writer open for its first commit.
type Recovered struct {
	Writer    kafka.Writer
	Fence     record.Fence  // as written; checkpoints of this life carry it
	Store     *store.Memory // Live.Store if that was used; if not, Live.Store is the caller's to close
	Commit    *record.Commit
	Position  record.ChangelogPosition // of the changelog, to read next
	FenceMS   int64                    // broker time of the fence record ...
	FenceSeen time.Duration            // ... and when we were given it, by Now
	Loss      *Loss                    // what is gone, with AcceptLoss only; nil for nothing. It is to be committed first
	Report    Report
}

// ErrNotAssigned is the cause of the error of class Fenced when the group assigns the partition to somebody else.
var ErrNotAssigned = errors.New("the group does not assign the partition to us any more")

// Run recovers the task. After an error nothing of it is left open, and the class of the error says what the task does
// next (I8).
func (r *Recovery) Run(ctx context.Context) (*Recovered, error) {
	s, err := r.begin()
	if err != nil {
		return nil, err
	}
	defer s.log.Close()
	recovered := false
	defer func() {
		if !recovered { // an error, or a panic of a store that gets no memory
			s.abandon()
		}
	}()
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	recovered = true
	return s.result(), nil
}

// Report says what Run did, also after an error; it is there when Run has returned.
func (r *Recovery) Report() Report { return r.report }

// run is the order of section 5. Nothing before the fence writes; nothing after it is believed that was read before.
func (s *sequence) run(ctx context.Context) error {
	ms := &s.report.Phases
	if err := s.claim(ctx); err != nil {
		return err
	}
	if s.end.last == nil {
		return s.steps(ctx,
			step{StepStart, s.resolveStart, &ms.Birth},
			step{StepBirthSend, s.sendBirth, &ms.Birth},
			step{StepBirthCommit, s.endBirth, &ms.Birth},
			step{StepDone, nothing, &ms.Birth},
		)
	}
	if err := s.restore(ctx); err != nil {
		return err
	}
	return s.steps(ctx,
		step{StepAnchor, s.proveInput, &ms.Anchor},
		step{StepDone, nothing, &ms.Anchor},
	)
}

// claim makes the task ours, and finds the end of its changelog.
func (s *sequence) claim(ctx context.Context) error {
	ms := &s.report.Phases
	return s.steps(ctx,
		step{StepIdentify, s.identify, &ms.Identify},       // read only: is this changelog ours, is the task born?
		step{StepAsk, s.ask, &ms.Ask},                      // does the group still assign it to us?
		step{StepFence, s.fence, &ms.Fence},                // InitProducerID: no older owner writes from here on
		step{StepFenceSend, s.sendFence, &ms.FenceRecord},  // our own record, acknowledged at offset F ...
		step{StepFenceCommit, s.endFence, &ms.FenceRecord}, // ... is the end of what is to be recovered
		step{StepTail, s.readEnd, &ms.Tail},                // last commit record, smallest retention, F's broker time
	)
}

// restore makes the state: plan, load, replay, prove. What turns out to be bad is set aside and the rest planned again;
// a replay of everything into an empty store is the last resort, and its failure is final.
func (s *sequence) restore(ctx context.Context) error {
	ms := &s.report.Phases
	for round := 0; ; round++ {
		err := s.steps(ctx,
			step{StepPlan, s.plan, &ms.Load},
			step{StepAside, s.setAside, &ms.Load},
			step{StepLoad, s.load, &ms.Load},
			step{StepReplay, s.replay, &ms.Replay},
			step{StepProve, s.prove, &ms.Prove},
		)
		if err == nil {
			return nil
		}
		if err := s.giveUp(ctx, err, round); err != nil {
			return err
		}
	}
}

// step is one step with what it does and the phase that its time counts for.
type step struct {
	name Step
	do   func(context.Context) error
	ms   *float64
}

func nothing(context.Context) error { return nil }

func (s *sequence) steps(ctx context.Context, steps ...step) error {
	for _, st := range steps {
		if s.At != nil {
			if err := s.At(st.name); err != nil {
				return err
			}
		}
		begin := s.Now()
		s.current, s.began = st.name, begin
		err := st.do(ctx)
		*st.ms += float64(s.Now()-begin) / float64(time.Millisecond)
		if err != nil {
			return err
		}
	}
	return nil
}

// sequence is the state of one Run.
type sequence struct {
	*Recovery
	changelog
	current Step
	began   time.Duration

	images []image // checkpoints and the live base
	traces []trace
	seen   tail // of the tail read before the fence
	// lacking tells that the last judgement refused the log for something that is not in it.
	lacking bool

	asked     time.Duration // when the group was asked last
	writer    kafka.Writer
	written   record.Fence
	end       end
	fenceSeen time.Duration

	choice   plan
	excuse   string // why what was tried before has failed
	source   *image // the image in use, nil for an empty store
	store    *store.Memory
	birth    *record.Commit
	loss     Loss
	position record.ChangelogPosition
}

func (r *Recovery) begin() (*sequence, error) {
	log, err := r.Cluster.Log(r.Identity.Changelog.Name, r.Partition)
	if err != nil {
		return nil, err
	}
	r.report.Partition = r.Partition
	s := &sequence{Recovery: r}
	s.changelog = changelog{log: log, topic: r.Identity.Changelog.Name, partition: r.Partition, ending: r.Accept == AcceptFormer}
	s.end = end{job: r.Job, partition: r.Partition, identity: &r.Identity, retentionMS: r.RetentionMS,
		goOn: r.Accept == AcceptLoss}
	return s, nil
}

// abandon closes what a failed recovery holds. The live base stays its owner's.
func (s *sequence) abandon() {
	if s.writer != nil {
		s.writer.Close()
	}
	s.closeStore()
}

// closeStore drops the store in use, unless it is the live base.
func (s *sequence) closeStore() {
	if s.store != nil && (s.Live == nil || s.store != s.Live.Store) {
		if err := s.store.Close(); err != nil {
			s.warn("memory of a dropped store is not given back: %v", err)
		}
	}
	s.store = nil
}

func (s *sequence) warn(format string, args ...any) {
	s.report.Warnings = append(s.report.Warnings, fmt.Sprintf(format, args...))
}

// ask asks the group (I4): any InitProducerID wins, so an owner of yesterday must not send one.
func (s *sequence) ask(ctx context.Context) error {
	asked := s.Now()
	ours, err := s.Ask(ctx)
	s.asked = asked
	if err == nil && !ours {
		err = s.fail(kafka.ClassFenced, "ask the group", -1, "", "%w", ErrNotAssigned)
	}
	return err
}

// askedLimit is how old the group's answer may be when we fence: half a session, so nobody can have been given the task
// since. A process that was suspended between the two wakes with an answer of yesterday, and would knock out whoever has
// taken over (R8).
const askedLimit = 3 * time.Second

// TransactionalID is the transactional id of a task's writer: by changelog and partition, so that definitions that
// share a job name but no changelog cannot fence each other (I4).
func TransactionalID(changelog string, partition int32) string {
	return fmt.Sprintf("%s-%d", changelog, partition)
}

func (s *sequence) fence(ctx context.Context) (err error) {
	id := TransactionalID(s.topic, s.partition)
	if defect.NoFencing {
		id = fmt.Sprintf("%s-%d", id, s.PID)
	}
	if s.writer, err = s.Cluster.Writer(id); err != nil {
		return err
	}
	for s.Now()-s.asked > askedLimit {
		if err := s.ask(ctx); err != nil {
			return err
		}
	}
	p, err := s.writer.Fence(ctx)
	s.written.ProducerID, s.written.ProducerEpoch = p.ID, p.Epoch
	return err
}

// sendFence writes the fence record. Its acknowledged offset is F.
func (s *sequence) sendFence(ctx context.Context) (err error) {
	f := &s.written
	f.ID, f.Job, f.Partition, f.Identity = record.FenceID(nonZero(s.Random)), s.Job, s.Partition, s.Identity
	f.Host, f.PID, f.Version = s.Host, s.PID, s.Version
	if s.seen.commit != nil {
		f.Birth = s.seen.commit.Birth
	}
	s.end.fenceAt, err = s.send(ctx, record.FenceKey, f.Append(nil))
	return err
}

func (s *sequence) endFence(ctx context.Context) error { return s.writer.Commit(ctx) }

// send writes one record to the changelog and returns its offset.
func (s *sequence) send(ctx context.Context, key, value []byte) (int64, error) {
	offsets, err := s.writer.Send(ctx, []kafka.Message{{Topic: s.topic, Partition: s.partition, Key: key, Value: value}})
	if err != nil {
		return -1, err
	}
	return offsets[0], nil
}

// readEnd reads the tail again, from the commit record of the first read to F, now that nobody else can write there.
func (s *sequence) readEnd(ctx context.Context) error {
	o, err := s.log.Offsets(ctx)
	if err != nil {
		return err
	}
	s.stuck = s.waitForStable
	lowest := max(o.Start, s.seen.commitAt+1)
	t, err := s.readTail(ctx, lowest, s.end.fenceAt+1, aCommit)
	if err != nil {
		return err
	}
	if t.fence == nil || t.fence.ID != s.written.ID || t.fenceAt != s.end.fenceAt {
		return s.superseded(s.end.fenceAt)
	}
	s.fenceSeen = s.Now()
	if t.commit == nil {
		t.commit, t.commitAt = s.seen.commit, s.seen.commitAt
		t.updateAt = max(t.updateAt, s.seen.updateAt)
	}
	s.end.start, s.end.fenceMS = o.Start, t.fenceMS
	if defect.EndBeforeFence && s.seen.commit != nil {
		t.commit, t.commitAt = s.seen.commit, s.seen.commitAt
	}
	s.end.last, s.end.lastAt = t.commit, t.commitAt
	if t.commit == nil {
		if err := s.findTraces(ctx); err != nil {
			return err
		}
	} else {
		s.end.retentionMS = min(s.RetentionMS, t.commit.MinRetention)
	}
	return s.judge(ctx, &t, o.Start, true)
}

// superseded says that our fence record was not where it was acknowledged: it was compacted away under that of a newer
// owner, so there is nothing to wait for (V3).
func (s *sequence) superseded(at int64) error {
	return s.fail(kafka.ClassFenced, "read changelog", at, "",
		"our fence record %v, acknowledged at offset %d, is not there: a newer owner's has replaced it", s.written.ID, s.end.fenceAt)
}

// waitForStable waits for the transaction of another producer that holds the last stable offset below F, or for our own
// marker. It is the one place where a recovery waits without a limit of its own, so it says for what (I12, S01).
func (s *sequence) waitForStable(_ int64, o kafka.Offsets) error {
	if s.Progress != nil {
		s.Progress(Progress{Step: s.current, Elapsed: s.Now() - s.began, Waiting: o.Stable})
	}
	return nil
}

func (s *sequence) progress(p *replayer, from, waiting int64) {
	if s.Progress != nil {
		s.Progress(Progress{Step: s.current, Done: p.reached - from, Total: max(p.end+1, from) - from, Records: p.records, Bytes: p.bytes, Kept: p.kept,
			Used: s.store.Usage().Used, Elapsed: s.Now() - s.began, Waiting: waiting})
	}
}

func nonZero(random func() uint64) uint64 {
	for {
		if n := random(); n != 0 {
			return n
		}
	}
}

func (s *sequence) result() *Recovered {
	c := s.end.last
	r := &s.report
	r.Commit, r.Birth, r.Digest, r.Live, r.Input = c.Number, c.Birth.String(), c.Digest.String(), c.Live, int64(c.Position)
	if c.Mark != record.MarkNone {
		s.warn("commit %d, the last one, is a repair (%v): %s", c.Number, c.Mark, c.Note)
	}
	return &Recovered{Writer: s.writer, Fence: s.written, Store: s.store, Commit: c, Position: s.position,
		FenceMS: s.end.fenceMS, FenceSeen: s.fenceSeen, Loss: s.accepted(), Report: *r}
}
