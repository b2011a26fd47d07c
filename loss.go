package tidemark

import (
	"context"
	"errors"

	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/repair"
)

// acceptable is what the next recovery of a task lets pass: with AcceptLoss the first one in this process may find data
// gone and go on. It commits that, and from then on it is a stop again.
func (a *App) acceptable(partition int32) recovery.Accept {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.options.AcceptLoss == "" || a.accepted[partition] {
		return recovery.AcceptNothing
	}
	return recovery.AcceptLoss
}

// acceptLoss commits the loss that a recovery has gone on with, if any, before the task does anything else. After an error
// nothing of the recovery is left open; the next one meets the same loss, or finds it committed.
func (r *runner) acceptLoss(ctx context.Context, rec *recovery.Recovery, recovered *recovery.Recovered) error {
	if rec.Accept != recovery.AcceptLoss {
		return nil
	}
	change, err := repair.AcceptLoss(ctx, rec, recovered, r.app.options.AcceptLoss)
	if err != nil {
		recovered.Writer.Close()
		if r.held == nil || r.held.store != recovered.Store {
			err = errors.Join(err, recovered.Store.Close())
		}
		return err
	}
	if change != nil {
		r.log.Warn("A LOSS WAS ACCEPTED", "note", change.Note)
	}
	r.app.mu.Lock()
	defer r.app.mu.Unlock()
	r.app.accepted[r.partition] = true
	return nil
}
