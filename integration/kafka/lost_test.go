package kafka

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// R15, R16, S09, S28, S84: a broker comes back without the end of its log, or another one answers at the address. Each is
// noticed at the next start, named with both sides, and no loss is accepted unasked.
func TestBrokerLosesWhatItHad(t *testing.T) {
	b := kafkarun.Start(t)
	var lose, judge []func() // while the broker is stopped, and after
	for _, loss := range []func(*crew, *kafkarun.Broker) (cut, check func()){inputCut, inputRefilled, changelogTailLost} {
		c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 1, nil)
		c.sends(proof.NewFleet(uint64(len(lose)), 50).Next, 1000)
		c.says(0, "run", "--until-idle")
		cut, check := loss(c, b)
		lose, judge = append(lose, cut), append(judge, check)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, cut := range lose {
		cut()
	}
	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, check := range judge {
		check()
	}
}

// S28: the input is shorter than what was consumed of it.
func inputCut(c *crew, b *kafkarun.Broker) (cut, check func()) {
	in := c.jobs[0].Topics()[0]
	_, end := c.ends(0)
	var now int64
	return func() {
			var err error
			now, err = b.Lose(in, 0, end-1)
			c.must(err)
		}, func() {
			c.wants(c.says(1, "run", "--until-idle"), in, fmt.Sprintf("the state goes on at offset %d, the log ends at %d", end, now), "run --accept-loss")
			c.accepted()
		}
}

// R16, S28: it has been filled again since, further than before: by its offsets it is whole, and other readings were consumed.
func inputRefilled(c *crew, b *kafkarun.Broker) (cut, check func()) {
	in := c.jobs[0].Topics()[0]
	_, end := c.ends(0)
	return func() {
			_, err := b.Lose(in, 0, end-1)
			c.must(err)
		}, func() {
			c.sends(proof.NewFleet(99, 50).Next, 3000)
			if _, now := c.ends(0); now <= end {
				c.t.Fatalf("the input ended at %d and ends at %d: it was not filled again", end, now)
			}
			c.wants(c.says(1, "run", "--until-idle"), in, fmt.Sprintf("the state has consumed offset %d of leader epoch", end-1),
				"were cut off at a change of leader, and the log has gone on without them")
			c.accepted()
		}
}

// R15, S09: the newest commits are gone from the changelog, and the checkpoint knows them.
func changelogTailLost(c *crew, b *kafkarun.Broker) (cut, check func()) {
	log := c.jobs[0].Changelog()
	before := c.marks()[0]
	c.sends(proof.NewFleet(50, 50).Next, 1000)
	c.says(0, "run", "--until-idle")
	return func() {
			now, err := b.Lose(log, 0, before)
			c.must(err)
			if now != before {
				c.t.Fatalf("the changelog ends at %d, want %d", now, before)
			}
		}, func() {
			c.wants(c.says(1, "run", "--until-idle"), "the changelog ends with commit", "run --accept-loss")
			c.must(os.RemoveAll(c.jobs[0].LocalState())) // the group still knows the commit
			c.wants(c.says(1, "run", "--until-idle"), "the changelog ends with commit", "run --accept-loss")
			c.accepted()
		}
}

// accepted goes on without what is gone, once; what is made then is proved like any other state.
func (c *crew) accepted() {
	c.t.Helper()
	c.wants(c.says(0, "run", "--until-idle", "--accept-loss", "--who", "anna@plant", "--why", "power cut"), "A LOSS WAS ACCEPTED", "anna@plant: power cut")
	c.sends(proof.NewFleet(98, 50).Next, 500)
	c.says(0, "run", "--until-idle")
	c.must(os.RemoveAll(c.jobs[0].LocalState()))
	c.says(0, "run", "--until-idle")
	c.says(0, "state", "dump")
}

