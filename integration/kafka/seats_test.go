package kafka

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// said tells whether the instance has logged a text.
func (i *instance) said(text string) bool {
	i.crew.t.Helper()
	all, err := i.Log()
	i.crew.must(err)
	return strings.Contains(string(all), text)
}

// endsWith waits for the end of an instance, which must be this exit state with these words.
func (c *crew) endsWith(i *instance, state string, words ...string) {
	c.t.Helper()
	select {
	case <-i.Done():
	case <-c.ctx.Done():
		c.t.Fatal("it goes on, want its end with ", words)
	}
	err := i.Failure()
	for _, word := range append(words, state) {
		if err == nil || !strings.Contains(err.Error(), word) {
			c.t.Errorf("it ended with %v, want %q in it", err, word)
		}
	}
}

// settledOnce starts an instance, stops it and starts it again: from its second life on a directory has a static id.
func (c *crew) settledOnce(job *proof.Job) *instance {
	c.t.Helper()
	first := c.start(job)
	c.whole(first)
	c.must(first.Stop())
	again := c.start(job)
	c.whole(again)
	return again
}

// TestStateDirectories holds what a state directory says of the seat in the group (R22, S77, section 5): one that was
// copied gets an id of its own, so both work; one in use is refused; an instance id that another host has taken ends the
// process with exit code 3; one that does not outlive the process gives no instance id, and its member is evicted by the
// next start.
func TestStateDirectories(t *testing.T) {
	c := newCrewAt(t, broker.Addr, 3, 4*time.Minute, 2, nil)
	finish := c.flow(8, 500)
	original := c.settledOnce(c.jobs[0])
	c.committing(original)
	members := c.members()
	if len(members) != 1 || members[0].Instance == "" {
		t.Fatalf("seats %+v, want one with an instance id", members)
	}

	second := c.start(c.jobs[0])
	c.endsWith(second, "exit status 1", "is in use by process", "state.dir of its own")

	// A copied directory, while the original runs: as of a cloned volume.
	c.must(os.CopyFS(c.jobs[1].StateDir(), os.DirFS(c.jobs[0].StateDir())))
	copied := c.start(c.jobs[1])
	c.whole(original, copied)
	c.committing(copied)
	if !copied.said("was copied or moved here: it gets the new id") {
		t.Error("nothing tells that the directory was copied")
	}
	if all := c.members(); len(all) != 2 || all[0].Instance == all[1].Instance {
		t.Errorf("seats %+v, want two with different instance ids", all)
	}
	c.must(copied.Stop())

	c.seatTaken(original, members[0].Instance)
	finish()
	c.prove(c.jobs[0])
	c.onlyOwners()
}

// seatTaken lets another process join with the instance id of one that runs. The one that runs ends, and does not try
// again: that would only throw out the other, for ever.
func (c *crew) seatTaken(running *instance, id string) {
	c.t.Helper()
	thief, err := connect(c.t, broker.Addr).Group(kafka.GroupOptions{Group: c.jobs[0].Group(), Topic: c.jobs[0].Topics()[0], Instance: id,
		Session: session, Heartbeat: 500 * time.Millisecond})
	c.must(err)
	c.endsWith(running, "exit status 3", "another process joined the group with our instance id", "was the state directory copied?")
	c.must(thief.Leave(c.ctx))
}

// A state directory on tmpfs or an overlay does not outlive a boot or a container: no instance id, which nobody would ever
// use again, and no wait for the dead member's session all the same.
func TestEphemeralStateDirectory(t *testing.T) {
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		t.Fatalf("a tmpfs is needed at %s: %v", memory, err)
	}
	dir, err := os.MkdirTemp(memory, "tidemark-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := newCrewAt(t, broker.Addr, 1, 2*time.Minute, 2, func(_ int, job *proof.Job) { job.Dir = dir })
	finish := c.flow(9, 500)
	i := c.settledOnce(c.jobs[0])
	c.committing(i)
	c.must(i.Kill())
	mark, killed := c.marks(), time.Now()
	i = c.start(c.jobs[0])
	c.whole(i)
	c.committing(i)
	for p, owners := range c.tenures(mark) {
		if took := owners[len(owners)-1].commits[0].at.Sub(killed); took >= waited {
			t.Errorf("partition %d: %v from the kill to the first commit: that waited for the session", p, took)
		}
	}
	if all := c.members(); len(all) != 1 || all[0].Instance != "" {
		t.Errorf("seats %+v, want one without an instance id", all)
	}
	finish()
	c.must(i.Stop())
	c.prove(c.jobs[0])
}

