package kafka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// stranger is a transactional producer that is not ours.
type stranger struct {
	c  *crew
	cl *kgo.Client
}

// stranger makes a producer with a transactional id of its own. Its transactions time out after ten minutes: whoever
// waits for one of them waits longer than any test.
func (c *crew) stranger(name string) *stranger {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.jobs[0].Brokers...), kgo.TransactionalID(c.jobs[0].Name+"-stranger-"+name),
		kgo.TransactionTimeout(10*time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	c.must(err)
	c.t.Cleanup(cl.Close)
	return &stranger{c: c, cl: cl}
}

// writes leaves n records of size bytes in partition 0 of a topic, in an open transaction, and returns the first offset.
func (s *stranger) writes(topic string, n, size int) int64 {
	s.c.t.Helper()
	s.c.must(s.cl.BeginTransaction())
	var records []*kgo.Record
	for k := range n {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "stranger-%d", k), Value: noise(size)})
	}
	results := s.cl.ProduceSync(s.c.ctx, records...)
	s.c.must(results.FirstErr())
	return results[0].Record.Offset
}

func (s *stranger) ends(commit bool) {
	s.c.t.Helper()
	s.c.must(s.cl.EndTransaction(s.c.ctx, kgo.TransactionEndTry(commit)))
}

// aborts leaves an aborted transaction and its marker.
func (s *stranger) aborts(topic string, n, size int) {
	s.c.t.Helper()
	s.writes(topic, n, size)
	s.ends(false)
}

// sameAgain holds that recovery, with a checkpoint and without, and the readers that must not fence come to the end of
// the changelog and to the same state, and that there is nothing left to do.
func (c *crew) sameAgain(what, dump string) {
	c.t.Helper()
	for _, with := range []string{"with a checkpoint", "without"} {
		if with == "without" {
			c.must(os.RemoveAll(c.jobs[0].LocalState()))
		}
		begun := time.Now()
		c.says(0, "run", "--until-idle")
		c.t.Logf("%s, %s: idle after %v", what, with, time.Since(begun).Round(time.Millisecond))
		if again := c.says(0, "state", "dump"); again != dump {
			c.t.Errorf("%s, %s: dump\n%swant\n%s", what, with, again, dump)
		}
	}
	if lag, err := c.jobs[0].Lag(c.ctx, c.reader); err != nil || lag != 0 {
		c.t.Errorf("%s: lag %d, error %v", what, lag, err)
	}
}

// S42, S44, S67: whatever the changelog and the input end with, the end is reached, by a position and not by a record:
// markers, aborted records, more of them than two fetches take, those of several producers, an input of nothing but
// markers.
func TestS42EveryTailIsPassed(t *testing.T) {
	c := newCrew(t, 4*time.Minute, 1, nil)
	job := c.jobs[0]
	in, log := job.Topics()[0], job.Changelog()
	one, two := c.stranger("one"), c.stranger("two")
	one.aborts(in, 3, 10) // the task is born behind aborted records
	c.says(0, "run", "--until-idle")
	if dump := c.says(0, "state", "dump"); dump != "" {
		t.Fatalf("state of aborted readings: %s", dump)
	}
	c.produce(1, 1000)
	c.says(0, "run", "--until-idle")
	dump := c.says(0, "state", "dump")
	for _, tail := range []struct {
		what  string
		leave func()
	}{
		{"a commit marker", func() {}},
		{"an abort marker", func() { one.aborts(log, 3, 10) }},
		{"two markers of two producers", func() {
			one.writes(log, 2, 10)
			two.writes(log, 2, 10)
			two.ends(false)
			one.ends(false)
		}},
		{"more aborted records than two fetches take", func() { one.aborts(log, 20, 900_000) }},
		{"aborted readings in the input", func() {
			one.writes(in, 3, 10)
			two.aborts(in, 1, 10)
			one.ends(false)
		}},
	} {
		tail.leave()
		c.sameAgain(tail.what, dump)
	}
	c.produce(2, 1000)
	c.prove(job)
}

// S01, R1: a stranger's transaction is open below commits of ours, and its producer is dead. Its offset is no end:
// recovery waits for it and says so, however long that takes, and then has everything.
func TestS01OpenTransactionBelowOurCommits(t *testing.T) {
	c := newCrew(t, 4*time.Minute, 1, nil)
	job := c.jobs[0]
	c.produce(1, 500)
	i := c.start(job)
	c.whole(i)
	c.committing(i)
	ghost := c.stranger("ghost")
	at := ghost.writes(job.Changelog(), 1, 10)
	c.produceLater(2000)
	c.lagFree(i)
	c.must(i.Kill())
	c.must(os.RemoveAll(job.LocalState()))

	i = c.start(job)
	held := fmt.Sprintf("holds %s/0 at offset %d", job.Changelog(), at)
	c.await("the wait to be named", func() bool { return strings.Contains(c.waits(), held) }, i)
	c.await("the producer to be named", func() bool { return strings.Contains(c.waits(), "open transaction of producer id ") }, i)
	// The readers that must not fence wait too, and name it.
	reader := make(chan string, 1)
	go func() { reader <- c.says(0, "state", "dump") }()
	c.await("red health", func() bool { return c.health() == "red" }, i)
	if s := i.stand(); s.live[0] {
		t.Fatal("recovered below an open transaction")
	}
	ghost.ends(false)
	c.whole(i)
	said := <-reader
	c.wants(said, "the transaction of producer id", fmt.Sprintf("open since offset %d", at))
	c.lagFree(i)
	c.must(i.Stop())
	c.prove(job)
}

