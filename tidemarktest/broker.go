// Package tidemarktest tests jobs without a Kafka broker: topics, groups and transactions are those of a cluster in memory,
// which keeps the promises that a job's correctness leans on. State directory, changelog, commits and recovery are the real
// ones. Everything is safe for concurrent use.
package tidemarktest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
)

// Broker is a cluster in memory, for Options.Cluster. Topics and groups outlive the Apps that use them.
type Broker struct {
	tidemark.Cluster
	memory *kafkatest.Cluster
}

// Record is a record of a topic, written by a test or to be looked at by it. Nobody may modify the slices.
type Record struct {
	Key, Value []byte
	Headers    []tidemark.Header // what devices send in them; of a dead letter also why it is one, of a result whose it is
	Time       time.Time         // of writing, which guards against readings from the future go by; Produce takes zero for the present
	Partition  int32             // Produce ignores it
}

// Header is the value of the header of this name, the last one where there are several; "" where there is none. A dead letter
// has its reason in tidemark.reason, the field in tidemark.field, and in tidemark.detail what was wrong with it.
func (r *Record) Header(name string) string {
	for _, h := range slices.Backward(r.Headers) {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// NewBroker makes a cluster without topics.
func NewBroker() *Broker {
	memory := kafkatest.New("tidemarktest")
	return &Broker{Cluster: memory, memory: memory}
}

// CreateTopic makes a topic. It panics when there is one of this name.
func (b *Broker) CreateTopic(name string, partitions int32) {
	b.memory.CreateTopic(name, partitions, nil)
}

// Produce writes records as a Java client does: to the partition that murmur2 gives their key. It panics when there is no
// such topic.
func (b *Broker) Produce(topic string, records ...Record) {
	partitions := b.partitions(topic)
	for _, r := range records {
		at := r.Time
		if at.IsZero() {
			at = time.Now()
		}
		b.memory.Append(topic, tidemark.Murmur2.Partition(r.Key, partitions), tidemark.Input{Timestamp: at.UnixMilli(),
			Key: r.Key, Value: r.Value, Headers: r.Headers})
	}
}

// Committed returns what a reader of committed records sees of a topic, partition after partition. It panics when there is
// no such topic.
func (b *Broker) Committed(topic string) (records []Record) {
	for p := range b.partitions(topic) {
		for _, r := range b.memory.Committed(topic, p) {
			records = append(records, Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Time: time.UnixMilli(r.Timestamp).UTC(), Partition: p})
		}
	}
	return records
}

func (b *Broker) partitions(topic string) int32 {
	n := b.memory.Partitions(topic)
	if n == 0 {
		panic("tidemarktest: no topic " + topic)
	}
	return n
}

// RunUntilIdle runs a job until all input that is there is committed; more than a minute of it fails the test. The state
// directory is one of the test's, if the options have none.
func RunUntilIdle(t testing.TB, options tidemark.Options) {
	t.Helper()
	options.UntilIdle = true
	if options.StateDir == "" {
		options.StateDir = t.TempDir()
	}
	app, err := tidemark.New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, fmt.Errorf("job %s is not idle within a minute", options.Job))
	defer cancel()
	if err := app.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatal(context.Cause(ctx))
	}
}