// TestLeaveGivesTheSeatUp: a process that has stopped with `shutdown: stay` keeps its tasks for a restart; `tidemark leave` lets
// the others go on with them at once (section 9).
func TestLeaveGivesTheSeatUp(t *testing.T) {
	c := newCrew(t, 2*time.Minute, 4, nil)
	finish := c.flow(10, 1000)
	staying, stopped := c.settledOnce(c.jobs[0]), c.start(c.jobs[1])
	c.whole(staying, stopped)
	c.committing(stopped)
	moved := stopped.stand().owned
	c.must(stopped.Stop())
	mark, left := c.marks(), time.Now()
	leave := exec.CommandContext(c.ctx, c.jobs[1].Binary, "leave", "-c", c.jobs[1].Config(), "--yes")
	leave.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	out, err := leave.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "has left") {
		t.Fatalf("leave says %q, %v", out, err)
	}
	c.whole(staying)
	c.committing(staying)
	var slowest time.Duration
	for p, owners := range c.tenures(mark) {
		if !slices.Contains(moved, int32(p)) {
			continue
		}
		last := owners[len(owners)-1]
		if last.pid != int64(staying.PID()) || len(last.commits) == 0 {
			t.Fatalf("partition %d has owners %+v, want the one that stays", p, owners)
		}
		slowest = max(slowest, last.commits[0].at.Sub(left))
	}
	t.Logf("tidemark leave: %d tasks committed by the other %v after it began", len(moved), slowest)
	if slowest >= waited {
		t.Errorf("%v from leave to the other's commits: that waited for the session", slowest)
	}
	finish()
	c.must(staying.Stop())
	c.prove(c.jobs[0])
}

// TestCommitsPerSecond: commit.max_per_second bounds the commits of a whole instance, whatever the number of its tasks (R19).
func TestCommitsPerSecond(t *testing.T) {
	const most = 8
	c := newCrewAt(t, broker.Addr, 1, 2*time.Minute, 4, nil)
	job := c.jobs[0]
	config, err := os.ReadFile(job.Config())
	c.must(err)
	c.must(os.WriteFile(filepath.Clean(job.Config()), append(config, "commit: {max_per_second: 8}\n"...), 0o600))
	finish := c.flow(11, 1000)
	i := c.start(job)
	c.whole(i)
	c.committing(i)
	mark := c.marks()
	var first, last time.Time
	commits := 0
	c.await("five seconds' worth of commits", func() bool {
		first, last, commits = c.commitsSince(mark)
		return commits >= 5*most
	}, i)
	finish()
	span := last.Sub(first).Seconds()
	t.Logf("%d commits of 4 tasks in %.1f s, %.1f a second, limit %d", commits, span, float64(commits)/span, most)
	if float64(commits) > most*span+4 {
		t.Errorf("%d commits in %.1f s, limit %d a second", commits, span, most)
	}
	c.must(i.Stop())
	c.prove(job)
}

// commitsSince counts the commits of all tasks, and says when the first and the last was.
func (c *crew) commitsSince(mark []int64) (first, last time.Time, commits int) {
	c.t.Helper()
	for _, owners := range c.tenures(mark) {
		for _, commit := range owners[0].commits {
			if commits++; first.IsZero() || commit.at.Before(first) {
				first = commit.at
			}
			if commit.at.After(last) {
				last = commit.at
			}
		}
	}
	return first, last, commits
}
