package kafka

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// swap is one answer of Apache Kafka to task 0 of a running job that is lost or changed on its way, or never given.
type swap struct {
	key   kmsg.Key
	do    effect
	err   *kerr.Error // in place of the broker's answer: changed after it has acted, refused before
	count int
	again bool   // a recovery is caused first, for the request belongs to one
	class string // of the failure that the task goes through; "" for none
}

// String says it in words.
func (s *swap) String() string {
	words := fmt.Sprintf("%s %s", s.key.Name(), [...]string{unsent: "never sent", lost: "carried out, its answer lost", held: "held back",
		changed: "carried out and answered with", refused: "not carried out and answered with"}[s.do])
	if s.err != nil {
		words += " " + s.err.Message
	}
	return words
}

// swaps are those that the embedded broker can not be trusted with, for there the outcome is told by markers that are written
// later, by epochs that commits raise, and by a coordinator that knows more than the partition's leader.
var swaps = []swap{
	// S12 (a) to (e), S02: a commit that was carried out, or not, whatever is said of it.
	{key: kmsg.EndTxn, do: lost},
	{key: kmsg.EndTxn, do: lost, count: 3},
	{key: kmsg.EndTxn, do: unsent},
	{key: kmsg.EndTxn, do: refused, err: kerr.ConcurrentTransactions, count: 20},
	{key: kmsg.EndTxn, do: refused, err: kerr.CoordinatorLoadInProgress, count: 5},
	{key: kmsg.EndTxn, do: refused, err: kerr.NotCoordinator, count: 5},
	{key: kmsg.EndTxn, do: changed, err: kerr.NotCoordinator},
	{key: kmsg.EndTxn, do: refused, err: kerr.UnknownServerError, class: "transient"},
	{key: kmsg.EndTxn, do: changed, err: kerr.UnknownServerError, class: "transient"},
	{key: kmsg.EndTxn, do: refused, err: kerr.RequestTimedOut, class: "transient"},
	{key: kmsg.EndTxn, do: changed, err: kerr.RequestTimedOut, class: "transient"},
	{key: kmsg.EndTxn, do: refused, err: kerr.InvalidTxnState, class: "fenced"},
	{key: kmsg.EndTxn, do: changed, err: kerr.InvalidTxnState, class: "fenced"},
	{key: kmsg.EndTxn, do: changed, err: kerr.InvalidProducerEpoch, class: "fenced"},

	// S14: records that were appended, or not, whatever is said of them.
	{key: kmsg.Produce, do: lost, count: 3},
	{key: kmsg.Produce, do: unsent, count: 3},
	{key: kmsg.Produce, do: refused, err: kerr.NotEnoughReplicas, count: 5},
	{key: kmsg.Produce, do: changed, err: kerr.NotEnoughReplicasAfterAppend, count: 3},
	{key: kmsg.Produce, do: refused, err: kerr.UnknownServerError, class: "transient"},
	{key: kmsg.Produce, do: changed, err: kerr.UnknownServerError, class: "transient"},
	{key: kmsg.Produce, do: changed, err: kerr.UnknownProducerID, class: "transient"},
	{key: kmsg.Produce, do: changed, err: kerr.InvalidTxnState, class: "fenced"},
	{key: kmsg.Produce, do: refused, err: kerr.InvalidProducerIDMapping, class: "fenced"},

	{key: kmsg.InitProducerID, do: lost, again: true, class: "transient"},
	{key: kmsg.InitProducerID, do: unsent, again: true, class: "transient"},
	{key: kmsg.InitProducerID, do: refused, err: kerr.ConcurrentTransactions, count: 10, again: true, class: "transient"},
	{key: kmsg.InitProducerID, do: changed, err: kerr.UnknownServerError, again: true, class: "transient"},
	{key: kmsg.InitProducerID, do: refused, err: kerr.ProducerFenced, again: true, class: "fenced"},

	{key: kmsg.Fetch, do: lost, count: 2},
	{key: kmsg.ListOffsets, do: lost, again: true, class: "transient"},
	{key: kmsg.OffsetForLeaderEpoch, do: lost, again: true, class: "transient"},
}

