package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// noticed is what the documents promise, and as much again for a machine that is busy.
const noticed = 20 * time.Second

// stops waits until the process has ended by itself, with exit code 1 and these words.
func (c *crew) stops(i *instance, words ...string) {
	c.t.Helper()
	begun := time.Now()
	select {
	case <-i.Done():
	case <-time.After(noticed):
		c.t.Fatalf("still running %v after the change", noticed)
	case <-c.ctx.Done():
		c.t.Fatal(context.Cause(c.ctx))
	}
	c.t.Logf("noticed after %v", time.Since(begun).Round(time.Millisecond))
	said := i.Failure()
	if said == nil || !strings.Contains(said.Error(), "exit status 1") {
		c.t.Fatalf("ended with %v, want exit status 1", said)
	}
	c.wants(said.Error(), words...)
}

// remake deletes topics and makes them again, one at once, and returns the ids before and after.
func (c *crew) remake(topic string, configs map[string]string) (was, is record.TopicID) {
	c.t.Helper()
	admin, err := connect(c.t, c.jobs[0].Brokers[0]).Admin()
	c.must(err)
	defer admin.Close()
	id := func() record.TopicID {
		found, err := admin.Topics(c.ctx, topic)
		c.must(err)
		return found[topic].ID
	}
	was = id()
	deleted, err := c.admin.DeleteTopics(c.ctx, topic)
	c.must(err)
	c.must(deleted.Error())
	c.must(admin.Create(c.ctx, kafka.TopicSpec{Name: topic, Partitions: c.partitions, Configs: configs}))
	return was, id()
}

// configure sets topic settings.
func (c *crew) configure(topic string, settings ...string) {
	c.t.Helper()
	var alter []kadm.AlterConfig
	for i := 0; i < len(settings); i += 2 {
		alter = append(alter, kadm.AlterConfig{Op: kadm.SetConfig, Name: settings[i], Value: &settings[i+1]})
	}
	altered, err := c.admin.AlterTopicConfigs(c.ctx, alter, topic)
	c.must(err)
	for _, a := range altered {
		c.must(a.Err)
	}
}

// grow adds partitions.
func (c *crew) grow(total int, topics ...string) {
	c.t.Helper()
	grown, err := c.admin.UpdatePartitions(c.ctx, total, topics...)
	c.must(err)
	c.must(grown.Error())
}

// produce writes n lines of a new fleet into the input.
func (c *crew) produce(seed uint64, n int) {
	c.t.Helper()
	fleet := proof.NewFleet(seed, 50)
	var lines [][]byte
	for range n {
		lines = append(lines, fleet.Next())
	}
	_, err := c.jobs[0].Produce(c.ctx, proof.Lines(lines))
	c.must(err)
}

// anew ends the old life by reset and lets a new one read what is there: the state must be the oracle's of this input.
func (c *crew) anew() {
	c.t.Helper()
	c.says(0, "reset", "--yes", "--why", "begin anew")
	job := c.jobs[0]
	c.must(job.RunUntilIdle(c.ctx, "anew"))
	want, err := job.Expect(c.ctx, c.reader)
	c.must(err)
	sight, err := job.Look(c.ctx, c.reader)
	c.must(err)
	sight.Results, sight.Updates, sight.Late, sight.Dead = nil, nil, nil, nil // those of the life before are among them
	if found := proof.Report(proof.Compare(want, &sight.Observed), 20); found != "" {
		c.t.Error(found)
	}
}

// inputs are offsets that the group has of the input.
func (c *crew) inputs() int {
	c.t.Helper()
	offsets, err := c.admin.FetchOffsets(c.ctx, c.jobs[0].Group())
	c.must(err)
	return len(offsets.Offsets()[c.jobs[0].Topics()[0]])
}

// changelogConfigs are those that a start asks for.
var changelogConfigs = map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}

// S10, S61, S62, D17, R5: what becomes of a running job's topics is noticed, named, and stops it, or is told where it does
// no harm. What happens at the next start is held too.
func TestTopicsChangeUnderARunningJob(t *testing.T) {
	for name, change := range map[string]func(c *crew, i *instance){
		"S10 input made again":      inputMadeAgain,
		"S10 changelog made again":  changelogMadeAgain,
		"D17 output made again":     outputMadeAgain,
		"S61 input has grown":       inputGrown,
		"S61 changelog has grown":   changelogGrown,
		"S61 both have grown":       bothGrown,
		"S62 policy changed":        policyChanged,
		"R13 retention lowered":     retentionLowered,
		"S28 retention was faster":  retentionFaster,
		"S26 changelog start moved": changelogCut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, 3*time.Minute, 2, func(_ int, job *proof.Job) { job.Leave = true })
			c.produce(1, 2000)
			i := c.start(c.jobs[0])
			c.whole(i)
			c.lagFree(i)
			change(c, i)
		})
	}
}

// lagFree waits until all input is committed.
func (c *crew) lagFree(alive ...*instance) {
	c.t.Helper()
	c.await("all input to be committed", func() bool {
		lag, err := c.jobs[0].Lag(c.ctx, c.reader)
		return err == nil && lag == 0
	}, alive...)
}

