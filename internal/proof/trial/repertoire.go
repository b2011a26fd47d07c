package trial

import (
	"context"
	"time"
)

// repertoire is what every trial does at least once, in an order of its own, before chance decides: what each of the
// mistakes that everybody makes shows itself by (docs/internals/faulty.md).
func (c *chapter) repertoire() []func(context.Context) error {
	if len(c.trial.Points) > 0 {
		return nil
	}
	var all []func(context.Context) error
	add := func(strike func(context.Context) error) { all = append(all, strike) }
	for _, step := range failures {
		add(func(ctx context.Context) error { return c.afterFailure(ctx, step, true) })
	}
	for _, d := range dreams {
		add(func(ctx context.Context) error { return c.zombie(ctx, d) })
	}
	add(c.move)
	add(c.twice)
	for _, point := range []string{"commit.ended", "commit.end", "checkpoint.synced-dir"} {
		add(func(ctx context.Context) error { return c.atPoint(ctx, point, recipeOf(point)) })
	}
	add(func(ctx context.Context) error {
		if err := c.wipe(); err != nil {
			return err
		}
		return c.atRandom(ctx)
	})
	for _, kind := range []int{forged, c.random.IntN(forged), forged} {
		add(func(ctx context.Context) error {
			if err := c.damage(kind); err != nil {
				return err
			}
			return c.atRandom(ctx)
		})
	}
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if c.job.Idle > 0 { // of which few jobs have any: first, so that short trials have it too
		all = append([]func(context.Context) error{c.silence, c.silence}, all...)
	}
	return all
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
