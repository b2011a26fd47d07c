package recovery

import (
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
	"github.com/tidemark-streams/tidemark/internal/store"
)

// world is a cluster with one job on it, and the oracle: a plain map that holds what was committed. The job's task is
// driven by the test itself, so that every record of the changelog is the test's.
type world struct {
	*kafkatest.Cluster
	t         testing.TB
	partition int32
	fs        *vfs.MemFS        // what a power failure keeps of it: CrashClone
	state     map[string]string // committed, by short key
	last      *record.Commit    // committed
	ids       uint64
	clock     time.Duration
	at        func(Step) error
}

const (
	inTopic  = "readings"
	logTopic = "job-changelog"
	outTopic = "hourly"
	job      = "job"
)

func newWorld(t testing.TB) *world {
	w := &world{Cluster: kafkatest.New("cluster-a"), t: t, partition: 1, fs: vfs.NewCrashableMem(), state: map[string]string{}}
	w.CreateTopic(inTopic, 2, nil)
	w.createChangelog()
	w.CreateTopic(outTopic, 2, nil)
	for i := range 50 {
		w.Append(inTopic, w.partition, kafka.Record{Key: fmt.Appendf(nil, "device-%d", i%5), Value: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	return w
}

func (w *world) createChangelog() {
	w.CreateTopic(logTopic, 2, map[string]string{
		"cleanup.policy": "compact", "delete.retention.ms": "7200000", "message.timestamp.type": "LogAppendTime"})
}

func (w *world) random() uint64 {
	w.ids++
	return w.ids * 0x9e3779b97f4a7c15
}

func (w *world) identity() record.Identity {
	a, _ := w.Admin()
	id, _, err := a.Cluster(context.Background())
	infos, err2 := a.Topics(context.Background(), inTopic, logTopic, outTopic)
	if err := errors.Join(err, err2); err != nil {
		w.t.Fatal(err)
	}
	return record.Identity{ClusterID: id, Input: infos[inTopic].Topic, Changelog: infos[logTopic].Topic, Outputs: []record.Topic{infos[outTopic].Topic}}
}

// recovery is a recovery of the job as a process that has just started would make it.
func (w *world) recovery() *Recovery {
	group := w.join()
	return &Recovery{
		Cluster: w.Cluster, Job: job, Partition: w.partition, Identity: w.identity(),
		Aggregations: []record.AggregationState{{Name: "a", Fingerprint: 7, ClosedEnd: record.NoTime}},
		RetentionMS:  7200000, Host: "test",
		Ask: func(ctx context.Context) (bool, error) { return group.Ask(ctx, w.partition) },
		GroupOffset: func(ctx context.Context) (kafka.GroupOffset, bool, error) {
			all, err := group.Offsets(ctx)
			offset, ok := all[w.partition]
			return offset, ok, err
		},
		Start:       func(context.Context) (record.InputPosition, error) { return 0, nil },
		Checkpoints: w.dir(),
		Random:      w.random,
		Now:         func() time.Duration { w.clock += time.Millisecond; return w.clock },
		At:          w.at,
	}
}

// join takes the one seat of the test's process.
func (w *world) join() kafka.Group {
	g, err := w.Group(kafka.GroupOptions{Group: job, Topic: inTopic, Instance: "host"})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// start recovers and checks the result against the oracle.
func (w *world) start() *Recovered {
	w.t.Helper()
	return w.started(w.recovery())
}

func (w *world) started(r *Recovery) *Recovered {
	w.t.Helper()
	got, err := r.Run(context.Background())
	if err != nil {
		w.t.Fatalf("recovery failed: %v", err)
	}
	w.wantState(got.Store)
	if w.last == nil {
		w.last = got.Commit
	}
	if got.Commit.Number != w.last.Number || got.Commit.Position != w.last.Position || got.Commit.Birth != w.last.Birth {
		w.t.Fatalf("recovered commit %d of %v at input %d, want %d of %v at %d", got.Commit.Number, got.Commit.Birth, got.Commit.Position,
			w.last.Number, w.last.Birth, w.last.Position)
	}
	return got
}

func (w *world) wantState(m *store.Memory) {
	w.t.Helper()
	got := map[string]string{}
	m.All(func(_ uint64, key, value []byte) bool {
		parsed, err := record.ParseEntryKey(key)
		if err != nil {
			w.t.Fatal(err)
		}
		got[parsed.Fields[0]] = string(value)
		return true
	})
	if !maps.Equal(got, w.state) {
		w.t.Fatalf("state is %v, want %v", got, w.state)
	}
}

func entryKey(short string) []byte {
	return record.AppendStart(record.AppendField(record.EntryPrefix(nil, "a"), []byte(short)), 0)
}

// apply changes a map as "k=v" (put) and "k" (tombstone) say.
func apply(state map[string]string, changes ...string) {
	for _, change := range changes {
		if k, v, put := strings.Cut(change, "="); put {
			state[k] = v
		} else {
			delete(state, k)
		}
	}
}

// digest is computed from the map alone.
func digest(state map[string]string) (d record.Digest) {
	for k, v := range state {
		key := entryKey(k)
		d = d.Add(record.EntryDigest(append(slices.Clone(key), v...), len(key)))
	}
	return d
}

// next is the commit record after the last one, for a state, consuming one input record.
func (w *world) next(after *Recovered, state map[string]string, records int) *record.Commit {
	c := w.last.Clone()
	c.Number++
	c.Fence = after.Fence.ID
	c.Records, c.Live, c.Digest = record.Count(records), record.Count(len(state)), digest(state)
	in := w.Committed(inTopic, w.partition)
	for _, r := range in {
		if r.Offset >= int64(c.Position) {
			c.Anchor.Offset, c.Epoch = r.Offset, r.Epoch
			c.Anchor.Hash, _ = record.AnchorHash(nil, r.Key, r.Value)
			c.Position = record.InputPosition(r.Offset + 1)
			break
		}
	}
	return c
}

// send sends the records of one commit, without its end, and returns its commit record and the offset of that.
func (w *world) send(r *Recovered, changes ...string) (*record.Commit, map[string]string, int64, error) {
	state := maps.Clone(w.state)
	apply(state, changes...)
	c := w.next(r, state, len(changes))
	var ms []kafka.Message
	for _, change := range changes {
		k, v, put := strings.Cut(change, "=")
		m := kafka.Message{Topic: logTopic, Partition: w.partition, Key: entryKey(k)}
		if put {
			m.Value = []byte(v)
		}
		ms = append(ms, m)
	}
	origin := record.Origin{Job: job, Birth: c.Birth, Partition: w.partition, Number: c.Number}
	ms = append(ms,
		kafka.Message{Topic: outTopic, Partition: w.partition, Key: []byte("r"), Value: []byte("{}"),
			Headers: []kafka.Header{{Key: record.OriginHeader, Value: origin.Append(nil)}}},
		kafka.Message{Topic: logTopic, Partition: w.partition, Key: record.CommitKey, Value: c.Append(nil)})
	offsets, err := r.Writer.Send(context.Background(), ms)
	if err != nil {
		return nil, nil, 0, err
	}
	return c, state, offsets[len(offsets)-1], nil
}

// commit commits changes as the task would: full values, tombstones, a result, the commit record, then the group's
// offset. It changes the oracle only when the commit is known to have succeeded.
func (w *world) commit(r *Recovered, changes ...string) {
	w.t.Helper()
	if err := w.tryCommit(r, changes...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tryCommit(r *Recovered, changes ...string) error {
	c, state, at, err := w.send(r, changes...)
	if err != nil {
		return err
	}
	if err := r.Writer.Commit(context.Background()); err != nil {
		return err
	}
	w.last, w.state = c, state
	r.Commit, r.Position = c, record.ChangelogPosition(at+1)
	w.merge(r.Store, changes...)
	return w.join().SetOffset(context.Background(), w.partition, c.Position, record.Metadata(c.Birth, c.Number))
}

// merge keeps the store of a running task at the committed state.
func (w *world) merge(m *store.Memory, changes ...string) {
	for _, change := range changes {
		k, v, put := strings.Cut(change, "=")
		key := entryKey(k)
		var old record.Digest
		was, existed := m.Get(record.Hash(key), key)
		if existed {
			old = record.EntryDigest(append(slices.Clone(key), was...), len(key))
		}
		switch {
		case put:
			m.Put(record.Hash(key), key, []byte(v), record.EntryDigest(append(slices.Clone(key), v...), len(key)).Sub(old))
		case existed:
			m.Delete(record.Hash(key), key, record.Digest{}.Sub(old))
		}
	}
}

// crash ends a process: nothing of it is left but what brokers and disk hold.
func (w *world) crash(r *Recovered) {
	r.Writer.Close()
	if err := r.Store.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// dir opens the task's checkpoint directory, as a process does at its start.
func (w *world) dir() *store.Dir {
	w.t.Helper()
	d, err := store.OpenDir(w.fs, store.Path(w.fs, "state", job, w.partition))
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// checkpoint writes what a running task holds, with a header that the test may change, and returns the file's path.
func (w *world) checkpoint(r *Recovered, changes ...func(*store.Header)) string {
	w.t.Helper()
	h := store.Header{Begin: r.Position, BrokerTime: w.Now(), Fence: r.Fence, Commit: *r.Commit}
	for _, change := range changes {
		change(&h)
	}
	return w.write(w.dir(), h, r.Store)
}

func (w *world) write(d *store.Dir, h store.Header, m *store.Memory) string {
	w.t.Helper()
	file, err := d.Create(&h)
	if err != nil {
		w.t.Fatal(err)
	}
	scan := m.StartScan()
	for slice, done := []byte(nil), false; !done; {
		slice, done = scan.Next(slice[:0])
		if err := file.WriteBlock(slice); err != nil {
			w.t.Fatal(err)
		}
	}
	published, err := file.Publish(h.Begin, store.Sum{Digest: m.Digest(), Live: m.Live()}, scan.Delta())
	if err != nil {
		w.t.Fatal(err)
	}
	return published.Path
}

// damage flips a byte of a file at a position, counted from its end if negative.
func (w *world) damage(path string, at int64) {
	w.t.Helper()
	f, err := w.fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		w.t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		w.t.Fatal(err)
	}
	if at < 0 {
		at += info.Size()
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		w.t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b, at); err != nil {
		w.t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// refused runs a recovery that must fail with the given class and with all the words in its text, and must not fence.
func (w *world) refused(r *Recovery, class kafka.Class, words ...string) error {
	w.t.Helper()
	fences := w.Calls(kafkatest.OpFence)
	err := w.failed(r, class, words...)
	if n := w.Calls(kafkatest.OpFence) - fences; n != 0 {
		w.t.Fatalf("fenced %d times before it refused with %v", n, err)
	}
	return err
}

func (w *world) failed(r *Recovery, class kafka.Class, words ...string) error {
	w.t.Helper()
	_, err := r.Run(context.Background())
	if err == nil {
		w.t.Fatalf("recovery succeeded, want class %v naming %q", class, words)
	}
	if got := kafka.ClassOf(err); got != class {
		w.t.Fatalf("class %v, want %v: %v", got, class, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.t.Fatalf("error does not name %q: %v", word, err)
		}
	}
	return err
}

// wantAside checks that exactly these checkpoints were set aside, each with a word of its reason.
func (w *world) wantAside(r Report, want ...string) {
	w.t.Helper()
	if len(r.Aside) != len(want)/2 {
		w.t.Fatalf("set aside: %+v, want %d", r.Aside, len(want)/2)
	}
	for i, a := range r.Aside {
		if a.Name != want[2*i] || !strings.Contains(a.Reason, want[2*i+1]) {
			w.t.Fatalf("set aside %q because %q, want %q because of %q", a.Name, a.Reason, want[2*i], want[2*i+1])
		}
	}
}
