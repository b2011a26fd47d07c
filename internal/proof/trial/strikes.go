package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/crash"
)

// Strike is one thing that is done to a job: by name, with what it is about, and with the seed of all that it leaves to chance.
// Moments are the machine's all the same.
type Strike struct {
	Name, Of string
	Seed     uint64
}

// String is the strike as ParseStrikes reads it: NAME=OF:SEED.
func (s Strike) String() string {
	if s.Of == "" {
		return fmt.Sprintf("%s:%d", s.Name, s.Seed)
	}
	return fmt.Sprintf("%s=%s:%d", s.Name, s.Of, s.Seed)
}

// noStrikes stands for a list of none.
const noStrikes = "none"

// StrikesText is a list of strikes in one word.
func StrikesText(list []Strike) string {
	if len(list) == 0 {
		return noStrikes
	}
	words := make([]string, len(list))
	for i, s := range list {
		words[i] = s.String()
	}
	return strings.Join(words, ",")
}

// ParseStrikes reads what StrikesText has written. The result is never nil.
func ParseStrikes(text string) ([]Strike, error) {
	list := []Strike{}
	if text == noStrikes {
		return list, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		what, number, ok := strings.Cut(word, ":")
		name, of, _ := strings.Cut(what, "=")
		seed, err := strconv.ParseUint(number, 10, 64)
		kind, known := kinds[name]
		if !ok || err != nil || !known || !slices.Contains(kind.of(), of) {
			return nil, fmt.Errorf("%q is no strike: they are named by the report of a trial that has found something", word)
		}
		list = append(list, Strike{Name: name, Of: of, Seed: seed})
	}
	return list, nil
}

// kind is a kind of strike: what it may be about, and how it is done.
type kind struct {
	of    func() []string
	first bool // it is for a job that is not born yet
	do    func(c *chapter, ctx context.Context, of string) error
}

func nothing() []string { return []string{""} }

// kinds are all strikes by name.
var kinds = map[string]kind{
	"kill": {of: nothing, do: func(c *chapter, ctx context.Context, _ string) error { return c.atRandom(ctx) }},
	"point": {of: crash.Points, do: func(c *chapter, ctx context.Context, of string) error {
		return c.atPoint(ctx, of, recipeOf(of))
	}},
	"birth": {of: crash.Points, first: true, do: func(c *chapter, ctx context.Context, of string) error {
		c.feed.pause(false)
		return c.atPoint(ctx, of, recipeOf(of))
	}},
	"reset": {of: crash.Points, first: true, do: (*chapter).reset},
	"fail": {of: failing, do: func(c *chapter, ctx context.Context, of string) error {
		return c.afterFailure(ctx, of, false)
	}},
	"fail-kill": {of: failing, do: func(c *chapter, ctx context.Context, of string) error {
		return c.afterFailure(ctx, of, true)
	}},
	"move":   {of: nothing, do: func(c *chapter, ctx context.Context, _ string) error { return c.move(ctx) }},
	"zombie": {of: sleeping, do: (*chapter).zombie},
	"twice":  {of: nothing, do: func(c *chapter, ctx context.Context, _ string) error { return c.twice(ctx) }},
	"silence": {of: nothing, do: func(c *chapter, ctx context.Context, _ string) error {
		return c.silence(ctx)
	}},
	"wipe":   {of: nothing, do: func(c *chapter, _ context.Context, _ string) error { return c.wipe() }},
	"damage": {of: nothing, do: func(c *chapter, _ context.Context, _ string) error { return c.damage(c.random.IntN(forged)) }},
	"forge":  {of: nothing, do: func(c *chapter, _ context.Context, _ string) error { return c.damage(forged) }},
	"forget": {of: nothing, do: func(c *chapter, ctx context.Context, _ string) error { return c.shorten(ctx) }},
}

// do does one strike.
func (c *chapter) do(ctx context.Context, s Strike) error {
	c.random = rand.New(rand.NewPCG(s.Seed, 2))
	c.done = append(c.done, s)
	return kinds[s.Name].do(c, ctx, s.Of)
}

// strikes is a list of kinds with seeds of their own.
func (c *chapter) strikes(names ...string) []Strike {
	list := make([]Strike, len(names))
	for i, name := range names {
		list[i].Name, list[i].Of, _ = strings.Cut(name, "=")
		list[i].Seed = c.chance.Uint64N(1000)
	}
	return list
}

// Replays: how many readings there must be before the first strike, and how long a process without strikes works.
const (
	replayReadings = 500
	replayLife     = time.Second
)

// replay does the strikes of a list, and no others, to a new job, and compares once.
func (c *chapter) replay(ctx context.Context) error {
	for _, s := range c.trial.Strikes {
		if !kinds[s.Name].first {
			if err := c.readings(ctx, replayReadings); err != nil {
				return err
			}
		}
		if err := c.do(ctx, s); err != nil || c.bad {
			return err
		}
	}
	if err := c.readings(ctx, replayReadings); err != nil {
		return err
	}
	if len(c.trial.Strikes) == 0 {
		l, err := c.start(c.job, "")
		if err != nil {
			return err
		}
		l.sees(ctx, firstCommit, workLimit)
		l.ends(ctx, replayLife)
		if err := c.count(ctx, l, "to end it"); err != nil || c.bad {
			return err
		}
	}
	return c.compare(ctx, true)
}

// readings lets readings flow and waits for the first of them.
func (c *chapter) readings(ctx context.Context, n int64) error {
	c.feed.pause(false)
	ticker := time.NewTicker(feedTick)
	defer ticker.Stop()
	for {
		written, ended, err := c.feed.written()
		if err != nil || ended || written >= n {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
