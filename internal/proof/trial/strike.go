package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// Times of a strike.
const (
	reachLimit  = 4 * time.Second // a point that is not reached by then is not waited for
	workLimit   = 20 * time.Second
	randomReach = 250 * time.Millisecond // after the first commit
	earlyReach  = 700 * time.Millisecond // after the start
)

// firstStarts are strikes at a job that is not born yet.
func (c *chapter) firstStarts(ctx context.Context) error {
	defer c.feed.pause(false)
	point, ok := c.trial.point(true)
	if !ok || len(c.trial.Points) == 0 && c.chance.IntN(2) == 0 {
		return nil
	}
	if recipeOf(point).reset {
		return c.do(ctx, c.strikes("reset=" + point)[0])
	}
	return c.do(ctx, c.strikes("birth=" + point)[0])
}

// reset kills the reset of a job that is born and has consumed nothing: a life that has published something would publish
// it again.
func (c *chapter) reset(ctx context.Context, point string) error {
	born, err := c.start(c.job, "", "run", "--until-idle", "--json")
	if err != nil {
		return err
	}
	if !born.ends(ctx, workLimit) || born.Failure() != nil {
		_ = born.end() // it has ended, or is killed here
		c.found(proof.Anomaly{Kind: Stopped, Where: "process " + born.name, Want: "a job without input that comes to rest",
			Found: fmt.Sprint(born.Failure())})
		return nil
	}
	c.feed.pause(false)
	parts := c.job.Parts()
	part := parts[c.random.IntN(len(parts))].Name
	for _, order := range []string{"KILL@" + point, ""} {
		l, err := c.start(c.job, order, "reset", "--part", part, "--yes", "--who", "verify", "--why", "a trial", "--json")
		if err != nil {
			return err
		}
		if !l.ends(ctx, workLimit) {
			return errors.Join(fmt.Errorf("reset did not end within %s", workLimit), l.end())
		}
		if order != "" {
			if err := c.count(ctx, l, "reset, "+order); err != nil {
				return err
			}
			continue
		}
		if failure := l.Failure(); failure != nil {
			c.found(proof.Anomaly{Kind: Stopped, Where: "process " + l.name, Want: "a reset that is finished", Found: failure.Error()})
		}
	}
	c.trial.note(c.number, "", func(s *Summary) { s.Resets++ })
	return nil
}

// strike is one kill, or several that belong together.
func (c *chapter) strike(ctx context.Context) error {
	if _, _, err := c.feed.written(); err != nil {
		return err
	}
	if len(c.program) == 0 {
		c.program = c.strikes(c.draw()...)
	}
	next := c.program[0]
	c.program = c.program[1:]
	if next.Name == "" { // only points of first starts are wanted
		c.goal = c.useful
		return nil
	}
	return c.do(ctx, next)
}

// draw draws the next strike, and what comes before it now and then: something that hurts what the last process has left.
func (c *chapter) draw() (names []string) {
	switch n := c.chance.IntN(12); {
	case n == 0:
		names = append(names, "wipe")
	case n == 1:
		names = append(names, "forge")
	case n < 4:
		names = append(names, "damage")
	}
	if len(c.trial.Points) > 0 {
		point, ok := c.trial.point(false)
		if !ok {
			return []string{""}
		}
		return append(names, "point="+point)
	}
	n := c.chance.IntN(100)
	switch {
	case c.job.Idle > 0 && c.chance.IntN(8) == 0:
		return append(names, "silence")
	case n < 50:
		if point, ok := c.trial.point(false); ok {
			return append(names, "point="+point)
		}
	case n >= 88:
		return append(names, "zombie="+sleeping()[c.chance.IntN(len(dreams))])
	case n >= 80:
		return append(names, "move")
	case n >= 66:
		return append(names, []string{"fail", "fail-kill"}[c.chance.IntN(2)]+"="+failures[c.chance.IntN(len(failures))])
	}
	return append(names, "kill")
}

// wipe deletes the local state.
func (c *chapter) wipe() error {
	c.note("local state deleted")
	c.trial.note(c.number, "", func(s *Summary) { s.Wiped++ })
	return c.job.Wipe()
}

// atPoint kills at a point.
func (c *chapter) atPoint(ctx context.Context, point string, r recipe) error {
	order := fmt.Sprintf("KILL@%s#%d", point, 1+c.random.IntN(r.most))
	if r.hurt {
		if err := c.damage(c.random.IntN(forged)); err != nil {
			return err
		}
	}
	if r.tmp {
		if err := c.leaveTmp(); err != nil {
			return err
		}
	}
	args := []string{"run", "--json"}
	if r.leave {
		args = append(args, "--until-idle")
	}
	l, err := c.start(c.job, order, args...)
	if err != nil {
		return err
	}
	limit := reachLimit
	if r.leave {
		limit = workLimit
	}
	l.ends(ctx, limit)
	return c.count(ctx, l, order)
}

