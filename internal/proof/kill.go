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

// KillLoop kills tidemark run at random times while readings flow, and starts it again: two times out of three as the
// daemon, else with --until-idle, which may end before it is killed. It counts a kill as useful when
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
	Ended  int // runs --until-idle that were done before their kill
	Wiped  int // restarts without local state
	Lines  int // readings produced in all
}

// String is the count in one line.
func (k Kills) String() string {
	return fmt.Sprintf("%d useful kills, %d early, %d idle, %d ended before, %d restarts without local state, %d readings",
		k.Useful, k.Early, k.Idle, k.Ended, k.Wiped, k.Lines)
}

// The longest time from a start to its kill: at first, and at most after many that came too early.
const (
	firstReach = 1500 * time.Millisecond
	lastReach  = 4 * time.Second
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
		r := round{number: n, delay: time.Duration(random.Int64N(int64(reach))), untilIdle: random.IntN(3) == 0}
		if r.untilIdle {
			r.delay /= 4 // it is soon done
		}
		hit, failed := l.strike(ctx, r)
		if err = errors.Join(err, failed); err != nil {
			break
		}
		l.Log("%s: %s", r, hit)
		switch {
		case hit.ended:
			kills.Ended++
		case hit.committed == 0:
			if kills.Early++; kills.Early > kills.Useful {
				reach = min(reach*5/4, lastReach)
			}
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

// round is one start and its kill.
type round struct {
	number    int
	delay     time.Duration
	untilIdle bool
}

// String is the round in words.
func (r round) String() string {
	mode := "daemon"
	if r.untilIdle {
		mode = "run until idle"
	}
	return fmt.Sprintf("start %d, %s, kill after %v", r.number, mode, r.delay.Round(time.Millisecond))
}

// strike is what one kill hit.
type strike struct {
	ended     bool  // nothing: the run was done
	committed int   // entries that this start had committed
	waiting   int64 // input records before the kill that the group does not know as done
}

// String is the strike in words.
func (s strike) String() string {
	if s.ended {
		return "it was done before"
	}
	return fmt.Sprintf("%d updates committed since the start, %d records waiting", s.committed, s.waiting)
}

// strike starts tidemark run, kills it, and judges the kill.
func (l *KillLoop) strike(ctx context.Context, r round) (strike, error) {
	mark, err := l.Reader.Ends(ctx, l.Job.Changelog())
	if err != nil && !errors.Is(err, oracle.ErrNoTopic) { // before the first start there is none
		return strike{}, err
	}
	args := []string{"run", "-c", l.Job.Config()}
	if r.untilIdle {
		args = append(args, "--until-idle")
	}
	worker, err := l.Job.start(fmt.Sprintf("run-%04d", r.number), nil, args...)
	if err != nil {
		return strike{}, err
	}
	timer := time.NewTimer(r.delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-worker.done:
	}
	ends, endsErr := l.Reader.Ends(ctx, l.Job.Input())
	if errors.Is(endsErr, oracle.ErrNoTopic) {
		endsErr = nil // nothing was produced yet, and so nothing waited
	}
	err = worker.kill()
	switch {
	case errors.Is(err, os.ErrProcessDone) && worker.err == nil && r.untilIdle:
		return strike{ended: true}, endsErr
	case errors.Is(err, os.ErrProcessDone) && worker.err == nil:
		return strike{}, fmt.Errorf("the daemon ended by itself with exit code 0; it said:\n%s", worker.said())
	case err != nil || endsErr != nil:
		return strike{}, errors.Join(err, endsErr)
	}
	return l.judge(ctx, mark, ends)
}

// judge counts what was committed since the marks and what waited below the ends of the input.
func (l *KillLoop) judge(ctx context.Context, mark, ends []int64) (strike, error) {
	var s strike
	partitions, err := l.Reader.ReadFrom(ctx, l.Job.Changelog(), mark, oracle.AtStable)
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
	done, err := l.Reader.GroupOffsets(ctx, l.Job.Group(), l.Job.Input(), len(ends))
	for p, end := range ends {
		if done != nil {
			s.waiting += end - max(0, done[p])
		}
	}
	return s, err
}
