// Package kafkatest is a Kafka cluster in memory, for sweeps and simulations. It keeps the promises of real brokers
// that recovery leans on: transactions with markers that occupy offsets, aborted records that stay in the log, the last
// stable offset, fencing by transactional id, compaction bounded by the last stable offset, log starts that move, topics
// that come back under another id.
//
// It is deterministic: it has no goroutine and no wall clock. Append times come from a logical clock that moves by one
// millisecond per append and by Advance. Only a fetch that finds nothing waits, on a timer, so inside a testing/synctest
// bubble a wait costs nothing. Every operation passes the hook set by Inject, which may fail it before or after it took
// effect, or let it hang.
//
// Everything is safe for concurrent use except what the interfaces of package kafka say otherwise.
package kafkatest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// firstTime is where the logical clock starts: 2023-11-14T22:13:20Z, in ms.
const firstTime int64 = 1_700_000_000_000

// Cluster is the whole cluster. The zero value is not usable; see New.
type Cluster struct {
	mu      sync.Mutex
	id      string
	version int16 // finalized level of transaction.version
	now     int64 // ms, the logical clock
	topics  map[string]*topic
	made    uint64        // topics ever made, the source of topic ids
	changed chan struct{} // closed and replaced at every change that a fetch may wait for

	producers    map[string]*producer // by transactional id
	nextProducer int64
	holdMarkers  bool
	held         []heldMarkers

	groups map[string]*group
	faults faults
}

type topic struct {
	record.Topic
	replication int
	configs     map[string]string
	partitions  []*partition
}

// New makes an empty cluster with the given id and transaction.version 2.
func New(id string) *Cluster {
	return &Cluster{
		id:           id,
		version:      2,
		now:          firstTime,
		topics:       map[string]*topic{},
		changed:      make(chan struct{}),
		producers:    map[string]*producer{},
		nextProducer: 1000,
		groups:       map[string]*group{},
	}
}

// Now returns the logical clock in ms since the epoch.
func (c *Cluster) Now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the logical clock; d may be negative, as a broker's clock may step back.
func (c *Cluster) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d.Milliseconds()
}

// SetTransactionVersion sets the finalized level of transaction.version that Admin reports. The behaviour stays that of
// version 2.
func (c *Cluster) SetTransactionVersion(level int16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = level
}

// SetID gives the cluster another id, as a rebuilt one has.
func (c *Cluster) SetID(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id = id
}

// CreateTopic makes a topic for a test; it panics when the topic exists, for that is a fault of the test.
func (c *Cluster) CreateTopic(name string, partitions int32, configs map[string]string) record.Topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.topics[name] != nil {
		panic("kafkatest: topic " + name + " exists")
	}
	return c.createLocked(name, partitions, 1, configs)
}

func (c *Cluster) createLocked(name string, partitions int32, replication int, configs map[string]string) record.Topic {
	c.made++
	t := &topic{
		Topic:       record.Topic{Name: name, Partitions: partitions},
		replication: replication,
		configs:     defaultConfigs(),
	}
	copy(t.ID[:], "kafkatest")
	binary.BigEndian.PutUint64(t.ID[8:], c.made)
	maps.Copy(t.configs, configs)
	for range partitions {
		t.partitions = append(t.partitions, newPartition())
	}
	c.topics[name] = t
	c.wakeLocked()
	return t.Topic
}

// defaultConfigs are the effective values of a topic nobody configured.
func defaultConfigs() map[string]string {
	return map[string]string{
		"cleanup.policy":                 "delete",
		"delete.retention.ms":            "86400000",
		"max.message.bytes":              "1048588",
		"message.timestamp.type":         "CreateTime",
		"min.insync.replicas":            "1",
		"min.cleanable.dirty.ratio":      "0.5",
		"max.compaction.lag.ms":          "9223372036854775807",
		"segment.bytes":                  "1073741824",
		"segment.ms":                     "604800000",
		"retention.ms":                   "604800000",
		"retention.bytes":                "-1",
		"unclean.leader.election.enable": "false",
	}
}

// DeleteTopic removes a topic with all it holds. A topic made later under the same name has another id.
func (c *Cluster) DeleteTopic(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topicLocked(name)
	delete(c.topics, name)
	for _, p := range c.producers {
		p.forgetTopic(name)
	}
	c.wakeLocked()
}

// AddPartitions raises the number of partitions; groups that read the topic rebalance.
func (c *Cluster) AddPartitions(name string, total int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.growLocked(c.topicLocked(name), total)
}

func (c *Cluster) growLocked(t *topic, total int32) {
	if total <= t.Partitions {
		return
	}
	for int32(len(t.partitions)) < total {
		t.partitions = append(t.partitions, newPartition())
	}
	t.Partitions = total
	for _, g := range c.groups {
		if g.topic == t.Name {
			g.rebalanceLocked(total)
		}
	}
	c.wakeLocked()
}

// Partitions is how many partitions a topic has; one that is not there has none.
func (c *Cluster) Partitions(name string) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partitionsLocked(name)
}

// SetConfig changes one effective setting of a topic.
func (c *Cluster) SetConfig(name, key, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topicLocked(name).configs[key] = value
}

// topicLocked returns a topic that a test names; it panics when there is none.
func (c *Cluster) topicLocked(name string) *topic {
	t := c.topics[name]
	if t == nil {
		panic("kafkatest: no topic " + name)
	}
	return t
}

// partitionLocked returns a partition that a test names; it panics when there is none.
func (c *Cluster) partitionLocked(name string, partition int32) *partition {
	t := c.topicLocked(name)
	if partition < 0 || int(partition) >= len(t.partitions) {
		panic(fmt.Sprintf("kafkatest: no partition %s/%d", name, partition))
	}
	return t.partitions[partition]
}

// findLocked returns a partition for an operation, and the topic's present id.
func (c *Cluster) findLocked(op, name string, partition int32) (*partition, record.TopicID, error) {
	t := c.topics[name]
	if t == nil || partition < 0 || int(partition) >= len(t.partitions) {
		return nil, record.TopicID{}, fail(kafka.ClassTransient, op, name, partition, -1, errUnknownTopic)
	}
	return t.partitions[partition], t.ID, nil
}

// intConfig reads a numeric setting.
func (t *topic) intConfig(key string) int64 {
	n, err := strconv.ParseInt(t.configs[key], 10, 64)
	if err != nil {
		panic(fmt.Sprintf("kafkatest: topic %s: %s=%q is no number", t.Name, key, t.configs[key]))
	}
	return n
}

// tickLocked returns the append time of one record.
func (c *Cluster) tickLocked() int64 {
	c.now++
	return c.now
}

// wakeLocked ends the waits of all fetches, so that they look again.
func (c *Cluster) wakeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Admin implements kafka.Cluster.
func (c *Cluster) Admin() (kafka.Admin, error) { return admin{c}, nil }

// Log implements kafka.Cluster. The topic need not exist yet.
func (c *Cluster) Log(topic string, partition int32) (kafka.Log, error) {
	return &reader{cluster: c, topic: topic, partition: partition}, nil
}

// Writer implements kafka.Cluster.
func (c *Cluster) Writer(transactionalID string) (kafka.Writer, error) {
	return &writer{cluster: c, id: transactionalID, topics: map[string]record.TopicID{}}, nil
}
