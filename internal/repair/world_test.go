package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// world is a cluster with one task of a job on it. The oracle is a plain fold of the changelog's records, made here.
type world struct {
	*kafkatest.Cluster
	t   testing.TB
	fs  *vfs.MemFS
	ids uint64
}

const (
	inTopic, logTopic, outTopic = "readings", "plant-changelog", "hourly"
	jobName                     = "plant"
	grace                       = 1000
)

func newWorld(t testing.TB) *world {
	w := &world{Cluster: kafkatest.New("cluster"), t: t, fs: vfs.NewMem()}
	w.CreateTopic(inTopic, 1, nil)
	w.CreateTopic(logTopic, 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "7200000"})
	w.CreateTopic(outTopic, 1, nil)
	for i := range 40 {
		w.Append(inTopic, 0, kafka.Record{Key: fmt.Appendf(nil, "k%d", i%5), Value: fmt.Appendf(nil, "v%d", i)})
	}
	return w
}

// lived is a world in which the task has committed: ten entries, five input records, two commits.
func lived(t testing.TB) *world {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "a=1", "b=2", "c=3", "d=4", "e=5", "f=6", "gone=0")
	w.checkpoint(r)
	w.commit(r, "g=7", "h=8", "i=9", "j=10", "gone")
	w.end(r)
	return w
}

func (w *world) random() uint64 {
	w.ids++
	return w.ids * 0x9e3779b97f4a7c15
}

// recovery is what a process that has just started would make.
func (w *world) recovery() *recovery.Recovery {
	admin, _ := w.Admin()
	found, err := admin.Topics(context.Background(), inTopic, logTopic, outTopic)
	if err != nil {
		w.t.Fatal(err)
	}
	dir, err := store.OpenDir(w.fs, "state/plant/p0")
	if err != nil {
		w.t.Fatal(err)
	}
	return &recovery.Recovery{
		Cluster: w.Cluster, Job: jobName,
		Identity: record.Identity{ClusterID: "cluster", Input: found[inTopic].Topic, Changelog: found[logTopic].Topic,
			Outputs: []record.Topic{found[outTopic].Topic}},
		Aggregations: []record.AggregationState{{Name: "hourly", Fingerprint: 7, ClosedEnd: record.NoTime}},
		RetentionMS:  7_200_000, Host: "test", Version: "test",
		Ask: func(context.Context) (bool, error) { return true, nil },
		GroupOffset: func(ctx context.Context) (kafka.GroupOffset, bool, error) {
			offsets, err := admin.GroupOffsets(ctx, jobName, inTopic)
			return offsets[0], offsets[0].Metadata != "", err
		},
		Start:       func(context.Context) (record.InputPosition, error) { return 2, nil },
		Checkpoints: dir, Random: w.random, Now: func() time.Duration { return 0 },
	}
}

func (w *world) order(kind Kind) Order {
	return Order{Kind: kind, To: record.NoInput, Note: "anna@plant: wrong unit", MaxRecords: 5, MaxBytes: 1 << 20,
		ClosedEnd: func(name string, t int64) (int64, bool) { return t - grace, name == "hourly" }}
}

