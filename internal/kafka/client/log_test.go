package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// reader starts a broker with one topic of three committed records, and a log on it that gives up soon.
func reader(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, *log) {
	t.Helper()
	broker, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "log")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	c, err := New(Options{Brokers: broker.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Writer("txn")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Send(t.Context(), []kafka.Message{{Topic: "log", Value: []byte("0")}, {Topic: "log", Value: []byte("1")}, {Topic: "log", Value: []byte("2")}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	made, err := c.Log("log", 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	l := made.(*log)
	l.patience = 100 * time.Millisecond
	return broker, l
}

// expectAll checks that the log is good.
func expectAll(t *testing.T, l *log) {
	t.Helper()
	f, err := l.Fetch(t.Context(), 0, 1<<20, 0)
	if err != nil || strings.Join(texts(f.Records), " ") != "0:0 1:1 2:2" || f.Next != 4 {
		t.Fatalf("%v to %d, %v", texts(f.Records), f.Next, err)
	}
}

func TestFetchErrorsThatPass(t *testing.T) {
	broker, l := reader(t)
	l.patience = 10 * time.Second
	for _, e := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.ReplicaNotAvailable,
		kerr.KafkaStorageError, kerr.UnknownTopicOrPartition, kerr.OffsetNotAvailable, kerr.UnknownServerError,
		kerr.UnknownTopicID, kerr.InconsistentTopicID, // the id is still the same
		kerr.OffsetOutOfRange, // yet within the leader's own bounds
	} {
		fault := broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "log", Err: e, Count: 3})
		expectAll(t, l)
		if fault.Hits() != 3 {
			t.Errorf("%s: answered %d times", e.Message, fault.Hits())
		}
	}
}

func TestFetchErrorsThatStay(t *testing.T) {
	for _, e := range []struct {
		err   *kerr.Error
		class kafka.Class
		hits  int // at most; 0 for as often as patience allows
	}{
		{kerr.NotLeaderForPartition, kafka.ClassTransient, 0},
		{kerr.UnknownServerError, kafka.ClassTransient, 0},
		{kerr.TopicAuthorizationFailed, kafka.ClassPermanent, 1},
		{kerr.UnsupportedVersion, kafka.ClassPermanent, 1},
		{kerr.UnknownTopicID, kafka.ClassLost, 0},
	} {
		broker, l := reader(t)
		fault := broker.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "log", Err: e.err, Count: -1})
		began := time.Now()
		_, err := l.Fetch(t.Context(), 0, 1<<20, 0)
		if took := time.Since(began); kafka.ClassOf(err) != e.class || !errors.Is(err, e.err) || took > 5*time.Second {
			t.Errorf("%s after %v: class %v, want %v: %v", e.err.Message, took, kafka.ClassOf(err), e.class, err)
		}
		if n := fault.Hits(); n == 0 || e.hits > 0 && n > e.hits {
			t.Errorf("%s: asked %d times", e.err.Message, n)
		}
		fault.Remove()
		expectAll(t, l)
	}
}

// A deleted topic is lost, not waited for: its data are gone. One that was never seen may still come.
func TestFetchOfDeletedTopic(t *testing.T) {
	broker, l := reader(t)
	expectAll(t, l)
	if err := broker.DeleteTopic("log"); err != nil {
		t.Fatal(err)
	}
	_, err := l.Fetch(t.Context(), 4, 1<<20, 0)
	if kafka.ClassOf(err) != kafka.ClassLost || !strings.Contains(err.Error(), l.id.String()) {
		t.Fatal(err)
	}
}

func TestFetchFollowsTheLeader(t *testing.T) {
	broker, l := reader(t, kfake.NumBrokers(3))
	l.patience = 10 * time.Second
	for i := range int32(9) {
		if err := broker.MoveTopicPartition("log", 0, i%3); err != nil {
			t.Fatal(err)
		}
		expectAll(t, l)
		if o, err := l.Offsets(t.Context()); err != nil || o.HighWatermark != 4 {
			t.Fatal(o, err)
		}
	}
}

