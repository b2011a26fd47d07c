package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// writer is one transactional producer on one franz-go client, made at the fence and closed at the first error (R21):
// several errors end such a client for good, and a nil from an abort proves nothing, so nothing is ever repaired here.
type writer struct {
	cluster *Cluster
	txnID   string
	cl      *kgo.Client
	open    bool  // a transaction is open
	spent   error // the first error; nothing works after it

	records []kgo.Record // of the present Send, reused
	headers []kgo.RecordHeader
	offsets []int64

	acks acks
}

var _ kafka.Writer = (*writer)(nil)

// Writer makes a writer. It connects at Fence.
func (c *Cluster) Writer(transactionalID string) (kafka.Writer, error) {
	if transactionalID == "" {
		return nil, refuse("make writer", errors.New("no transactional id"), "")
	}
	return &writer{cluster: c, txnID: transactionalID, acks: acks{done: make(chan struct{}, 1)}}, nil
}

func (w *writer) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.TransactionalID(w.txnID),
		kgo.TransactionTimeout(txnTimeout),
		kgo.ConcurrentTransactionsBackoff(2 * time.Millisecond), // R20
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(deliveryTimeout),
		kgo.ProduceRequestTimeout(requestTimeout),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(1 << 30),      // the caller bounds a commit
		kgo.ProducerBatchMaxBytes(1_000_000), // below max.message.bytes' default of 1,048,588, with room for the framing
	}
	return append(opts, kgo.ProducerBatchCompression(w.cluster.options.Compression.codecs()...))
}

func (c Compression) codecs() []kgo.CompressionCodec {
	switch c {
	case CompressionNone:
		return []kgo.CompressionCodec{kgo.NoCompression()}
	case CompressionSnappy:
		return []kgo.CompressionCodec{kgo.SnappyCompression()}
	case CompressionZstd:
		return []kgo.CompressionCodec{kgo.ZstdCompression()}
	}
	return []kgo.CompressionCodec{kgo.Lz4Compression()}
}

// Fence is described in package kafka.
func (w *writer) Fence(ctx context.Context) (kafka.Producer, error) {
	if w.spent != nil || w.cl != nil {
		return kafka.Producer{}, w.refused("fence")
	}
	ctx, cancel := bounded(ctx, deliveryTimeout, "no producer id")
	defer cancel()
	if err := w.cluster.requireTransactions(ctx); err != nil {
		return kafka.Producer{}, w.end(err)
	}
	select {
	case w.cluster.opening <- struct{}{}:
		defer func() { <-w.cluster.opening }()
	case <-ctx.Done():
		return kafka.Producer{}, w.end(fail("fence "+w.txnID, nowhere, context.Cause(ctx)))
	}
	cl, err := w.cluster.open(w.options()...)
	if err != nil {
		return kafka.Producer{}, w.end(err)
	}
	w.cl = cl
	id, epoch, err := cl.ProducerID(ctx) // runs InitProducerID
	if err != nil {
		return kafka.Producer{}, w.end(fail("fence "+w.txnID, nowhere, late(ctx, err)))
	}
	return kafka.Producer{ID: id, Epoch: epoch}, nil
}

// Send is described in package kafka.
func (w *writer) Send(ctx context.Context, messages []kafka.Message) ([]int64, error) {
	if w.spent != nil || w.cl == nil {
		return nil, w.refused("send")
	}
	if len(messages) == 0 {
		return w.offsets[:0], nil
	}
	if !w.open {
		if err := w.cl.BeginTransaction(); err != nil {
			return nil, w.end(fail("begin transaction "+w.txnID, nowhere, err))
		}
		w.open = true
	}
	w.fill(messages)
	w.acks.expect(len(w.records))
	promise := w.acks.promise
	for i := range w.records {
		w.cl.Produce(context.Background(), &w.records[i], promise)
	}
	if err := w.await(ctx); err != nil {
		return nil, w.end(err)
	}
	w.offsets = w.offsets[:0]
	for i := range w.records {
		w.offsets = append(w.offsets, w.records[i].Offset)
	}
	clear(w.records) // they hold the caller's memory
	clear(w.headers)
	return w.offsets, nil
}