// TestBrokerLosesWhatARunningJobHad is the same while jobs run: a broker comes back without the end of an input, one that has
// been filled again before anybody looks, or without the end of a changelog. Each job stops, names both sides, and accepts
// nothing unasked; a job whose logs are whole goes on through the same crash, the new leader epoch and all.
func TestBrokerLosesWhatARunningJobHad(t *testing.T) {
	b := kafkarun.Start(t)
	var jobs []*crew
	var running []*instance
	for n := range 4 {
		c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 1, nil)
		c.sends(proof.NewFleet(uint64(n), 50).Next, 1000)
		i := c.settledOnce(c.jobs[0])
		c.lagFree(i)
		jobs, running = append(jobs, c), append(running, i)
	}
	cut, refilled, changelog, whole := jobs[0], jobs[1], jobs[2], jobs[3]
	_, end := refilled.ends(0)
	reader := newReader(t, connect(t, b.Addr), refilled.jobs[0].Input(), end)
	before := changelog.marks()[0]
	changelog.sends(proof.NewFleet(50, 50).Next, 1000)
	changelog.lagFree(running[2])
	for _, i := range running {
		must(t, i.Pause())
	}
	must(t, b.Stop())
	lost := func(topic string, beyond int64) {
		_, err := b.Lose(topic, 0, beyond)
		must(t, err)
	}
	lost(cut.jobs[0].Input(), end-1)
	lost(refilled.jobs[0].Input(), end-1)
	lost(changelog.jobs[0].Changelog(), before)
	must(t, b.Restart(t.Context()))
	refilled.sends(proof.NewFleet(99, 50).Next, 3000)
	if _, now := refilled.ends(0); now <= end {
		t.Fatalf("the input ended at %d and ends at %d: it was not filled again", end, now)
	}
	const gone = "were cut off at a change of leader"
	if _, err := reader.Fetch(t.Context(), end, 1<<20, 0); kafka.ClassOf(err) != kafka.ClassLost || !strings.Contains(err.Error(), gone) {
		t.Errorf("a reader of the input that has been filled again: %v", err)
	}
	for _, i := range running {
		must(t, i.Resume())
	}
	changelog.sends(proof.NewFleet(51, 50).Next, 500) // a commit that would hide the hole
	whole.sends(proof.NewFleet(52, 50).Next, 500)
	cut.stops(running[0], cut.jobs[0].Input()+"/0 at offset") // out of range, or by its epoch: whichever is asked first
	refilled.stops(running[1], refilled.jobs[0].Input(), gone)
	changelog.stops(running[2], changelog.jobs[0].Changelog())
	whole.lagFree(running[3])
	must(t, running[3].Stop())
	whole.prove(whole.jobs[0])

	cut.wants(cut.says(1, "run", "--until-idle"), cut.jobs[0].Input(), "the log ends at", "run --accept-loss")
	refilled.wants(refilled.says(1, "run", "--until-idle"), gone, "run --accept-loss")
	changelog.wants(changelog.says(1, "run", "--until-idle"), "the changelog ends with commit", "run --accept-loss")
	for _, c := range jobs[:3] {
		c.accepted()
	}
}

// newReader is a reader that has read partition 0 of a topic to its end.
func newReader(t *testing.T, c *client.Cluster, topic string, end int64) kafka.Log {
	t.Helper()
	log, err := c.Log(topic, 0)
	must(t, err)
	t.Cleanup(log.Close)
	for at := int64(0); at < end; {
		f, err := log.Fetch(t.Context(), at, 1<<20, time.Second)
		must(t, err)
		at = f.Next
	}
	return log
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestElectionsStopNothingOnKafka: leader epochs grow while a job is stopped and while it runs, and its input is deleted up
// to where it stands or compacted: nothing of that is a loss, and no check may take it for one.
func TestElectionsStopNothingOnKafka(t *testing.T) {
	b := kafkarun.Start(t, "log.cleaner.backoff.ms=100")
	var jobs []*crew
	for n := range 3 {
		c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 1, nil)
		if n == 2 {
			c.remake(c.jobs[0].Input(), map[string]string{"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1000"})
		}
		c.sends(nextHour(), 1000)
		c.says(0, "run", "--until-idle")
		jobs = append(jobs, c)
	}
	running := jobs[0].settledOnce(jobs[0].jobs[0])
	for range 2 {
		must(t, b.Kill())
		must(t, b.Restart(t.Context()))
	}
	_, end := jobs[1].ends(0)
	jobs[1].cut(jobs[1].jobs[0].Input(), 0, end)
	jobs[2].overwrites(end - 1)
	for n, c := range jobs {
		var i *instance
		if i = running; n > 0 {
			i = c.start(c.jobs[0])
			c.whole(i)
			t.Logf("job %d: the anchor is %s", n, i.anchor())
		}
		c.sends(nextHour(), 500)
		c.lagFree(i)
		c.must(i.Stop())
		c.says(0, "run", "--until-idle")
		c.says(0, "state", "dump")
	}
	jobs[0].prove(jobs[0].jobs[0])
}

