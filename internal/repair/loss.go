package repair

import (
	"context"
	"slices"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// AcceptLoss commits what a recovery with recovery.AcceptLoss goes on without, before the task does anything else, so
// that from here on the normal rules hold. It returns nil where nothing is gone. The recovered task then stands at the new
// commit record; after an error it is to be closed.
//
// Where commits are gone the life goes on under a new birth id from commit 0: everything that knows of the lost commits
// (group, results, checkpoints on other machines) names the old one, and is foreign from now on, not later (I6). Their
// input is read again from the position of the last commit that is left.
func AcceptLoss(ctx context.Context, r *recovery.Recovery, got *recovery.Recovered, who string) (*Change, error) {
	loss := got.Loss
	if loss == nil {
		return nil, nil
	}
	change := &Change{Partition: r.Partition, Repair: Loss, From: standing(got.Commit)}
	next := after(got.Commit, record.MarkLoss)
	next.Fence = got.Fence.ID
	if loss.Known != "" {
		next.Birth, next.Number = r.Birth(got.Fence.ID, 0).Birth, 0
		change.warn("%s: what came after is gone, and is made again from input that is still there; its results may be published twice", loss.Known)
	}
	if loss.Input != "" {
		passOver(next, loss.Position, loss.Gone)
		change.warn("input %s/%d: %s; %d offsets count as skipped", r.Identity.Input.Name, r.Partition, loss.Input, loss.Gone)
	}
	if loss.Other || next.Anchor.Offset >= int64(next.Position) {
		next.Anchor = record.Anchor{Offset: -1} // of a log that is no more
	}
	change.To = standing(next)
	next.Note = note(strings.Join(slices.Concat([]string{who}, change.Warnings), "; "), change)
	position, err := (&writer{r: r, to: got.Writer}).commit(ctx, next, nil)
	if err != nil {
		return nil, err
	}
	change.done(next)
	got.Commit, got.Position, got.Loss = next, position, nil
	report := &got.Report
	report.Commit, report.Birth, report.Input = next.Number, next.Birth.String(), int64(next.Position)
	report.Warnings = append(report.Warnings, change.Warnings...)
	return change, nil
}
