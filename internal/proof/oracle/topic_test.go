package oracle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produce writes n records in one transaction and ends it as told; "open" leaves it open.
func produce(t *testing.T, client *kgo.Client, topic, text string, n int, end string) {
	t.Helper()
	ctx := context.Background()
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		r := &kgo.Record{Topic: topic, Key: []byte(text), Value: fmt.Appendf(nil, "%s%d", text, i)}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	if end != "open" {
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(end == "commit")); err != nil {
			t.Fatal(err)
		}
	}
}

func startCluster(t *testing.T, topic string) (*Reader, func(id string) *kgo.Client) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	reader, err := NewReader(cluster.ListenAddrs()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	return reader, func(id string) *kgo.Client {
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.TransactionalID(id))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
}

// The reader must end on a commit marker, on an abort marker, on nothing at all, and must not deliver what was aborted.
func TestReaderEndsPastMarkers(t *testing.T) {
	reader, writer := startCluster(t, "t")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w := writer("w")
	want := 0
	for _, step := range []string{"", "commit", "abort", "abort", "commit"} {
		if step != "" {
			produce(t, w, "t", step, 3, step)
		}
		if step == "commit" {
			want += 3
		}
		got, err := reader.Read(ctx, "t", AtHighWatermark)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || len(got[0]) != want {
			t.Fatalf("after %q: %d records, want %d", step, len(got[0]), want)
		}
		for _, m := range got[0] {
			if string(m.Key) != "commit" {
				t.Errorf("aborted record at offset %d was delivered", m.Offset)
			}
		}
	}
}

