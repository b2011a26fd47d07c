package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// trace is something outside the changelog that knows of an earlier life of this task.
type trace struct {
	what   string
	birth  record.BirthID
	number uint64 // of the latest commit it knows
	known  bool   // birth and number are known
}

// identify decides, without writing anything, whether this changelog is this job's and whether the task is born. Traces
// are looked for first and the end of the log is asked for afterwards, so that a trace never knows of a commit that came
// after the tail read.
func (s *sequence) identify(ctx context.Context) error {
	if err := s.knownIDs(); err != nil {
		return err
	}
	if err := s.listImages(); err != nil {
		return err
	}
	if err := s.findTraces(ctx); err != nil {
		return err
	}
	o, err := s.log.Offsets(ctx)
	if err != nil {
		return err
	}
	s.stuck = patience()
	if s.seen, err = s.readTail(ctx, o.Start, o.Stable, aCommit); err != nil {
		return err
	}
	s.lacking = false
	err = s.judge(ctx, &s.seen, o.Start, o.Stable == o.HighWatermark)
	if err == nil || !s.lacking {
		return err
	}
	return s.ofMovingLog(ctx, o.Stable, err)
}

// ofMovingLog takes a refusal back that says that something is not in the log, if a commit has come behind the end up to which
// it was read: another owner is at work then, and compaction may have taken away the commit record that was looked for, for
// that one is newer. The next attempt reads a log that holds it; after the fence nobody moves it any more.
func (s *sequence) ofMovingLog(ctx context.Context, end int64, refused error) error {
	o, err := s.log.Offsets(ctx)
	if err != nil {
		return err
	}
	s.stuck = patience()
	newer, err := s.readTail(ctx, end, o.Stable, aCommit)
	if err != nil {
		return err
	}
	if newer.commit == nil {
		return refused
	}
	return s.fail(kafka.ClassTransient, "identify", newer.commitAt, "",
		"there is a commit behind offset %d, up to which the changelog was read, so that this is out of date: %w", end, refused)
}

// lack refuses a log for something that is not in it.
func (s *sequence) lack(class kafka.Class, offset int64, hint, format string, args ...any) error {
	s.lacking = true
	return s.fail(class, "identify", offset, hint, format, args...)
}

// patience makes a stuck function for the read before the fence, which judges identity and not state: a hole at the end
// that no fetch passes (S41) must not hold it for ever. The read after the fence ends at our own record instead.
func patience() func(int64, kafka.Offsets) error {
	const tries = 3
	left, at := tries, int64(-1)
	return func(position int64, _ kafka.Offsets) error {
		if position != at {
			left, at = tries, position
		}
		if left--; left == 0 {
			return errEnd
		}
		return nil
	}
}

// knownIDs refuses topics without an id: an unknown id equals nothing, so nothing could ever be recognised (R33).
func (s *sequence) knownIDs() error {
	for _, t := range []record.Topic{s.Identity.Input, s.Identity.Changelog} {
		if !t.ID.Known() {
			return &kafka.Error{Class: kafka.ClassPermanent, Op: "identify", Topic: t.Name, Partition: -1, Offset: -1,
				Hint: "use brokers with topic ids (Kafka 2.8 and later)", Err: errors.New("the cluster gives the topic no id")}
		}
	}
	return nil
}

// findTraces looks for all that knows of this task besides its changelog: the group's offset, checkpoints, results.
func (s *sequence) findTraces(ctx context.Context) error {
	s.traces = s.traces[:0]
	var offset kafka.GroupOffset
	var ok bool
	outputs := s.outputs()
	results := make([]*trace, len(outputs))
	asks := []func(context.Context) error{func(ctx context.Context) (err error) {
		offset, ok, err = s.GroupOffset(ctx)
		return err
	}}
	for i, out := range outputs {
		asks = append(asks, func(ctx context.Context) (err error) {
			results[i], err = s.findResult(ctx, out)
			return err
		})
	}
	if err := s.sideBySide(ctx, asks); err != nil {
		return err
	}
	if ok {
		t := trace{what: fmt.Sprintf("the group's offset %d of %s/%d (metadata %.64q)", offset.Next, s.Identity.Input.Name, s.Partition, offset.Metadata)}
		if birth, number, err := record.ParseMetadata(offset.Metadata); err == nil {
			t.birth, t.number, t.known = birth, number, true
		}
		s.traces = append(s.traces, t)
	}
	for i := range s.images {
		s.traces = append(s.traces, s.trace(&s.images[i]))
	}
	for _, r := range results {
		if r != nil {
			s.traces = append(s.traces, *r)
		}
	}
	return nil
}

// outputs are the topics in which results of this task may stand, each once.
func (s *sequence) outputs() []record.Topic {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(s.Identity.Outputs), func(out record.Topic) bool {
		known := seen[out.Name] || out.Partitions == 0
		seen[out.Name] = true
		return known
	})
}

