package kafka

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// zombieSteps are the steps at which an owner is paused past its session: those of a commit and of a checkpoint, at
// their Nth time, those of a takeover, and those of a birth.
var zombieSteps = []struct {
	step  string
	count int
	birth bool // the zombie is the first process that the job ever had
}{
	{step: "commit.send", count: 5},
	{step: "commit.end", count: 5},
	{step: "commit.ended", count: 5},
	{step: "commit.half", count: 5},
	{step: "wire.end-txn", count: 5},
	{step: "group.offset", count: 2},
	{step: "checkpoint.slice", count: 2},
	{step: "checkpoint.rename", count: 2},
	{step: "checkpoint.renamed", count: 2},
	{step: "checkpoint.publish", count: 2},
	{step: "recover.identify", count: 1},
	{step: "recover.ask", count: 1},
	{step: "recover.fence", count: 1},
	{step: "recover.fence-send", count: 1},
	{step: "recover.fence-commit", count: 1},
	{step: "recover.tail", count: 1},
	{step: "recover.start", count: 1, birth: true},
	{step: "recover.birth-send", count: 1, birth: true},
	{step: "recover.birth-commit", count: 1, birth: true},
	{step: "recover.plan", count: 1},
	{step: "recover.load", count: 1},
	{step: "recover.replay", count: 1},
	{step: "recover.prove", count: 1},
	{step: "recover.anchor", count: 1},
	{step: "recover.done", count: 1},
}

// TestZombieAtEveryStep pauses an owner at every named step for longer than its session, lets another instance take
// over, and wakes it (I4, R8, V11): nothing of it is visible, it does not fight, it finds a seat again by itself, and a
// checkpoint that it publishes then is a true image or set aside. It fails when the pause did not happen at the step.
func TestZombieAtEveryStep(t *testing.T) {
	for _, z := range zombieSteps {
		t.Run(z.step, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, 3*time.Minute, 2, func(_ int, job *proof.Job) { job.Checkpoint = 500 * time.Millisecond })
			finish := c.flow(5, 500)
			point := fmt.Sprintf("TIDEMARK_CRASH_AT=STOP@%s#%d", z.step, z.count)
			var zombie, other *instance
			if z.birth {
				zombie = c.start(c.jobs[0], point)
				c.asleep(zombie, z.step)
				other = c.start(c.jobs[1])
			} else {
				other = c.start(c.jobs[1])
				c.whole(other)
				c.committing(other)
				zombie = c.start(c.jobs[0], point)
				c.asleep(zombie, z.step)
			}
			c.whole(other)
			c.committing(other)

			files := c.checkpoints(zombie.job)
			mark, seen := c.marks(), len(zombie.log())
			c.must(zombie.Resume())
			c.await("the zombie to find a new seat", func() bool {
				return slices.ContainsFunc(zombie.log()[seen:], func(l line) bool { return len(l.Assigned) > 0 })
			}, zombie)
			c.whole(zombie, other)
			c.committing(zombie)
			c.peaceful(mark, zombie, seen)
			published := c.keep(zombie.job, files)
			c.must(zombie.Stop())
			c.must(other.Stop())
			finish()
			before := c.prove(c.jobs...)
			c.onlyOwners()
			if z.step == "checkpoint.publish" && len(published) == 0 {
				t.Error("the zombie published no checkpoint when it woke")
			}
			c.judge(published, before)
		})
	}
}

// asleep waits until the process has stopped at the step, and not elsewhere.
func (c *crew) asleep(i *instance, step string) {
	c.t.Helper()
	c.await("the pause at "+step, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", i.PID()))
		c.must(err)
		_, state, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(state, "T")
	}, i)
	if !slices.ContainsFunc(i.log(), func(l line) bool { return l.Msg == "crash point reached" && l.Step == step }) {
		c.t.Fatalf("the process was paused, and not at %s", step)
	}
}