// A reader that must judge waits for the open transaction; one that looks at progress does not.
func TestReaderWaitsForOpenTransaction(t *testing.T) {
	reader, writer := startCluster(t, "t")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	first, second := writer("first"), writer("second")
	produce(t, first, "t", "slow", 1, "open")
	produce(t, second, "t", "quick", 2, "commit")
	stable, err := reader.Read(ctx, "t", AtStable)
	if err != nil || len(stable[0]) != 0 {
		t.Fatalf("stable read: %d records, error %v; want none below the open transaction", len(stable[0]), err)
	}
	ended := make(chan error, 1)
	go func() { // ended by the broker's answer, while the reader below may already wait
		ended <- first.EndTransaction(ctx, kgo.TryCommit)
	}()
	got, err := reader.Read(ctx, "t", AtHighWatermark)
	if err != nil || len(got[0]) != 3 {
		t.Fatalf("%d records, error %v; want 3", len(got[0]), err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestReaderOfNoTopic(t *testing.T) {
	reader, _ := startCluster(t, "t")
	if _, err := reader.Read(context.Background(), "other", AtHighWatermark); !errors.Is(err, ErrNoTopic) {
		t.Errorf("error %v, want ErrNoTopic", err)
	}
	if _, err := reader.ReadFrom(context.Background(), "t", []int64{-1}, AtStable); err == nil {
		t.Error("an offset below the log was read")
	}
}

func TestFold(t *testing.T) {
	key := func(device string, start byte) []byte {
		k := append([]byte{0x01, 1, 'h', byte(len(device))}, device...)
		return append(k, 0x80, 0, 0, 0, 0, 0, 0, start)
	}
	var log []Message
	add := func(key []byte, value string) {
		m := Message{Record: Record{Offset: int64(len(log)), Key: key}}
		if value != "" {
			m.Value = []byte(value)
		}
		log = append(log, m)
	}
	add([]byte{0xF0}, "fence")
	add(key("a", 7), "1")
	add(key("a", 7), "2")
	add(key("a", 8), "3")
	add(key("b", 7), "4")
	add(key("b", 7), "")
	add([]byte{0xC0}, string(commitRecord(t)))
	f, err := FoldChangelog(log)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Live) != 2 || f.Updates != 5 || f.Commits != 1 || f.Fences != 1 || f.Last == nil {
		t.Errorf("fold %+v", f)
	}
	if e := f.Live[WindowID("h", []string{"a"}, 7)]; string(e.Value) != "2" || e.Start != 7 {
		t.Errorf("entry %+v", e)
	}
	if c := f.Last; c.Number != 300 || c.Position != 1000 {
		t.Errorf("commit record %+v", c)
	}
	if _, err := FoldChangelog(append(log, log[len(log)-1])); err == nil {
		t.Error("a commit number that does not rise was taken")
	}
	back := slices.Clone(log[len(log)-1].Value)
	back[9], back[9+2+24+2+1+2+16] = 0xAE, 15 // a later number, and the stream time -8
	if f, err := FoldChangelog(append(log, Message{Record: Record{Key: []byte{0xC0}, Value: back}})); err != nil || len(f.Backwards) != 1 {
		t.Errorf("a stream time that falls is not noticed: %+v, %v", f, err)
	}
	for _, bad := range [][]byte{nil, {0x02}, {0x01}, {0x01, 9, 'h'}, key("a", 1)[:7], {0xC0, 0}} {
		if _, err := FoldChangelog([]Message{{Record: Record{Key: bad}}}); err == nil {
			t.Errorf("key %x was taken", bad)
		}
	}
}

// commitRecord is written by hand after the description of format 1.
func commitRecord(t *testing.T) []byte {
	t.Helper()
	b := []byte{1}
	b = append(b, "birth--."...)
	b = append(b, 0xAC, 0x02) // number 300
	b = append(b, "fence-id"+"sources."+"outputs."...)
	b = append(b, 0xD0, 0x0F) // position 1000
	b = append(b, 1)          // leader epoch -1
	b = append(b, 0xCE, 0x0F) // anchor offset 999
	b = append(b, "anchor of 16 byt"...)
	b = append(b, 13, 1, 'k', 6)                    // stream time -7, set by key "k" at offset 3
	b = append(b, 9, 5, 3, 0, 0, 77, 1, 2, 1, 0, 0) // counters
	b = append(b, 1, 1, 'h')                        // one aggregation
	b = append(b, "fingerp."...)
	b = append(b, 15, 0, 3, 0, 2, 2, 1) // closed end -8, since 0, folded 3, late 2, missed 2, results 1
	b = append(b, "digest with 16 b"...)
	b = append(b, 2, 5, 9, 0, 0, 0) // live, records, retention, tz data, mark, note
	c, err := parseCommit(b)
	want := Commit{Birth: 0x62697274682d2d2e, Number: 300, Position: 1000, StreamTime: -7, SetterOffset: 3,
		Counters:     Counters{In: 9, Accepted: 5, DeadLettered: 3, Ahead: 1, Untimed: 2, Duplicates: 1},
		Aggregations: []AggregationCounters{{Name: "h", ClosedEnd: -8, Folded: 3, Late: 2, Missed: 2, Results: 1}}, Live: 2, Records: 5}
	if err != nil || fmt.Sprintf("%+v", *c) != fmt.Sprintf("%+v", want) {
		t.Errorf("commit record\n got %+v, error %v\nwant %+v", c, err, want)
	}
	for n := range len(b) - 4 {
		if _, err := parseCommit(b[:n]); err == nil {
			t.Errorf("a commit record cut at byte %d was taken", n)
		}
	}
	return b
}

// What was aborted is not delivered either where the log is longer than one answer: that of a broker may then lack the
// list of aborted transactions.
func TestReaderOfLongLogs(t *testing.T) {
	reader, writer := startCluster(t, "t")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w := writer("w")
	filler := make([]byte, 256<<10)
	rand.NewChaCha8([32]byte{1}).Read(filler) // compression must not make it short
	written := 0
	for ; written < 2*fetchBytes; written += len(filler) {
		produce(t, w, "t", "abort", 1, "abort")
		if err := w.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := w.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: filler}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := w.EndTransaction(ctx, kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
	}
	got, err := reader.Read(ctx, "t", AtHighWatermark)
	if err != nil || len(got[0]) != written/len(filler) {
		t.Errorf("%d records, want %d; error %v", len(got[0]), written/len(filler), err)
	}
	for _, m := range got[0] {
		if string(m.Key) == "abort" {
			t.Fatalf("aborted record at offset %d was delivered", m.Offset)
		}
	}
}
