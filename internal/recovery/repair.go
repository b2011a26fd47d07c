package recovery

import (
	"context"
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// What explicit repairs need of a recovery: the same steps in the same order, with one thing let pass. What they make of
// it is package repair's.

// Accept is the one thing that an explicit repair lets pass although it stops any other recovery.
type Accept uint8

// What may be accepted.
const (
	AcceptNothing Accept = iota
	// AcceptFormer is for the end of a life: it is only asked whether it was one of this job.
	AcceptFormer
	// AcceptState takes the state as the changelog has it, whatever the last commit record says of it.
	AcceptState
	// AcceptLoss goes on without committed data, or input, that is gone.
	AcceptLoss
)

// Found is a task as a repair finds it.
type Found struct {
	Commit *record.Commit // the last one; nil when the changelog holds none
	Writer kafka.Writer   // fenced, for the repair's commits; nil after Look
	Fence  record.Fence   // as written; zero after Look
	// Store is the fold of all updates in the changelog, if it was asked for, with running digest and live count as
	// recomputed. It is the caller's to close.
	Store *store.Memory
	// MinRetention is the smallest delete.retention.ms ever seen, ms.
	MinRetention int64
}

// Close lets go of what was found.
func (f *Found) Close() error {
	if f.Writer != nil {
		f.Writer.Close()
	}
	if f.Store != nil {
		return f.Store.Close()
	}
	return nil
}

// Look finds a task without writing anything: no fence, no owner disturbed. A transaction that is open is not waited for,
// so what Claim finds may be a commit later.
func (r *Recovery) Look(ctx context.Context, fold bool) (*Found, error) {
	return r.find(ctx, fold, func(s *sequence) error {
		if err := s.steps(ctx, step{StepIdentify, s.identify, &s.report.Phases.Identify}); err != nil {
			return err
		}
		s.end.last, s.end.lastAt = s.seen.commit, s.seen.commitAt
		s.end.fenceAt = max(s.seen.commitAt, s.seen.updateAt) // the end of what is to be folded
		if s.end.last != nil {
			s.end.retentionMS = min(s.RetentionMS, s.end.last.MinRetention)
		}
		return nil
	})
}

// Claim takes a task over as Run does, and stops at the end of its changelog. The caller goes on with commits of its own.
func (r *Recovery) Claim(ctx context.Context, fold bool) (*Found, error) {
	return r.find(ctx, fold, func(s *sequence) error { return s.claim(ctx) })
}

func (r *Recovery) find(ctx context.Context, fold bool, reach func(*sequence) error) (*Found, error) {
	s, err := r.begin()
	if err != nil {
		return nil, err
	}
	defer s.log.Close()
	found := false
	defer func() {
		if !found {
			s.abandon()
		}
	}()
	if err := reach(s); err != nil {
		return nil, err
	}
	if fold {
		if err := s.steps(ctx, step{StepFold, s.fold, &s.report.Phases.Replay}); err != nil {
			return nil, s.final(err)
		}
	}
	found = true
	return &Found{Commit: s.end.last, Writer: s.writer, Fence: s.written, Store: s.store, MinRetention: s.end.retentionMS}, nil
}

// fold makes the state out of the whole changelog, beyond the last commit record too: what stands there counts for the
// next recovery, whoever wrote it.
func (s *sequence) fold(ctx context.Context) error {
	o, err := s.log.Offsets(ctx)
	if err != nil {
		return err
	}
	s.end.start = o.Start
	s.store = store.NewMemory(0)
	var birth record.BirthID
	if s.end.last != nil {
		birth = s.end.last.Birth
	}
	p := &replayer{ledger: newLedger(&s.changelog, o.Start, nil, birth), to: bulk{s.store}, end: s.end.fenceAt, reached: o.Start,
		blind: s.Accept == AcceptFormer}
	if err := p.run(ctx, func(kafka.Offsets) { s.progress(p, o.Start, -1) }); err != nil {
		return err
	}
	s.store.Prove()
	return nil
}

// Loss is what a recovery with AcceptLoss goes on without.
type Loss struct {
	Commit   uint64               // the latest commit of this birth that something knows of ...
	Known    string               // ... and what knows it; "" when no commit is gone
	Input    string               // what is gone of the input, "" for nothing
	Position record.InputPosition // where the input goes on
	Gone     record.Count         // offsets below Position that were never consumed and are gone
	Other    bool                 // the record at the anchor is not the one consumed
}

// accepted is the loss that was met, nil for none.
func (s *sequence) accepted() *Loss {
	if s.loss.Known == "" && s.loss.Input == "" {
		return nil
	}
	s.loss.Position = s.goesOn()
	return &s.loss
}

// loseCommits notes that committed data is gone.
func (s *sequence) loseCommits(number uint64, known string) {
	if s.loss.Known == "" || number > s.loss.Commit {
		s.loss.Commit, s.loss.Known = number, known
	}
}

// loseInput stops, or notes that input is gone and where it goes on.
func (s *sequence) loseInput(at, goOn int64, format string, args ...any) error {
	if s.Accept != AcceptLoss {
		return (&changelog{topic: s.Identity.Input.Name, partition: s.Partition}).fail(kafka.ClassLost, "check input", at,
			"restore the topic, or tidemark run --accept-loss", format, args...)
	}
	what := fmt.Sprintf(format, args...)
	if s.loss.Input != "" {
		what = s.loss.Input + "; " + what
	}
	s.loss.Input, s.loss.Position = what, record.InputPosition(goOn)
	s.loss.Gone = record.Count(max(0, goOn-int64(s.end.last.Position)))
	s.loss.Other = s.report.Anchor == "other"
	return nil
}

// goesOn is where the input goes on.
func (s *sequence) goesOn() record.InputPosition {
	if s.loss.Input != "" {
		return s.loss.Position
	}
	return s.end.last.Position
}
