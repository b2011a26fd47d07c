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
