package trial

import "context"

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
