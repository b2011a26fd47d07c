package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// Transactions of protocol 1, for clusters below transaction.version 2 that the options admit (R12). There a commit does
// not end its epoch, so a request of one transaction that a broker was slow with is taken for one of the next: a commit
// that was sent twice may then end half of it. So
//
//   - a writer ends after a transaction in which a request was written and not answered, before it begins another one: what
//     was answered cannot come late. The next owner, mostly the same task, fences as always, and what is late is refused.
//     The writer does not get itself a new epoch: brokers abort the open transaction of whoever owns the id by then, whose
//     epoch it is they see only afterwards;
//   - brokers that do not ask the coordinator about a producer before they append are refused: there a fenced owner's
//     late records would be committed by the next one.

// protocol1 keeps requests at the versions that stand for the old protocol. Brokers go by the version of a request, not
// by the level of the feature.
func protocol1() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.Produce.Int16(), 11)
	v.SetMaxKeyVersion(kmsg.EndTxn.Int16(), 4)
	v.SetMaxKeyVersion(kmsg.AddPartitionsToTxn.Int16(), 3)
	return v
}

// unanswered counts the requests of a writer that a broker may still hold, whoever repeated them: franz-go does so by
// itself, and tells only its hooks.
type unanswered struct{ n atomic.Int64 }

var (
	_ kgo.HookBrokerWrite = (*unanswered)(nil)
	_ kgo.HookBrokerRead  = (*unanswered)(nil)
)

// OnBrokerWrite counts a request, also one that was written in part.
func (u *unanswered) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if ofTransaction(key) {
		u.n.Add(1)
	}
}

// OnBrokerRead takes an answered request off the count.
func (u *unanswered) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err == nil && ofTransaction(key) {
		u.n.Add(-1)
	}
}

func ofTransaction(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.InitProducerID, kmsg.AddPartitionsToTxn, kmsg.Produce, kmsg.EndTxn:
		return true
	}
	return false
}

// maxSequence is where a partition's sequence numbers end before the protocol wraps them, with room for one transaction.
const maxSequence = math.MaxInt32 / 2

// worn tells why the writer must not begin another transaction; nil when it may.
func (w *writer) worn() error {
	if w.old == nil {
		return nil
	}
	if n := w.old.n.Load(); n != 0 {
		return fmt.Errorf("%d requests of the transactions before were never answered and may come late: with transaction.version below 2 only a new fence makes them harmless", n)
	}
	for _, p := range w.out.parts {
		if p.sequence > maxSequence {
			return fmt.Errorf("the sequence numbers of %s/%d are used up: a new fence begins them again", p.topic, p.partition)
		}
	}
	return nil
}

// enlist adds the partitions to the transaction that are not in it yet: the old protocol's produce requests do not.
func (d *delivery) enlist(parts []*part) error {
	if d.old == nil {
		return nil
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	for _, p := range parts {
		if !p.enlisted {
			addPartition(req, p)
		}
	}
	if len(req.Topics) == 0 {
		return nil
	}
	for n := 0; ; n++ {
		at, err := d.tryEnlist(req)
		switch {
		case err == nil:
			for _, p := range parts {
				p.enlisted = true
			}
			return nil
		case !passes(err):
			return fail("add to the transaction", at, err)
		}
		d.note(fmt.Errorf("add to the transaction: %w", err))
		if err := pause(d.ctx, markerPause(n)); err != nil {
			return d.late(err)
		}
	}
}

func addPartition(req *kmsg.AddPartitionsToTxnRequest, p *part) {
	for i := range req.Topics {
		if req.Topics[i].Topic == p.topic {
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, p.partition)
			return
		}
	}
	t := kmsg.NewAddPartitionsToTxnRequestTopic()
	t.Topic, t.Partitions = p.topic, []int32{p.partition}
	req.Topics = append(req.Topics, t)
}

// tryEnlist asks once. All partitions are taken or none is; the answers beside the culprit's say only that.
func (d *delivery) tryEnlist(asked *kmsg.AddPartitionsToTxnRequest) (place, error) {
	req := kmsg.NewPtrAddPartitionsToTxnRequest() // franz-go writes into what it is given
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Topics = d.txnID, d.producer.ID, d.producer.Epoch, asked.Topics
	resp, err := req.RequestWith(d.ctx, d.cl)
	if err != nil {
		return nowhere, err
	}
	at, n := nowhere, 0
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			n++
			if e := kerr.ErrorForCode(p.ErrorCode); e != nil && (err == nil || errors.Is(err, kerr.OperationNotAttempted)) {
				at, err = place{t.Topic, p.Partition, -1}, e
			}
		}
	}
	if err == nil && n == 0 {
		err = errors.New("the broker's answer names no partition")
	}
	return at, err
}

// passes tells whether the same request may succeed a little later.
func passes(err error) bool {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Retriable || errors.Is(err, kerr.ConcurrentTransactions)
	}
	class, _ := classOf(err)
	return class == kafka.ClassTransient
}

// verification is the setting by which brokers ask the coordinator before they append.
const verification = "transaction.partition.verification.enable"

// requireVerification refuses a cluster with a broker that appends to a transaction unasked.
func requireVerification(ctx context.Context, cl *kgo.Client) error {
	found, err := unverified(ctx, cl)
	if err != nil {
		return err
	}
	for id, value := range found {
		return refuse("fence", fmt.Errorf("broker %d has %s %s: records of a writer that was replaced could still be committed", id, verification, value),
			"set it to true on every broker; Apache Kafka has it from 3.6 on")
	}
	return nil
}