// TestAnswersOnKafka lets a job meet them while readings flow: each time it goes on by itself and from its base, an ambiguous
// commit costs milliseconds (R25), and never is a record produced after a commit in doubt before a fence has settled it
// (S02). In the end nothing is lost, doubled or torn.
func TestAnswersOnKafka(t *testing.T) {
	p := startProxy(t)
	b := kafkarun.StartWith(t, kafkarun.Options{Settings: []string{p.advertised()}, Addressed: p.serves})
	c := newCrewAt(t, b.Addr, 1, 4*time.Minute, 2, nil)
	job := c.jobs[0]
	finish := c.flow(31, 1000)
	i := c.start(job)
	c.whole(i)
	c.committing(i)
	tap := p.listens(job.Changelog() + "-0")
	for _, s := range swaps {
		c.swapped(p, i, &s)
	}
	finish()
	p.clear()
	tap.settledByFences(t)
	c.must(i.Stop())
	c.prove(job)
}

// swapped lets the job meet one.
func (c *crew) swapped(p *proxy, i *instance, s *swap) {
	c.t.Helper()
	seen, job := len(i.log()), c.jobs[0]
	name := s.String()
	if s.again {
		p.inject(fault{key: kmsg.EndTxn, do: refused, which: ofTask(job), answer: answering(kerr.UnknownServerError)})
	}
	f := p.inject(fault{key: s.key, do: s.do, count: s.count, which: ofTask(job), answer: answering(s.err)})
	begun := time.Now()
	c.await(name+" to happen", func() bool { return len(f.hits) == max(s.count, 1) }, i)
	wanted := 0
	if s.class != "" {
		c.await(name+" to be noticed", func() bool {
			wanted = 0
			for _, l := range i.log()[seen:] {
				if l.Msg == "recovering" && l.Class == s.class && l.Partition == 0 {
					wanted++
				}
			}
			return wanted > 0
		}, i)
	}
	c.committing(i)
	c.passes(0, i)
	failures, replayed := 0, int64(0)
	for _, l := range i.log()[seen:] {
		if l.Msg == "recovering" {
			failures++
		}
		if l.Report != nil {
			replayed += l.Report.Records
			if l.Report.From != "live base" {
				c.t.Errorf("%s: recovered from %q, want the live base", name, l.Report.From)
			}
		}
	}
	if s.class == "" && failures > 0 {
		c.t.Errorf("%s: %d recoveries, want the client to ask again", name, failures)
	}
	c.t.Logf("%s: %d times, %d recoveries, %d records replayed, commits go on after %v", name, len(f.hits), failures, replayed, time.Since(begun).Round(time.Millisecond))
}

// passes waits until a task has committed once more.
func (c *crew) passes(partition int, alive ...*instance) {
	c.t.Helper()
	before := c.marks()[partition]
	c.await("another commit", func() bool { return c.marks()[partition] >= before+4 }, alive...)
}

// ofTask finds the requests of task 0: those of its transactions, and those that read its input and its changelog.
func ofTask(job *proof.Job) func(kmsg.Request) bool {
	return func(r kmsg.Request) bool {
		switch r := r.(type) {
		case *kmsg.FetchRequest:
			return len(r.Topics) == 1 && len(r.Topics[0].Partitions) == 1 && r.Topics[0].Partitions[0].Partition == 0 && r.IsolationLevel == 1
		case *kmsg.ListOffsetsRequest:
			return len(r.Topics) == 1 && r.Topics[0].Topic == job.Changelog() && r.Topics[0].Partitions[0].Partition == 0 && r.IsolationLevel == 0
		case *kmsg.OffsetForLeaderEpochRequest:
			return len(r.Topics) == 1 && r.Topics[0].Topic == job.Input()
		}
		return ofJob(r, job.Changelog()) && transactionOf(r) == job.Changelog()+"-0"
	}
}

// answering puts a code into an answer, where the answer has its own.
func answering(err *kerr.Error) func(kmsg.Request, kmsg.Response) {
	return func(request kmsg.Request, response kmsg.Response) {
		switch r := response.(type) {
		case *kmsg.EndTxnResponse:
			r.ErrorCode = err.Code
		case *kmsg.InitProducerIDResponse:
			r.ErrorCode, r.ProducerID, r.ProducerEpoch = err.Code, -1, -1
		case *kmsg.ProduceResponse:
			if len(r.Topics) == 0 {
				refuseAll(request.(*kmsg.ProduceRequest), r)
			}
			for i := range r.Topics {
				for j := range r.Topics[i].Partitions {
					r.Topics[i].Partitions[j].ErrorCode = err.Code
				}
			}
		}
	}
}