func inputMadeAgain(c *crew, i *instance) {
	was, is := c.remake(c.jobs[0].Topics()[0], nil)
	c.produce(2, 3000)
	c.stops(i, "id of input topic", was.String(), is.String(), "tidemark reset")
	if n := c.inputs(); n != 0 {
		c.t.Errorf("%d offsets were set in the new topic", n)
	}
	c.wants(c.says(1, "run", "--until-idle"), "id of input topic", was.String(), is.String())
	c.anew()
}

func changelogMadeAgain(c *crew, i *instance) {
	was, is := c.remake(c.jobs[0].Changelog(), changelogConfigs)
	c.produce(2, 3000)
	c.stops(i, "id of changelog topic", was.String(), is.String())
	c.wants(c.says(1, "run", "--until-idle"), "has lived before")
	c.anew()
}

func outputMadeAgain(c *crew, i *instance) {
	topic := c.jobs[0].Topics()[3]
	before, err := c.reader.Read(c.ctx, topic, oracle.AtHighWatermark)
	c.must(err)
	was, is := c.remake(topic, nil)
	c.await("the warning", func() bool {
		text, err := i.Log()
		c.must(err)
		return bytes.Contains(text, []byte("AN OUTPUT TOPIC WAS MADE AGAIN")) && bytes.Contains(text, []byte(was.String())) &&
			bytes.Contains(text, []byte(is.String()))
	}, i)
	c.produceLater(20_000)
	c.lagFree(i)
	c.must(i.Stop())
	after, err := c.reader.Read(c.ctx, topic, oracle.AtHighWatermark)
	c.must(err)
	old, fresh := map[string]bool{}, 0
	for _, messages := range before {
		for _, m := range messages {
			old[string(m.Value)] = true
		}
	}
	for _, messages := range after {
		for _, m := range messages {
			if fresh++; old[string(m.Value)] {
				c.t.Errorf("published again: %s", m.Value)
			}
		}
	}
	if len(old) == 0 || fresh == 0 {
		c.t.Errorf("%d results in the old topic, %d in the new one: the test has not tested", len(old), fresh)
	}
	c.says(0, "run", "--until-idle")
	c.says(0, "state", "dump")
}

// produceLater goes on where produce(1, 2000) has ended in event time, and further.
func (c *crew) produceLater(n int) {
	c.t.Helper()
	fleet := proof.NewFleet(1, 50)
	for range 2000 {
		fleet.Next()
	}
	var lines [][]byte
	for range n {
		lines = append(lines, fleet.Next())
	}
	_, err := c.jobs[0].Produce(c.ctx, proof.Lines(lines))
	c.must(err)
}

func inputGrown(c *crew, i *instance) {
	in := c.jobs[0].Topics()[0]
	c.grow(4, in)
	c.stops(i, "input topic "+in+" had 2 partitions, has 4")
	c.wants(c.says(1, "run", "--until-idle"), in+" has 4")
	c.unread()
}

func changelogGrown(c *crew, i *instance) {
	log := c.jobs[0].Changelog()
	c.grow(4, log)
	c.stops(i, "changelog topic "+log+" had 2 partitions, has 4")
	c.wants(c.says(1, "run", "--until-idle"), log+" has 4 partitions")
	c.unread()
}

func bothGrown(c *crew, i *instance) {
	job := c.jobs[0]
	c.grow(4, job.Changelog(), job.Topics()[0])
	c.stops(i, "had 2 partitions, has 4")
	c.wants(c.says(1, "run", "--until-idle"), "had 2 partitions, has 4")
	c.unread()
}

// unread holds that nothing was committed of partitions beyond the second one.
func (c *crew) unread() {
	c.t.Helper()
	for p, end := range c.marks() {
		if p > 1 && end != 0 {
			c.t.Errorf("changelog partition %d ends at %d", p, end)
		}
	}
	offsets, err := c.admin.FetchOffsets(c.ctx, c.jobs[0].Group())
	c.must(err)
	for p := range offsets.Offsets()[c.jobs[0].Topics()[0]] {
		if p > 1 {
			c.t.Errorf("the group has an offset of input partition %d", p)
		}
	}
}

func policyChanged(c *crew, i *instance) {
	c.configure(c.jobs[0].Changelog(), "cleanup.policy", "delete")
	c.stops(i, "cleanup.policy=delete, which can lose state; wanted compact", "--add-config cleanup.policy=compact")
	c.wants(c.says(1, "run", "--until-idle"), "cleanup.policy=delete")
	c.configure(c.jobs[0].Changelog(), "cleanup.policy", "compact")
	c.prove(c.jobs[0])
}

