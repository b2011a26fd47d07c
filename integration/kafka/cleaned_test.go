package kafka

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// quickly are topic settings with which Kafka's cleaner takes all that it may take as soon as the segment has rolled.
var quickly = []string{"segment.ms", "300", "min.cleanable.dirty.ratio", "0.001", "max.compaction.lag.ms", "1000"}

// S04, S23, S41, S44, R9, R13: what a changelog is after Kafka's own cleaner has been there; W25: what its retention leaves. Nobody waits by the clock: the
// log is read until what must be gone is gone.
func TestKafkaCleans(t *testing.T) {
	b := kafkarun.Start(t, "log.cleaner.backoff.ms=100", "log.cleaner.threads=2", "log.retention.check.interval.ms=500", "log.initial.task.delay.ms=500")
	for name, clean := range map[string]func(c *crew){
		"S04 tombstones are gone":           tombstonesGone,
		"S23 S44 holes past the checkpoint": holesPastTheCheckpoint,
		"S41 S44 holes at the end":          holesAtTheEnd,
		"S42 aborted records alone":         abortedAlone,
		"W25 old readings":                  retentionLeavesResults,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean(newCrewAt(t, b.Addr, 1, 4*time.Minute, 1, nil))
		})
	}
}

// raw is every record of partition 0 that is left, markers and aborted ones too, by offset, and the end.
func (c *crew) raw(topic string) (left map[int64]*kgo.Record, end int64) {
	c.t.Helper()
	ends, err := c.reader.Ends(c.ctx, topic)
	c.must(err)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.jobs[0].Brokers...), kgo.FetchIsolationLevel(kgo.ReadUncommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	c.must(err)
	defer cl.Close()
	left, end = map[int64]*kgo.Record{}, ends[0]
	for at := int64(0); at < end; { // the cleaner never touches the segment that is written, so there is a last record
		fetched := cl.PollFetches(c.ctx)
		c.must(fetched.Err())
		fetched.EachRecord(func(r *kgo.Record) { left[r.Offset], at = r, r.Offset+1 })
	}
	return left, end
}

// live are the keys of the entries that a committed reader of the changelog has at its end.
func (c *crew) live() map[string]bool {
	c.t.Helper()
	partitions, err := c.reader.Read(c.ctx, c.jobs[0].Changelog(), false)
	c.must(err)
	keys := map[string]bool{}
	for _, m := range partitions[0] {
		switch {
		case bytes.Equal(m.Key, record.CommitKey), bytes.Equal(m.Key, record.FenceKey):
		case m.Value == nil:
			delete(keys, string(m.Key))
		default:
			keys[string(m.Key)] = true
		}
	}
	return keys
}

// sends writes the next n lines of a feed into the input.
func (c *crew) sends(feed proof.Feed, n int) {
	c.t.Helper()
	var lines [][]byte
	for range n {
		lines = append(lines, feed())
	}
	_, err := c.jobs[0].Produce(c.ctx, proof.Lines(lines))
	c.must(err)
}

// volume is a copy of the local state, which restored puts back in the place of what is there.
func (c *crew) volume() (restored func()) {
	c.t.Helper()
	from, to := c.jobs[0].LocalState(), c.jobs[0].Path("volume")
	c.must(os.CopyFS(to, os.DirFS(from)))
	return func() {
		c.t.Helper()
		c.must(os.RemoveAll(from))
		c.must(os.CopyFS(from, os.DirFS(to)))
	}
}

// recovered starts the job and returns the report of its only task's recovery. The process is stopped again.
func (c *crew) recovered() *report {
	c.t.Helper()
	i := c.start(c.jobs[0])
	c.whole(i)
	c.must(i.Stop())
	for _, l := range i.log() {
		if l.Report != nil {
			return l.Report
		}
	}
	c.t.Fatal("no recovery in the log")
	return nil
}

// S04: the volume of a machine comes back. Windows that are open in its checkpoint were closed meanwhile, and of the
// tombstones that say so nothing is left: loaded and replayed, it would bring them back. It is too old, and set aside.
func tombstonesGone(c *crew) {
	job, feed := c.jobs[0], proof.NewFleet(1, 50).Next
	c.sends(feed, 2000)
	c.says(0, "run", "--until-idle")
	c.configure(job.Changelog(), append([]string{"delete.retention.ms", "1000"}, quickly...)...)
	restored, old := c.volume(), c.live()
	i := c.start(job)
	finish := c.flows(feed, 1000)
	var dead []string
	c.await("every trace of the windows that have closed to be cleaned away", func() bool {
		left, _ := c.raw(job.Changelog())
		now := map[string]bool{}
		for _, r := range left {
			now[string(r.Key)] = true // whether its newest record is a tombstone or not
		}
		dead = nil
		for key := range old {
			if !now[key] {
				dead = append(dead, key)
			}
		}
		return len(dead) > 20
	}, i)
	finish()
	c.lagFree(i)
	c.must(i.Stop())
	dump := c.says(0, "state", "dump")
	c.t.Logf("of %d entries of the old checkpoint, %d have no record any more", len(old), len(dead))

	restored()
	r := c.recovered()
	if r.From != "full replay" || len(r.Aside) == 0 || !strings.Contains(r.Aside[0].Reason, "delete.retention.ms 1000 less a margin): tombstones after it may be gone") {
		c.t.Errorf("recovered %+v, want a full replay and the old checkpoint aside as too old", r)
	}
	if again := c.says(0, "state", "dump"); again != dump {
		c.t.Errorf("the restored volume made\n%swant\n%s", again, dump)
	}
	now := c.live()
	for _, key := range dead {
		if now[key] {
			c.t.Errorf("an entry is alive again: %q", key)
		}
	}
	c.prove(job)
}

