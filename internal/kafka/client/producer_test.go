package client

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// newProducer makes a producer on a fresh broker with one topic.
func newProducer(t *testing.T, by Partitioner, partitions int32) (*Cluster, *Producer) {
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
	p, err := cluster.Producer("t", by, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return cluster, p
}

// TestProducerPartitions compares where records land with the oracle's own hashes, and their order with that of Send.
func TestProducerPartitions(t *testing.T) {
	const partitions, keys, records = 7, 100, 5000
	for name, by := range map[string]Partitioner{"murmur2": Murmur2, "crc32": CRC32} {
		t.Run(name, func(t *testing.T) {
			cluster, p := newProducer(t, by, partitions)
			want := make([][]string, partitions)
			for i := range records {
				value, key, home := fmt.Sprint(i), []byte(nil), int32(0)
				if i%10 > 0 {
					key = fmt.Appendf(nil, "device-%d", i%keys)
					home = oracle.PartitionOf(name, key, partitions)
				}
				want[home] = append(want[home], value)
				if err := p.Send(key, []byte(value)); err != nil {
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
						got = append(got, string(r.Value))
					}
					at = fetched.Next
				}
				if fmt.Sprint(got) != fmt.Sprint(want[partition]) {
					t.Errorf("partition %d holds %v, want %v", partition, got, want[partition])
				}
			}
		})
	}
}

// TestProducerStopsAtTheFirstFailure shows that a record that cannot be written is told, by Flush and by the next Send.
func TestProducerStopsAtTheFirstFailure(t *testing.T) {
	_, p := newProducer(t, Murmur2, 1)
	if err := p.Send(nil, make([]byte, 2_000_000)); err != nil {
		t.Fatal(err)
	}
	err := p.Flush(t.Context())
	if !errors.Is(err, kerr.MessageTooLarge) || kafka.ClassOf(err) != kafka.ClassPermanent {
		t.Errorf("flush says %v, want a permanent error about the size", err)
	}
	if again := p.Send(nil, []byte("x")); !errors.Is(again, kerr.MessageTooLarge) {
		t.Errorf("the next record says %v, want the first failure", again)
	}
	if errors.Is(err, context.Canceled) {
		t.Errorf("the failure %v is hidden behind its consequence", err)
	}
}
