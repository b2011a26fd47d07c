package trial

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// chapter is one job from its birth to its removal.
type chapter struct {
	trial  *Trial
	number int
	goal   int // useful kills
	share  int // of those that the trial wants
	seed   uint64
	chance *mathrand.Rand // which strikes come
	random *mathrand.Rand // of a strike: what it leaves to chance
	dir    string

	job, second *proof.Job // two instances of one job
	client      *kgo.Client
	admin       *kadm.Client
	reader      *oracle.Reader
	feed        *feeder

	program []Strike // to come before those of chance
	done    []Strike // since the last comparison that found nothing
	starts  int
	useful  int
	barren  int             // kills without use since the last useful one
	history []string        // of what was done, for people
	hurt    map[string]bool // checkpoints that this chapter has damaged
	short   bool            // the changelog's tombstones may be gone: checkpoints are too old
	bad     bool            // an anomaly was found
}

// run lives the chapter.
func (c *chapter) run(ctx context.Context) (err error) {
	if err := c.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.trial.note(c.number, "", func(s *Summary) { s.Chapters++ })
	if c.trial.Strikes != nil {
		return c.interrupted(ctx, c.replay(ctx))
	}
	if c.number == 1 {
		if err := c.refuse(ctx); err != nil {
			return c.interrupted(ctx, err)
		}
		c.program = c.repertoire()
		if c.bad {
			return nil
		}
	}
	if err := c.firstStarts(ctx); err != nil {
		return c.interrupted(ctx, err)
	}
	for !c.bad {
		for n := 0; n < roundKills && c.useful < c.goal && !c.bad; {
			before := c.useful
			if err := c.strike(ctx); err != nil {
				return c.interrupted(ctx, err)
			}
			n += c.useful - before
			if c.enough() {
				break
			}
		}
		if c.bad {
			break
		}
		last := c.useful >= c.goal || c.enough()
		if last {
			if err := c.do(ctx, c.strikes("forget")[0]); err != nil {
				return c.interrupted(ctx, err)
			}
			if c.bad {
				break
			}
		}
		if err := c.compare(ctx, last); err != nil {
			return c.interrupted(ctx, err)
		}
		if last {
			break
		}
	}
	return nil
}

// mostBarren is how many kills in a row may be of no use.
const mostBarren = 40

// enough tells whether the chapter has to end before it has reached its goal.
func (c *chapter) enough() bool {
	_, ended, _ := c.feed.written()
	return ended || c.trial.over() || c.barren >= mostBarren
}

func (c *chapter) interrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil || err == nil {
		return cause
	}
	return fmt.Errorf("chapter %d, seed %d: %w", c.number, c.seed, err)
}

// open makes the names of the chapter and what stands behind them.
func (c *chapter) open(ctx context.Context) (err error) {
	var nonce [5]byte
	_, _ = rand.Read(nonce[:]) // never fails: it would end the program
	name := c.trial.Prefix + "-" + hex.EncodeToString(nonce[:])
	c.hurt = map[string]bool{}
	job := c.trial.Job
	job.Name, job.Dir, job.MaxRecords = name, filepath.Join(c.dir, "a"), 0
	if c.seed%2 == 0 {
		job.MaxRecords = 40 // what falls due together is written in slices
	}
	second := job
	second.Dir = filepath.Join(c.dir, "b")
	c.job, c.second = &job, &second
	if err := errors.Join(makeJob(c.job), makeJob(c.second)); err != nil {
		return err
	}
	if c.client, c.admin, err = c.trial.connect(); err != nil {
		return err
	}
	if c.reader, err = oracle.NewReaderWith(c.trial.Client...); err != nil {
		return err
	}
	if err := c.refuseTaken(ctx); err != nil {
		return err
	}
	if err := c.create(ctx, nil, job.Topics()...); err != nil {
		return err
	}
	c.feed = startFeeder(context.WithoutCancel(ctx), c.client, job.Input(), c.trial.Source(c.seed), c.trial.Rate)
	return nil
}

// makeJob makes the directory of an instance.
func makeJob(j *proof.Job) error {
	if err := os.MkdirAll(j.Dir, 0o700); err != nil {
		return err
	}
	return j.WriteConfig()
}

// refuseTaken looks whether a name of the chapter exists.
func (c *chapter) refuseTaken(ctx context.Context) error {
	topics, err := c.admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	for _, t := range append(c.job.Topics(), c.job.OwnTopics()...) {
		if topics.Has(t) {
			return errNameTaken("topic", t)
		}
	}
	groups, err := c.admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	for _, p := range c.job.Parts() {
		if _, taken := groups[p.Name]; taken {
			return errNameTaken("group", p.Name)
		}
	}
	return nil
}

// cleaning is how long what a chapter has made may take to be removed.
const cleaning = 20 * time.Second

