package kafka

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// tenure is the time of one owner in one changelog partition, by the broker's clock: from its fence record on.
type tenure struct {
	pid     int64
	fenced  time.Time
	commits []point
}

// point is one commit record.
type point struct {
	at       time.Time
	position record.InputPosition
}

// tenures reads who owned each changelog partition, from the given offsets on; nil is the beginning. What was committed
// before the first fence record there is of an owner without a name.
func (c *crew) tenures(from []int64) [][]tenure {
	c.t.Helper()
	partitions, err := c.reader.ReadFrom(c.ctx, c.jobs[0].Changelog(), from, oracle.AtHighWatermark)
	c.must(err)
	all := make([][]tenure, len(partitions))
	for p, messages := range partitions {
		all[p] = []tenure{{}}
		for _, m := range messages {
			switch at := time.UnixMilli(m.Timestamp); {
			case bytes.Equal(m.Key, record.FenceKey):
				fence, err := record.ParseFence(m.Value)
				c.must(err)
				all[p] = append(all[p], tenure{pid: fence.PID, fenced: at})
			case bytes.Equal(m.Key, record.CommitKey):
				commit, err := record.ParseCommit(m.Value)
				c.must(err)
				last := &all[p][len(all[p])-1]
				last.commits = append(last.commits, point{at, commit.Position})
			}
		}
	}
	return all
}

// marks are the ends of the changelog now.
func (c *crew) marks() []int64 {
	c.t.Helper()
	ends, err := c.reader.Ends(c.ctx, c.jobs[0].Changelog())
	c.must(err)
	return ends
}

// committing waits until the instance has logged a commit of every task it owns since its last recovery.
func (c *crew) committing(i *instance) {
	c.t.Helper()
	c.await("a commit of every task", func() bool {
		left := map[int32]bool{}
		for _, l := range i.log() {
			switch {
			case l.Report != nil:
				left[l.Report.Partition] = true
			case l.Msg == "first commit after recovery":
				delete(left, l.Partition)
			}
		}
		return i.stand().settled() && len(left) == 0
	}, i)
}

// members are the seats of the group.
func (c *crew) members() []kafka.GroupMember {
	c.t.Helper()
	admin, err := connect(c.t, broker.Addr).Admin()
	c.must(err)
	defer admin.Close()
	members, err := admin.Members(c.ctx, c.jobs[0].Group())
	c.must(err)
	return members
}

// R22: a SIGKILL and a restart on the same machine do not wait for the dead member's session: not after the first life
// of a directory, whose dynamic member is evicted, not after the later ones, which have a static id, and not without
// checkpoints. The time is from the kill to the broker's append time of the last first commit that carries input.
func TestRestartDoesNotWaitForTheSession(t *testing.T) {
	c := newCrew(t, 3*time.Minute, 4, nil)
	c.flow(1, 2000)
	job := c.jobs[0]
	i := c.start(job)
	c.whole(i)
	c.committing(i)
	var static []string
	for _, life := range []string{"first life, dynamic member", "second life", "third life, no checkpoints", "fourth life"} {
		mark := c.marks()
		killed := time.Now()
		c.must(i.Kill())
		if strings.Contains(life, "no checkpoints") {
			c.must(os.RemoveAll(job.LocalState()))
		}
		i = c.start(job)
		c.whole(i)
		c.committing(i)
		var slowest time.Duration
		for p, owners := range c.tenures(mark) {
			last := owners[len(owners)-1]
			if len(owners) != 2 || last.pid != int64(i.PID()) || len(last.commits) == 0 {
				t.Fatalf("%s: partition %d has owners %+v, want one new, process %d, with a commit", life, p, owners, i.PID())
			}
			if before := owners[0].commits; len(before) > 0 && last.commits[0].position <= before[len(before)-1].position {
				t.Errorf("%s: partition %d: the first commit is at input position %d, the one before the kill at %d",
					life, p, last.commits[0].position, before[len(before)-1].position)
			}
			slowest = max(slowest, last.commits[0].at.Sub(killed))
		}
		members := c.members()
		if len(members) != 1 {
			t.Fatalf("%s: seats %+v, want one: the dead member's is still there", life, members)
		}
		static = append(static, members[0].Instance)
		t.Logf("%s: killed, all 4 tasks committed after %v; instance id %q", life, slowest, members[0].Instance)
		if slowest >= waited {
			t.Errorf("%s: %v from the kill to the last first commit: that waited for the session of %v", life, slowest, session)
		}
	}
	if same := slices.Compact(static); len(same) != 1 {
		t.Errorf("the instance id changed between restarts: %q", static)
	}
}

