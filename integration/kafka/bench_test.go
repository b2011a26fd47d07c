package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync"
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
	for _, codec := range codecs {
		c, err := client.New(client.Options{Brokers: []string{broker.Addr}, Compression: codec.of})
		if err != nil {
			b.Fatal(err)
		}
		topic := changelog(b, c, million)
		b.Run(codec.name+"/kgo", func(b *testing.B) { each(b, func() (int, int) { return consume(b, topic) }) })
		b.Run(codec.name+"/fetch", func(b *testing.B) { each(b, func() (int, int) { return fetchAll(b, c, topic) }) })
		b.Run(codec.name+"/readahead", func(b *testing.B) { each(b, func() (int, int) { return readAll(b, c, topic) }) })
	}
}

var codecs = []struct {
	name string
	of   client.Compression
}{{"none", client.CompressionNone}, {"lz4", client.CompressionLZ4}, {"snappy", client.CompressionSnappy}, {"zstd", client.CompressionZstd}}

// each reports the rate, and the bytes on the wire where they are known.
func each(b *testing.B, read func() (records, wire int)) {
	b.ReportAllocs()
	for b.Loop() {
		n, wire := read()
		if n != million {
			b.Fatalf("%d records", n)
		}
		b.ReportMetric(float64(wire)/million, "wireB/rec")
	}
	b.ReportMetric(float64(million)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrec/s")
}

func consume(b *testing.B, topic string) (records, wire int) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxPartitionBytes(fetchBytes),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	n, wire, bytes := 0, 0, 0
	for n < million {
		fetches := cl.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			b.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) { n++; bytes += len(r.Key) + len(r.Value) })
	}
	return n, wire
}

const fetchBytes = 4 << 20

func fetchAll(b *testing.B, c *client.Cluster, topic string) (records, wire int) {
	l, err := c.Log(topic, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	n, wire, bytes := 0, 0, 0
	for at := int64(0); n < million; {
		f, err := l.Fetch(b.Context(), at, fetchBytes, time.Second)
		if err != nil {
			b.Fatal(err)
		}
		wire += f.Bytes
		for i := range f.Records {
			n++
			bytes += len(f.Records[i].Key) + len(f.Records[i].Value)
		}
		at = f.Next
	}
	return n, wire
}

func readAll(b *testing.B, c *client.Cluster, topic string) (records, wire int) {
	l, err := c.Log(topic, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	ahead := kafka.NewReadAhead(l, 0, kafka.Pace{MaxBytes: func() int { return fetchBytes }, Wait: time.Second})
	defer ahead.Stop()
	n, wire, bytes := 0, 0, 0
	for n < million {
		r := <-ahead.Reads()
		if r.Err != nil {
			b.Fatal(r.Err)
		}
		wire += r.Bytes
		for i := range r.Records {
			n++
			bytes += len(r.Records[i].Key) + len(r.Records[i].Value)
		}
	}
	return n, wire
}

// BenchmarkCommit is Send and Commit of one transaction, by compression, and the same by franz-go's producer.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1, 1000, 50_000} {
		for _, codec := range codecs {
			c, err := client.New(client.Options{Brokers: []string{broker.Addr}, Compression: codec.of})
			if err != nil {
				b.Fatal(err)
			}
			topic := changelog(b, c, 1)
			b.Run(fmt.Sprintf("%s/%d", codec.name, n), func(b *testing.B) {
				w := writer(b, c, topic)
				defer w.Close()
				messages := updates(topic, 0, n)
				transactions(b, func() error { _, err := w.Send(b.Context(), messages); return err }, func() error { return w.Commit(b.Context()) })
			})
		}
		topic := changelog(b, connect(b, broker.Addr), 1)
		b.Run(fmt.Sprintf("kgo-lz4/%d", n), func(b *testing.B) { franz(b, topic, n) })
	}
}

// transactions measures send and commit; between two it waits as long as markers take, outside the time.
func transactions(b *testing.B, send, commit func() error) {
	b.ReportAllocs()
	var sent time.Duration
	for b.Loop() {
		began := time.Now()
		if err := send(); err != nil {
			b.Fatal(err)
		}
		sent += time.Since(began)
		if err := commit(); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		<-time.After(10 * time.Millisecond)
		b.StartTimer()
	}
	b.ReportMetric(float64(sent.Microseconds())/float64(b.N)/1000, "ms-send/op")
}

func franz(b *testing.B, topic string, n int) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr), kgo.TransactionalID(topic), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(1<<20), kgo.ConcurrentTransactionsBackoff(2*time.Millisecond), kgo.MetadataMinAge(20*time.Millisecond), kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	messages, records := updates(topic, 0, n), make([]kgo.Record, n)
	transactions(b, func() error {
		if err := cl.BeginTransaction(); err != nil {
			return err
		}
		for i, m := range messages {
			records[i] = kgo.Record{Topic: topic, Key: m.Key, Value: m.Value}
			cl.Produce(b.Context(), &records[i], func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
		}
		return cl.Flush(b.Context())
	}, func() error { return cl.EndTransaction(b.Context(), kgo.TryCommit) })
}

// BenchmarkPacedCommits is the latency of Send and Commit of 64 tasks that each commit 100 records to a changelog
// partition and 10 to an output partition every 100 ms, after the first few (R20).
func BenchmarkPacedCommits(b *testing.B) {
	const tasks, rounds, warm, interval = 64, 35, 5, 100 * time.Millisecond
	c := connect(b, broker.Addr)
	admin, err := c.Admin()
	if err != nil {
		b.Fatal(err)
	}
	defer admin.Close()
	topic := fmt.Sprintf("paced-%d", time.Now().UnixNano())
	for _, name := range []string{topic, topic + "-out"} {
		if err := admin.Create(b.Context(), kafka.TopicSpec{Name: name, Partitions: tasks}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		took := make(chan time.Duration, tasks*rounds)
		var group sync.WaitGroup
		for task := range int32(tasks) {
			group.Go(func() {
				w, err := fence(b.Context(), c, fmt.Sprint(topic, task))
				if err != nil {
					b.Error(err)
					return
				}
				defer w.Close()
				messages := append(updates(topic, 0, 100), updates(topic+"-out", 0, 10)...)
				for i := range messages {
					messages[i].Partition = task
				}
				tick := time.NewTicker(interval)
				defer tick.Stop()
				for round := range rounds {
					began := <-tick.C
					if _, err = w.Send(b.Context(), messages); err == nil {
						err = w.Commit(b.Context())
					}
					if err != nil {
						b.Error(err)
						return
					}
					if round >= warm {
						took <- time.Since(began)
					}
				}
			})
		}
		group.Wait()
		close(took)
		var all []time.Duration
		for d := range took {
			all = append(all, d)
		}
		slices.Sort(all)
		if n := len(all); n > 0 {
			b.ReportMetric(float64(all[n/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(all[n*99/100].Microseconds())/1000, "ms-p99")
		}
	}
}
