package recovery

import (
	"context"

	"github.com/tidemark-streams/tidemark/internal/store"
)

// Checkpoints are the checkpoint files of one task.
type Checkpoints interface {
	List() ([]Image, error)
	Load(ctx context.Context, name string) (*store.Memory, error)
	SetAside(name, reason string) error
	// Leave tells whether a file that failed to load with err is left where it is.
	Leave(err error) bool
}
