package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// newProducer makes a producer on a fresh broker with one topic.
func newProducer(t *testing.T, partitions int32) (*kfake.Cluster, *Cluster, *Producer) {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	cluster, err := New(Options{Brokers: broker.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	p, err := cluster.Producer("t", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return broker, cluster, p
}

// TestProducer shows that every record is where Send put it, in the order of Send, and counted when acknowledged.
func TestProducer(t *testing.T) {
	const partitions, records = 3, 5000
	_, cluster, p := newProducer(t, partitions)
	want := make([][]string, partitions)
	for i := range records {
		home, key := int32(i%partitions), []byte(nil)
		if i%2 > 0 {
			key = fmt.Append(nil, "k", i)
		}
		want[home] = append(want[home], fmt.Sprintf("%q %t %d", key, key == nil, i))
		if err := p.Send(home, key, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil || p.Acked() != records {
		t.Fatalf("%d records acknowledged (%v), want %d", p.Acked(), err, records)
	}
	for partition := range int32(partitions) {
		log, err := cluster.Log("t", partition)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		var got []string
		for at := int64(0); len(got) < len(want[partition]); {
			fetched, err := log.Fetch(t.Context(), at, 1<<20, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range fetched.Records {
				got = append(got, fmt.Sprintf("%q %t %s", r.Key, r.Key == nil, r.Value))
			}
			at = fetched.Next
		}
		if !slices.Equal(got, want[partition]) {
			t.Errorf("partition %d holds %v, want %v", partition, got, want[partition])
		}
	}
}

// TestProducerStopsAtTheFirstFailure shows that a record that cannot be written is told, by Flush and by the next Send.
func TestProducerStopsAtTheFirstFailure(t *testing.T) {
	_, _, p := newProducer(t, 1)
	if err := p.Send(0, nil, make([]byte, 2_000_000)); err != nil {
		t.Fatal(err)
	}
	err := p.Flush(t.Context())
	if !errors.Is(err, kerr.MessageTooLarge) || kafka.ClassOf(err) != kafka.ClassPermanent {
		t.Errorf("flush says %v, want a permanent error about the size", err)
	}
	if again := p.Send(0, nil, []byte("x")); !errors.Is(again, kerr.MessageTooLarge) {
		t.Errorf("the next record says %v, want the first failure", again)
	}
	if errors.Is(err, context.Canceled) {
		t.Errorf("the failure %v is hidden behind its consequence", err)
	}
}

// TestProducerGivesUp: brokers that acknowledge nothing end a Producer with an error that says so, whatever the clock of the
// machine shows (W20).
func TestProducerGivesUp(t *testing.T) {
	broker, _, p := newProducer(t, 1)
	if err := p.Send(0, nil, []byte("x")); err != nil || p.Flush(t.Context()) != nil {
		t.Fatal(err)
	}
	go p.watch(100 * time.Millisecond) // beside the one that has more patience
	silent := broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.NotEnoughReplicas, Count: -1})
	if err := p.Send(0, nil, []byte("y")); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(t.Context()); !errors.Is(err, errSilent) || kafka.ClassOf(err) != kafka.ClassTransient || silent.Hits() == 0 {
		t.Errorf("%v after %d refusals", err, silent.Hits())
	}
	if p.Acked() != 1 {
		t.Errorf("%d records acknowledged", p.Acked())
	}
}

// TestProducerGivesUpWhatIsNotAnswered: a record that was sent and not answered may be in the log, so kgo never fails it. A Flush
// that has to give up does not wait for it.
func TestProducerGivesUpWhatIsNotAnswered(t *testing.T) {
	broker, _, p := newProducer(t, 1)
	var asked atomic.Int32
	broker.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		asked.Add(1)
		return nil, errors.New("the broker dies with the request in hand"), true
	})
	if err := p.Send(0, nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	go p.watch(100 * time.Millisecond)
	flushed := make(chan error, 1)
	go func() { flushed <- p.Flush(context.WithoutCancel(t.Context())) }()
	select {
	case err := <-flushed:
		if !errors.Is(err, errSilent) || asked.Load() == 0 {
			t.Errorf("%v after %d requests", err, asked.Load())
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Flush waits for a record that nobody acknowledges")
	}
}