// fill makes franz-go's records of messages, in memory that the next Send uses again.
func (w *writer) fill(messages []kafka.Message) {
	w.records, w.headers = w.records[:0], w.headers[:0]
	if cap(w.records) < len(messages) {
		w.records = make([]kgo.Record, 0, len(messages))
	}
	total := 0
	for i := range messages {
		total += len(messages[i].Headers)
	}
	if cap(w.headers) < total { // never grown below: records point into it
		w.headers = make([]kgo.RecordHeader, 0, total)
	}
	now := time.Now()
	for i := range messages {
		m := &messages[i]
		r := kgo.Record{Key: m.Key, Value: m.Value, Topic: m.Topic, Partition: m.Partition, Timestamp: now}
		if n := len(m.Headers); n > 0 {
			at := len(w.headers)
			for _, h := range m.Headers {
				w.headers = append(w.headers, kgo.RecordHeader(h))
			}
			r.Headers = w.headers[at : at+n : at+n]
		}
		w.records = append(w.records, r)
	}
}

// await waits for every acknowledgement. When time runs out the client is closed, which answers what is still open, so
// that nothing of the caller's memory is in use any more when Send returns.
func (w *writer) await(ctx context.Context) error {
	ctx, cancel := bounded(ctx, deliveryTimeout, "not every record was acknowledged")
	defer cancel()
	select {
	case <-w.acks.done:
		return w.acks.failure()
	case <-ctx.Done():
		w.cl.Close()
		<-w.acks.done
		w.cl = nil
	}
	err := fail("send", nowhere, context.Cause(ctx))
	if last := w.acks.failure(); last != nil && !errors.Is(last, kgo.ErrClientClosed) {
		err = last
	}
	return err
}

// Commit is described in package kafka.
func (w *writer) Commit(ctx context.Context) error {
	if w.spent != nil || w.cl == nil || !w.open {
		return w.refused("commit")
	}
	ctx, cancel := bounded(ctx, deliveryTimeout, "no answer to the commit")
	defer cancel()
	if err := w.cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return w.end(fail("end transaction "+w.txnID, nowhere, late(ctx, err)))
	}
	w.open = false
	return nil
}

// Close is described in package kafka.
func (w *writer) Close() {
	if w.spent == nil {
		w.spent = kafka.ErrClosed
	}
	if w.cl != nil {
		w.cl.Close()
		w.cl = nil
	}
}

// end makes err the writer's last word and drops the client.
func (w *writer) end(err error) error {
	w.spent = err
	w.Close()
	return err
}

// refused is the answer to a call that the writer's state does not allow.
func (w *writer) refused(op string) error {
	switch {
	case errors.Is(w.spent, kafka.ErrClosed):
		return refuse(op+" "+w.txnID, kafka.ErrClosed, "")
	case w.spent != nil:
		return &kafka.Error{Class: kafka.ClassOf(w.spent), Op: op + " " + w.txnID, Offset: -1, Err: fmt.Errorf("%w: %w", kafka.ErrAbandoned, w.spent)}
	case op == "fence":
		return refuse(op+" "+w.txnID, errors.New("fenced already"), "make a new writer")
	}
	return refuse(op+" "+w.txnID, errors.New("not fenced, or no transaction open"), "")
}

// acks counts the acknowledgements of one Send.
type acks struct {
	left atomic.Int64
	done chan struct{} // one token when left has reached 0

	mu     sync.Mutex
	record place
	size   int
	err    error
}

func (a *acks) expect(n int) {
	a.err = nil
	a.left.Store(int64(n))
}

// promise is called once for every record. The first error is kept, unless a later one is permanent and it is not: that
// one would come again (S14).
func (a *acks) promise(r *kgo.Record, err error) {
	if err != nil {
		a.mu.Lock()
		class, _ := classOf(err)
		if kept, _ := classOf(a.err); a.err == nil || (class == kafka.ClassPermanent && kept != kafka.ClassPermanent) {
			a.record, a.size, a.err = place{r.Topic, r.Partition, -1}, sizeOf(r), err
		}
		a.mu.Unlock()
	}
	if a.left.Add(-1) == 0 {
		a.done <- struct{}{}
	}
}

func sizeOf(r *kgo.Record) int {
	n := len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// failure is the error of the Send whose acknowledgements are all in.
func (a *acks) failure() error {
	if a.err == nil {
		return nil
	}
	class, hint := classOf(a.err)
	return &kafka.Error{Class: class, Op: "send", Topic: a.record.topic, Partition: a.record.partition, Offset: -1,
		Size: a.size, Hint: hint, Err: a.err}
}
