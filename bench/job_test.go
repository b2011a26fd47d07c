package bench

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// BenchmarkWholeJob runs the job on the embedded kind of broker, in this process and without its disk: fetch, fold,
// transactions with changelog, results and commit records, group and offsets. The time is per reading, from the start
// of the process's work to everything committed.
func BenchmarkWholeJob(b *testing.B) {
	const partitions = 4
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "readings"),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		b.Fatal(err)
	}
	defer broker.Close()
	fill(b, broker.ListenAddrs(), max(b.N, partitions))
	cluster, err := client.New(client.Options{Brokers: broker.ListenAddrs()})
	if err != nil {
		b.Fatal(err)
	}
	app, err := tidemark.New(tidemark.Options{
		Job: "bench", Cluster: cluster, Input: "readings", Results: []string{"hourly"}, Late: "late", DeadLetter: "dead",
		Changelog: tidemark.Changelog{Topic: "bench-changelog"}, Topics: tidemark.TopicDefaults{Create: true, Partitions: partitions},
		Processor: config().Processor, StateDir: b.TempDir(), Commit: tidemark.Commit{Interval: 100 * time.Millisecond, MaxRecords: 50_000, MaxBytes: 16 << 20},
		Checkpoint: 30 * time.Second, UntilIdle: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	if err := app.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "readings/s")
}

// fill produces n readings of 100,000 devices or as many as there are readings.
func fill(b *testing.B, brokers []string, n int) {
	producer, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MaxBufferedRecords(200_000), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.DefaultProduceTopic("readings"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		b.Fatal(err)
	}
	defer producer.Close()
	for i, in := range anywhere(n, min(n, 100_000), 2.88) {
		producer.Produce(b.Context(), &kgo.Record{Partition: in.partition, Key: in.key, Value: in.value,
			Timestamp: time.UnixMilli(start).Add(time.Duration(float64(i) * 2.88 * float64(time.Millisecond)))},
			func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
	}
	if err := producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}