// peaceful holds that nobody was fenced without need since the mark: a partition has a new owner only if it has moved,
// and the zombie fenced nothing before it had a seat again.
func (c *crew) peaceful(mark []int64, zombie *instance, seen int) {
	c.t.Helper()
	lines := zombie.log()[seen:]
	seated := lines[slices.IndexFunc(lines, func(l line) bool { return len(l.Assigned) > 0 })].Time
	owned := zombie.stand().owned
	for p, owners := range c.tenures(mark) {
		back := slices.Contains(owned, int32(p))
		switch {
		case !back && len(owners) != 1:
			c.t.Errorf("partition %d stayed with the survivor and was fenced by %+v after the zombie woke", p, owners[1:])
		case back && len(owners) != 2:
			c.t.Errorf("partition %d went back to the zombie and was fenced %d times, want once: %+v", p, len(owners)-1, owners[1:])
		case back && owners[1].pid != int64(zombie.PID()):
			c.t.Errorf("partition %d was fenced by process %d, not by its owner", p, owners[1].pid)
		case back && owners[1].fenced.Before(seated.Truncate(time.Millisecond)):
			c.t.Errorf("partition %d was fenced by the zombie at %v, and it had its seat at %v", p, owners[1].fenced, seated)
		}
	}
}

// onlyOwners holds that every commit in the changelog carries the id of the fence record before it: nothing that an older
// owner did is visible.
func (c *crew) onlyOwners() {
	c.t.Helper()
	partitions, err := c.reader.Read(c.ctx, c.jobs[0].Changelog(), oracle.AtHighWatermark)
	c.must(err)
	for p, messages := range partitions {
		var owner record.FenceID
		for _, m := range messages {
			switch {
			case bytes.Equal(m.Key, record.FenceKey):
				fence, err := record.ParseFence(m.Value)
				c.must(err)
				owner = fence.ID
			case bytes.Equal(m.Key, record.CommitKey):
				commit, err := record.ParseCommit(m.Value)
				c.must(err)
				if commit.Fence != owner {
					c.t.Errorf("partition %d at offset %d: commit %d is of fence %v, the owner's is %v", p, m.Offset, commit.Number, commit.Fence, owner)
				}
			}
		}
	}
}

// checkpoints are the files of an instance.
func (c *crew) checkpoints(job *proof.Job) []string {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(job.LocalState(), "p*", "*.checkpoint"))
	c.must(err)
	return files
}

// keep copies the checkpoints that are not among the known ones, by their path.
func (c *crew) keep(job *proof.Job, known []string) map[string][]byte {
	c.t.Helper()
	kept := map[string][]byte{}
	for _, name := range c.checkpoints(job) {
		if slices.Contains(known, name) {
			continue
		}
		content, err := os.ReadFile(name)
		c.must(err)
		kept[name] = content
	}
	return kept
}

// judge gives the first instance nothing but the checkpoints kept: each is loaded, replayed and proved, or set aside with a
// reason, and the state is the same as before.
func (c *crew) judge(kept map[string][]byte, before *proof.Sight) {
	c.t.Helper()
	if len(kept) == 0 {
		return
	}
	c.must(os.RemoveAll(c.jobs[0].LocalState()))
	for name, content := range kept {
		c.must(os.MkdirAll(filepath.Dir(name), 0o700))
		c.must(os.WriteFile(name, content, 0o600))
	}
	c.flow(6, 100)() // one portion, so that there is something to commit
	i := c.start(c.jobs[0])
	c.whole(i)
	c.must(i.Stop())
	used, aside := map[string]bool{}, map[string]string{}
	for _, l := range i.log() {
		if l.Report == nil {
			continue
		}
		used[l.Report.Checkpoint] = true
		for _, a := range l.Report.Aside {
			aside[a.Name] = a.Reason
		}
	}
	for name := range kept {
		switch reason, refused := aside[name]; {
		case refused:
			c.t.Logf("the zombie's checkpoint %s was set aside: %s", name, reason)
		case used[name]:
			c.t.Logf("the zombie's checkpoint %s was loaded and proved", name)
		default:
			c.t.Logf("the zombie's checkpoint %s was not needed", name)
		}
	}
	after := c.prove(c.jobs[0])
	if len(after.Results) < len(before.Results) {
		c.t.Errorf("%d results, before there were %d", len(after.Results), len(before.Results))
	}
}
