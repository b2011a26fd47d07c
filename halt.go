package tidemark

import (
	"errors"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// halt is where a policy ends the input (D27): what lies before is committed first, dead letters included, for they say
// why the task has stopped.
type halt struct {
	at  int64 // offset of the record that is not consumed any more
	err error
}

// halts tells whether an error is one of policy at a record that others lie before which are not committed. The task then
// begins anew from its base, for that record has left its traces in the open batch, and goes up to it.
func (r *runner) halts(err error) bool {
	var bad *job.BadError
	if !errors.As(err, &bad) || r.halt != nil || r.held == nil || record.InputPosition(bad.Record) <= r.held.committed.Position {
		return false
	}
	r.halt = &halt{bad.Record, err}
	r.log.Warn("stopping by policy; what lies before is committed first", "offset", bad.Record)
	return true
}

// ready is what may be folded next out of what was fetched.
func (l *life) ready() []task.Input {
	in := l.pending[:min(len(l.pending), foldChunk)]
	if l.r.halt == nil {
		return in
	}
	for i := range in {
		if in[i].Offset >= l.r.halt.at {
			return in[:i]
		}
	}
	return in
}
