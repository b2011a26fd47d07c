package kafka

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// TestD21BrokersThatMakeTopics: on brokers that make any topic which somebody asks for, no command makes the one whose name is
// misspelt in the job's file; each asks back about the right one. When it is made by somebody after all, the job that waited
// for it starts, with a changelog of as many partitions.
func TestD21BrokersThatMakeTopics(t *testing.T) {
	b := kafkarun.StartWith(t, kafkarun.Options{Settings: []string{"auto.create.topics.enable=true"}})
	c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 3, nil)
	job := c.jobs[0]
	right := job.Input()
	c.makesByItself(right + "-asked-for")
	before := c.topics()

	job.In = right + "n"
	c.must(job.WriteConfig())
	meant := "topic " + job.In + " does not exist (did you mean " + right + "?)"
	c.wants(c.says(1, "check", "--live"), "fault: input "+meant, "name "+right+" in input.topic, or kafka-topics.sh")
	c.wants(c.says(1, "run", "--until-idle"), "input "+meant+": create it, or correct input.topic")
	for _, command := range [][]string{{"produce", job.Config()}, {"consume", "--topic", job.In}, {"state", "dump"}, {"changelog", "verify"}} {
		if code, said := c.runs(command...); code != 1 || !strings.Contains(said, "does not exist") {
			t.Errorf("%v: exit code %d: %s", command, code, said)
		}
	}
	i := c.start(job)
	c.await("the log to ask back", func() bool {
		text, err := i.Log()
		c.must(err)
		return strings.Contains(string(text), `"did_you_mean":"`+right+`"`)
	}, i)
	c.await("the status to ask back", func() bool {
		_, said := c.runs("status")
		return strings.Contains(said, "topic "+job.In+" to be made (did you mean "+right+"?)")
	}, i)
	if now := c.topics(); !slices.Equal(now, before) {
		t.Errorf("topics before %q, and now %q", before, now)
	}
	_, err := c.admin.CreateTopic(c.ctx, 3, 1, nil, job.In)
	c.must(err)
	c.whole(i)
	if made := c.partitionsOf(job.Changelog()); made != 3 {
		t.Errorf("the changelog has %d partitions, want 3", made)
	}
	_, err = job.Produce(c.ctx, proof.Lines(dueLines(100)))
	c.must(err)
	c.must(i.Stop())
	c.prove(job)
}

// makesByItself holds that the broker makes a topic for whoever asks for it so.
func (c *crew) makesByItself(topic string) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.jobs[0].Brokers...), kgo.AllowAutoTopicCreation())
	c.must(err)
	defer cl.Close()
	c.must(cl.ProduceSync(c.ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr())
}

// topics are the names of all topics that are not the broker's own.
func (c *crew) topics() (names []string) {
	c.t.Helper()
	listed, err := c.admin.ListTopics(c.ctx)
	c.must(err)
	names = listed.Names()
	slices.Sort(names)
	return names
}

func (c *crew) partitionsOf(topic string) int {
	c.t.Helper()
	listed, err := c.admin.ListTopics(c.ctx, topic)
	c.must(err)
	return len(listed[topic].Partitions)
}
