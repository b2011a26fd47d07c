package kafka

import (
	"bytes"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// week is the retention of the topics that results go to, in ms.
const week = "604800000"

// W25: readings of years ago, and one that is years ahead, on topics that keep records for a week and refuse timestamps
// more than an hour away from now. All that the job writes bears the time of writing, so that nothing is refused, and
// nothing of it has gone when the broker's retention has been there: which a record with an event time for its timestamp
// shows, for it has.
func retentionLeavesResults(c *crew) {
	job := c.jobs[0]
	job.Oracle.MaxAhead = (20 * 365 * 24 * time.Hour).Milliseconds() // the guard is off for what comes
	c.must(job.WriteConfig())
	for _, topic := range job.Topics()[1:] { // all but the input
		c.configure(topic, "retention.ms", week, "segment.ms", "300", "message.timestamp.before.max.ms", "3600000", "message.timestamp.after.max.ms", "3600000")
	}
	canary := job.Name + "-canary"
	admin, err := connect(c.t, job.Brokers[0]).Admin()
	c.must(err)
	defer admin.Close()
	c.must(admin.Create(c.ctx, kafka.TopicSpec{Name: canary, Partitions: 1, Configs: map[string]string{"retention.ms": week, "segment.ms": "300"}}))
	began := time.Now()
	c.sings(canary, time.UnixMilli(1704067200000))

	feed := proof.NewFleet(7, 50).Next
	c.sends(feed, 2000)
	c.says(0, "run", "--until-idle")
	ahead := fmt.Appendf(nil, `{"device":"d01","ts":%d,"value":1}`, began.AddDate(10, 0, 0).UnixMilli())
	_, err = job.Produce(c.ctx, proof.Lines([][]byte{ahead}))
	c.must(err)
	c.says(0, "run", "--until-idle") // in a segment of their own, so that those before can go
	c.await("the retention to take what is old by its timestamp", func() bool {
		if c.startOf(canary) > 0 {
			return true
		}
		c.sings(canary, time.Now()) // rolls the segment when it is due
		return false
	})
	results := 0
	for _, topic := range append(job.Topics()[1:], job.Changelog()) {
		if start := c.startOf(topic); start > 0 {
			c.t.Fatalf("the first %d offsets of %s are gone", start, topic)
		}
		left, end := c.raw(topic)
		for offset := range end {
			r := left[offset]
			switch {
			case r == nil && topic != job.Changelog(): // the changelog is compacted
				c.t.Fatalf("offset %d of %s is gone", offset, topic)
			case r != nil && r.Timestamp.Before(began.Add(-time.Minute)):
				c.t.Fatalf("offset %d of %s has the timestamp %s", offset, topic, r.Timestamp)
			case r != nil && bytes.HasPrefix(r.Value, []byte(`{"agg":"short"`)):
				results++
			}
		}
	}
	if results < 50 {
		c.t.Errorf("only %d results: this proves little", results)
	}
	c.prove(job)
}

// startOf is the log start of the only partition of a topic.
func (c *crew) startOf(topic string) int64 {
	c.t.Helper()
	starts, err := c.admin.ListStartOffsets(c.ctx, topic)
	c.must(err)
	c.must(starts.Error())
	start, _ := starts.Lookup(topic, 0)
	return start.Offset
}

// sings writes a record with a timestamp of its own.
func (c *crew) sings(topic string, at time.Time) {
	c.t.Helper()
	c.must(c.client.ProduceSync(c.ctx, &kgo.Record{Topic: topic, Value: []byte("tweet"), Timestamp: at}).FirstErr())
}
