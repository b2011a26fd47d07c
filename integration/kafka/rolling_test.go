package kafka

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// rollingPause is the longest that a partition may stand still when its instance is stopped and started again: a session, at
// the end of which its tasks would be given away. On a machine at rest it is a second.
const rollingPause = session

// TestRollingRestart stops and starts four instances one after the other while readings flow (R22, D01): each restart
// recovers the tasks of that instance, each once, and no other task; no partition stands still for longer than
// rollingPause. Then one instance is taken away for good with `shutdown: leave`: the others go on with its tasks at once.
func TestRollingRestart(t *testing.T) {
	c := newCrewAt(t, broker.Addr, 4, 5*time.Minute, 24, nil)
	finish := c.flow(7, 2400)
	crewed := make([]*instance, len(c.jobs))
	// The second life of a directory is the first with a static id, so every instance has a life before the test begins.
	for range 2 {
		for i, job := range c.jobs {
			if crewed[i] != nil {
				c.must(crewed[i].Stop())
			}
			crewed[i] = c.start(job)
		}
		c.whole(crewed...)
	}
	for _, i := range crewed {
		c.committing(i)
	}
	mark := c.marks()
	for n, job := range c.jobs {
		c.rollOver(crewed, n, func() {
			job.Leave = n == len(c.jobs)-1
			c.must(job.WriteConfig())
		})
	}
	var all []time.Duration
	for p, owners := range c.tenures(mark) {
		if len(owners) != 2 {
			t.Errorf("partition %d was fenced %d times in one rolling restart, want once", p, len(owners)-1)
		}
		all = append(all, longestPause(owners))
	}
	slices.Sort(all)
	t.Logf("rolling restart of 4 instances, 24 partitions: longest pause of a partition %v, median %v", all[len(all)-1], all[len(all)/2])
	if longest := all[len(all)-1]; longest > rollingPause {
		t.Errorf("a partition stood still for %v, want at most %v", longest, rollingPause)
	}

	mark = c.marks()
	leaver, staying := crewed[3], crewed[:3]
	moved := leaver.stand().owned
	stop := time.Now()
	c.must(leaver.Stop())
	ended := time.Now()
	c.whole(staying...)
	for _, i := range staying {
		c.committing(i)
	}
	c.takenOverAtOnce(c.tenures(mark), moved, stop, ended)
	finish()
	for _, i := range staying {
		c.must(i.Stop())
	}
	c.prove(c.jobs[0])
	c.onlyOwners()
}

// rollOver restarts one instance and holds that nobody else has noticed. between is done while it is down.
func (c *crew) rollOver(crewed []*instance, n int, between func()) {
	c.t.Helper()
	before := make([]int, len(crewed))
	for i := range crewed {
		before[i] = len(crewed[i].log())
	}
	planned := crewed[n].stand().owned
	stop := time.Now()
	c.must(crewed[n].Stop())
	stopped := time.Now()
	between()
	crewed[n] = c.start(crewed[n].job)
	before[n] = 0
	c.whole(crewed...)
	c.committing(crewed[n])
	c.t.Log(crewed[n].timeline(stop, stopped))
	for i, one := range crewed {
		if i == n {
			c.once("restart", one.recoveries(0), planned)
			continue
		}
		for _, l := range one.log()[before[i]:] {
			if l.Msg == "assigned" || l.Msg == "recovering" || l.Report != nil {
				c.t.Errorf("instance %d noticed the restart of instance %d: %+v", i, n, l)
			}
		}
	}
}

// timeline is how long each part of a planned restart took, of its slowest task.
func (i *instance) timeline(stop, stopped time.Time) string {
	var assigned, committed time.Time
	slowest := map[string]float64{}
	for _, l := range i.log() {
		switch {
		case l.Msg == "assigned" && assigned.IsZero():
			assigned = l.Time
		case l.Msg == "first commit after recovery":
			committed = l.Time
		case l.Report != nil:
			for name, ms := range l.Report.Phases {
				slowest[name] = max(slowest[name], ms)
			}
		}
	}
	text := fmt.Sprintf("stop %d ms, start to assignment %d, assignment to the last first commit %d; slowest phases", stopped.Sub(stop).Milliseconds(),
		assigned.Sub(stopped).Milliseconds(), committed.Sub(assigned).Milliseconds())
	for _, name := range slices.Sorted(maps.Keys(slowest)) {
		text += fmt.Sprintf(" %s %.0f", name, slowest[name])
	}
	return text
}

// longestPause is the longest time between two commits of one partition, whoever made them.
func longestPause(owners []tenure) (longest time.Duration) {
	var commits []point
	for _, o := range owners {
		commits = append(commits, o.commits...)
	}
	for n := 1; n < len(commits); n++ {
		longest = max(longest, commits[n].at.Sub(commits[n-1].at))
	}
	return longest
}

// takenOverAtOnce looks at the broker's times after a planned stop with `shutdown: leave` (design section 11: below 1 s).
func (c *crew) takenOverAtOnce(owners [][]tenure, moved []int32, stop, ended time.Time) {
	c.t.Helper()
	var fromStop, fromEnd, gap time.Duration
	for p, lives := range owners {
		if !slices.Contains(moved, int32(p)) {
			if len(lives) != 1 {
				c.t.Errorf("partition %d stayed and was fenced by %+v", p, lives[1:])
			}
			continue
		}
		if len(lives) != 2 || len(lives[1].commits) == 0 {
			c.t.Fatalf("partition %d has the owners %+v, want one new one with a commit", p, lives)
		}
		first := lives[1].commits[0].at
		fromStop, fromEnd = max(fromStop, first.Sub(stop)), max(fromEnd, first.Sub(ended))
		if n := len(lives[0].commits); n > 0 {
			gap = max(gap, first.Sub(lives[0].commits[n-1].at))
		}
	}
	c.t.Logf("planned stop of an instance with %d tasks: all of them committed by others %v after SIGTERM, %v after its end; longest pause %v (target 1s)",
		len(moved), fromStop, fromEnd, gap)
	if fromStop >= waited {
		c.t.Errorf("%v from SIGTERM to the next owners' commits: that waited for the session", fromStop)
	}
}
