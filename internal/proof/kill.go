package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// KillLoop kills the daemon at random times while readings flow, and starts it again. It counts a kill as useful when
// it hit a process that had committed readings since its start and had more in front of it: a kill when nothing was
// open proves nothing (W29).
type KillLoop struct {
	Job    *Job
	Reader *oracle.Reader
	Feed   Feed
	Rate   int    // readings a second
	Seed   uint64 // of the times and of the choices below
	Useful int    // the kills end after so many useful ones
	Whole  bool   // then the rest of the feed is produced too, as fast as it goes
	Wipe   bool   // every third restart, at random, finds the local state deleted
	Log    func(format string, args ...any)
}

// Kills says what the kills hit.
type Kills struct {
	Useful int
	Early  int // before the first commit with readings since the start: in the start, the join or the recovery
	Idle   int // everything that had been produced was committed
	Wiped  int // restarts without local state
	Lines  int // readings produced in all
}

// String is the count in one line.
func (k Kills) String() string {
	return fmt.Sprintf("%d useful kills, %d early, %d idle, %d restarts without local state, %d readings",
		k.Useful, k.Early, k.Idle, k.Wiped, k.Lines)
}

// The longest time from a start to its kill: at first, and at most after many that came too early.
const (
	firstReach = 1500 * time.Millisecond
	lastReach  = 6 * time.Second
)

// Run kills until there were enough useful kills. It is an error when the feed ends before that, or when the daemon ends
// by itself.
func (l *KillLoop) Run(ctx context.Context) (kills Kills, err error) {
	l.Log("seed %d", l.Seed)
	random := rand.New(rand.NewPCG(l.Seed, l.Seed))
	reach := firstReach
	f, err := l.Job.startFlow(l.Feed, l.Rate)
	if err != nil {
		return kills, err
	}
	for n := 1; kills.Useful < l.Useful && err == nil && ctx.Err() == nil; n++ {
		if f.ended() {
			err = fmt.Errorf("the feed ended after %d readings and %v; want %d useful kills", f.lines, kills, l.Useful)
			break
		}
		if l.Wipe && n > 1 && random.IntN(3) == 0 {
			kills.Wiped++
			err = os.RemoveAll(l.Job.LocalState())
		}
		delay := time.Duration(random.Int64N(int64(reach)))
		hit, failed := l.round(ctx, n, delay)
		if err = errors.Join(err, failed); err != nil {
			break
		}
		l.Log("kill %d after %v: %s", n, delay.Round(time.Millisecond), hit)
		switch {
		case hit.committed == 0:
			kills.Early++
			reach = min(reach*5/4, lastReach)
		case hit.waiting <= 0:
			kills.Idle++
		default:
			kills.Useful++
		}
	}
	lines, ended := f.finish(ctx, l.Whole && err == nil)
	kills.Lines = lines
	return kills, errors.Join(err, ended, context.Cause(ctx))
}

// strike is what one kill hit.
type strike struct {
	committed int   // entries that this start of the daemon had committed
	waiting   int64 // input records before the kill that the group does not know as done
}

// String is the strike in words.
func (s strike) String() string {
	return fmt.Sprintf("%d updates committed since the start, %d records waiting", s.committed, s.waiting)
}

// round starts the daemon, kills it, and judges the kill.
func (l *KillLoop) round(ctx context.Context, n int, delay time.Duration) (strike, error) {
	mark, err := l.Reader.Ends(ctx, l.Job.changelog())
	if err != nil && !errors.Is(err, oracle.ErrNoTopic) { // before the first start there is none
		return strike{}, err
	}
	daemon, err := l.Job.start(fmt.Sprintf("run-%04d", n), nil, "run", "-c", l.Job.Config())
	if err != nil {
		return strike{}, err
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-daemon.done:
		if err := daemon.failure(); err != nil {
			return strike{}, fmt.Errorf("the daemon ended by itself: %w", err)
		}
		return strike{}, fmt.Errorf("the daemon ended by itself with exit code 0; it said:\n%s", daemon.said())
	}
	ends, endsErr := l.Reader.Ends(ctx, l.Job.input())
	if err := errors.Join(daemon.kill(), endsErr); err != nil {
		return strike{}, err
	}
	return l.judge(ctx, mark, ends)
}

// judge counts what was committed since the marks and what waited below the ends of the input.
func (l *KillLoop) judge(ctx context.Context, mark, ends []int64) (strike, error) {
	var s strike
	partitions, err := l.Reader.ReadFrom(ctx, l.Job.changelog(), mark, oracle.AtStable)
	if errors.Is(err, oracle.ErrNoTopic) {
		return s, nil
	} else if err != nil {
		return s, err
	}
	for _, messages := range partitions {
		f, err := oracle.FoldChangelog(messages)
		if err != nil {
			return s, err
		}
		s.committed += int(f.Updates)
	}
	done, err := l.Reader.GroupOffsets(ctx, l.Job.group(), l.Job.input(), len(ends))
	for p, end := range ends {
		if done != nil {
			s.waiting += end - max(0, done[p])
		}
	}
	return s, err
}
