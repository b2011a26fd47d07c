package recovery

import (
	"context"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// A birth is commit number 0, written at once after the fence record of a task that never lived, so that there is no
// moment at which a task has state and no commit record, and the question where to start is asked once in its life
// (R5, V1). A crash anywhere before the birth is committed leaves an unborn task, after it a born one.

// resolveStart asks where to begin and fills the birth record.
func (s *sequence) resolveStart(ctx context.Context) error {
	start, err := s.Start(ctx)
	if err != nil {
		return err
	}
	s.birth = s.Birth(s.written.ID, start)
	return s.birth.Check()
}

// Birth is the commit record that begins a life at an input position, with a random birth id.
func (r *Recovery) Birth(fence record.FenceID, start record.InputPosition) *record.Commit {
	return &record.Commit{
		Birth:        record.BirthID(nonZero(r.Random)),
		Fence:        fence,
		SourceHash:   r.Identity.SourceHash(r.Job),
		OutputHash:   r.Identity.OutputHash(),
		Position:     start,
		Epoch:        -1,
		Anchor:       record.Anchor{Offset: -1},
		StreamTime:   record.NoTime,
		SetterOffset: -1,
		Aggregations: slices.Clone(r.Aggregations),
		MinRetention: r.RetentionMS,
		TZData:       r.TZData,
	}
}

func (s *sequence) sendBirth(ctx context.Context) error {
	at, err := s.send(ctx, record.CommitKey, s.birth.Append(nil))
	s.end.lastAt = at
	return err
}

// endBirth makes the task born.
func (s *sequence) endBirth(ctx context.Context) error {
	if err := s.writer.Commit(ctx); err != nil {
		return err
	}
	s.store = store.NewMemory(0)
	s.end.last, s.position = s.birth, record.ChangelogPosition(s.end.lastAt+1)
	s.report.From, s.report.Why, s.report.Anchor = "birth", "the task has never lived", "none"
	return nil
}
