package kafka

import (
	wire "encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// TestS50ExpiredOnKafka: the broker forgets the transactional id, and the producer, of a job that had nothing to write for
// a while. The next reading costs one recovery, of class fenced, from the base; the reading is counted once, and nothing
// holds the end of the changelog.
func TestS50ExpiredOnKafka(t *testing.T) {
	b := kafkarun.Start(t, "transactional.id.expiration.ms=3000", "transaction.remove.expired.transaction.cleanup.interval.ms=500",
		"producer.id.expiration.ms=3000", "producer.id.expiration.check.interval.ms=500")
	c := newCrewAt(t, b.Addr, 1, 3*time.Minute, 2, nil)
	job := c.jobs[0]
	c.produce(1, 1000)
	i := c.start(job)
	c.whole(i)
	c.lagFree(i)
	for round := range 2 {
		for _, id := range []string{job.Changelog() + "-0", job.Changelog() + "-1"} {
			c.await("the broker to forget "+id, func() bool {
				found, err := c.admin.DescribeTransactions(c.ctx, id)
				c.must(err)
				return errors.Is(found[id].Err, kerr.TransactionalIDNotFound)
			}, i)
		}
		seen := len(i.log())
		c.produceLater(400 + 400*round)
		c.lagFree(i)
		recoveries := map[int32]int{}
		for _, l := range i.log()[seen:] {
			if l.Msg == "recovering" {
				if recoveries[l.Partition]++; l.Class != "fenced" {
					t.Errorf("partition %d recovers from an error of class %s", l.Partition, l.Class)
				}
			}
			if l.Report != nil && l.Report.From != "live base" {
				t.Errorf("partition %d recovered from %q, want the live base", l.Report.Partition, l.Report.From)
			}
		}
		if fmt.Sprint(recoveries) != "map[0:1 1:1]" {
			t.Errorf("recoveries %v, want one of each task", recoveries)
		}
	}
	c.free(job.Changelog())
	c.must(i.Stop())
	c.prove(job)
}

// free holds that no open transaction holds the end of a topic's partitions. A commit is answered before its marker is
// written, so that is waited for.
func (c *crew) free(topic string) {
	c.t.Helper()
	c.await("the stable end of "+topic+" to be its end", func() bool {
		stable, err := c.admin.ListCommittedOffsets(c.ctx, topic)
		c.must(err)
		ends, err := c.admin.ListEndOffsets(c.ctx, topic)
		c.must(err)
		free := true
		ends.Each(func(end kadm.ListedOffset) {
			at, ok := stable.Lookup(topic, end.Partition)
			free = free && ok && at.Offset == end.Offset
		})
		return free
	})
}

// hangs leaves a record in partition 0 of a topic that belongs to a transaction of which the coordinator knows nothing: that
// of a request which came after its transaction had ended, on a broker that does not ask the coordinator before it appends.
// Nobody will ever end it.
func (c *crew) hangs(topic string) (producer kafka.Producer, offset int64) {
	c.t.Helper()
	old := kversion.Stable()
	old.SetMaxKeyVersion(kmsg.Produce.Int16(), 11) // from version 12 on the broker adds the partition to the transaction by itself
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.jobs[0].Brokers...), kgo.MaxVersions(old))
	c.must(err)
	defer cl.Close()
	id := topic + "-late"
	init := kmsg.NewPtrInitProducerIDRequest()
	init.TransactionalID, init.TransactionTimeoutMillis = &id, 60_000
	made, err := init.RequestWith(c.ctx, cl)
	c.must(err)
	c.must(kerr.ErrorForCode(made.ErrorCode))
	producer = kafka.Producer{ID: made.ProducerID, Epoch: made.ProducerEpoch}

	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = lateBatch(producer)
	to := kmsg.NewProduceRequestTopic()
	to.Topic = topic
	to.Partitions = append(to.Partitions, partition)
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = &id, -1, 5000
	req.Topics = append(req.Topics, to)
	answer, err := req.RequestWith(c.ctx, cl)
	c.must(err)
	got := answer.Topics[0].Partitions[0]
	c.must(kerr.ErrorForCode(got.ErrorCode))
	return producer, got.BaseOffset
}

// lateBatch is one record of a transaction.
func lateBatch(producer kafka.Producer) []byte {
	record := kmsg.Record{Key: []byte("late"), Value: []byte("late")}
	record.Length = int32(len(record.AppendTo(nil)) - 1) // the length itself is one byte
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, Attributes: 0x10, FirstTimestamp: now, MaxTimestamp: now, ProducerID: producer.ID,
		ProducerEpoch: producer.Epoch, NumRecords: 1, Records: record.AppendTo(nil)}
	raw := batch.AppendTo(nil)
	wire.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	wire.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// marked ends a hanging transaction as an operator does: by a marker that is written past the coordinator.
