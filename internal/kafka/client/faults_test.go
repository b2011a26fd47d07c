package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// lossy is a listener whose connections lose the next n answers: each is cut off when the broker writes.
type lossy struct {
	net.Listener
	lose *atomic.Int32
}

func (l lossy) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return lossyConn{c, l.lose}, err
}

type lossyConn struct {
	net.Conn
	lose *atomic.Int32
}

func (c lossyConn) Write(b []byte) (int, error) {
	if c.lose.Load() > 0 && c.lose.Add(-1) >= 0 {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// loseAnswers makes the broker lose its next n answers from the next request of a kind on, which it does carry out.
func loseAnswers(broker *kfake.Cluster, lose *atomic.Int32, key kmsg.Key, n int32) {
	broker.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.DropControl()
		lose.Store(n)
		return nil, nil, false
	})
}

func lossyCluster(t *testing.T) (*kfake.Cluster, *client.Cluster, *atomic.Int32) {
	lose := new(atomic.Int32)
	broker, c := embedded(t, kfake.SeedTopics(1, "log"), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return lossy{l, lose}, err
	}))
	return broker, c, lose
}

func fenced(t *testing.T, c *client.Cluster) kafka.Writer {
	t.Helper()
	w, err := c.Writer("txn")
	if err == nil {
		_, err = w.Fence(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func send(ctx context.Context, w kafka.Writer, value string) error {
	_, err := w.Send(ctx, []kafka.Message{{Topic: "log", Value: []byte(value)}})
	return err
}

// committed is what a reader of committed records finds, once nothing is open any more.
func committed(t *testing.T, c *client.Cluster) string {
	t.Helper()
	l, err := c.Log("log", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end, err := l.Offsets(t.Context())
	if err != nil || end.Stable != end.HighWatermark {
		t.Fatalf("%+v, %v", end, err)
	}
	var values []string
	for at := int64(0); at < end.HighWatermark; {
		f, err := l.Fetch(t.Context(), at, 1<<20, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Records {
			values = append(values, string(r.Value))
		}
		at = f.Next
	}
	return strings.Join(values, " ")
}

// A produce request that was carried out and whose answer got lost is sent again, and its records are there once.
func TestLostProduceAnswer(t *testing.T) {
	broker, c, lose := lossyCluster(t)
	w := fenced(t, c)
	for i := range 5 {
		loseAnswers(broker, lose, kmsg.Produce, 1)
		if err := send(t.Context(), w, fmt.Sprint("v", i)); err != nil {
			t.Fatal(err)
		}
		if lose.Load() > 0 {
			t.Fatal("no answer was lost")
		}
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, c); got != "v0 v1 v2 v3 v4" {
		t.Error(got)
	}
}

// S12: one lost answer to a commit is asked for again; when all are lost the outcome is unknown and said to be.
func TestLostCommitAnswer(t *testing.T) {
	broker, c, lose := lossyCluster(t)
	w := fenced(t, c)
	if err := send(t.Context(), w, "once"); err != nil {
		t.Fatal(err)
	}
	loseAnswers(broker, lose, kmsg.EndTxn, 1)
	if err := w.Commit(t.Context()); err != nil || lose.Load() > 0 {
		t.Fatal(err, lose.Load())
	}
	if err := send(t.Context(), w, "unknown"); err != nil {
		t.Fatal(err)
	}
	loseAnswers(broker, lose, kmsg.EndTxn, 1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := w.Commit(ctx)
	if err == nil || kafka.ClassOf(err) != kafka.ClassTransient {
		t.Fatalf("commit without an answer: %v", err)
	}
	lose.Store(0)
	if err := send(t.Context(), w, "more"); !errors.Is(err, kafka.ErrAbandoned) {
		t.Fatalf("sent after an unknown commit: %v", err)
	}
	fenced(t, c) // which is how the outcome is learnt
	if got := committed(t, c); got != "once unknown" {
		t.Error(got)
	}
}

// The lost answer to a fence does no harm either.
func TestLostFenceAnswer(t *testing.T) {
	broker, c, lose := lossyCluster(t)
	fenced(t, c)
	loseAnswers(broker, lose, kmsg.InitProducerID, 1)
	w := fenced(t, c)
	if lose.Load() > 0 {
		t.Fatal("no answer was lost")
	}
	if err := send(t.Context(), w, "v"); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := committed(t, c); got != "v" {
		t.Error(got)
	}
}

// What passes by itself is waited for; records that the broker took before it complained are there once.
func TestProduceErrorsThatPass(t *testing.T) {
	broker, c := embedded(t, kfake.SeedTopics(1, "log"))
	w := fenced(t, c)
	var want []string
	for _, e := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas,
		kerr.NotEnoughReplicasAfterAppend, kerr.RequestTimedOut, kerr.KafkaStorageError, kerr.ConcurrentTransactions,
		kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.UnknownTopicID,
	} {
		fault := broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "log", Err: e, Count: 3})
		if err := send(t.Context(), w, e.Message); err != nil {
			t.Fatalf("%s: %v", e.Message, err)
		}
		if fault.Hits() != 3 {
			t.Fatalf("%s: answered %d times", e.Message, fault.Hits())
		}
		if err := w.Commit(t.Context()); err != nil {
			t.Fatalf("after %s: %v", e.Message, err)
		}
		want = append(want, e.Message)
	}
	if got := committed(t, c); got != strings.Join(want, " ") {
		t.Errorf("%s\nwant %s", got, strings.Join(want, " "))
	}
}

// I8: every other answer ends the writer with the class of the table, and nothing it wrote is ever seen.
func TestErrorsThatEndTheWriter(t *testing.T) {
	for _, e := range []struct {
		err   *kerr.Error
		class kafka.Class
	}{
		{kerr.ProducerFenced, kafka.ClassFenced}, {kerr.InvalidProducerEpoch, kafka.ClassFenced}, {kerr.InvalidTxnState, kafka.ClassFenced},
		{kerr.InvalidProducerIDMapping, kafka.ClassFenced}, {kerr.OutOfOrderSequenceNumber, kafka.ClassTransient},
		{kerr.UnknownServerError, kafka.ClassTransient}, {kerr.TransactionAbortable, kafka.ClassTransient},
		{kerr.TopicAuthorizationFailed, kafka.ClassPermanent}, {kerr.TransactionalIDAuthorizationFailed, kafka.ClassPermanent},
		{kerr.MessageTooLarge, kafka.ClassPermanent}, {kerr.InvalidTimestamp, kafka.ClassPermanent}, {kerr.InvalidRecord, kafka.ClassPermanent},
	} {
		for _, key := range []kmsg.Key{kmsg.Produce, kmsg.EndTxn, kmsg.InitProducerID} {
			t.Run(key.Name()+"/"+e.err.Message, func(t *testing.T) {
				broker, c := embedded(t, kfake.SeedTopics(1, "log"))
				fault := func() *kfake.FaultHandle {
					return broker.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: e.err, TopLevel: key != kmsg.Produce, Count: 1})
				}
				var handle *kfake.FaultHandle
				w, err := c.Writer("txn")
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				if key == kmsg.InitProducerID {
					handle = fault()
				}
				_, err = w.Fence(t.Context())
				if key == kmsg.Produce {
					handle = fault()
				}
				if err == nil {
					err = send(t.Context(), w, "never")
				}
				if key == kmsg.EndTxn {
					handle = fault()
				}
				if err == nil {
					err = w.Commit(t.Context())
				}
				if handle.Hits() != 1 || err == nil || kafka.ClassOf(err) != e.class || !errors.Is(err, e.err) {
					t.Fatalf("%d hits, class %v, want %v: %v", handle.Hits(), kafka.ClassOf(err), e.class, err)
				}
				if key == kmsg.Produce && !strings.Contains(err.Error(), "log/0") {
					t.Errorf("the error does not name the partition: %v", err)
				}
				if again := send(t.Context(), w, "never"); !errors.Is(again, kafka.ErrAbandoned) || kafka.ClassOf(again) != e.class {
					t.Errorf("after the error: %v", again)
				}
				fenced(t, c)
				if got := committed(t, c); got != "" {
					t.Errorf("seen: %s", got)
				}
			})
		}
	}
}

// S12 (c): a commit that has to wait for the last one's markers is waited for.
func TestCommitWaits(t *testing.T) {
	broker, c := embedded(t, kfake.SeedTopics(1, "log"))
	w := fenced(t, c)
	if err := send(t.Context(), w, "v"); err != nil {
		t.Fatal(err)
	}
	for _, e := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator, kerr.CoordinatorNotAvailable} {
		fault := broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: e, TopLevel: true, Count: 3})
		if err := w.Commit(t.Context()); err != nil || fault.Hits() != 3 {
			t.Fatalf("%s: %v after %d", e.Message, err, fault.Hits())
		}
		if err := send(t.Context(), w, "v"); err != nil {
			t.Fatal(err)
		}
	}
}