// R15, R16, S28: a new leader is asked whether it has what was read from the one before. One whose log was cut below that is
// lost, however far it has been filled again; one that has it, that does not know so old an epoch, or whose log begins
// behind it, is read on.
func TestFetchOfACutLog(t *testing.T) {
	for _, nothingRead := range []bool{false, true} {
		testCutLog(t, nothingRead)
	}
}

// testCutLog reads the log, or only asks at its end for more, as a task does that has consumed everything in a former life.
func testCutLog(t *testing.T, nothingRead bool) {
	for _, c := range []struct {
		name  string
		end   int64 // of the epoch of what was read, 3 records and a marker
		start int64
		lost  bool
	}{
		{"cut", 2, 0, true}, {"cut to nothing", 0, 0, true}, {"marker cut", 3, 0, true}, {"whole", 4, 0, false}, {"unknown", -1, 0, false}, {"deleted", 0, 4, false},
	} {
		t.Run(fmt.Sprintf("%s, nothing read %v", c.name, nothingRead), func(t *testing.T) {
			broker, l := reader(t, kfake.NumBrokers(2))
			l.patience = 10 * time.Second
			if !nothingRead {
				expectAll(t, l)
			} else if _, err := l.Fetch(t.Context(), 4, 1<<20, 0); err != nil {
				t.Fatal(err)
			}
			asked := 0
			broker.ControlKey(kmsg.OffsetForLeaderEpoch.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				asked++
				resp := kreq.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
				p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				p.EndOffset = c.end
				topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
				topic.Topic = "log"
				topic.Partitions = append(topic.Partitions, p)
				resp.Topics = append(resp.Topics, topic)
				return resp, nil, true
			})
			if c.start > 0 {
				if err := broker.DeleteRecords("log", 0, c.start); err != nil {
					t.Fatal(err)
				}
			}
			if err := broker.MoveTopicPartition("log", 0, 1-broker.LeaderFor("log", 0)); err != nil {
				t.Fatal(err)
			}
			f, err := l.Fetch(t.Context(), 4, 1<<20, 0)
			if asked != 1 {
				t.Fatalf("the new leader was asked %d times: %v", asked, err)
			}
			if !c.lost {
				if err != nil || f.Next != 4 {
					t.Fatalf("%+v, %v", f, err)
				}
				return
			}
			if kafka.ClassOf(err) != kafka.ClassLost || !strings.Contains(err.Error(), fmt.Sprintf("ends that epoch at offset %d: %d offsets were cut off", c.end, 4-c.end)) {
				t.Fatal(err)
			}
		})
	}
}

// A batch that stays damaged is class Corrupt and names its offset; one that was damaged on the way is read again.
func TestFetchOfDamage(t *testing.T) {
	broker, l := reader(t)
	damage := func(times int) {
		broker.ControlKey(kmsg.Fetch.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			broker.KeepControl()
			if times--; times < 0 {
				broker.DropControl()
				return nil, nil, false
			}
			req := kreq.(*kmsg.FetchRequest)
			resp := req.ResponseKind().(*kmsg.FetchResponse)
			p := kmsg.NewFetchResponseTopicPartition()
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 4, 4, 0
			p.RecordBatches = batchOf(0, 0, 0, -1, map[int32][2]string{0: {"k", "v"}})
			p.RecordBatches[65] ^= 4
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = "log", req.Topics[0].TopicID
			topic.Partitions = append(topic.Partitions, p)
			resp.Topics = append(resp.Topics, topic)
			return resp, nil, true
		})
	}
	l.patience = 10 * time.Second
	damage(2)
	expectAll(t, l)
	l.patience = 100 * time.Millisecond
	damage(1 << 20)
	_, err := l.Fetch(t.Context(), 0, 1<<20, 0)
	if kafka.ClassOf(err) != kafka.ClassCorrupt || !strings.Contains(err.Error(), "log/0 at offset 0") || !strings.Contains(err.Error(), "checksum") {
		t.Fatal(err)
	}
}