// failures are steps of a commit that can fail.
var failures = []string{"commit.send", "commit.half", "commit.record", "commit.end", "commit.refused", "commit.ended"}

// afterFailure makes a step of a commit fail, which the process survives, and kills it some time after, or at once:
// at once is at the same step of the next commit.
func (c *chapter) afterFailure(ctx context.Context, step string, atOnce bool) error {
	nth := 3 + c.random.IntN(6)
	place := step
	if step != "commit.refused" { // which is of no task in particular
		place = fmt.Sprintf("%s/%d", step, c.random.IntN(int(c.job.Oracle.Partitions)))
	}
	order := fmt.Sprintf("FAIL@%s#%d", place, nth)
	if atOnce {
		order += fmt.Sprintf(",KILL@%s#%d", place, nth+1)
	}
	l, err := c.start(c.job, order)
	if err != nil {
		return err
	}
	if atOnce {
		l.ends(ctx, reachLimit)
	} else if l.sees(ctx, reached, reachLimit) {
		l.ends(ctx, time.Duration(c.random.Int64N(int64(3*randomReach))))
	}
	return c.count(ctx, l, "after "+order)
}

// atRandom kills at a random time after the first commit or, sometimes, after the start.
func (c *chapter) atRandom(ctx context.Context) error {
	l, err := c.start(c.job, "")
	if err != nil {
		return err
	}
	if c.random.IntN(4) == 0 {
		l.ends(ctx, time.Duration(c.random.Int64N(int64(earlyReach))))
	} else {
		l.sees(ctx, firstCommit, workLimit)
		l.ends(ctx, time.Duration(c.random.Int64N(int64(randomReach))))
	}
	return c.count(ctx, l, "at a random time")
}

// move lets a second instance take partitions, kills one of the two, and lets the other take over what is left.
func (c *chapter) move(ctx context.Context) error {
	first, err := c.start(c.job, "")
	if err != nil {
		return err
	}
	first.sees(ctx, firstCommit, workLimit)
	second, err := c.start(c.second, "")
	if err != nil {
		return errors.Join(err, first.end())
	}
	moved := second.sees(ctx, firstCommit, workLimit)
	victim, survivor := first, second
	if c.random.IntN(2) == 0 {
		victim, survivor = second, first
	}
	victim.ends(ctx, time.Duration(c.random.Int64N(int64(randomReach))))
	if err := c.count(ctx, victim, "one of two instances, at a random time"); err != nil {
		return errors.Join(err, survivor.end())
	}
	if err := c.evict(ctx, victim.job); err != nil {
		return errors.Join(err, survivor.end())
	}
	survivor.ends(ctx, randomReach+time.Duration(c.random.Int64N(int64(2*randomReach))))
	if moved {
		c.trial.note(c.number, "", func(s *Summary) { s.Moves++ })
	}
	return errors.Join(c.count(ctx, survivor, "the other instance, while it takes over"), c.evict(ctx, c.second))
}

// dream is where an owner sleeps while another takes over, and when it wakes.
type dream struct {
	step string // of its commit
	late bool   // it wakes when the other has looked at the log and has not fenced it yet: what it commits then must not be lost
}

// Without an open transaction, at commit.send, nothing but the fence is in the sleeper's way.
var dreams = map[string]dream{"commit.send": {"commit.send", false}, "commit.end": {"commit.end", false}, "commit.end-late": {"commit.end", true}}

// sleeping are the names of dreams, failing the steps that can fail.
func sleeping() []string { return slices.Sorted(maps.Keys(dreams)) }

func failing() []string { return failures }

// zombie stops an owner in the middle of a commit, lets a second instance take over, and lets the first one go on.
func (c *chapter) zombie(ctx context.Context, of string) error {
	step, late := dreams[of].step, dreams[of].late
	partition := c.random.IntN(int(c.job.Oracle.Partitions))
	stop := fmt.Sprintf("STOP@%s/%d#%d", step, partition, 2+c.random.IntN(4))
	first, err := c.start(c.job, stop)
	if err != nil {
		return err
	}
	if !first.sees(ctx, reached, reachLimit) {
		return c.count(ctx, first, stop)
	}
	if err := c.evict(ctx, c.job); err != nil {
		return errors.Join(err, first.end())
	}
	order := ""
	if late {
		order = fmt.Sprintf("STOP@recover.fence/%d", partition)
	}
	second, err := c.start(c.second, order)
	if err != nil {
		return errors.Join(err, first.end())
	}
	if late {
		took := second.sees(ctx, reached, workLimit)
		err = first.Resume()
		first.sees(ctx, "stopped in the middle", reachLimit/4) // it is told that it has lost its seat after its commit
		if took {
			err = errors.Join(err, second.Resume())
		}
	} else {
		second.sees(ctx, firstCommit, workLimit)
		err = first.Resume()
		first.sees(ctx, `"class":"fenced"`, reachLimit/4)
	}
	if err != nil {
		return errors.Join(err, first.end(), second.end())
	}
	second.sees(ctx, firstCommit, reachLimit)
	second.ends(ctx, time.Duration(c.random.Int64N(int64(randomReach))))
	c.trial.note(c.number, "", func(s *Summary) { s.Zombies++ })
	err = c.count(ctx, first, "an owner that woke after a takeover")
	return errors.Join(err, c.count(ctx, second, "the instance that had taken over"), c.evict(ctx, c.second))
}

