package proof

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/repair"
)

// The sweeps of repairs: a process dies at work, something is hurt that needs the repair, the repair dies, and the next
// process dies too, be it the same repair ordered again or an ordinary start. Then the repair is ordered until it is done,
// the task works to its end, and all that was committed is compared with what the oracle makes of the input that was read.

// sweptRepair is one kind of repair.
type sweptRepair struct {
	name  string
	hurt  func(*sweptTask)
	do    func(*sweptTask, *sweepLife) error
	again bool // readings are read again: what was published before stands beside what is published now, equal byte for byte
}

// sweptTask is a world with a repair in it.
type sweptTask struct {
	*sweepWorld
	repair *sweptRepair
	to     int64 // where a skip leads, or where the input begins
	due    bool  // a skip is due: no start in between may have passed that place
}

var sweptRepairs = []sweptRepair{
	{name: "reset", hurt: func(*sweptTask) {}, again: true, do: func(_ *sweptTask, l *sweepLife) error {
		return l.order(repair.Order{Kind: repair.Reset, To: record.NoInput})
	}},
	{name: "skip", hurt: (*sweptTask).chooseSkip, do: func(t *sweptTask, l *sweepLife) error {
		return l.order(repair.Order{Kind: repair.Skip, To: record.InputPosition(t.to)})
	}},
	{name: "reseal", hurt: (*sweptTask).breakDigest, do: func(_ *sweptTask, l *sweepLife) error {
		return l.order(repair.Order{Kind: repair.Reseal, To: record.NoInput})
	}},
	{name: "accepted loss of commits", hurt: (*sweptTask).loseCommits, again: true, do: (*sweptTask).runAccepting},
	{name: "accepted loss of input", hurt: (*sweptTask).loseInput, do: (*sweptTask).runAccepting},
}

// order carries a repair out.
func (l *sweepLife) order(o repair.Order) error {
	rec, _, err := l.recovery()
	if err != nil {
		return err
	}
	o.Note, o.MaxRecords, o.MaxBytes = "anna: found wanting", 5, 1<<20
	_, err = repair.Do(context.Background(), rec, o)
	return err
}

// runAccepting is an ordinary process that goes on without what is gone.
func (*sweptTask) runAccepting(l *sweepLife) error {
	l.accept = recovery.AcceptLoss
	return l.run()
}