// waits is what the status page says that the only task waits for, and health the process's verdict.
func (c *crew) waits() string  { return fmt.Sprint(c.status()["reasons"]) }
func (c *crew) health() string { return fmt.Sprint(c.status()["health"]) }

func (c *crew) status() map[string]any {
	c.t.Helper()
	job := c.jobs[0]
	cmd := exec.CommandContext(c.ctx, job.Binary, "status", "-c", job.Config(), "--json")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	text, _ := cmd.Output() // red is exit code 1
	var s map[string]any
	if err := json.Unmarshal(text, &s); err != nil {
		return nil // not up yet
	}
	return s
}

// S42 (d), S47, I12: the input is held by an open transaction. A daemon waits and names it, --until-idle too; both go on by
// themselves. What was written behind it is folded once it can be read.
func TestS42OpenTransactionInTheInput(t *testing.T) {
	c := newCrew(t, 4*time.Minute, 1, nil)
	job := c.jobs[0]
	c.produce(1, 500)
	i := c.start(job)
	c.whole(i)
	c.lagFree(i)
	ghost := c.stranger("ghost")
	at := ghost.writes(job.Topics()[0], 2, 10)
	c.produce(2, 500)
	c.await("the wait to be named", func() bool {
		return strings.Contains(c.waits(), "the open transaction of producer id") &&
			strings.Contains(c.waits(), fmt.Sprintf("holds %s/0 at offset %d", job.Topics()[0], at))
	}, i)
	c.must(i.Kill())
	idle := make(chan error, 1)
	go func() { idle <- job.RunUntilIdle(c.ctx, "held") }()
	c.await("a seat of --until-idle", func() bool {
		log, err := os.ReadFile(job.Path("logs", "held.err"))
		return err == nil && bytes.Contains(log, []byte("recovered"))
	})
	select {
	case err := <-idle:
		t.Fatal("idle below an open transaction: ", err)
	default:
	}
	ghost.ends(true) // its two records are no readings: dead letters
	c.must(<-idle)
	c.prove(job)
}

// S24: the log start moves under a replay, after it was asked for and before the first fetch. What was built would have a
// hole: it is thrown away, and the next try begins at the new start, which is a stop here, for no commit record is left.
// A process that is stopped at the same place and whose log start does not move is the control.
func TestS24StartMovesDuringAReplay(t *testing.T) {
	for _, step := range []string{"recover.load", "recover.replay"} {
		t.Run(step, func(t *testing.T) {
			c := newCrew(t, 3*time.Minute, 1, nil)
			job := c.jobs[0]
			c.produce(1, 3000)
			c.says(0, "run", "--until-idle")
			dump := c.says(0, "state", "dump")
			c.must(os.RemoveAll(job.LocalState()))
			i := c.start(job, "TIDEMARK_CRASH_AT=STOP@"+step)
			c.asleep(i, step)
			c.must(i.Resume())
			c.whole(i)
			c.must(i.Stop())
			if again := c.says(0, "state", "dump"); again != dump {
				t.Fatal("the control differs")
			}

			c.must(os.RemoveAll(job.LocalState()))
			i = c.start(job, "TIDEMARK_CRASH_AT=STOP@"+step)
			c.asleep(i, step)
			before := c.lastCommit(0) // the start moves to it: it stays, the entries below it go
			c.deleteBefore(job.Changelog(), before)
			c.must(i.Resume())
			c.stops(i, fmt.Sprintf("the log starts at offset %d, not 0: records were deleted", before), "restore the topic")
			c.wants(c.says(1, "run", "--until-idle"), "records were deleted")
			c.anew()
		})
	}
}

// lastCommit is the offset of the last commit record of a changelog partition.
func (c *crew) lastCommit(partition int32) (at int64) {
	c.t.Helper()
	partitions, err := c.reader.Read(c.ctx, c.jobs[0].Changelog(), false)
	c.must(err)
	at = -1
	for _, m := range partitions[partition] {
		if bytes.Equal(m.Key, record.CommitKey) {
			at = m.Offset
		}
	}
	return at
}
