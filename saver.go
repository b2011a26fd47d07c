package tidemark

import (
	"context"

	"github.com/tidemark-streams/tidemark/internal/recovery"
)

type saver struct{}

func newSaver(*life) *saver                         { return &saver{} }
func (s *saver) startIfDue() error                  { return nil }
func (s *saver) wants() <-chan struct{}             { return nil }
func (s *saver) slice() error                       { return nil }
func (s *saver) finish(context.Context, bool) error { return nil }
func (s *saver) drop()                              {}
func (r *runner) shelf() recovery.Checkpoints       { return nil }