// last is where the task stands; nil before its birth.
func (t *sweptTask) last() *oracle.Commit {
	all, err := oracle.Commits(t.messages(sweepLog))
	if err != nil || len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// chooseSkip skips the next three records.
func (t *sweptTask) chooseSkip() {
	from := int64(0)
	if last := t.last(); last != nil {
		from = last.Position
	}
	t.to = min(from+3, int64(len(t.input)))
	t.due = t.last() != nil && t.to > from
}

// breakDigest lets the last commit record say something of the state that is not so.
func (t *sweptTask) breakDigest() {
	all := slices.DeleteFunc(t.messages(sweepLog), func(m oracle.Message) bool { return !bytes.Equal(m.Key, record.CommitKey) })
	if len(all) == 0 {
		return
	}
	m := all[len(all)-1]
	c, err := record.ParseCommit(m.Value)
	if err != nil {
		panic(err)
	}
	c.Digest.Lo++
	t.cluster.Overwrite(sweepLog, 0, m.Offset, c.Append(nil))
}

// loseCommits cuts the changelog behind the last commit but one, as an unclean election does.
func (t *sweptTask) loseCommits() {
	var at []int64
	for _, m := range t.messages(sweepLog) {
		if bytes.Equal(m.Key, record.CommitKey) {
			at = append(at, m.Offset)
		}
	}
	if len(at) > 1 {
		t.cluster.Truncate(sweepLog, 0, at[len(at)-2]+2) // its marker stays
	}
}

// loseInput lets the input's log begin behind where the task stands, once it stands somewhere.
func (t *sweptTask) loseInput() {
	if t.chooseSkip(); t.due {
		t.cluster.DeleteRecords(sweepIn, 0, t.to)
	}
}

// tell is the whole story. It returns how many of the strikes happened, and how many effects the last process had.
func (t *sweptTask) tell(first, second, third blow, startBetween bool) (happened, effects int, err error) {
	machine := 0
	strike := func(s blow, what func(*sweepLife) error) error {
		l, err := t.live(machine, s, nil, what)
		effects = l.effects
		if l.struck {
			happened++
		}
		if l.struck && s.how == byLoss {
			machine = (machine + 1) % sweepMachines
		}
		return l.must(err)
	}
	do := func(l *sweepLife) error { return t.repair.do(t, l) }
	if err := strike(first, (*sweepLife).run); err != nil {
		return happened, 0, err
	}
	t.careful = true // checkpoints may know more than what is hurt
	t.repair.hurt(t)
	if err := t.tolerable(strike(second, do)); err != nil {
		return happened, 0, fmt.Errorf("the repair: %w", err)
	}
	if startBetween {
		t.due = false
		err = strike(third, (*sweepLife).run)
		if err != nil && t.refusal(err) {
			err = nil
		}
	} else {
		err = t.tolerable(strike(third, do))
	}
	if err != nil {
		return happened, 0, fmt.Errorf("the process after it (a start: %v): %w", startBetween, err)
	}
	if err := t.tolerable(strike(blow{}, do)); err != nil {
		return happened, 0, fmt.Errorf("the repair ordered for the last time: %w", err)
	}
	return happened, effects, t.end(machine)
}

// tolerable lets pass that there is nothing to repair.
func (t *sweptTask) tolerable(err error) error {
	if err != nil && (strings.Contains(err.Error(), "the task has never lived") || !t.due && strings.Contains(err.Error(), "a skip goes forwards only")) {
		return nil
	}
	return err
}

// refusal tells whether an ordinary start names the way on.
func (t *sweptTask) refusal(err error) bool {
	return kafka.ClassOf(err) != kafka.ClassTransient && (strings.Contains(err.Error(), "tidemark re") || strings.Contains(err.Error(), "--accept-loss"))
}

// verdict compares what was committed with what the oracle makes of the input that was read.
func (t *sweptTask) verdict() error {
	gaps, err := t.gaps()
	if err != nil {
		return err
	}
	got, err := t.observe()
	if err != nil {
		return err
	}
	if t.repair.again {
		got.Results, got.Late, got.Dead = distinct(got.Results), distinct(got.Late), distinct(got.Dead)
	}
	if t.repair.name == "reset" {
		if err := t.publishedAnew(len(got.Results)); err != nil {
			return err
		}
	}
	return t.compare(gaps, got)
}

// gaps are the offsets that the commits say were never read, with the equations that hold of them.
func (t *sweptTask) gaps() (gaps []gap, err error) {
	commits, err := oracle.Commits(t.messages(sweepLog))
	if err != nil {
		return nil, err
	}
	var before oracle.Commit
	for _, c := range commits {
		if skipped := c.Counters.Skipped - before.Counters.Skipped; c.Counters.In == 0 {
			gaps = nil // a life begins
		} else if skipped > 0 {
			if n := c.Counters.In - before.Counters.In; n != skipped || c.Position-before.Position != skipped {
				return nil, fmt.Errorf("commit %d moves from %d to %d, counts %d as skipped and %d as read", c.Number, before.Position, c.Position, skipped, n)
			}
			gaps = append(gaps, gap{before.Position, c.Position})
		}
		before = *c
	}
	if t.due && len(gaps) == 0 {
		return nil, fmt.Errorf("offsets up to %d were to be skipped, none were", t.to)
	}
	for _, g := range gaps {
		if g.to != t.to {
			return nil, fmt.Errorf("offsets from %d to %d were skipped, not up to %d", g.from, g.to, t.to)
		}
	}
	return gaps, nil
}

// distinct drops what is there again, equal in everything but its place.
func distinct[T any](list []T) []T {
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(one T) bool {
		if l, ok := any(one).(Line); ok {
			l.Place = ""
			one = any(l).(T)
		}
		name := fmt.Sprintf("%+v", one)
		was := seen[name]
		seen[name] = true
		return was
	})
}

// publishedAnew checks that the life that a reset began has published all results, not only those that the one before had
// not.
func (t *sweptTask) publishedAnew(want int) error {
	birth, n := fmt.Sprintf(" %016x ", t.last().Birth), 0
	for _, m := range t.messages(sweepOut) {
		for _, h := range m.Headers {
			if strings.Contains(string(h.Value), birth) {
				n++
			}
		}
	}
	if n != want {
		return fmt.Errorf("the life with the birth id%spublished %d results of %d", birth, n, want)
	}
	return nil
}

// TestSweepRepairs draws stories of each repair: a run that dies, the repair that dies, and then a start or the repair again
// that dies. What a repair must come to is in internal/repair; here it is what the oracle says.
func TestSweepRepairs(t *testing.T) {
	rng := sweepDraw(t)
	run := len(sweepEffects(t, sweepUsual))
	for i := range sweptRepairs {
		r, three := &sweptRepairs[i], 0
		tell := func(seed uint64, startBetween bool, strikes ...blow) (happened, effects int) {
			w := &sweptTask{sweepWorld: newSweepWorld(sweepUsual, seed), repair: r}
			w.judge = w.verdict
			happened, effects, err := w.tell(strikes[0], strikes[1], strikes[2], startBetween)
			if err != nil {
				t.Fatalf("%s: %v, a start between: %v, seed %d: %v", r.name, strikes, startBetween, seed, err)
			}
			return happened, effects
		}
		draw := func(effects int) blow {
			return blow{1 + rng.IntN(effects), []string{byKill, byPower, byLoss}[rng.IntN(3)]}
		}
		for range max(1, *deepFlag/len(sweptRepairs)) {
			first, seed := draw(run), rng.Uint64()
			_, effects := tell(seed, false, first, blow{}, blow{})
			effects = min(effects, 40) // one that goes on to work has had its repair by then
			between := rng.IntN(2) == 0
			third := draw(effects)
			if between {
				third = draw(40)
			}
			if happened, _ := tell(seed, between, first, draw(effects), third); happened == 3 {
				three++
			}
		}
		t.Logf("%s: %d stories have three strikes", r.name, three)
		if three == 0 {
			t.Errorf("%s: the sweep did not sweep", r.name)
		}
	}
}