// The leader of every partition moves about while transactions go on.
func TestLeadersMove(t *testing.T) {
	broker, c := embedded(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "log"))
	w := fenced(t, c)
	var want []string
	for i := range 30 {
		if err := broker.MoveTopicPartition("log", 0, int32(i%3)); err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprint(i))
		if err := send(t.Context(), w, want[i]); err != nil {
			t.Fatal(err)
		}
		broker.RehashCoordinators()
		if err := w.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := committed(t, c); got != strings.Join(want, " ") {
		t.Error(got)
	}
}

// S10: a topic made again under a writer is another topic.
func TestWriterMeetsAnotherTopic(t *testing.T) {
	broker, c := embedded(t, kfake.SeedTopics(1, "log"))
	w := fenced(t, c)
	if err := send(t.Context(), w, "v"); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(broker.DeleteTopic("log"), broker.CreateTopic("log", 1, nil)); err != nil {
		t.Fatal(err)
	}
	err := send(t.Context(), w, "v")
	if kafka.ClassOf(err) != kafka.ClassLost || !strings.Contains(fmt.Sprint(err), "topic id was") {
		t.Fatal(err)
	}
}

// A broker that does not answer is not waited for beyond the caller's time, and the error says what was waited for.
func TestBrokerHangs(t *testing.T) {
	broker, c := embedded(t, kfake.SeedTopics(1, "log"))
	w := fenced(t, c)
	answer := make(chan struct{})
	defer close(answer)
	broker.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := send(ctx, w, "v")
	if took := time.Since(began); kafka.ClassOf(err) != kafka.ClassTransient || !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Fatalf("after %v: %v", took, err)
	}
	if !strings.Contains(err.Error(), "log/0") {
		t.Errorf("the error does not name the partition: %v", err)
	}
}

// R12: below transaction.version 2 nothing is fenced.
func TestOldTransactions(t *testing.T) {
	_, c := embedded(t, kfake.MaxVersions(kversion.V3_8_0()))
	w, err := c.Writer("txn")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Fence(t.Context())
	for _, want := range []string{"transaction.version is 0", "upgrade --feature transaction.version=2", "kafka.allow_transaction_v1: true"} {
		if kafka.ClassOf(err) != kafka.ClassPermanent || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