// close removes what the chapter has made, but for its directory when something was found.
func (c *chapter) close() (err error) {
	if c.feed != nil {
		c.feed.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleaning)
	defer cancel()
	if c.feed != nil {
		err = c.remove(ctx)
	}
	if c.client != nil {
		c.client.Close()
	}
	if c.reader != nil {
		c.reader.Close()
	}
	if c.bad {
		return err
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// remove removes topics and groups.
func (c *chapter) remove(ctx context.Context) error {
	seats := errors.Join(c.evict(ctx, c.job), c.evict(ctx, c.second))
	failed := c.drop(ctx, append(c.job.Topics(), c.job.OwnTopics()...)...)
	for _, p := range c.job.Parts() {
		_, unknown := c.admin.DeleteGroups(ctx, p.Name)
		if unknown != nil && !errors.Is(unknown, kerr.GroupIDNotFound) {
			failed = errors.Join(failed, unknown)
		}
	}
	if failed != nil {
		failed = fmt.Errorf("remove what the trial has made, named %s-*: %w", c.job.Name, failed)
	}
	return errors.Join(seats, failed)
}

// found notes an anomaly. In a trial that is being stopped nothing is one: processes end then before they are done.
func (c *chapter) found(a proof.Anomaly) {
	c.bad = true
	if c.trial.stopped() != nil {
		return
	}
	c.trial.note(c.number, "ANOMALY: "+a.String(), func(s *Summary) {
		s.Anomalies = append(s.Anomalies, Found{Anomaly: a, Chapter: c.number, Seed: c.seed, After: slices.Clone(c.history),
			Strikes: slices.Clone(c.done), Kills: s.Kills, Dir: c.dir})
	})
}

// patience is how long the program may take for one thing that it always does in the end, on a machine that is busy with
// other trials; all that a comparison starts one after the other may take comparisons times as long.
const (
	patience    = 3 * time.Minute
	comparisons = 5
)

// compare lets the job come to rest and holds it against the oracle. The last one also starts it twice more: neither may
// change anything.
func (c *chapter) compare(ctx context.Context, last bool) error {
	c.feed.pause(true)
	defer c.feed.pause(false)
	readings, _, err := c.feed.written()
	if err != nil {
		return err
	}
	if readings == 0 {
		return errNoReadings
	}
	ctx, cancel := context.WithTimeoutCause(ctx, comparisons*patience, errors.New("the job did not come to rest"))
	defer cancel()
	l, err := c.start(c.job, "", "run", "--until-idle", "--json")
	if err != nil {
		return err
	}
	if !l.ends(ctx, patience) {
		_ = l.Kill()
		_, err := c.read(l)
		c.found(proof.Anomaly{Kind: Stopped, Where: "process " + l.name, Want: "a run until idle that ends", Found: "one at work after " + patience.String()})
		return err
	}
	if _, err := c.read(l); err != nil {
		return err
	}
	if failure := l.Failure(); failure != nil {
		c.found(proof.Anomaly{Kind: Stopped, Where: "process " + l.name, Want: "a run until idle with exit code 0", Found: failure.Error()})
		return nil
	}
	return c.judge(ctx, readings, last)
}

// judge holds what is published against what the oracle makes of the input.
func (c *chapter) judge(ctx context.Context, readings int64, last bool) error {
	sight, err := c.job.Look(ctx, c.reader)
	if err != nil {
		c.found(proof.Anomaly{Kind: proof.Torn, Where: "what is published", Want: "topics and state that can be read", Found: err.Error()})
		return nil
	}
	want, err := c.job.Expect(ctx, c.reader)
	if err != nil {
		return err
	}
	anomalies := proof.Compare(want, &sight.Observed)
	if len(anomalies) == 0 && last {
		if _, err := c.job.Prove(ctx, c.reader, want); err != nil {
			anomalies = append(anomalies, proof.Anomaly{Kind: proof.Torn, Where: "two more starts", Want: "nothing changed", Found: err.Error()})
		}
	}
	if len(anomalies) > 0 {
		if err := proof.Unjudged(&sight.Observed); err != nil {
			return err
		}
		for _, a := range anomalies {
			c.found(a)
		}
		c.trial.note(c.number, "", func(s *Summary) { s.Rounds++ })
		return nil
	}
	c.history, c.done = nil, nil
	c.trial.note(c.number, fmt.Sprintf("chapter %d: %d readings, %d results, %d open windows: as they must be", c.number, readings,
		len(sight.Results), len(sight.State)), func(s *Summary) {
		s.Rounds++
		if last {
			s.Readings += readings
			s.Results += len(sight.Results)
			s.Windows += len(sight.State)
			s.Late += len(sight.Late)
			s.Dead += len(sight.Dead)
		}
	})
	return nil
}
