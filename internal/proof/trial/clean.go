package trial

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// anomalies holds a sight of the job against the oracle, whose expectation it returns, or against a clean run.
func (c *chapter) anomalies(ctx context.Context, sight *proof.Sight) (*proof.Expected, []proof.Anomaly, error) {
	if !c.trial.Clean {
		want, err := c.job.Expect(ctx, c.reader)
		if err != nil {
			return nil, nil, err
		}
		return want, proof.Compare(want, &sight.Observed), nil
	}
	clean, err := c.cleanRun(ctx)
	if err != nil {
		return nil, nil, err
	}
	return nil, proof.Differ(clean, sight), nil
}

// cleanRun runs the job once more over the same input, from its beginning and undisturbed, under names of its own.
func (c *chapter) cleanRun(ctx context.Context) (sight *proof.Sight, err error) {
	job := *c.job
	c.starts++
	job.Name, job.In = fmt.Sprintf("%s-clean-%d", c.job.Name, c.starts), c.job.Input()
	job.Dir = filepath.Join(c.dir, fmt.Sprintf("clean-%d", c.starts))
	if err := makeJob(&job); err != nil {
		return nil, err
	}
	topics := job.Topics()[1:] // the input is there
	made, err := c.admin.CreateTopics(ctx, job.Oracle.Partitions, -1, nil, topics...)
	if err = errors.Join(err, made.Error()); err != nil {
		return nil, err
	}
	defer func() {
		gone, failed := c.admin.DeleteTopics(ctx, append(topics, job.Changelog())...)
		_, ungrouped := c.admin.DeleteGroups(ctx, job.Group())
		err = errors.Join(err, failed, gone.Error(), ungrouped)
	}()
	if err := job.RunUntilIdle(ctx, "clean"); err != nil {
		return nil, err
	}
	return job.Look(ctx, c.reader)
}