func (c *crew) marked(topic string, producer kafka.Producer) {
	c.t.Helper()
	of := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	of.Topic, of.Partitions = topic, []int32{0}
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch, marker.CoordinatorEpoch = producer.ID, producer.Epoch, 0
	marker.Topics = append(marker.Topics, of)
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = append(req.Markers, marker)
	found, err := c.admin.Metadata(c.ctx, topic)
	c.must(err)
	answer, err := c.client.Broker(int(found.Topics[topic].Partitions[0].Leader)).Request(c.ctx, req)
	c.must(err)
	c.must(kerr.ErrorForCode(answer.(*kmsg.WriteTxnMarkersResponse).Markers[0].Topics[0].Partitions[0].ErrorCode))
}

// TestS47HangingOnKafka: a transaction that the coordinator does not know holds the end of the input of a running job, then
// that of the changelog under a recovery. Each is named with its producer, health turns red, nothing is read past it, and
// when an operator has ended it the job goes on by itself.
func TestS47HangingOnKafka(t *testing.T) {
	b := kafkarun.Start(t, "transaction.partition.verification.enable=false")
	for _, where := range []string{"input", "changelog"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 1, nil)
			job := c.jobs[0]
			topic := map[string]string{"input": job.Input(), "changelog": job.Changelog()}[where]
			c.produce(1, 1000)
			i := c.start(job)
			c.whole(i)
			c.lagFree(i)
			producer, offset := c.hangs(topic)
			if found, err := c.admin.DescribeTransactions(c.ctx, topic+"-late"); err != nil || found[topic+"-late"].State != "Empty" {
				t.Fatalf("the coordinator knows of it: %+v, %v", found, err)
			}
			c.produceLater(1000)
			if where == "changelog" {
				c.lagFree(i) // a hanging transaction hinders nobody who writes
				c.must(i.Kill())
				c.must(os.RemoveAll(job.LocalState()))
				i = c.start(job)
			}
			held := fmt.Sprintf("producer id %d, which holds %s/0 at offset %d", producer.ID, topic, offset)
			c.await("the wait to be named", func() bool { return strings.Contains(c.waits(), held) }, i)
			c.await("red health", func() bool { return c.health() == "red" }, i)
			if where == "changelog" && i.stand().live[0] {
				t.Error("recovered past a hanging transaction")
			}
			if _, end := c.ends(0); where == "input" {
				if at, err := job.Lag(c.ctx, c.reader); err != nil || at != end-offset {
					t.Errorf("lag %d, error %v, want the %d offsets from the hanging record on", at, err, end-offset)
				}
			}
			c.marked(topic, producer)
			c.whole(i)
			c.lagFree(i)
			c.free(topic)
			c.must(i.Stop())
			c.prove(job)
		})
	}
}

// TestEpochsRunOutOnKafka: each commit takes an epoch, of which a producer id has 32,767. The broker changes the id in the
// middle of a job's life, and nobody notices.
func TestEpochsRunOutOnKafka(t *testing.T) {
	c := newCrew(t, 4*time.Minute, 1, nil)
	job := c.jobs[0]
	id := job.Changelog() + "-0"
	begun, last := time.Now(), kafka.Producer{}
	for n := 0; last.Epoch < 32_740; n++ {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, 15_000
		answer, err := req.RequestWith(c.ctx, c.client)
		c.must(err)
		if errors.Is(kerr.ErrorForCode(answer.ErrorCode), kerr.ConcurrentTransactions) {
			continue
		}
		c.must(kerr.ErrorForCode(answer.ErrorCode))
		last = kafka.Producer{ID: answer.ProducerID, Epoch: answer.ProducerEpoch}
	}
	t.Logf("epoch %d of producer %d after %v", last.Epoch, last.ID, time.Since(begun).Round(time.Second))
	finish := c.flow(61, 500)
	i := c.start(job)
	c.whole(i)
	var now kadm.DescribedTransaction
	c.await("another producer id", func() bool {
		found, err := c.admin.DescribeTransactions(c.ctx, id)
		c.must(err)
		now = found[id]
		return now.ProducerID != last.ID && now.ProducerEpoch > 3
	}, i)
	finish()
	t.Logf("epoch %d of producer %d", now.ProducerEpoch, now.ProducerID)
	c.lagFree(i)
	for _, l := range i.log() {
		if l.Msg == "recovering" {
			t.Errorf("partition %d recovered, class %s", l.Partition, l.Class)
		}
	}
	c.must(i.Stop())
	c.prove(job)
}