// overwrites sends the same keys until the record at an offset of the input has been compacted away.
func (c *crew) overwrites(offset int64) {
	c.t.Helper()
	feed := nextHour()
	c.await("the anchor to be compacted away", func() bool {
		left, _ := c.raw(c.jobs[0].Input())
		if _, there := left[offset]; !there {
			return true
		}
		c.sends(feed, 50)
		return false
	})
}

// anchor is what the last recovery has found out about the record consumed last.
func (i *instance) anchor() (said string) {
	for _, l := range i.log() {
		if l.Report != nil {
			said = l.Report.Anchor
		}
	}
	return said
}

// R5, S09, S84: another cluster answers, with topics of the same names: empty ones, and ones with the same committed records.
func TestAnotherClusterAtTheAddress(t *testing.T) {
	c := newCrew(t, 4*time.Minute, 1, nil)
	job := c.jobs[0]
	c.sends(proof.NewFleet(1, 50).Next, 1000)
	c.says(0, "run", "--until-idle")
	was, err := c.admin.BrokerMetadata(c.ctx)
	c.must(err)
	other := newCrewAt(t, kafkarun.Start(t).Addr, 1, 4*time.Minute, 1, func(_ int, o *proof.Job) { o.Name = job.Name })
	is, err := other.admin.BrokerMetadata(c.ctx)
	c.must(err)
	c.must(rewrite(job.Config(), [2]string{job.Brokers[0], other.jobs[0].Brokers[0]}))

	for _, topic := range []string{"empty", "copied"} {
		if topic == "copied" {
			other.copies(c, job.Topics()[0], nil)
			other.copies(c, job.Changelog(), changelogConfigs)
		}
		said := c.says(1, "run", "--until-idle")
		t.Logf("%s topics: %s", topic, said[max(0, len(said)-500):])
		c.wants(said, "cluster", was.Cluster, is.Cluster)
	}
	if left := other.inputs(); left != 0 {
		t.Errorf("%d offsets were set on the other cluster", left)
	}

	c.must(rewrite(job.Config(), [2]string{other.jobs[0].Brokers[0], job.Brokers[0]}))
	c.prove(job) // the first one is as it was
}

// copies makes a topic of the committed records of another cluster's, without markers, as a mirror does.
func (c *crew) copies(from *crew, topic string, configs map[string]string) {
	c.t.Helper()
	admin, err := connect(c.t, c.jobs[0].Brokers[0]).Admin()
	c.must(err)
	defer admin.Close()
	if strings.HasSuffix(topic, "-changelog") {
		_, err := c.admin.DeleteTopics(c.ctx, topic) // a start may have made it
		c.must(err)
		c.must(admin.Create(c.ctx, kafka.TopicSpec{Name: topic, Partitions: c.partitions, Configs: configs}))
	}
	partitions, err := from.reader.Read(c.ctx, topic, false)
	c.must(err)
	for _, m := range partitions[0] {
		c.must(c.client.ProduceSync(c.ctx, &kgo.Record{Topic: topic, Key: m.Key, Value: m.Value}).FirstErr())
	}
}
