package kafka

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
	"github.com/tidemark-streams/tidemark/internal/kafka/conformance"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// oldBroker is an Apache Kafka broker whose transactions are of version 1, behind a proxy.
func oldBroker(t *testing.T) (*proxy, *kafkarun.Broker) {
	t.Helper()
	p := startProxy(t)
	b := kafkarun.StartWith(t, kafkarun.Options{Features: []string{"transaction.version=1"}, Settings: []string{p.advertised()}, Addressed: p.serves})
	return p, b
}

// TestOldTransactionsOnKafka is R12 on a broker with transaction.version 1: refused with the two ways on; where it is
// allowed the contract holds, a late request of one transaction does nothing to the next, and a job that loses answers and
// is killed gives the oracle's results.
func TestOldTransactionsOnKafka(t *testing.T) {
	p, b := oldBroker(t)
	old, err := client.New(client.Options{Brokers: []string{b.Addr}, AllowTransactionV1: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Conformance", func(t *testing.T) {
		conformance.Run(t, conformance.Target{Cluster: old, NoGroup: true, Protocol1: true})
	})
	t.Run("LateCommitTearsNothing", func(t *testing.T) { lateCommitTearsNothing(t, p, old) })
	t.Run("Refused", func(t *testing.T) {
		c := newCrewAt(t, b.Addr, 2, time.Minute, 1, nil)
		c.wants(c.says(1, "run"), "the cluster's transaction.version is 1, exactly-once needs 2", "kafka-features.sh", "kafka.allow_transaction_v1: true")
		if m := c.members(); len(m) != 0 {
			t.Errorf("a job that was refused has taken seats: %v", m)
		}
	})
	t.Run("Job", func(t *testing.T) { oldJobIsKilled(t, p, b) })
}

// lateCommitTearsNothing holds back a commit's first request until the next transaction is half written.
func lateCommitTearsNothing(t *testing.T, p *proxy, c *client.Cluster) {
	create(t, c, "late", nil)
	w := open(t, c, "late")
	late := p.inject(fault{key: kmsg.EndTxn, do: held})
	if _, err := w.Send(t.Context(), numbered("late", 1)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	late.happened(t, 1)
	if _, err := w.Send(t.Context(), numbered("late", 9)); kafka.ClassOf(err) != kafka.ClassTransient || !strings.Contains(fmt.Sprint(err), "never answered") {
		t.Fatalf("the next transaction: %v", err)
	}
	next := open(t, c, "late")
	if _, err := next.Send(t.Context(), numbered("late", 2)); err != nil {
		t.Fatal(err)
	}
	refusal := (<-late.held)().(*kmsg.EndTxnResponse)
	if err := kerr.ErrorForCode(refusal.ErrorCode); err == nil {
		t.Error("the late commit was carried out")
	} else {
		t.Log("the late commit:", err)
	}
	open(t, c, "late").Close() // commit 2 was never ended by its owner
	if found := commits(t, c, "late"); fmt.Sprint(found) != "map[1:3]" {
		t.Error(found)
	}
}

// oldJobIsKilled is a job that loses answers and is killed while readings flow.
func oldJobIsKilled(t *testing.T, p *proxy, b *kafkarun.Broker) {
	seed := randomSeed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	c := newCrewAt(t, b.Addr, 2, 3*time.Minute, 2, func(_ int, job *proof.Job) { job.Connect = []string{"allow_transaction_v1: true"} })
	finish := c.flow(seed, 2000)
	for range 3 {
		i := c.start(c.jobs[0])
		c.whole(i)
		c.committing(i)
		var faults []*fault
		for _, key := range []kmsg.Key{kmsg.EndTxn, kmsg.Produce, kmsg.AddPartitionsToTxn} {
			ours := func(r kmsg.Request) bool { return ofJob(r, c.jobs[0].Changelog()) }
			faults = append(faults, p.inject(fault{key: key, do: lost, count: 1 + random.IntN(3), which: ours}))
		}
		c.await("answers to be lost", func() bool {
			for _, f := range faults {
				if len(f.hits) == 0 {
					return false
				}
			}
			said, err := i.Log()
			c.must(err)
			return bytes.Contains(said, []byte("never answered")) // and the task has fenced anew for it
		}, i)
		c.must(i.Kill())
	}
	finish()
	p.clear()
	c.prove(c.jobs[0])
}

// ofJob tells whether a request belongs to a task's transaction.
func ofJob(r kmsg.Request, changelog string) bool {
	return strings.HasPrefix(transactionOf(r), changelog+"-")
}

// transactionOf is the transactional id of a request, "" for none.
func transactionOf(r kmsg.Request) string {
	switch r := r.(type) {
	case *kmsg.EndTxnRequest:
		return r.TransactionalID
	case *kmsg.AddPartitionsToTxnRequest:
		return r.TransactionalID
	case *kmsg.InitProducerIDRequest:
		if r.TransactionalID != nil {
			return *r.TransactionalID
		}
	case *kmsg.ProduceRequest:
		if r.TransactionID != nil {
			return *r.TransactionID
		}
	}
	return ""
}
