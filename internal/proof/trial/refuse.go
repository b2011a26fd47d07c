package trial

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// What must not be accepted, however well the kills go.

// refuse runs the job with a changelog that deletes by age: it must end at once (V5).
func (c *chapter) refuse(ctx context.Context) error {
	job := *c.job
	job.Log, job.Dir = c.job.Name+"-by-age", filepath.Join(c.dir, "refused")
	if err := makeJob(&job); err != nil {
		return err
	}
	changelog := job.Parts()[0].Changelog // of what starts first
	stamp, policy := "LogAppendTime", "delete"
	if err := c.create(ctx, map[string]*string{"cleanup.policy": &policy, "message.timestamp.type": &stamp}, changelog); err != nil {
		return err
	}
	l, err := c.start(&job, "", "run", "--until-idle", "--json")
	if err != nil {
		return err
	}
	ended := l.ends(ctx, workLimit)
	_ = l.end() // it has ended, or is killed here
	said, err := l.Log()
	switch {
	case err != nil || ctx.Err() != nil:
	case !ended || l.Failure() == nil || !strings.Contains(string(said), "cleanup.policy"):
		c.found(proof.Anomaly{Kind: Credulous, Where: "process " + l.name, Want: "a changelog that deletes by age is refused",
			Found: fmt.Sprintf("%v", errors.Join(l.Failure(), errors.New("cleanup.policy is not named")))})
	}
	return errors.Join(err, c.drop(ctx, changelogs(&job)...))
}

// changelogs are those of all parts of a job.
func changelogs(job *proof.Job) (topics []string) {
	for _, p := range job.Parts() {
		topics = append(topics, p.Changelog)
	}
	return topics
}

// retention is how long tombstones are kept in a changelog that was shortened, ms: no checkpoint is ever so young.
const retention = "1000"

// shorten lets the changelog forget its tombstones soon, so that no checkpoint may be used any more but one that nothing was
// committed after (S04, R13); then it kills the job a few times.
func (c *chapter) shorten(ctx context.Context) error {
	value := retention
	altered, err := c.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "delete.retention.ms", Value: &value}}, changelogs(c.job)...)
	for _, a := range altered {
		err = errors.Join(err, a.Err)
	}
	if err != nil {
		return err
	}
	c.short = true
	c.note("tombstones may be forgotten")
	for range 3 {
		l, err := c.start(c.job, "")
		if err != nil {
			return err
		}
		l.sees(ctx, firstCommit, workLimit)
		l.ends(ctx, time.Duration(c.random.Int64N(int64(randomReach))))
		if err := c.count(ctx, l, "where tombstones may be gone"); err != nil {
			return err
		}
	}
	return nil
}