// start recovers as any start does; it must succeed.
func (w *world) start() *recovery.Recovered {
	w.t.Helper()
	r, err := w.recovery().Run(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// end ends a process.
func (w *world) end(r *recovery.Recovered) {
	w.t.Helper()
	r.Writer.Close()
	if err := r.Store.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// commit commits "k=v" (put) and "k" (tombstone), five input records, a result, then the group's offset.
func (w *world) commit(r *recovery.Recovered, changes ...string) {
	w.t.Helper()
	c := r.Commit.Clone()
	c.Number, c.Fence, c.Records, c.Mark, c.Note = c.Number+1, r.Fence.ID, record.Count(len(changes)), record.MarkNone, ""
	c.Position += 5
	c.Counters.In, c.Counters.Accepted = c.Counters.In+5, c.Counters.Accepted+5
	c.Aggregations[0].Folded += 5
	c.StreamTime, c.SetterOffset = int64(c.Position)*10_000, int64(c.Position)-1
	c.Aggregations[0].ClosedEnd = c.StreamTime - grace
	for _, in := range w.Committed(inTopic, 0) {
		if in.Offset == int64(c.Position)-1 {
			c.Anchor.Offset = in.Offset
			c.Anchor.Hash, _ = record.AnchorHash(nil, in.Key, in.Value)
		}
	}
	var messages []kafka.Message
	for _, change := range changes {
		k, v, put := strings.Cut(change, "=")
		m := kafka.Message{Topic: logTopic, Key: entryKey(k)}
		if put {
			m.Value = []byte(v)
			r.Store.Set(record.Hash(m.Key), m.Key, m.Value)
		} else {
			r.Store.Unset(record.Hash(m.Key), m.Key)
		}
		messages = append(messages, m)
	}
	c.Digest, c.Live = r.Store.Prove()
	origin := record.Origin{Job: jobName, Birth: c.Birth, Number: c.Number}
	messages = append(messages, kafka.Message{Topic: outTopic, Headers: []kafka.Header{{Key: record.OriginHeader, Value: origin.Append(nil)}}},
		kafka.Message{Topic: logTopic, Key: record.CommitKey, Value: c.Append(nil)})
	ctx := context.Background()
	offsets, err := r.Writer.Send(ctx, messages)
	if err := errors.Join(err, r.Writer.Commit(ctx)); err != nil {
		w.t.Fatal(err)
	}
	r.Commit, r.Position = c, record.ChangelogPosition(offsets[len(offsets)-1]+1)
	w.SetGroupOffset(jobName, 0, kafka.GroupOffset{Next: c.Position, Metadata: record.Metadata(c.Birth, c.Number)})
}

func (w *world) checkpoint(r *recovery.Recovered) {
	w.t.Helper()
	dir, err := store.OpenDir(w.fs, "state/plant/p0")
	if err != nil {
		w.t.Fatal(err)
	}
	file, err := dir.Create(&store.Header{Begin: r.Position, BrokerTime: w.Now(), Fence: r.Fence, Commit: *r.Commit})
	if err != nil {
		w.t.Fatal(err)
	}
	for scan, done := r.Store.StartScan(), false; !done; {
		var piece []byte
		piece, done = scan.Next(nil)
		if err := file.WriteBlock(piece); err != nil {
			w.t.Fatal(err)
		}
	}
	if _, err := file.Publish(r.Position, store.Sum{Digest: r.Store.Digest(), Live: r.Store.Live()}, store.Sum{}); err != nil {
		w.t.Fatal(err)
	}
}

func entryKey(short string) []byte {
	return record.AppendStart(record.AppendField(record.EntryPrefix(nil, "hourly"), []byte(short)), 0)
}

// folded is the state by the changelog's committed records, and the last commit record.
func (w *world) folded() (state map[string]string, last *record.Commit) {
	w.t.Helper()
	state = map[string]string{}
	for _, r := range w.Committed(logTopic, 0) {
		switch {
		case bytes.Equal(r.Key, record.CommitKey):
			c, err := record.ParseCommit(r.Value)
			if last = c; err != nil {
				last = &record.Commit{Note: err.Error()} // as good as none, unless another one follows
			}
		case r.Key[0] != byte(record.KindEntry):
		case r.Value == nil:
			delete(state, string(r.Key))
		default:
			state[string(r.Key)] = string(r.Value)
		}
	}
	return state, last
}

// sane checks what the last commit record says of the fold, and its own equations.
func (w *world) sane() (state map[string]string, last *record.Commit) {
	w.t.Helper()
	state, last = w.folded()
	var digest record.Digest
	for key, value := range state {
		digest = digest.Add(record.EntryDigest([]byte(key+value), len(key)))
	}
	if last.Digest != digest || last.Live != record.Count(len(state)) {
		w.t.Fatalf("commit %d says %d entries with digest %v, the changelog folds to %d with %v", last.Number, last.Live, last.Digest, len(state), digest)
	}
	if err := last.Check(); err != nil {
		w.t.Fatal(err)
	}
	return state, last
}

// everything is all that the cluster holds, as text.
func (w *world) everything() string {
	var b strings.Builder
	for _, topic := range []string{inTopic, logTopic, outTopic} {
		for _, e := range w.Entries(topic, 0) {
			fmt.Fprintf(&b, "%s %d %d %x %x %d\n", topic, e.Offset, e.State, e.Key, e.Value, e.Timestamp)
		}
	}
	return b.String()
}

// do carries an order out, which must succeed.
func (w *world) do(o Order) *Change {
	w.t.Helper()
	change, err := Do(context.Background(), w.recovery(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return change
}

// refusedStart checks that a start refuses with these words.
func (w *world) refusedStart(words ...string) {
	w.t.Helper()
	r, err := w.recovery().Run(context.Background())
	if err == nil {
		w.end(r)
	}
	w.says(err, words...)
}

func (w *world) says(err error, words ...string) {
	w.t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			w.t.Fatalf("error %v, want %q", err, word)
		}
	}
}

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func keysOf(state map[string]string) []string { return slices.Sorted(maps.Keys(state)) }
