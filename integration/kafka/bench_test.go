package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// changelog makes a topic with n committed records of about 60 bytes, as a task writes them.
func changelog(b *testing.B, c *client.Cluster, n int) string {
	b.Helper()
	admin, err := c.Admin()
	if err != nil {
		b.Fatal(err)
	}
	defer admin.Close()
	topic := fmt.Sprintf("changelog-%d", time.Now().UnixNano())
	if err := admin.Create(b.Context(), kafka.TopicSpec{Name: topic, Partitions: 1}); err != nil {
		b.Fatal(err)
	}
	w := writer(b, c, topic)
	defer w.Close()
	for at := 0; at < n; at += 50_000 {
		if _, err := w.Send(b.Context(), updates(topic, at, min(50_000, n-at))); err != nil {
			b.Fatal(err)
		}
		if err := w.Commit(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return topic
}

func writer(b *testing.B, c *client.Cluster, id string) kafka.Writer {
	b.Helper()
	w, err := fence(b.Context(), c, id)
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// updates are changelog records: a key of 29 and a value of 29 bytes.
func updates(topic string, from, n int) []kafka.Message {
	messages := make([]kafka.Message, n)
	for i := range messages {
		h := uint64(from+i) * 0x9e3779b97f4a7c15
		messages[i] = kafka.Message{Topic: topic, Key: fmt.Appendf(nil, "%c%-12d%016x", 1, from+i, 1_700_000_000_000), Value: fmt.Appendf(nil, "%c%012d%016x", 1, i%1000, h)}
	}
	return messages
}

const million = 1_000_000

// BenchmarkReplay compares three ways to read a changelog of 1 M records: a bare franz-go consumer, which is the
// measure of the replay target, Log.Fetch in a loop, and Log.Fetch behind a ReadAhead.
func BenchmarkReplay(b *testing.B) {
	c := connect(b, broker.Addr)
	topic := changelog(b, c, million)
	b.Run("kgo", func(b *testing.B) { each(b, func() int { return consume(b, topic) }) })
	b.Run("fetch", func(b *testing.B) { each(b, func() int { return fetchAll(b, c, topic) }) })
	b.Run("readahead", func(b *testing.B) { each(b, func() int { return readAll(b, c, topic) }) })
}

func each(b *testing.B, read func() int) {
	b.ReportAllocs()
	for b.Loop() {
		if n := read(); n != million {
			b.Fatalf("%d records", n)
		}
	}
	b.ReportMetric(float64(million)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

func consume(b *testing.B, topic string) int {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxPartitionBytes(fetchBytes),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	n, bytes := 0, 0
	for n < million {
		fetches := cl.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { n++; bytes += len(r.Key) + len(r.Value) })
	}
	return n
}

const fetchBytes = 4 << 20

func fetchAll(b *testing.B, c *client.Cluster, topic string) int {
	l, err := c.Log(topic, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	n, bytes := 0, 0
	for at := int64(0); n < million; {
		f, err := l.Fetch(b.Context(), at, fetchBytes, time.Second)
		if err != nil {
			b.Fatal(err)
		}
		for i := range f.Records {
			n++
			bytes += len(f.Records[i].Key) + len(f.Records[i].Value)
		}
		at = f.Next
	}
	return n
}

func readAll(b *testing.B, c *client.Cluster, topic string) int {
	l, err := c.Log(topic, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	ahead := kafka.NewReadAhead(l, 0, fetchBytes, time.Second)
	defer ahead.Stop()
	n, bytes := 0, 0
	for n < million {
		r := <-ahead.Reads()
		if r.Err != nil {
			b.Fatal(r.Err)
		}
		for i := range r.Records {
			n++
			bytes += len(r.Records[i].Key) + len(r.Records[i].Value)
		}
	}
	return n
}

// BenchmarkCommit is Send and Commit of one transaction.
func BenchmarkCommit(b *testing.B) {
	for _, codec := range []struct {
		name string
		of   client.Compression
	}{{"none", client.CompressionNone}, {"lz4", client.CompressionLZ4}, {"snappy", client.CompressionSnappy}, {"zstd", client.CompressionZstd}} {
		c, err := client.New(client.Options{Brokers: []string{broker.Addr}, Compression: codec.of})
		if err != nil {
			b.Fatal(err)
		}
		topic := changelog(b, c, 1)
		for _, n := range []int{1, 1000, 50_000} {
			b.Run(fmt.Sprintf("%s/%d", codec.name, n), func(b *testing.B) {
				w := writer(b, c, topic)
				defer w.Close()
				messages := updates(topic, 0, n)
				b.ReportAllocs()
				var sent time.Duration
				for b.Loop() {
					began := time.Now()
					if _, err := w.Send(b.Context(), messages); err != nil {
						b.Fatal(err)
					}
					sent += time.Since(began)
					if err := w.Commit(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(sent.Microseconds())/float64(b.N)/1000, "ms-send/op")
			})
		}
	}
}
