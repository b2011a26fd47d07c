package kafka

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTwoInstancesKilledAndPaused lets two instances share a job and hurts them at random while readings flow: SIGKILL, at
// times with the local state or the whole machine lost, and SIGSTOP, at times for so long that the other takes over and
// a zombie wakes (I4, I8, R8, S07). Then everything must be as the oracle says. TIDEMARK_KILLS is the number of kills that hit
// a process at work; there are three pauses to eight kills.
func TestTwoInstancesKilledAndPaused(t *testing.T) {
	kills := killsWanted(t, 8)
	seed := randomSeed(t)
	t.Logf("seed %d", seed)
	pauses := max(3, kills*3/8)
	storm := &storm{crew: newCrew(t, 2*time.Minute+time.Duration(kills)*12*time.Second+time.Duration(pauses)*30*time.Second, 4, nil),
		random: rand.New(rand.NewPCG(seed, 3))}
	finish := storm.flow(seed, 2000)
	storm.rage(kills, pauses)
	storm.lines = finish()
	sight := storm.prove(storm.jobs...)
	if len(sight.Results) == 0 || len(sight.Late) == 0 || len(sight.Dead) == 0 {
		t.Error("the run proves little: no results, no late readings or no dead letters")
	}
	t.Logf("%s; %d results, %d open windows, %d late, %d dead letters equal to the oracle's", &storm.tally,
		len(sight.Results), len(sight.State), len(sight.Late), len(sight.Dead))
	if storm.torn == 0 || storm.takeovers == 0 || storm.tornZombies == 0 || storm.refused == 0 {
		t.Error("not every fault has happened: there must be kills in open transactions, takeovers, zombies with an open transaction, " +
			"and zombies that are refused")
	}
}

// killsWanted is TIDEMARK_KILLS, or what a test does without it.
func killsWanted(t *testing.T, otherwise int) int {
	text := os.Getenv("TIDEMARK_KILLS")
	if text == "" {
		return otherwise
	}
	kills, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return kills
}

// rage starts both instances, hurts them, and stops them when all of the kills and pauses were had.
func (s *storm) rage(kills, pauses int) {
	for i, job := range s.jobs {
		s.crewed[i] = s.start(job)
	}
	s.whole(s.crewed[:]...)
	for left := pauses; s.kills < kills || left > 0; {
		if left > 0 && (s.kills >= kills || s.random.IntN(kills+pauses) < pauses) {
			left--
			s.pause(left%3 != 0 || s.zombies == 0)
		} else {
			s.kill(s.random.IntN(2), true)
		}
	}
	s.whole(s.crewed[:]...)
	for _, i := range s.crewed {
		s.must(i.Stop())
	}
}

// storm is two instances in trouble.
type storm struct {
	*crew
	crewed [2]*instance
	random *rand.Rand
	tally
}

// tally says what the faults hit.
type tally struct {
	kills       int // of processes that had tasks at work
	torn        int // of these, with a transaction of theirs open
	early       int // kills of processes without a task at work
	wiped       int // restarts without checkpoints
	lost        int // restarts without the state directory
	pauses      int // shorter than a session
	takeovers   int // partitions of one that was dead or paused, recovered by the other
	zombies     int // paused processes that woke after a takeover
	tornZombies int // of these, in the middle of a transaction
	refused     int // tasks of zombies that were told they are fenced
	lines       int
}

// String is the tally in one line.
func (n *tally) String() string {
	return fmt.Sprintf("%d useful kills (%d in an open transaction), %d early, %d restarts without checkpoints, %d without state directory, "+
		"%d short pauses, %d zombies (%d in an open transaction, %d of their tasks fenced), %d takeovers, %d readings",
		n.kills, n.torn, n.early, n.wiped, n.lost, n.pauses, n.zombies, n.tornZombies, n.refused, n.takeovers, n.lines)
}