// R22: a second instance takes over whole tasks, each by one recovery, and the tasks that stay do not notice. When it
// stops with `shutdown: leave` the first one goes on at once.
func TestSecondInstanceMovesWholeTasks(t *testing.T) {
	c := newCrew(t, 3*time.Minute, 6, func(instance int, job *proof.Job) { job.Leave = instance == 1 })
	finish := c.flow(2, 2000)
	first := c.start(c.jobs[0])
	c.whole(first)
	c.committing(first)
	// The second life of the directory has a static id, for which leaving is another request.
	for _, life := range []string{"dynamic member", "static member"} {
		before, mark := len(first.log()), c.marks()
		second := c.start(c.jobs[1])
		c.await("both to have half of the partitions", func() bool {
			return len(first.stand().owned) == 3 && len(second.stand().owned) == 3
		}, first, second)
		c.whole(first, second)
		c.committing(second)
		moved, stayed := second.stand().owned, first.stand().owned
		if n := first.recoveries(before); len(n) != 0 {
			t.Errorf("%s: the first instance recovered %v while tasks moved away from it", life, n)
		}
		c.once(life+", in", second.recoveries(0), moved)

		before = len(first.log())
		stop := time.Now()
		c.must(second.Stop())
		c.whole(first)
		c.committing(first)
		c.once(life+", back", first.recoveries(before), moved)
		c.handedOver(life, c.tenures(mark), moved, stayed, stop)
	}
	finish()
	c.must(first.Stop())
	c.prove(c.jobs...)
}

// once holds that exactly these partitions were recovered, each one time.
func (c *crew) once(what string, recoveries map[int32]int, partitions []int32) {
	c.t.Helper()
	for _, p := range partitions {
		if recoveries[p] != 1 {
			c.t.Errorf("%s: partition %d was recovered %d times, want once", what, p, recoveries[p])
		}
		delete(recoveries, p)
	}
	if len(recoveries) != 0 {
		c.t.Errorf("%s: also recovered were %v: those tasks had not moved", what, recoveries)
	}
}

// handedOver looks at the broker's times: the tasks that moved away and back were without a commit for a short time only
// after the stop, and those that stayed had no new owner and never paused for long.
func (c *crew) handedOver(life string, owners [][]tenure, moved, stayed []int32, stop time.Time) {
	c.t.Helper()
	var slowest, pause time.Duration
	for _, p := range moved {
		lives := owners[p]
		if len(lives) != 3 || len(lives[2].commits) == 0 {
			c.t.Fatalf("%s: partition %d moved away and back and has %d owners in the log, want 3, the last with a commit", life, p, len(lives))
		}
		slowest = max(slowest, lives[2].commits[0].at.Sub(stop))
	}
	for _, p := range stayed {
		if len(owners[p]) != 1 {
			c.t.Errorf("%s: partition %d stayed and was fenced %d times", life, p, len(owners[p])-1)
		}
		commits := owners[p][0].commits
		for n := 1; n < len(commits); n++ {
			pause = max(pause, commits[n].at.Sub(commits[n-1].at))
		}
	}
	c.t.Logf("%s: partitions %v moved away and back, at work again %v after SIGTERM; %v stayed, longest time between two commits %v",
		life, moved, slowest, stayed, pause)
	if slowest >= waited {
		c.t.Errorf("%s: %v from SIGTERM to the next owner's commits: that waited for the session", life, slowest)
	}
	if pause >= waited {
		c.t.Errorf("%s: a task that stayed paused for %v", life, pause)
	}
}

// R8: a copied configuration with the same job name and another changelog, or another definition, is refused, and the
// running job is not disturbed: nobody fences it and it keeps every task.
func TestCopiedDefinitionNeverFences(t *testing.T) {
	for name, change := range map[string]struct {
		text [2]string // of the copy's configuration file: replaced, by
		want string
	}{
		"changelog":  {text: [2]string{"-changelog}", "-other-changelog}"}, want: "has lived before"},
		"definition": {text: [2]string{"tumbling: 10000ms", "tumbling: 20000ms"}, want: "fingerprint"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCrew(t, 2*time.Minute, 4, nil)
			finish := c.flow(3, 1000)
			running := c.start(c.jobs[0])
			c.whole(running)
			c.committing(running)
			c.must(rewrite(c.jobs[1].Config(), change.text))
			before, mark := len(running.log()), c.marks()
			copied := c.start(c.jobs[1])
			select {
			case <-copied.Done():
			case <-running.Done():
				t.Fatal("the running job ended: ", running.Failure())
			case <-c.ctx.Done():
				t.Fatal("the copy was not refused")
			}
			if err := copied.Failure(); err == nil || !strings.Contains(err.Error(), change.want) || !strings.Contains(err.Error(), "exit status 1") {
				t.Errorf("the copy ended with %v, want exit status 1 and %q", err, change.want)
			}
			ended := c.marks()
			c.await("every task to commit after the copy's end", func() bool {
				for p, end := range c.marks() {
					if end <= ended[p]+1 {
						return false
					}
				}
				return true
			}, running)
			for p, owners := range c.tenures(mark) {
				if len(owners) != 1 {
					t.Errorf("partition %d was fenced by %+v", p, owners[1:])
				}
			}
			for _, l := range running.log()[before:] {
				if l.Msg == "assigned" || l.Msg == "recovering" || l.Report != nil {
					t.Errorf("the running job was disturbed: %+v", l)
				}
			}
			finish()
			c.must(running.Stop())
			c.prove(c.jobs[0])
		})
	}
}

// rewrite replaces a text in a file, where it must be.
func rewrite(name string, text [2]string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !strings.Contains(string(old), text[0]) {
		return os.ErrNotExist
	}
	return os.WriteFile(name, []byte(strings.ReplaceAll(string(old), text[0], text[1])), 0o600)
}
