package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// writer is one transactional producer that speaks the protocol itself: InitProducerID, Produce, EndTxn. franz-go
// carries the requests and finds the coordinator. Its own producer is not used, for at the pinned version it can answer
// a commit with nil that it turned into an abort (DESIGN.md, Why not kgo.Produce); this one has no abort at all, retries
// only what cannot be misunderstood, and ends at the first error (R21, I8).
//
// With transaction.version 2 a produce request adds its partitions to the transaction by itself, and every commit yields
// a new epoch, so that a request that was late by a transaction is refused and not taken for the next one's (R12). Older
// clusters need more: protocol1.go.
type writer struct {
	cluster  *Cluster
	txnID    string
	cl       *kgo.Client
	producer kafka.Producer
	open     bool      // a transaction is open
	ended    time.Time // when the last one was
	spent    error     // the first error; nothing works after it
	clock    clock
	out      outbox
	offsets  []int64
	old      *unanswered // with transactions of protocol 1; nil with those of protocol 2
}

var _ kafka.Writer = (*writer)(nil)

// Writer makes a writer. It connects at Fence.
func (c *Cluster) Writer(transactionalID string) (kafka.Writer, error) {
	if transactionalID == "" {
		return nil, refuse("make writer", errors.New("no transactional id"), "")
	}
	out, err := newOutbox(c.options.Compression, &c.buffers)
	if err != nil {
		return nil, refuse("make writer", err, "")
	}
	return &writer{cluster: c, txnID: transactionalID, out: out}, nil
}

// Fence is described in package kafka.
func (w *writer) Fence(ctx context.Context) (kafka.Producer, error) {
	if w.spent != nil || w.cl != nil {
		return kafka.Producer{}, w.refused("fence")
	}
	ctx, cancel := bounded(ctx, deliveryTimeout, "no producer id")
	defer cancel()
	old, err := w.cluster.requireTransactions(ctx)
	if err != nil {
		return kafka.Producer{}, w.end(err)
	}
	select {
	case w.cluster.opening <- struct{}{}:
		defer func() { <-w.cluster.opening }()
	case <-ctx.Done():
		return kafka.Producer{}, w.end(fail("fence "+w.txnID, nowhere, context.Cause(ctx)))
	}
	var more []kgo.Opt
	if old {
		w.old = &unanswered{}
		more = []kgo.Opt{kgo.MaxVersions(protocol1()), kgo.WithHooks(w.old)}
	}
	if w.cl, err = w.cluster.open(more...); err != nil {
		return kafka.Producer{}, w.end(err)
	}
	err = w.insist(ctx, func() error {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID = &w.txnID
		req.TransactionTimeoutMillis = int32(txnTimeout.Milliseconds())
		resp, err := req.RequestWith(ctx, w.cl)
		if err != nil {
			return err
		}
		w.producer = kafka.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return kafka.Producer{}, w.end(fail("fence "+w.txnID, nowhere, late(ctx, err)))
	}
	return w.producer, nil
}

// Send is described in package kafka.
func (w *writer) Send(ctx context.Context, messages []kafka.Message) ([]int64, error) {
	if w.spent != nil || w.cl == nil {
		return nil, w.refused("send")
	}
	w.offsets = w.offsets[:0]
	if len(messages) == 0 {
		return w.offsets, nil
	}
	ctx, cancel := bounded(ctx, deliveryTimeout, "not every record was acknowledged")
	defer cancel()
	if !w.open {
		if err := w.worn(); err != nil {
			return nil, w.end(fail("begin transaction "+w.txnID, nowhere, err))
		}
		w.out.begin(w.old == nil)
		w.open = true
	}
	w.out.fill(messages, w.clock.now())
	d := delivery{writer: w, ctx: ctx}
	if err := pause(ctx, markerTime-time.Since(w.ended)); err != nil {
		return nil, w.end(d.late(err))
	}
	if err := d.run(); err != nil {
		return nil, w.end(err)
	}
	w.offsets = w.out.offsets(w.offsets)
	w.out.clear()
	return w.offsets, nil
}

// Commit is described in package kafka. The request is sent again when its connection or the coordinator was lost: the
// broker knows by the epoch that it is the same commit. What is still unanswered after that is unknown.
func (w *writer) Commit(ctx context.Context) error {
	if w.spent != nil || w.cl == nil || !w.open {
		return w.refused("commit")
	}
	ctx, cancel := bounded(ctx, deliveryTimeout, "no answer to the commit")
	defer cancel()
	err := w.insist(ctx, func() error {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = w.txnID, w.producer.ID, w.producer.Epoch
		req.Commit = true
		resp, err := req.RequestWith(ctx, w.cl)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return err
		}
		if w.old != nil {
			return nil // the epoch goes on
		}
		next := kafka.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}
		if resp.Version < 5 || next.ID < 0 || next == w.producer {
			return fmt.Errorf("the commit was answered without a new epoch (request version %d): was transaction.version lowered?", resp.Version)
		}
		w.producer = next
		return nil
	})
	if err != nil {
		return w.end(fail("end transaction "+w.txnID, nowhere, late(ctx, err)))
	}
	w.open, w.ended = false, time.Now()
	return nil
}

// markerTime is how long after an answered commit the next transaction's first produce request waits. The answer comes
// before the markers are written, and a broker that gets a produce request in between holds it back for 20 ms at least
// (its add.partitions.to.txn.retry.backoff.ms); a short wait here saves the long one there.
const markerTime = 3 * time.Millisecond

// insist repeats try while the broker is still writing the markers of the last transaction, and after a connection was
// lost: a second InitProducerID fences the first, and a second EndTxn of one epoch is the same commit. franz-go repeats
// the same way, but not on a connection that never carried an answer.
func (w *writer) insist(ctx context.Context, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		var unanswered *kgo.ErrFirstReadEOF
		if !errors.Is(err, kerr.ConcurrentTransactions) && !errors.As(err, &unanswered) {
			return err
		}
		if e := pause(ctx, markerPause(n)); e != nil {
			return fmt.Errorf("%w, last answer: %w", e, err)
		}
	}
}

// markerPause is how long to wait for markers to be written: they take a millisecond or two (R20), unless a partition
// they go to has no leader.
func markerPause(n int) time.Duration {
	return min(2*time.Millisecond<<max(0, min(n-10, 5)), 50*time.Millisecond)
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
