package integration_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// TestRealArrivals sends three sets in the order and with the timestamps in which their records really arrived, clocks that are
// days behind or ahead included, with a grace that is not enough for all. Finals and late readings together are all
// readings, and each is what the oracle's own stream time makes of it.
func TestRealArrivals(t *testing.T) {
	dir, found := oracle.DataDir("..")
	if !found {
		fmt.Printf("data sets are not there (%s): real arrivals are not run\n", dir)
		return
	}
	for _, set := range []string{"lorawan_endpoints", "lorawan_gateway_clock", "lorawan_helium_rssi"} {
		t.Run(set, func(t *testing.T) {
			lines, err := oracle.ReadLines(filepath.Join(dir, set+".jsonl.gz"))
			if err != nil {
				t.Fatal(err)
			}
			arrive(t, lines, arrivals(t, filepath.Join(dir, set+".arrival_ms.txt.gz")))
		})
	}
}

func arrivals(t *testing.T, path string) (times []int64) {
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		ms, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, ms)
	}
	return times
}

func arrive(t *testing.T, lines [][]byte, times []int64) {
	if len(lines) != len(times) {
		t.Fatalf("%d lines and %d arrivals", len(lines), len(times))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	config := oracle.Defaults()
	config.Key, config.Values = []string{"device", "metric"}, []string{"value"}
	config.Time = oracle.TimeField{Name: "ts", Unit: oracle.TimeUnit(lines[0])}
	config.Partitions = 4
	config.Aggregations = []oracle.Aggregation{{Name: "hourly", Size: time.Hour.Milliseconds(), Grace: time.Minute.Milliseconds(),
		Functions: []string{"count", "sum", "min", "max", "mean"}}}
	job := newJob(t, config)
	address, reader := brokerAt(ctx, t, job)
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DefaultProduceTopic(job.Input()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if made, err := kadm.NewClient(client).CreateTopic(ctx, config.Partitions, 1, nil, job.Input()); err != nil || made.Err != nil {
		t.Fatal(err, made.Err)
	}
	for i, line := range lines {
		var r struct{ Device, Metric string }
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		key := oracle.RecordKey([]string{r.Device, r.Metric})
		client.Produce(ctx, &kgo.Record{Key: key, Value: line, Timestamp: time.UnixMilli(times[i]),
			Partition: oracle.PartitionOf("murmur2", key, config.Partitions)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	sight := rest(ctx, t, job, reader)
	folded := int64(len(sight.Late) + len(sight.Dead))
	for _, list := range [][]proof.Line{sight.State, sight.Results} {
		for i := range list {
			folded += int64(number(&list[i], "count"))
		}
	}
	if folded != int64(len(lines)) || len(sight.Results) == 0 || len(sight.Late) == 0 {
		t.Errorf("%d readings in windows, late or refused, of %d; %d results, %d late", folded, len(lines), len(sight.Results), len(sight.Late))
	}
	t.Logf("%d readings: %d results, %d open windows, %d late, %d refused", len(lines), len(sight.Results), len(sight.State), len(sight.Late), len(sight.Dead))
}

// rest lets a job come to rest and compares everything with the oracle.
func rest(ctx context.Context, t *testing.T, job *proof.Job, reader *oracle.Reader) *proof.Sight {
	if err := job.RunUntilIdle(ctx, "until-idle"); err != nil {
		t.Fatal(err)
	}
	want, err := job.Expect(ctx, reader)
	if err != nil {
		t.Fatal(err)
	}
	sight, err := job.Prove(ctx, reader, want)
	if err != nil {
		t.Fatal(err)
	}
	return sight
}