func TestFetchWithoutABroker(t *testing.T) {
	broker, l := reader(t)
	expectAll(t, l)
	broker.Close()
	began := time.Now()
	_, err := l.Fetch(t.Context(), 0, 1<<20, 0)
	if took := time.Since(began); kafka.ClassOf(err) != kafka.ClassTransient || took > 15*time.Second {
		t.Fatalf("after %v: %v", took, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Fetch(ctx, 0, 1<<20, 0); !errors.Is(err, context.DeadlineExceeded) || kafka.ClassOf(err) != kafka.ClassTransient {
		t.Fatal(err)
	}
	l.Close()
	if _, err := l.Fetch(t.Context(), 0, 1<<20, 0); !errors.Is(err, kafka.ErrClosed) {
		t.Fatal(err)
	}
}

// Header keys repeat, so they are not allocated again; but not without bound either.
func TestDecoderKeepsFewKeys(t *testing.T) {
	d := newDecoder()
	o, err := newOutbox(CompressionNone, &pool)
	if err != nil {
		t.Fatal(err)
	}
	var messages []kafka.Message
	for i := range 1000 {
		messages = append(messages, kafka.Message{Topic: "t", Headers: []kafka.Header{{Key: fmt.Sprint(i), Value: []byte("v")}}})
	}
	o.fill(messages, 0)
	records, _, err := d.decode(*o.seal(o.parts[0], kafka.Producer{}).buf, nil, 0, 1000)
	if err != nil || len(records) != 1000 || records[999].Headers[0].Key != "999" || len(d.keys) > 64 {
		t.Fatalf("%d records, %d keys kept, %v", len(records), len(d.keys), err)
	}
}

// broken is a decompressor that has met a batch it was not made for.
type broken struct{}

func (broken) Decompress([]byte, kgo.CompressionCodecType) ([]byte, error) { panic("poisoned") }

// A panic where a batch is unpacked is an error of its reader, and costs the others no turn in the room they share (I8, I12):
// there are as many as processors, and without them no fetch has ever anything.
func TestPanicKeepsNoTurn(t *testing.T) {
	_, l := reader(t)
	w, err := l.cluster.Writer("packs")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Fence(t.Context()); err != nil {
		t.Fatal(err)
	}
	large := []kafka.Message{{Topic: "log", Value: bytes.Repeat([]byte("packed "), 1000)}}
	if _, err := w.Send(t.Context(), large); err != nil || w.Commit(t.Context()) != nil {
		t.Fatal(err)
	}
	room := kafka.NewRoom(1 << 20)
	read := func() *kafka.Read {
		r := kafka.NewReadAhead(l, 0, kafka.Pace{MaxBytes: func() int { return 1 << 20 }, Room: room})
		defer r.Stop()
		select {
		case read := <-r.Reads():
			return read
		case <-time.After(20 * time.Second):
			t.Fatal("nothing comes")
			return nil
		}
	}
	whole := l.decoder.inflate
	for range runtime.GOMAXPROCS(0) + 1 {
		l.decoder.inflate = broken{}
		var p *kafka.Panic
		if err := read().Err; !errors.As(err, &p) {
			t.Fatalf("a panic is told as %v", err)
		}
	}
	l.decoder.inflate = whole
	if got := read(); got.Err != nil || len(got.Records) != 4 {
		t.Errorf("after panics of others: %v, %v", texts(got.Records), got.Err)
	}
}

// Logs share the connections of what is answered at once: whoever closes one leaves them to the others, and the last one none.
func TestLogsShareConnections(t *testing.T) {
	_, first := reader(t)
	second, err := first.cluster.Log("log", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	shared := second.(*log)
	expectAll(t, first)
	expectAll(t, shared)
	if first.cl != shared.cl || first.own != nil || shared.own != nil {
		t.Error("two logs do not look by the same connections, or have some of their own for it")
	}
	first.Close()
	first.Close() // again is no harm
	expectAll(t, shared)
	if _, err := shared.Fetch(t.Context(), 4, 1, time.Millisecond); err != nil || shared.own == nil || shared.own == shared.cl {
		t.Errorf("a fetch that may wait blocks the others: %v", err)
	}
	second.Close()
	if c := first.cluster; c.shared != nil || c.sharing != 0 {
		t.Errorf("%d logs share connections when all are closed", c.sharing)
	}
}