// linger lets both work for a random time.
func (s *storm) linger(most time.Duration) {
	timer := time.NewTimer(time.Duration(s.random.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.crewed[0].Done():
		s.t.Fatal("an instance ended by itself: ", s.crewed[0].Failure())
	case <-s.crewed[1].Done():
		s.t.Fatal("an instance ended by itself: ", s.crewed[1].Failure())
	}
}

// freeze pauses an instance; aimed, it tries until that is in the middle of one of its transactions.
func (s *storm) freeze(victim *instance, aimed bool) (torn bool) {
	const tries = 200
	for n := 0; ; n++ {
		s.must(victim.Pause())
		stand := victim.stand()
		torn = slices.ContainsFunc(s.open(), func(p int32) bool { return stand.live[p] })
		if torn || !aimed || n == tries {
			return torn
		}
		s.must(victim.Resume())
		s.linger(10 * time.Millisecond)
	}
}

// kill kills an instance at a random time, which may be in its start, and starts it again: at once or, if the other is
// awake, when that one has taken over. It is paused for the last moment of its life, to see what the kill hits.
func (s *storm) kill(number int, otherAwake bool) {
	victim, other := s.crewed[number], s.crewed[1-number]
	s.linger(1500 * time.Millisecond)
	torn := s.freeze(victim, s.torn == 0 || s.random.IntN(2) == 0) // short runs need their torn commit too
	stand := victim.stand()
	s.must(victim.Kill())
	at := len(stand.live)
	if at == 0 {
		s.early++
	} else {
		s.kills++
	}
	if torn {
		s.torn++
	}
	fate := "restarted at once"
	switch n := s.random.IntN(8); {
	case n == 0 && otherAwake:
		fate = "machine lost, the other takes over"
		s.lost++
		s.must(os.RemoveAll(victim.job.StateDir()))
		s.takenOver(other, stand.owned)
	case n == 1 && otherAwake:
		fate = "the other takes over"
		s.takenOver(other, stand.owned)
	case n < 5:
		fate = "restarted at once without checkpoints"
		s.wiped++
		s.must(os.RemoveAll(victim.job.LocalState()))
	}
	s.t.Logf("kill %d of instance %d with %d tasks at work, open transaction %v: %s", s.kills, number, at, torn, fate)
	s.crewed[number] = s.start(victim.job)
}

// takenOver waits until the survivor works on everything.
func (s *storm) takenOver(survivor *instance, partitions []int32) {
	s.whole(survivor)
	s.takeovers += len(partitions)
}

// pause pauses an instance that has tasks at work, shortly or, as a zombie, until the other works on all of them.
func (s *storm) pause(zombie bool) {
	s.whole(s.crewed[:]...)
	number := s.random.IntN(2)
	victim, other := s.crewed[number], s.crewed[1-number]
	s.linger(time.Second)
	torn := s.freeze(victim, zombie)
	if !zombie {
		s.pauses++
		s.linger(session / 2)
		s.must(victim.Resume())
		return
	}
	stand, seen := victim.stand(), len(victim.log())
	s.takenOver(other, stand.owned)
	if s.random.IntN(3) == 0 {
		s.kill(1-number, false) // the zombie wakes while its successor is dead or recovers
	} else {
		s.linger(time.Second)
	}
	s.zombies++
	if torn {
		s.tornZombies++
	}
	s.must(victim.Resume())
	s.await("the zombie to find a new seat", func() bool {
		return slices.ContainsFunc(victim.log()[seen:], func(l line) bool { return l.Msg == "assigned" && l.Assigned != nil })
	}, victim)
	s.whole(s.crewed[:]...)
	refused := 0
	for _, l := range victim.log()[seen:] {
		if l.Class == "fenced" || strings.HasPrefix(l.Msg, "stopped in the middle") {
			refused++
		}
	}
	s.refused += refused
	s.t.Logf("zombie %d, instance %d with %d tasks, open transaction %v: %d tasks fenced, seat found again", s.zombies, number, len(stand.owned), torn, refused)
}
