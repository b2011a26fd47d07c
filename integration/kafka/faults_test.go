package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// These tests need what only Apache Kafka does: answers that come before their markers, time-outs, compaction, and a
// process that can be killed and stopped.

func create(t *testing.T, c *client.Cluster, topic string, configs map[string]string) {
	t.Helper()
	admin, err := c.Admin()
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.Create(t.Context(), kafka.TopicSpec{Name: topic, Partitions: 1, Configs: configs}); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, c *client.Cluster, id string) kafka.Writer {
	t.Helper()
	w, err := fence(t.Context(), c, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func fence(ctx context.Context, c *client.Cluster, id string) (kafka.Writer, error) {
	w, err := c.Writer(id)
	if err == nil {
		_, err = w.Fence(ctx)
	}
	return w, err
}

// numbered are the records of commit n: three, so that a torn commit shows.
func numbered(topic string, n int) []kafka.Message {
	m := make([]kafka.Message, 3)
	for i := range m {
		m[i] = kafka.Message{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "%d/%d", n, i)}
	}
	return m
}

// commits reads the whole topic and returns how many records of each commit are there; the reader must come to the
// high watermark.
func commits(t *testing.T, c *client.Cluster, topic string) map[int]int {
	t.Helper()
	return upTo(t, c, topic, func(o kafka.Offsets) int64 { return o.HighWatermark })
}

// upTo is commits as far as an end of another kind.
func upTo(t *testing.T, c *client.Cluster, topic string, of func(kafka.Offsets) int64) map[int]int {
	t.Helper()
	l, err := c.Log(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all, err := l.Offsets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end, found := of(all), map[int]int{}
	for at := all.Start; at < end; {
		f, err := l.Fetch(t.Context(), at, 1<<20, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Records {
			var n, i int
			if _, err := fmt.Sscanf(string(r.Value), "%d/%d", &n, &i); err != nil {
				t.Fatalf("%q: %v", r.Value, err)
			}
			found[n]++
		}
		at = f.Next
	}
	return found
}

// I4, S12: a commit races a fence. The markers are there when Fence returns, and the answer to the commit is the truth:
// nil and all of it is there, or an error and all or nothing is.
func TestCommitRacesFence(t *testing.T) {
	c := connect(t, broker.Addr)
	topic := "race"
	create(t, c, topic, nil)
	old := open(t, c, topic)
	answers := map[int]error{}
	const rounds = 60
	for n := range rounds {
		if _, err := old.Send(t.Context(), numbered(topic, n)); err != nil {
			t.Fatal(err)
		}
		var next kafka.Writer
		fenced := make(chan error, 1)
		go func() {
			var err error
			next, err = fence(t.Context(), c, topic)
			fenced <- err
		}()
		<-time.After(time.Duration(n%20) * time.Millisecond) // spreads the race: there is no event to wait for
		answers[n] = old.Commit(t.Context())
		if err := <-fenced; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(next.Close)
		found := commits(t, c, topic)
		if later := commits(t, c, topic); fmt.Sprint(later) != fmt.Sprint(found) {
			t.Fatalf("round %d: the log changed after the fence: %v, then %v", n, found, later)
		}
		for m, err := range answers {
			if found[m] != 3 && found[m] != 0 || err == nil && found[m] != 3 {
				t.Fatalf("commit %d was answered %v and has %d records", m, err, found[m])
			}
		}
		if err := answers[n]; err != nil && kafka.ClassOf(err) != kafka.ClassFenced && kafka.ClassOf(err) != kafka.ClassTransient {
			t.Fatalf("round %d: class %v: %v", n, kafka.ClassOf(err), err)
		}
		old.Close()
		old = next
	}
	won := 0
	for _, err := range answers {
		if err == nil {
			won++
		}
	}
	t.Logf("%d of %d commits won their race", won, rounds)
	if won == 0 || won == rounds {
		t.Error("there was no race")
	}
}

// S15: a transaction that timed out is not committed, whatever its owner says next.
func TestTransactionTimesOut(t *testing.T) {
	b := kafkarun.Start(t, "transaction.abort.timed.out.transaction.cleanup.interval.ms=500")
	c := connect(t, b.Addr)
	create(t, c, "slow", nil)
	w := open(t, c, "slow")
	if _, err := w.Send(t.Context(), numbered("slow", 1)); err != nil {
		t.Fatal(err)
	}
	l, err := c.Log("slow", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for began := time.Now(); ; {
		f, err := l.Fetch(t.Context(), 0, 1<<20, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if f.Next == 4 { // over the abort marker
			t.Logf("timed out after %v", time.Since(began))
			break
		}
	}
	if err := w.Commit(t.Context()); kafka.ClassOf(err) != kafka.ClassFenced {
		t.Fatalf("commit of a transaction that timed out: %v", err)
	}
	w = open(t, c, "slow")
	if _, err := w.Send(t.Context(), numbered("slow", 2)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := commits(t, c, "slow"); fmt.Sprint(found) != "map[2:3]" {
		t.Error(found)
	}
}

// I8: the broker is killed and hangs while a task writes. Each error is transient, comes in time, and a new writer goes
// on; what was answered is there, what was not is there whole or not at all.
func TestBrokerCrashesAndHangs(t *testing.T) {
	b := kafkarun.Start(t)
	c := connect(t, b.Addr)
	create(t, c, "crash", nil)
	answered := map[int]bool{}
	n := 0
	until := func(fault func()) {
		w := open(t, c, "crash")
		defer w.Close()
		for began := time.Now(); ; n++ {
			if n%10 == 5 {
				go fault()
				fault = func() {}
			}
			_, err := w.Send(t.Context(), numbered("crash", n))
			if err == nil {
				err = w.Commit(t.Context())
			}
			if err == nil {
				answered[n], began = true, time.Now()
				continue
			}
			if took := time.Since(began); kafka.ClassOf(err) != kafka.ClassTransient || took > 15*time.Second {
				t.Fatalf("after %v: class %v: %v", took, kafka.ClassOf(err), err)
			}
			t.Logf("commit %d: %v", n, err)
			n++
			return
		}
	}
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		until(func() { check(b.Kill()) })
		check(b.Restart(t.Context()))
	}
	until(func() { check(b.Signal(syscall.SIGSTOP)) })
	check(b.Signal(syscall.SIGCONT))
	open(t, c, "crash").Close()
	found := commits(t, c, "crash")
	for m := range n {
		if found[m] != 3 && found[m] != 0 || answered[m] && found[m] != 3 {
			t.Errorf("commit %d, answered %v, has %d records", m, answered[m], found[m])
		}
	}
}

// R9, R27: a log full of holes is read to its end from every start, and the newest value of each key is there.
func TestCompactedLog(t *testing.T) {
	b := kafkarun.Start(t, "log.cleaner.backoff.ms=100", "log.cleaner.min.cleanable.ratio=0.01")
	c := connect(t, b.Addr)
	create(t, c, "compact", map[string]string{"cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0", "max.compaction.lag.ms": "1000"})
	id := "compact"
	w := open(t, c, id)
	written := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for round := 0; ; round++ { // until most of what was written is gone
		for range 20 {
			if _, err := w.Send(ctx, numbered("compact", written)); err != nil {
				t.Fatal(err)
			}
			if err := w.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			written++
		}
		if _, err := w.Send(ctx, numbered("compact", 1_000_000)); err != nil { // never to be seen
			t.Fatal(err)
		}
		w = open(t, c, id)
		left := 0
		for m, k := range commits(t, c, "compact") {
			if m >= written {
				t.Fatalf("an aborted record is seen")
			}
			left += k
		}
		if round > 3 && left < written {
			t.Logf("%d of %d records left", left, 3*written)
			break
		}
	}
	readFromEverywhere(t, c, "compact", written-1)
}

// readFromEverywhere reads to the high watermark from many starts; the values of the last commit must be the newest.
func readFromEverywhere(t *testing.T, c *client.Cluster, topic string, last int) {
	t.Helper()
	l, err := c.Log(topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	end, err := l.Offsets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for start := end.Start; start < end.HighWatermark; start += 1 + end.HighWatermark/40 {
		newest, at := map[string]string{}, start
		for at < end.HighWatermark {
			f, err := l.Fetch(t.Context(), at, 1<<20, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range f.Records {
				if r.Offset < at {
					t.Fatalf("record at %d from position %d", r.Offset, at)
				}
				newest[string(r.Key)] = string(r.Value)
			}
			at = f.Next
		}
		if at != end.HighWatermark {
			t.Fatalf("from %d the end is %d, want %d", start, at, end.HighWatermark)
		}
		if start > end.Start {
			continue
		}
		for i := range 3 {
			if v := newest[fmt.Sprint("key-", i)]; v != fmt.Sprintf("%d/%d", last, i) {
				t.Errorf("key %d is %s, want %d/%d", i, v, last, i)
			}
		}
	}
}

// A rights or size fault on Apache Kafka is as permanent as the table says.
func TestTopicRefusesRecord(t *testing.T) {
	c := connect(t, broker.Addr)
	create(t, c, "small", map[string]string{"max.message.bytes": "1000"})
	create(t, c, "keyed", map[string]string{"cleanup.policy": "compact"})
	for topic, m := range map[string]kafka.Message{
		"small": {Value: []byte(strings.Repeat("abcdefghij0123456789", 2) + fmt.Sprint(time.Now().UnixNano()))},
		"keyed": {Value: []byte("without a key")},
	} {
		m.Topic = topic
		if topic == "small" {
			m.Value = noise(5000)
		}
		_, err := open(t, c, topic).Send(t.Context(), []kafka.Message{m})
		var e *kafka.Error
		if !errors.As(err, &e) || e.Class != kafka.ClassPermanent || e.Topic != topic || e.Size != len(m.Value) {
			t.Errorf("%s: %v", topic, err)
		}
	}
}

// noise does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint64(1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}
