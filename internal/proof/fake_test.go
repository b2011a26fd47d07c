package proof

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// The test binary plays tidemark when this variable names a part; the other one tells it the broker.
const (
	partVariable   = "FAKE_TIDEMARK_PART"
	brokerVariable = "FAKE_TIDEMARK_BROKER"
)

func TestMain(m *testing.M) {
	if part := os.Getenv(partVariable); part != "" {
		os.Exit(play(part, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// play is a tidemark that does as it is told and no more. The parts are those of TestKillLoop and TestProve.
func play(part string, args []string) int {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv(brokerVariable)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return 1
	}
	defer client.Close()
	send := func(topic string, key, value []byte, headers ...kgo.RecordHeader) {
		r := &kgo.Record{Topic: topic, Key: key, Value: value, Headers: headers}
		if err := client.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			panic(err)
		}
	}
	switch args[0] + " " + part {
	case "produce works", "produce has nothing to do", "produce starts slowly", "produce ends", "produce is done":
		lines, _ := io.ReadAll(os.Stdin)
		if part == "works" {
			send("job-in", []byte("k"), lines)
		}
	case "run works", "run has nothing to do":
		send("job-in", []byte("k"), []byte("one that waits"))
		if part != "works" {
			commitGroup(client)
		}
		send("job-changelog", entryKey("a", 0), []byte("v"))
		select {} // until it is killed
	case "run starts slowly":
		select {}
	case "run ends":
		fmt.Fprintln(os.Stderr, "no disk")
		return 1
	case "run publishes again":
		send("job-minute", []byte("a"), []byte(finalLine))
	case "run forgets":
		send("job-changelog", entryKey("a", t0+60_000), nil)
		send("job-changelog", []byte{0xC0}, fakeCommit(2, 1, 1))
	case "state publishes again", "state is right", "state forgets", "state shrinks":
		lines := openLines
		if _, err := os.Stat("state/job"); part == "shrinks" && err != nil {
			lines = lines[:1]
		}
		fmt.Println(string(bytes.Join(lines, []byte("\n"))))
	}
	return 0
}

// commitGroup makes the group know all of the input as done.
func commitGroup(client *kgo.Client) {
	consumer, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv(brokerVariable)), kgo.ConsumerGroup("job"), kgo.ConsumeTopics("job-in"),
		kgo.DisableAutoCommit())
	if err != nil {
		panic(err)
	}
	defer consumer.Close()
	offsets := map[string]map[int32]kgo.EpochOffset{"job-in": {0: {Epoch: -1, Offset: 1 << 20}}}
	consumer.CommitOffsetsSync(context.Background(), offsets, nil)
}

var (
	finalLine = `{"agg":"minute","key":["a"],"start":1704067200000,"end":1704067260000,"count":3,"sum":1,"min":-1e16,"max":1e16,` +
		`"mean":0.3333333333333333,"final":true}`
	openLines = [][]byte{
		[]byte(`{"agg":"minute","key":["a"],"start":1704067260000,"end":1704067320000,"count":1,"sum":7,"min":7,"max":7,"mean":7}`),
		[]byte(`{"agg":"minute","key":["b"],"start":1704067260000,"end":1704067320000,"count":2,"sum":11,"min":5,"max":6,"mean":5.5}`),
	}
)

func entryKey(device string, start int64) []byte {
	k := append([]byte{0x01, 6}, "minute"...)
	k = append(append(k, byte(len(device))), device...)
	return binary.BigEndian.AppendUint64(k, uint64(start)^1<<63)
}

// fakeCommit is a commit record of the input of expected.
func fakeCommit(number uint64, live, records byte) []byte {
	o := expected().Outcomes[0]
	b := append([]byte{1}, "birth---"...)
	b = binary.AppendUvarint(b, number)
	b = append(b, make([]byte, 24)...)
	b = append(b, 16, 1, 14)
	b = append(b, make([]byte, 16)...)
	b = binary.AppendVarint(b, o.StreamTime)
	b = append(b, 1, 'b')
	b = binary.AppendVarint(b, o.SetterOffset)
	n := o.Counters
	b = append(b, byte(n.In), byte(n.Accepted), byte(n.DeadLettered), 0, 0, 0, byte(n.Ahead), byte(n.Untimed), byte(n.Duplicates), 0, 0)
	a := o.Aggregations[0]
	b = append(append(b, 1, 6), "minute"...)
	b = append(b, make([]byte, 8)...)
	b = binary.AppendVarint(b, a.ClosedEnd)
	b = append(b, 0, byte(a.Folded), byte(a.PartlyLate), byte(a.Late), byte(a.Missed), byte(a.Results))
	b = append(b, make([]byte, 16)...)
	return append(b, live, records, 0, 0, 0, 0)
}

// stage is a broker and a job whose binary is this test binary in a part.
func stage(t *testing.T, part string) (*Job, *oracle.Reader, *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "job-in", "job-changelog", "job-minute", "job-late", "job-dead"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	address := cluster.ListenAddrs()[0]
	t.Setenv(partVariable, part)
	t.Setenv(brokerVariable, address)
	t.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector makes every child wait a second at its end
	reader, err := oracle.NewReader(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	job := &Job{Binary: os.Args[0], Dir: t.TempDir(), Name: "job", Oracle: *expected().Config}
	return job, reader, client
}

// show publishes what a perfect job over the input of expected would have published.
func show(t *testing.T, client *kgo.Client) {
	t.Helper()
	o := expected().Outcomes[0]
	header := func(pairs ...any) (headers []kgo.RecordHeader) {
		for pair := range slices.Chunk(pairs, 2) {
			headers = append(headers, kgo.RecordHeader{Key: "tidemark." + pair[0].(string), Value: fmt.Append(nil, pair[1])})
		}
		return headers
	}
	var records []*kgo.Record
	add := func(topic string, key, value []byte, headers ...kgo.RecordHeader) {
		records = append(records, &kgo.Record{Topic: topic, Key: key, Value: value, Headers: headers})
	}
	for _, r := range inputOfExpected() {
		add("job-in", r.Key, r.Value)
	}
	add("job-changelog", []byte{0xF0}, []byte("fence"))
	add("job-changelog", entryKey("a", t0+60_000), []byte(entryA))
	add("job-changelog", entryKey("b", t0+60_000), []byte(entryB))
	add("job-changelog", []byte{0xC0}, fakeCommit(1, 2, 2))
	add("job-minute", []byte("a"), []byte(finalLine))
	late, dead := o.Late[0], o.Dead[0]
	add("job-late", late.Record.Key, late.Record.Value, header("partition", 0, "offset", 6, "aggregation", "minute",
		"window_start", late.Start, "window_end", late.End, "stream_time", late.StreamTime)...)
	add("job-dead", dead.Record.Key, dead.Record.Value, header("partition", 0, "offset", 7, "reason", "null_field")...)
	if err := client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}