// count ends the process if it has not ended, and judges the kill.
func (c *chapter) count(ctx context.Context, l *life, what string) error {
	if err := l.end(); err != nil {
		if _, failed := c.read(l); failed != nil {
			return failed
		}
		if strings.Contains(l.text, "leave") || strings.Contains(l.text, "left") {
			return nil // it was done before
		}
		c.found(proof.Anomaly{Kind: Stopped, Where: "process " + l.name, Want: "a process at work until it is killed", Found: err.Error()})
		return nil
	}
	t, err := c.read(l)
	if err != nil {
		return err
	}
	waiting, err := c.waiting(ctx)
	if err != nil {
		return err
	}
	hit := len(t.point) > 0
	useful := (hit || t.committed) && waiting > 0
	if useful {
		c.useful++
		c.barren = 0
	} else {
		c.barren++
	}
	c.note("%s", what)
	text := fmt.Sprintf("chapter %d, process %s: killed %s, %d readings waiting", c.number, l.name, what, waiting)
	c.trial.note(c.number, text, func(s *Summary) {
		s.Kills++
		s.Failures += t.failures
		switch {
		case useful && hit:
			s.Useful++
			for _, p := range t.point {
				s.Points[p]++
			}
		case useful:
			s.Useful++
			s.Random++
		case !hit && !t.committed:
			s.Early++
		default:
			s.Idle++
		}
		if !hit && strings.Contains(l.text, "KILL@") {
			s.Missed++
		}
	})
	return nil
}

func (c *chapter) note(format string, args ...any) {
	c.history = append(c.history, fmt.Sprintf(format, args...))
}

// waiting is how many readings are in the input and not known as done to the group.
func (c *chapter) waiting(ctx context.Context) (int64, error) {
	written, _, err := c.feed.written()
	if err != nil {
		return 0, err
	}
	waiting := written
	for i, p := range c.job.Parts() {
		if p.Input != c.job.Input() {
			lag, err := c.handed(ctx, p)
			if err != nil {
				return 0, err
			}
			waiting += lag
			continue
		}
		done, err := c.reader.GroupOffsets(ctx, p.Name, p.Input, int(c.job.Oracle.Partitions))
		if err != nil {
			return 0, err
		}
		if i > 0 { // another relay reads the same
			waiting += written
		}
		for _, d := range done {
			waiting -= max(0, d)
		}
	}
	return waiting, nil
}

// handed is how much was handed on to a part that it has not consumed.
func (c *chapter) handed(ctx context.Context, p proof.Part) (waiting int64, err error) {
	ends, err := c.reader.Ends(ctx, p.Input)
	if errors.Is(err, oracle.ErrNoTopic) {
		return 0, nil // nothing yet
	} else if err != nil {
		return 0, err
	}
	done, err := c.reader.GroupOffsets(ctx, p.Name, p.Input, len(ends))
	for i, d := range done {
		waiting += ends[i] - max(0, d)
	}
	return waiting, err
}

// evict takes the seat of a process that is dead, or that is to be taken for dead, out of the group.
func (c *chapter) evict(ctx context.Context, job *proof.Job) error {
	for _, p := range job.Parts() {
		if err := c.unseat(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *chapter) unseat(ctx context.Context, p proof.Part) error {
	id, instance, err := seats(p.StateDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	groups, err := c.admin.DescribeGroups(ctx, p.Name)
	if err != nil {
		return err
	}
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group = p.Name
	for _, m := range groups[p.Name].Members {
		if m.MemberID == id && id != "" || m.InstanceID != nil && *m.InstanceID == instance {
			out := kmsg.NewLeaveGroupRequestMember()
			out.MemberID, out.InstanceID = m.MemberID, m.InstanceID
			request.Members = append(request.Members, out)
		}
	}
	if len(request.Members) == 0 {
		return nil
	}
	_, err = request.RequestWith(ctx, c.client) // a member that is gone already is no matter
	return err
}
