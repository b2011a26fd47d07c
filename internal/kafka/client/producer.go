package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// The bounds of a Producer. All is given up when nothing was acknowledged for the time; a broker that syncs every write
// takes a while for a full buffer. kgo's own limit goes by the records' timestamps, and so by the wall clock: whoever sets
// that, or lets the machine sleep, would see records given up that are on their way (W20).
const (
	producerRecords = 64 << 10
	producerBytes   = 64 << 20
	producerTimeout = time.Minute
	slabRecords     = 512
)

// Producer writes to one topic outside transactions: idempotent, acknowledged by every replica in sync, in the order of
// Send within each partition. Send is for one goroutine at a time; Acked may be asked by any.
type Producer struct {
	cl     *kgo.Client
	topic  string
	ctx    context.Context // ends at the first failure; its cause is that failure
	cancel context.CancelCauseFunc
	sent   atomic.Int64
	acked  atomic.Int64
	slab   []kgo.Record // not yet used; one allocation serves many records
}

// Producer makes a producer for one topic, which must exist. Batches are at most maxBatch bytes large before
// compression: no more than the topic's max.message.bytes. It connects at the first Send.
func (c *Cluster) Producer(topic string, maxBatch int) (*Producer, error) {
	cl, err := c.open(
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(int32(maxBatch)),
		kgo.ProducerBatchCompression(c.options.Compression.codec()),
		kgo.MaxBufferedRecords(producerRecords),
		kgo.MaxBufferedBytes(producerBytes),
		kgo.ProduceRequestTimeout(requestTimeout),
	)
	if err != nil {
		return nil, err
	}
	p := &Producer{cl: cl, topic: topic}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	go p.watch(producerTimeout)
	return p, nil
}

// watch gives all up when records are under way and none was acknowledged for so long.
func (p *Producer) watch(patience time.Duration) {
	tick := time.NewTicker(patience / 60)
	defer tick.Stop()
	for acked, moved := int64(0), time.Now(); ; {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		switch now := p.acked.Load(); {
		case now != acked || now == p.sent.Load():
			acked, moved = now, time.Now()
		case time.Since(moved) > patience:
			p.cancel(fail("produce to "+p.topic, nowhere, fmt.Errorf("%w: no record was acknowledged for %s", errSilent, patience)))
			return
		}
	}
}

// errSilent is what brokers are that acknowledge nothing.
var errSilent = errors.New("no answer")

// Send hands one record over and waits only while the buffer is full. Key, value and headers must stay unchanged until
// Flush has returned; a nil key is no key. After the first record that could not be written nothing more is, and Send says
// why.
func (p *Producer) Send(partition int32, key, value []byte, headers ...kafka.Header) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	if len(p.slab) == 0 {
		p.slab = make([]kgo.Record, slabRecords)
	}
	record := &p.slab[0]
	p.slab = p.slab[1:]
	record.Partition, record.Key, record.Value = partition, key, value
	for _, h := range headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	p.sent.Add(1)
	p.cl.Produce(p.ctx, record, p.promise)
	return nil
}

func (p *Producer) promise(record *kgo.Record, err error) {
	if err == nil {
		p.acked.Add(1)
		return
	}
	p.cancel(fail("produce", place{p.topic, record.Partition, -1}, err))
}

// Flush waits until every record is acknowledged or has failed, and returns the first failure. After that it waits for no other
// record: kgo fails none that was sent and not answered, for it may be in the log, and a broker may never answer.
func (p *Producer) Flush(ctx context.Context) error {
	flushing, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(p.ctx, stop)()
	err := p.cl.Flush(flushing)
	if failed := context.Cause(p.ctx); failed != nil {
		return failed
	}
	if err != nil {
		return fail("produce to "+p.topic, nowhere, late(ctx, err))
	}
	return nil
}

// Acked is the number of records acknowledged so far.
func (p *Producer) Acked() int64 { return p.acked.Load() }

// Close drops the client and what it has not sent.
func (p *Producer) Close() {
	p.cl.Close()
	p.cancel(nil)
}