// sideBySide asks all at the same time and returns the first error, which interrupts the others: a planned handover
// is to take less than a second, and each answer is one way to the broker and back.
func (s *sequence) sideBySide(ctx context.Context, asks []func(context.Context) error) (first error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		all  sync.WaitGroup
		once sync.Once
	)
	for _, ask := range asks {
		all.Go(func() {
			if err := s.careful(ctx, ask); err != nil {
				once.Do(func() {
					first = err
					cancel()
				})
			}
		})
	}
	all.Wait()
	return first
}

// careful makes a panic the error of the one task that asks (I8): nobody recovers it on a goroutine of its own.
func (s *sequence) careful(ctx context.Context, ask func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = kafka.Recovered(cause, "look for traces", s.topic, s.partition)
		}
	}()
	return ask(ctx)
}

// trace is what an image knows. One that cannot be read or belongs to something else is still a trace, but its numbers
// mean nothing here.
func (s *sequence) trace(img *image) trace {
	err := img.Err
	if err == nil {
		err = img.Info.Belongs(s.Job, s.Partition, &s.Identity)
	}
	if err != nil {
		return trace{what: fmt.Sprintf("%s (%v)", img.Path, errors.Unwrap(err))}
	}
	return trace{what: img.Path, birth: img.Info.Commit.Birth, number: img.Info.Commit.Number, known: true}
}

// resultOffsets is how far back results are looked at: 1,000 records, if each was a commit of its own with its marker.
const resultOffsets = 2000