func retentionLowered(c *crew, i *instance) {
	log := c.jobs[0].Changelog()
	c.configure(log, "delete.retention.ms", "1000", "max.compaction.lag.ms", "90000000")
	c.await("commits that hold the smallest retention", func() bool {
		for _, r := range c.retentions() {
			if r != 1000 {
				return false
			}
		}
		return true
	}, i)
	text, err := i.Log()
	c.must(err)
	c.wants(string(text), `delete.retention.ms was \"7200000\", is \"1000\"`, `max.compaction.lag.ms was \"3600000\", is \"90000000\"`)
	c.configure(log, "delete.retention.ms", "7200000")
	c.must(i.Stop())
	c.prove(c.jobs[0])
	for p, r := range c.retentions() {
		if r != 1000 {
			c.t.Errorf("partition %d: %d after the retention was raised again", p, r)
		}
	}
}

// retentions are the smallest retentions in the last commit records.
func (c *crew) retentions() (all []int64) {
	c.t.Helper()
	partitions, err := c.reader.Read(c.ctx, c.jobs[0].Changelog(), oracle.AtHighWatermark)
	c.must(err)
	for _, messages := range partitions {
		last := int64(-1)
		for _, m := range messages {
			if bytes.Equal(m.Key, record.CommitKey) {
				commit, err := record.ParseCommit(m.Value)
				c.must(err)
				last = commit.MinRetention
			}
		}
		all = append(all, last)
	}
	return all
}

// cut moves a log start.
func (c *crew) cut(topic string, partition int32, before int64) {
	c.t.Helper()
	var at kadm.Offsets
	at.AddOffset(topic, partition, before, -1)
	c.await("the records to be deleted", func() bool {
		deleted, err := c.admin.DeleteRecords(c.ctx, at)
		c.must(err)
		if errors.Is(deleted.Error(), kerr.PolicyViolation) {
			return false // a policy that allows it has just been set, and is not in force yet
		}
		c.must(deleted.Error())
		return true
	})
}

func retentionFaster(c *crew, i *instance) {
	c.must(i.Pause()) // on a machine at rest not for so long that it loses its seat
	answered := time.NewTimer(2 * time.Second)
	defer answered.Stop()
	<-answered.C // the fetch under way has come back empty by now: it must not bring what is deleted next
	c.produce(2, 4000)
	_, end := c.ends(0)
	c.cut(c.jobs[0].Topics()[0], 0, end-1)
	c.must(i.Resume())
	c.await("the error of the task", func() bool {
		text, err := i.Log()
		c.must(err)
		// By the reader, or by the next recovery of one whose machine was so busy that the pause has cost the seat.
		return bytes.Contains(text, []byte("deleted by retention or by hand")) || bytes.Contains(text, fmt.Appendf(nil, "the log starts at %d", end-1))
	}, i)
	// The other task works on. The process ends with the error.
	if err := i.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 1") {
		c.t.Errorf("ended with %v", err)
	}
	c.wants(c.says(1, "run", "--until-idle"), fmt.Sprintf("the log starts at %d", end-1), "tidemark run --accept-loss")
}

// S26: on a compacted topic only somebody who has changed the policy first can move the log start, so a running job has
// stopped for that. Whatever is left: no start goes on with a hole, and a second one says the same.
func changelogCut(c *crew, i *instance) {
	log := c.jobs[0].Changelog()
	c.must(i.Stop())
	c.deleteBefore(log, c.marks()[0])
	for range 2 {
		c.wants(c.says(1, "run", "--until-idle"), "there is no commit record and the log starts at offset", "tidemark reset")
	}
	c.wants(c.says(1, "state", "dump"), "records were deleted")
	c.anew()
}

// deleteBefore moves the log start of partition 0 of a compacted topic.
func (c *crew) deleteBefore(topic string, before int64) {
	c.t.Helper()
	c.configure(topic, "cleanup.policy", "compact,delete")
	c.cut(topic, 0, before)
	c.configure(topic, "cleanup.policy", "compact")
}

// S17: the group's offset is lost, or moved by hand, back and forth. The position that counts is in the commit record, so
// nothing is read twice or left out, and the next commit sets the offset right.
func TestS17GroupOffsetsLostAndEdited(t *testing.T) {
	c := newCrew(t, 4*time.Minute, 2, nil)
	job := c.jobs[0]
	in := job.Topics()[0]
	c.produce(1, 1000)
	c.says(0, "run", "--until-idle")
	for _, move := range []int64{0, -400, 400} {
		if move == 0 {
			deleted, err := c.admin.DeleteOffsets(c.ctx, job.Group(), kadm.TopicsSet{in: {0: {}, 1: {}}})
			c.must(err)
			c.must(deleted.Error())
			if n := c.inputs(); n != 0 {
				t.Fatalf("%d offsets are left", n)
			}
		} else {
			var edited kadm.Offsets
			for p := range c.partitions {
				_, end := c.ends(p)
				edited.AddOffset(in, p, max(0, end+move), -1)
			}
			c.must(c.admin.CommitAllOffsets(c.ctx, job.Group(), edited))
		}
		c.produceLater(500)
		c.must(job.RunUntilIdle(c.ctx, "edited"))
		if lag, err := job.Lag(c.ctx, c.reader); err != nil || lag != 0 {
			t.Errorf("moved by %d: lag %d after the run, error %v", move, lag, err)
		}
	}
	c.prove(job)
}