// refuseAll makes an answer out of nothing.
func refuseAll(request *kmsg.ProduceRequest, response *kmsg.ProduceResponse) {
	for _, asked := range request.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
		for _, p := range asked.Partitions {
			partition := kmsg.NewProduceResponseTopicPartition()
			partition.Partition, partition.BaseOffset = p.Partition, -1
			topic.Partitions = append(topic.Partitions, partition)
		}
		response.Topics = append(response.Topics, topic)
	}
}

// tap is what a task's writers have sent, in order.
type tap struct {
	mu   sync.Mutex
	sent []sentRequest
}

// sentRequest is one request of a transaction.
type sentRequest struct {
	key      kmsg.Key
	producer kafka.Producer // of a commit
}

// listens writes down what is sent under a transactional id.
func (p *proxy) listens(id string) *tap {
	w := &tap{}
	for _, key := range []kmsg.Key{kmsg.InitProducerID, kmsg.Produce, kmsg.EndTxn} {
		p.inject(fault{key: key, count: 1, which: func(r kmsg.Request) bool {
			if transactionOf(r) == id {
				one := sentRequest{key: key}
				if end, ok := r.(*kmsg.EndTxnRequest); ok {
					one.producer = kafka.Producer{ID: end.ProducerID, Epoch: end.ProducerEpoch}
				}
				w.mu.Lock()
				w.sent = append(w.sent, one)
				w.mu.Unlock()
			}
			return false // and nothing happens to it
		}})
	}
	return w
}

// settledByFences holds that between two transactions of one epoch, the second of which would be open to what is late of the
// first, there is always a fence: each commit's epoch is followed by produce requests only when it was answered well.
func (w *tap) settledByFences(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	fences, commits := 0, map[kafka.Producer]bool{}
	open := false
	for n, s := range w.sent {
		switch s.key {
		case kmsg.InitProducerID:
			fences++
			open = false
		case kmsg.Produce:
			open = true
		case kmsg.EndTxn:
			if commits[s.producer] && open && w.sent[n-1].key == kmsg.Produce {
				t.Errorf("request %d ends a second transaction of producer %+v: the first one was in doubt, and nothing was fenced", n, s.producer)
			}
			commits[s.producer] = true
		}
	}
	if fences == 0 || len(commits) < len(swaps) {
		t.Errorf("%d fences and %d commits on the wire: it was not listened to", fences, len(commits))
	}
}

// TestLateCommitOnKafka is S03 with transaction.version 2: a commit's first request is held back until the next transaction
// is half written, and the writer, which has asked again, does not need to care: every commit has an epoch of its own.
func TestLateCommitOnKafka(t *testing.T) {
	p := startProxy(t)
	b := kafkarun.StartWith(t, kafkarun.Options{Settings: []string{p.advertised()}, Addressed: p.serves})
	c := connect(t, b.Addr)
	create(t, c, "late", nil)
	w := open(t, c, "late")
	for _, then := range []string{"half a transaction", "a whole transaction"} {
		late := p.inject(fault{key: kmsg.EndTxn, do: held})
		if _, err := w.Send(t.Context(), numbered("late", 1)); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		late.happened(t, 1)
		if _, err := w.Send(t.Context(), numbered("late", 2)); err != nil {
			t.Fatal(err)
		}
		if then == "a whole transaction" {
			if err := w.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Send(t.Context(), numbered("late", 3)); err != nil {
				t.Fatal(err)
			}
		}
		refusal := (<-late.held)().(*kmsg.EndTxnResponse)
		t.Logf("after %s the late commit is answered: %v", then, kerr.ErrorForCode(refusal.ErrorCode))
		found := upTo(t, connect(t, b.Addr), "late", func(o kafka.Offsets) int64 { return o.Stable })
		if found[3] != 0 || then == "half a transaction" && found[2] != 0 {
			t.Fatalf("the late commit has ended a transaction that was not its own: %v", found)
		}
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if found := commits(t, connect(t, b.Addr), "late"); fmt.Sprint(found) != "map[1:6 2:6 3:3]" {
		t.Error(found)
	}
}