// begin is where the replay of the newest checkpoint begins.
func (c *crew) begin() int64 {
	c.t.Helper()
	var newest int64
	for text := json.NewDecoder(strings.NewReader(c.says(0, "checkpoint", "list", "--json"))); text.More(); {
		var found struct{ Begin int64 }
		c.must(text.Decode(&found))
		newest = max(newest, found.Begin)
	}
	return newest
}

// S23, S44: everything between the checkpoint and now was overwritten and cleaned, and at its position there is no record.
// What is older than the checkpoint is not rolled back to, and nobody waits for the record that is gone.
func holesPastTheCheckpoint(c *crew) {
	job, feed := c.jobs[0], proof.NewFleet(2, 50).Next
	c.sends(feed, 2000)
	c.says(0, "run", "--until-idle")
	c.configure(job.Changelog(), quickly...) // tombstones stay for two hours
	restored, at := c.volume(), c.begin()
	c.recovered() // another fence record than the one at the checkpoint
	i := c.start(job)
	finish := c.flows(feed, 1000)
	gone := 0
	c.await("a hole where the checkpoint ends", func() bool {
		left, end := c.raw(job.Changelog())
		gone = 0
		for offset := at; offset < end; offset++ {
			if left[offset] == nil {
				gone++
			}
		}
		// At the position itself is the marker of the last commit, whose data are alive.
		return left[at+1] == nil && gone > 200
	}, i)
	finish()
	c.lagFree(i)
	c.must(i.Kill())
	dump := c.says(0, "state", "dump")
	c.t.Logf("the checkpoint ends at %d, %d of the %d offsets after it are gone", at, gone, c.marks()[0]-at)

	restored()
	if r := c.recovered(); r.From != "checkpoint" || len(r.Aside) != 0 {
		c.t.Errorf("recovered %+v, want from the checkpoint at %d", r, at)
	}
	if again := c.says(0, "state", "dump"); again != dump {
		c.t.Errorf("from the checkpoint\n%swant\n%s", again, dump)
	}
	c.sameAgain("holes past the checkpoint", dump)
	c.prove(job)
}

// cleanedAway waits until no record of a stranger is left below an offset of a topic, and rolls segments meanwhile.
func (c *crew) cleanedAway(s *stranger, topic string, below int64) {
	c.t.Helper()
	c.await("the cleaner to take the aborted records", func() bool {
		left, _ := c.raw(topic)
		for offset, r := range left {
			if offset < below && !r.Attrs.IsControl() && bytes.HasPrefix(r.Key, []byte("stranger-")) {
				s.aborts(topic, 1, 10) // rolls the segment when it is due
				return false
			}
		}
		return true
	})
}

// S41, S44: the last record that anybody may read lies far below the end, and what lies between is cleaned away, the markers
// too. A record "at the end less one" does not exist.
func holesAtTheEnd(c *crew) {
	job, feed := c.jobs[0], proof.NewFleet(3, 50).Next
	log := job.Changelog()
	c.sends(feed, 1000)
	c.says(0, "run", "--until-idle")
	c.configure(log, append([]string{"delete.retention.ms", "0"}, quickly...)...)
	dump, before := c.says(0, "state", "dump"), c.marks()[0]
	ghost := c.stranger("ghost")
	ghost.aborts(log, 2500, 10)
	below := c.marks()[0]
	c.cleanedAway(ghost, log, below)
	c.await("the markers to be cleaned away", func() bool {
		left, _ := c.raw(log)
		for offset := before; offset < below; offset++ {
			if left[offset] != nil {
				ghost.aborts(log, 1, 10)
				return false
			}
		}
		return true
	})
	c.t.Logf("nothing is left from %d to %d, the log ends at %d", before, below, c.marks()[0])
	if again := c.says(0, "state", "dump"); again != dump {
		c.t.Errorf("dump\n%swant\n%s", again, dump)
	}
	c.sameAgain("holes at the end", dump)
	c.sends(feed, 1000)
	c.prove(job)
}

// A changelog that holds nothing, and ends at another offset than 0 because of transactions that were aborted: the task has
// never lived, and is born there.
func abortedAlone(c *crew) {
	job, feed := c.jobs[0], proof.NewFleet(4, 50).Next
	log := job.Changelog()
	admin, err := connect(c.t, job.Brokers[0]).Admin()
	c.must(err)
	defer admin.Close()
	c.must(admin.Create(c.ctx, kafka.TopicSpec{Name: log, Partitions: c.partitions, Configs: changelogConfigs}))
	c.configure(log, append([]string{"delete.retention.ms", "0"}, quickly...)...)
	ghost := c.stranger("ghost")
	ghost.aborts(log, 100, 10)
	below := c.marks()[0]
	c.cleanedAway(ghost, log, below)
	if dump := c.says(0, "state", "dump"); dump != "" {
		c.t.Errorf("state of aborted records: %s", dump)
	}
	c.sends(feed, 1000)
	if r := c.recovered(); r.From != "birth" {
		c.t.Errorf("recovered %+v, want a birth", r)
	}
	c.prove(job)
}