// findResult looks for the last result of this task among the last ones of its output partition, backwards in growing
// windows as the tail is read.
func (s *sequence) findResult(ctx context.Context, out record.Topic) (*trace, error) {
	partition := s.Partition % out.Partitions
	log, err := s.Cluster.Log(out.Name, partition)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	o, err := log.Offsets(ctx)
	if err != nil {
		return nil, err
	}
	results := changelog{log: log, topic: out.Name, partition: partition, stuck: patience()}
	var last *trace
	lowest := max(o.Start, o.Stable-resultOffsets)
	for high, width := o.Stable, int64(firstWindow); high > lowest && last == nil; width *= windowGrowth {
		low := max(lowest, high-width)
		err := results.walk(ctx, low, high, func(r *kafka.Record) error {
			if origin, ok := s.ownOrigin(r); ok {
				last = &trace{what: fmt.Sprintf("the result at offset %d of %s/%d", r.Offset, out.Name, partition),
					birth: origin.Birth, number: origin.Number, known: true}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		high = low
	}
	return last, nil
}

// ownOrigin tells which commit published a result, if it was one of this task.
func (s *sequence) ownOrigin(r *kafka.Record) (record.Origin, bool) {
	for _, h := range r.Headers {
		if h.Key == record.OriginHeader {
			origin, err := record.ParseOrigin(h.Value)
			return origin, err == nil && origin.Job == s.Job && origin.Partition == s.Partition
		}
	}
	return record.Origin{}, false
}

// judge applies identity, fingerprints and the birth rule to what a tail read found. settled tells that no transaction
// was open in the changelog: before the fence a commit may be answered, and known to a trace, whose marker is not
// visible yet.
func (s *sequence) judge(ctx context.Context, t *tail, start int64, settled bool) error {
	if err := s.ownFence(t); err != nil {
		return err
	}
	switch {
	case s.Accept == AcceptFormer:
		return s.judgeOwner(ctx, t)
	case t.commit != nil:
		return s.judgeBorn(ctx, t, settled)
	case defect.NoCommitIsNew:
		return nil
	case t.updateAt >= 0:
		return s.lack(kafka.ClassLost, t.updateAt, "restore the topic, or tidemark reset",
			"there is an update but no commit record: the changelog is not whole")
	case start > 0:
		return s.lack(kafka.ClassLost, start, "restore the topic, or tidemark reset",
			"there is no commit record and the log starts at offset %d, not 0: records were deleted", start)
	case len(s.traces) > 0 && !settled:
		return s.fail(kafka.ClassTransient, "identify", -1, "",
			"there is no commit record yet, but a transaction is open and %s exists: waiting for its end", s.traces[0].what)
	case len(s.traces) > 0:
		return s.lack(kafka.ClassLost, -1, "restore the changelog, or begin a new life with tidemark reset",
			"the changelog holds no commit record, but %s exists: this task has lived before", s.traces[0].what)
	}
	return nil
}

// ownFence refuses a changelog of another job.
func (s *sequence) ownFence(t *tail) error {
	if t.fence == nil || t.fence.Job == s.Job && t.fence.Partition == s.Partition {
		return nil
	}
	return s.fail(kafka.ClassPermanent, "identify", t.fenceAt, "give this job a changelog of its own",
		"the changelog belongs to job %q partition %d, this is job %q partition %d", t.fence.Job, t.fence.Partition, s.Job, s.Partition)
}

// judgeBorn checks that a born task's changelog is that of this configuration, and that nothing committed is gone (I6).
func (s *sequence) judgeBorn(ctx context.Context, t *tail, settled bool) error {
	c := t.commit
	if c.Mark == record.MarkResetting {
		return s.fail(kafka.ClassPermanent, "identify", t.commitAt, "run tidemark reset again to its end", "a reset was begun and not finished: %s", c.Note)
	}
	if t.updateAt > t.commitAt && s.Accept != AcceptState {
		return s.lack(kafka.ClassPermanent, t.updateAt, "find out who writes to the changelog, then tidemark reseal",
			"there is an update behind the last commit record at offset %d: it is not ours", t.commitAt)
	}
	if c.SourceHash != s.Identity.SourceHash(s.Job) {
		if err := s.judgeOwner(ctx, t); err != nil {
			return err
		}
		return s.fail(kafka.ClassLost, "identify", t.commitAt, OtherSourceHint,
			"the state belongs to something else: %s", s.otherSource(ctx, t))
	}
	if c.OutputHash != s.Identity.OutputHash() && settled {
		s.warnOutputs(ctx, t)
	}
	for _, want := range s.Aggregations {
		for i := range c.Aggregations {
			if have := &c.Aggregations[i]; have.Name == want.Name && have.Fingerprint != want.Fingerprint {
				return s.fail(kafka.ClassPermanent, "identify", t.commitAt, "give the changed aggregation a new name, or take the change back",
					"aggregation %q means something else than the state in the changelog: fingerprint %016x, was %016x",
					want.Name, want.Fingerprint, have.Fingerprint)
			}
		}
	}
	if !settled {
		return nil
	}
	for _, tr := range s.traces {
		switch later := tr.known && tr.birth == c.Birth && tr.number > c.Number; {
		case later && s.Accept == AcceptLoss:
			s.loseCommits(tr.number, fmt.Sprintf("%s knows commit %d of birth %v, the changelog ends with commit %d", tr.what, tr.number, c.Birth, c.Number))
		case later:
			return s.lack(kafka.ClassLost, t.commitAt, "restore the changelog, or tidemark run --accept-loss",
				"%s knows commit %d of birth %v, the changelog ends with commit %d: %d commits are gone",
				tr.what, tr.number, c.Birth, c.Number, tr.number-c.Number)
		}
	}
	return nil
}

// lastFence reads on to the last fence record of an owner before us: the only place where the changelog says in words
// what it belongs to. It may lie far back, but it is asked for only when something has changed.
func (s *sequence) lastFence(ctx context.Context, t *tail) (*tail, error) {
	if t.fence != nil && t.fence.ID != s.written.ID {
		return t, nil
	}
	o, err := s.log.Offsets(ctx)
	if err != nil {
		return nil, err
	}
	older, err := s.readTail(ctx, o.Start, t.commitAt, aFence)
	return &older, err
}

// wasFor is the identity in that record, nil when there is none to be had.
func (s *sequence) wasFor(ctx context.Context, t *tail) *record.Identity {
	last, err := s.lastFence(ctx, t)
	if err != nil || last.fence == nil {
		return nil
	}
	return &last.fence.Identity
}

// judgeOwner is all that is asked before a life is ended on purpose: it was one of this job.
func (s *sequence) judgeOwner(ctx context.Context, t *tail) error {
	last, err := s.lastFence(ctx, t)
	if err != nil {
		return err
	}
	return s.ownFence(last)
}

// OtherSourceHint says what to do about a state that belongs to another cluster, input or changelog.
const OtherSourceHint = "point the job at what its state belongs to; or begin a new life on what is there now with tidemark reset, " +
	"or with another changelog topic"

// otherSource names both sides of a difference in identity.
func (s *sequence) otherSource(ctx context.Context, t *tail) string {
	if was := s.wasFor(ctx, t); was != nil {
		if diff := Differences(was, &s.Identity); diff != "" {
			return diff
		}
	}
	id := &s.Identity
	return fmt.Sprintf("its identity hash is %016x, the configuration's %016x (cluster %q, input %s id %v of %d partitions, changelog %s id %v of %d partitions)",
		t.commit.SourceHash, id.SourceHash(s.Job), id.ClusterID, id.Input.Name, id.Input.ID, id.Input.Partitions,
		id.Changelog.Name, id.Changelog.ID, id.Changelog.Partitions)
}

// warnOutputs says that results go to other topics than before: loud, but no stop (D17).
func (s *sequence) warnOutputs(ctx context.Context, t *tail) {
	text := fmt.Sprintf("hash was %016x, is %016x", t.commit.OutputHash, s.Identity.OutputHash())
	if was := s.wasFor(ctx, t); was != nil {
		text = fmt.Sprintf("were %s, are %s", describeTopics(was.Outputs), describeTopics(s.Identity.Outputs))
	}
	text = "output topics, their ids or partition counts have changed: " + text
	if !slices.Contains(s.report.Warnings, text) {
		s.warn("%s", text)
	}
}

func describeTopics(topics []record.Topic) string {
	parts := make([]string, len(topics))
	for i, t := range topics {
		parts[i] = fmt.Sprintf("%s (id %v, %d partitions)", t.Name, t.ID, t.Partitions)
	}
	return strings.Join(parts, ", ")
}
