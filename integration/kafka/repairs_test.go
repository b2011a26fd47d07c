package kafka

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// says runs a command of the first instance's job, which must end with an exit code, and returns all that it said.
func (c *crew) says(code int, args ...string) string {
	c.t.Helper()
	got, said := c.runs(args...)
	if got != code {
		c.t.Fatalf("tidemark %s: exit code %d, want %d:\n%s", strings.Join(args, " "), got, code, said)
	}
	return said
}

func (c *crew) wants(said string, words ...string) {
	c.t.Helper()
	for _, word := range words {
		if !strings.Contains(said, word) {
			c.t.Fatalf("want %q in:\n%s", word, said)
		}
	}
}

// ends are log start and end of an input partition.
func (c *crew) ends(partition int32) (start, end int64) {
	topic := c.jobs[0].Topics()[0]
	starts, err := c.admin.ListStartOffsets(c.ctx, topic)
	c.must(err)
	all, err := c.admin.ListEndOffsets(c.ctx, topic)
	c.must(err)
	first, _ := starts.Lookup(topic, partition)
	last, _ := all.Lookup(topic, partition)
	return first.Offset, last.Offset
}

// TestRepairs holds the repairs against a real coordinator and a real log: seats that run out, seats that are given up,
// a new life, deleted input, skipped input (R37, S27).
func TestRepairs(t *testing.T) {
	c := newCrew(t, 3*time.Minute, 2, nil)
	job, fleet := c.jobs[0], proof.NewFleet(1, 50)
	produce := func() {
		var lines [][]byte
		for range 500 {
			lines = append(lines, fleet.Next())
		}
		_, err := job.Produce(c.ctx, proof.Lines(lines))
		c.must(err)
	}
	produce()
	c.says(0, "run", "--until-idle")
	first := c.says(0, "state", "dump")

	killed := c.start(job)
	c.await("a seat", func() bool { return len(c.members()) == 1 }, killed)
	c.wants(c.says(1, "reseal"), "is not empty: it has 1 members", "--take-over")
	c.must(killed.Kill())
	begun := time.Now()
	c.wants(c.says(0, "reseal"), "waiting for the group to become empty", "partition 1: reseal: there is nothing to do")
	t.Logf("a killed process's seat ran out after %v", time.Since(begun))

	killed = c.start(job)
	c.await("a seat", func() bool { return len(c.members()) == 1 }, killed)
	c.must(killed.Kill())
	c.wants(c.says(0, "leave"), "holds a seat", "add --yes")
	c.wants(c.says(0, "leave", "--yes", "--json"), `"left":true`)
	if m := c.members(); len(m) != 0 {
		t.Fatalf("after leave: %v", m)
	}

	c.wants(c.says(0, "reset", "--yes", "--why", "wrong unit"), "partition 1: reset: done")
	if dump := c.says(0, "state", "dump"); dump != "" {
		t.Errorf("after the reset: %s", dump)
	}
	c.says(0, "run", "--until-idle")
	if again := c.says(0, "state", "dump"); again != first {
		t.Errorf("the new life made:\n%swant:\n%s", again, first)
	}

	_, stood := c.ends(0)
	produce()
	_, end := c.ends(0)
	var before kadm.Offsets
	before.AddOffset(job.Topics()[0], 0, end-3, -1)
	deleted, err := c.admin.DeleteRecords(c.ctx, before)
	c.must(errors.Join(err, deleted.Error()))
	c.wants(c.says(1, "run", "--until-idle"), fmt.Sprintf("%d offsets are gone", end-3-stood), "tidemark run --accept-loss")
	c.wants(c.says(0, "run", "--until-idle", "--accept-loss", "--who", "anna@plant", "--why", "short retention"),
		"A LOSS WAS ACCEPTED", fmt.Sprintf("skipped 0 -> %d", end-3-stood), "anna@plant: short retention")
	c.says(0, "run", "--until-idle")

	produce()
	_, end = c.ends(1)
	c.wants(c.says(0, "skip", "--partition", "1", "--to", fmt.Sprint(end), "--yes", "--why", "not wanted"),
		fmt.Sprintf("-> %d", end), "partition 1: skip: done")
	offsets, err := c.admin.FetchOffsets(c.ctx, job.Group())
	c.must(err)
	if o, _ := offsets.Lookup(job.Topics()[0], 1); o.At != end || !strings.HasPrefix(o.Metadata, "tidemark/1 ") {
		t.Errorf("the group stands at %+v, want %d", o, end)
	}
	c.says(0, "run", "--until-idle")
	c.says(0, "state", "dump") // which proves what it folds
}
