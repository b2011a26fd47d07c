package trial

import (
	"context"
	"slices"
	"time"
)

// repertoire is what every trial does at least once, in an order of its own, before chance decides: what each of the
// mistakes that everybody makes shows itself by (docs/internals/faulty.md).
func (c *chapter) repertoire() []Strike {
	if len(c.trial.Points) > 0 {
		return nil
	}
	var groups [][]Strike // those of a group follow each other
	for _, step := range failures {
		groups = append(groups, c.strikes("fail-kill="+step))
	}
	for _, d := range sleeping() {
		groups = append(groups, c.strikes("zombie="+d))
	}
	groups = append(groups, c.strikes("move"), c.strikes("twice"), c.strikes("point=commit.ended"), c.strikes("point=commit.end"),
		c.strikes("point=checkpoint.synced-dir"), c.strikes("wipe", "kill"), c.strikes("forge", "kill"), c.strikes("damage", "kill"),
		c.strikes("forge", "kill"))
	c.chance.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	if c.job.Idle > 0 { // of which few jobs have any: first, so that short trials have it too
		groups = append([][]Strike{c.strikes("silence", "silence")}, groups...)
	}
	return slices.Concat(groups...)
}

// twice kills two recoveries of one task in a row, each behind its fence record: the log ends with fences then.
func (c *chapter) twice(ctx context.Context) error {
	for range 2 {
		l, err := c.start(c.job, "KILL@recover.plan/0")
		if err != nil {
			return err
		}
		l.ends(ctx, reachLimit)
		if err := c.count(ctx, l, l.text); err != nil {
			return err
		}
	}
	return nil
}

// silence lets nothing come for so long that stream time moves by itself, and kills in the middle of it or in what comes after.
func (c *chapter) silence(ctx context.Context) error {
	l, err := c.start(c.job, "")
	if err != nil {
		return err
	}
	defer c.feed.pause(false)
	l.sees(ctx, firstCommit, workLimit)
	c.feed.pause(true)
	if l.sees(ctx, ticked, reachLimit) {
		c.trial.note(c.number, "", func(s *Summary) { s.Silences++ })
	}
	if c.random.IntN(2) == 0 {
		l.ends(ctx, time.Duration(c.random.Int64N(int64(randomReach))))
		if err := c.count(ctx, l, "in a silence"); err != nil {
			return err
		}
		if l, err = c.start(c.job, ""); err != nil {
			return err
		}
		l.sees(ctx, ticked, reachLimit)
	}
	c.feed.pause(false)
	l.ends(ctx, time.Duration(c.random.Int64N(int64(randomReach))))
	return c.count(ctx, l, "after a silence")
}
