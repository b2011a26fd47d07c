// Package trial kills the real program again and again while readings flow, hurts what it leaves on disk, moves its
// partitions between two instances, and compares what it publishes with an independent oracle.
//
// It promises: every name it uses is one of its own, which did not exist before, and is gone afterwards; a kill counts as
// useful only when it hit a process in the middle of something, with readings waiting; what it hurt is told apart from
// what the program got wrong by itself; and a trial that hit nothing is an error, not a success.
package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/crash"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// Options say what is tried, and how hard.
type Options struct {
	// Job is the job under trial; each chapter takes a copy with a Name and a Dir of its own.
	Job proof.Job
	// Prefix begins the names of all topics and groups: <job>-verify.
	Prefix string
	Dir    string    // where everything happens; the caller's to remove
	Client []kgo.Opt // how to reach the brokers
	Source func(seed uint64) Source
	Rate   int // readings a second and chapter

	Seed     uint64
	Kills    int           // useful ones
	Duration time.Duration // no chapter goes on for longer; 0: until there were enough kills
	Points   []string      // only these; nil for all, and random times
	Strikes  []Strike      // only these, to each new job the same; nil for all
	Parallel int           // chapters at the same time; at least 1

	// Tell is told of each strike and comparison, by several goroutines; may be nil.
	Tell func(Event)
}

// Event is something worth showing.
type Event struct {
	Chapter int
	Text    string // of a strike, or of a comparison
	Summary Summary
}

// A chapter is one job from birth to removal. It is compared with the oracle after a few kills, and at its end.
const (
	chapterKills = 40
	roundKills   = 5
)

// Trial is a trial under way.
type Trial struct {
	Options
	begun   time.Time
	stopped func() error // nil while the trial may go on

	mu      sync.Mutex
	random  *rand.Rand
	points  []string // the next ones
	births  []string // of first starts, which a chapter has only once
	left    int      // useful kills that no chapter has taken on yet
	chapter int
	summary Summary
}

// Run tries the job. The error says that the trial could not be carried out; what it found is in the summary, the first of it
// with as few strikes as show it again.
func Run(ctx context.Context, o Options) (Summary, error) {
	t, err := run(ctx, o)
	s := t.now()
	if len(s.Anomalies) > 0 && ctx.Err() == nil && o.Strikes == nil {
		t.smallest(ctx, &s.Anomalies[0])
	}
	return s, err
}

// run is Run without a second look at what is found.
func run(ctx context.Context, o Options) (*Trial, error) {
	t := &Trial{Options: o, begun: time.Now(), random: rand.New(rand.NewPCG(o.Seed, 1)), left: o.Kills}
	t.summary = Summary{Seed: o.Seed, Points: map[string]int{}, Recoveries: map[string]int{}}
	for _, p := range o.Points {
		if !slices.Contains(crash.Points(), p) {
			return t, fmt.Errorf("%q is no point: --list-points lists them", p)
		}
	}
	if o.Duration > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, o.Duration+lastRound, errors.New("the time given is over"))
		defer cancel()
	}
	t.stopped = ctx.Err
	var all sync.WaitGroup
	failed := make([]error, max(1, o.Parallel))
	for i := range failed {
		all.Go(func() {
			for failed[i] == nil {
				c, ok := t.next()
				if !ok {
					return
				}
				failed[i] = c.run(ctx)
				t.giveBack(c)
			}
		})
	}
	all.Wait()
	s := t.now()
	err := errors.Join(failed...)
	if err == nil && ctx.Err() == nil && len(s.Anomalies) == 0 && s.Useful == 0 {
		err = fmt.Errorf("no kill of %d was of use: nothing is proved", s.Kills)
	}
	return t, err
}

// lastRound is how long the last round may take after the time is over.
const lastRound = 2 * time.Minute

// over tells whether no further kills are wanted.
func (t *Trial) over() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.Duration > 0 && time.Since(t.begun) > t.Duration || len(t.summary.Anomalies) > 0
}

// next gives out a chapter.
func (t *Trial) next() (*chapter, bool) {
	if t.over() {
		return nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left <= 0 {
		return nil, false
	}
	goal := min(t.left, chapterKills)
	if t.Strikes != nil {
		goal = max(1, len(t.Strikes))
	}
	t.left -= goal
	t.chapter++
	seed := t.Seed + uint64(t.chapter)
	if t.Strikes != nil { // the same readings to each
		seed = t.Seed + 1
	}
	return &chapter{trial: t, number: t.chapter, goal: goal, share: goal, seed: seed, chance: rand.New(rand.NewPCG(seed, 2)),
		dir: filepath.Join(t.Dir, fmt.Sprintf("chapter-%d", t.chapter))}, true
}

// giveBack takes back kills that a chapter was to make and has not made, for its readings came to an end, say. One that has made
// none at all keeps them: another would do no better.
func (t *Trial) giveBack(c *chapter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if missing := c.share - c.useful; t.Strikes == nil && c.useful > 0 && missing > 0 {
		t.left += missing
	}
}

// point gives out the next point that recipes can reach at a start, or at a first start.
func (t *Trial) point(birth bool) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := &t.points
	if birth {
		list = &t.births
	}
	if len(*list) == 0 {
		from := t.Points
		if from == nil {
			from = crash.Points()
		}
		for _, p := range from {
			if recipeOf(p).birth == birth {
				*list = append(*list, p)
			}
		}
		t.random.Shuffle(len(*list), func(i, j int) { (*list)[i], (*list)[j] = (*list)[j], (*list)[i] })
	}
	if len(*list) == 0 {
		return "", false
	}
	p := (*list)[0]
	*list = (*list)[1:]
	return p, true
}

// note changes the summary, and tells.
func (t *Trial) note(chapter int, text string, change func(*Summary)) {
	t.mu.Lock()
	change(&t.summary)
	s := t.summary.clone()
	t.mu.Unlock()
	if t.Tell != nil && text != "" {
		s.finish(time.Since(t.begun))
		t.Tell(Event{Chapter: chapter, Text: text, Summary: s})
	}
}

func (t *Trial) now() Summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.summary.clone()
	s.finish(time.Since(t.begun))
	return s
}

// connect makes a client and an admin for one chapter.
func (t *Trial) connect() (*kgo.Client, *kadm.Client, error) {
	client, err := kgo.NewClient(append(t.Client[:len(t.Client):len(t.Client)],
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(20*time.Millisecond), kgo.ProducerLinger(0),
		// A topic that was just made is unknown to a busy broker for a while.
		kgo.UnknownTopicRetries(int(cleaning/(20*time.Millisecond))))...)
	if err != nil {
		return nil, nil, err
	}
	return client, kadm.NewClient(client), nil
}

// errNameTaken refuses to touch what was there before (R37).
func errNameTaken(kind, name string) error {
	return fmt.Errorf("%s %s exists already: it is not touched; run the command again, which chooses another name", kind, name)
}
