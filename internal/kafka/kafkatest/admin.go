package kafkatest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// admin is the kafka.Admin of a cluster.
type admin struct{ c *Cluster }

// Cluster implements kafka.Admin.
func (a admin) Cluster(ctx context.Context) (id string, transactionVersion int16, err error) {
	err = a.c.pass(ctx, Call{Op: OpCluster}, func(int) error {
		id, transactionVersion = a.c.id, a.c.version
		return nil
	})
	return id, transactionVersion, err
}

// Transactions implements kafka.Admin.
func (a admin) Transactions(ctx context.Context) error {
	return a.c.pass(ctx, Call{Op: OpCluster}, func(int) error {
		if a.c.version < 2 {
			return fail(kafka.ClassPermanent, "fence", "", 0, -1, fmt.Errorf("transaction.version is %d", a.c.version))
		}
		return nil
	})
}

// Topics implements kafka.Admin.
func (a admin) Topics(ctx context.Context, names ...string) (map[string]kafka.TopicInfo, error) {
	infos := map[string]kafka.TopicInfo{}
	err := a.c.pass(ctx, Call{Op: OpTopics}, func(int) error {
		for _, name := range names {
			if t := a.c.topics[name]; t != nil {
				infos[name] = kafka.TopicInfo{Topic: t.Topic, ReplicationFactor: t.replication, Configs: maps.Clone(t.configs)}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// Names implements kafka.Admin.
func (a admin) Names(ctx context.Context) (names []string, err error) {
	err = a.c.pass(ctx, Call{Op: OpTopics}, func(int) error {
		names = slices.Sorted(maps.Keys(a.c.topics))
		return nil
	})
	return names, err
}

// Create implements kafka.Admin.
func (a admin) Create(ctx context.Context, spec kafka.TopicSpec) error {
	return a.c.pass(ctx, Call{Op: OpCreate, Topic: spec.Name}, func(int) error {
		if a.c.topics[spec.Name] != nil {
			return nil
		}
		if spec.Partitions < 1 {
			return fail(kafka.ClassPermanent, "create", spec.Name, 0, -1, fmt.Errorf("INVALID_PARTITIONS: %d", spec.Partitions))
		}
		a.c.createLocked(spec.Name, spec.Partitions, max(1, int(spec.ReplicationFactor)), spec.Configs)
		return nil
	})
}

// AddPartitions implements kafka.Admin.
func (a admin) AddPartitions(ctx context.Context, topic string, count int32) error {
	return a.c.pass(ctx, Call{Op: OpCreate, Topic: topic}, func(int) error {
		t := a.c.topics[topic]
		if t == nil {
			return fail(kafka.ClassPermanent, "add partitions", topic, -1, -1, fmt.Errorf("UNKNOWN_TOPIC_OR_PARTITION"))
		}
		a.c.growLocked(t, count)
		return nil
	})
}

// OpenTransactions implements kafka.Admin. Epochs and times are not kept here.
func (a admin) OpenTransactions(ctx context.Context, topic string, partition int32) (open []kafka.OpenTransaction, err error) {
	err = a.c.pass(ctx, Call{Op: OpOpen, Topic: topic, Partition: partition}, func(int) error {
		p, _, err := a.c.findLocked("open-transactions", topic, partition)
		if err != nil {
			return err
		}
		for id, t := range p.open {
			open = append(open, kafka.OpenTransaction{Producer: kafka.Producer{ID: id, Epoch: -1}, Start: t.first, LastTimestamp: -1})
		}
		return nil
	})
	slices.SortFunc(open, func(a, b kafka.OpenTransaction) int { return cmp.Compare(a.Start, b.Start) })
	return open, err
}

// Close implements kafka.Admin.
func (a admin) Close() {}

// Append writes records outside any transaction, as a plain producer does, and returns the offset of the first. A
// Timestamp of zero is replaced by the logical clock; Offset and Epoch are set by the log.
func (c *Cluster) Append(topic string, partition int32, records ...kafka.Record) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitionLocked(topic, partition)
	first := p.end
	for _, r := range records {
		if now := c.tickLocked(); r.Timestamp == 0 {
			r.Timestamp = now
		}
		p.append(r, -1)
	}
	c.wakeLocked()
	return first
}

// Entries returns all occupied offsets of a partition, ascending.
func (c *Cluster) Entries(topic string, partition int32) []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Entry(nil), c.partitionLocked(topic, partition).entries...)
}

// Committed returns what a read_committed reader gets from the whole partition, ascending.
func (c *Cluster) Committed(topic string, partition int32) []kafka.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitionLocked(topic, partition)
	return p.fetch(p.start, int(^uint(0)>>1)).Records
}

// Offsets returns log start, last stable offset and high watermark of a partition.
func (c *Cluster) Offsets(topic string, partition int32) kafka.Offsets {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partitionLocked(topic, partition).offsets()
}

// Compact cleans a partition up to the last stable offset, as if the active segment had just been rolled. Tombstones
// and bare markers go at the first cleaning that comes more than delete.retention.ms after the one that met them first.
func (c *Cluster) Compact(topic string, partition int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitionLocked(topic, partition)
	p.clean(p.offsets().Stable, c.now, c.topicLocked(topic).intConfig("delete.retention.ms"))
	c.wakeLocked()
}

// Remove takes the entries of [from, to) out of the log, whatever they are, and leaves nothing in their place: the hole
// that older cleaners leave, even at the end (S41).
func (c *Cluster) Remove(topic string, partition int32, from, to int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitionLocked(topic, partition)
	p.entries = append(append([]Entry(nil), p.entries[:p.find(from)]...), p.entries[p.find(to):]...)
	c.wakeLocked()
}

// Overwrite replaces the value of the record at offset, as nothing but damage or another log does. It panics when there
// is no such record.
func (c *Cluster) Overwrite(topic string, partition int32, offset int64, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.partitionLocked(topic, partition)
	i := p.find(offset)
	if i == len(p.entries) || p.entries[i].Offset != offset {
		panic(fmt.Sprintf("kafkatest: no entry %s/%d at %d", topic, partition, offset))
	}
	p.entries[i].Value = bytes.Clone(value)
}

// DeleteRecords moves the log start to before.
func (c *Cluster) DeleteRecords(topic string, partition int32, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partitionLocked(topic, partition).deleteBefore(before)
	c.wakeLocked()
}

// Truncate cuts a partition at offset, as an unclean election does.
func (c *Cluster) Truncate(topic string, partition int32, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partitionLocked(topic, partition).truncate(offset)
	c.wakeLocked()
}

// Leak makes a partition hand out records of open transactions beyond the last stable offset, as faulty brokers did
// (S21).
func (c *Cluster) Leak(topic string, partition int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.partitionLocked(topic, partition).leaky = true
	c.wakeLocked()
}
