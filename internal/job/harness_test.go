package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares text with testdata/<name>.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s\n got:\n%s\nwant:\n%s", path, got, want)
	}
}

// t0 is the T0 of the fault cases, 2024-01-01T00:00:00Z.
const t0 = 1704067200000

// roomy are limits that nothing small meets.
var roomy = Limits{Changelog: 1 << 20, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20}

// minutes is the default job of the fault cases: tumbling 60 s, the plain functions.
func minutes(grace int64) Config {
	format := reading.DefaultFormat()
	format.Key, format.Time, format.Values = []string{"device"}, "ts", []string{"value"}
	return Config{Input: "in", Format: format, Aggregations: []Aggregation{
		{Name: "minute", Window: window.Tumbling{Size: window.Minute}, Grace: grace, Functions: aggregate.Plain},
	}}
}

// entries is the plainest Base there can be.
type entries struct {
	values map[string][]byte
	digest record.Digest
	hashes map[uint64][]string // made by the first Find; keys that are gone stay in it
}

func (e *entries) Get(_ uint64, key []byte) ([]byte, bool) {
	v, ok := e.values[string(key)]
	return v, ok
}

func (e *entries) Find(hash uint64, fn func(key, value []byte) bool) {
	if e.hashes == nil {
		e.hashes = map[uint64][]string{}
		for key := range e.values {
			h := record.Hash([]byte(key))
			e.hashes[h] = append(e.hashes[h], key)
		}
	}
	for _, key := range e.hashes[hash] {
		if value, ok := e.values[key]; ok && !fn([]byte(key), value) {
			return
		}
	}
}

func (e *entries) Put(hash uint64, key, value []byte, diff record.Digest) {
	if _, old := e.values[string(key)]; !old && e.hashes != nil && !slices.Contains(e.hashes[hash], string(key)) {
		e.hashes[hash] = append(e.hashes[hash], string(key))
	}
	e.values[string(key)] = bytes.Clone(value)
	e.digest = e.digest.Add(diff)
}

func (e *entries) Delete(_ uint64, key []byte, diff record.Digest) {
	delete(e.values, string(key))
	e.digest = e.digest.Add(diff)
}

func (e *entries) Touch([]uint64) uint64 { return 0 }
func (e *entries) Live() record.Count    { return record.Count(len(e.values)) }
func (e *entries) Digest() record.Digest { return e.digest }

func (e *entries) All(fn func(hash uint64, key, value []byte) bool) {
	for k, v := range e.values {
		if !fn(record.Hash([]byte(k)), []byte(k), v) {
			return
		}
	}
}

// message is one record that a run has committed.
type message struct {
	key, value []byte
	headers    []task.Header
}

func (m *message) header(name string) string {
	for _, h := range m.headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// run drives a job through the real task, without brokers.
type run struct {
	t                   *testing.T
	config              Config
	partition           int32
	partitions          int32
	limits              Limits
	batch               int // most records of a commit
	base                *entries
	task                *task.Task
	next                int64 // offset of the next record
	largest             int   // records of a commit
	changelog           []message
	results, late, dead []message
}

func newRun(t *testing.T, config Config) *run {
	t.Helper()
	r := &run{t: t, config: config, partitions: 1, limits: roomy, batch: 1000, base: &entries{values: map[string][]byte{}}}
	r.start(&record.Commit{Birth: 7, Fence: 9, Epoch: -1, Anchor: record.Anchor{Offset: -1}, StreamTime: record.NoTime,
		SetterOffset: -1, MinRetention: 1})
	return r
}

// start makes the task anew from what is committed, as every recovery does.
func (r *run) start(committed *record.Commit) {
	r.t.Helper()
	j, err := New(r.config, r.partition, r.partitions, r.limits)
	if err != nil {
		r.t.Fatal(err)
	}
	r.task, err = task.New(r.base, j, committed, task.Options{Job: "test", MaxRecords: r.batch, MaxBytes: 1 << 20})
	if err != nil {
		r.t.Fatal(err)
	}
}

// crash loses everything that is not committed. The input position is that of the commit record.
func (r *run) crash() { r.start(r.task.Committed()) }

// feed folds records and commits whenever the task is full. Records below the task's position are dropped by it.
func (r *run) feed(in ...task.Input) {
	r.t.Helper()
	for len(in) > 0 {
		n, err := r.task.Fold(in)
		if err != nil {
			r.t.Fatal(err)
		}
		in = in[n:]
		if r.task.Full() {
			r.commit()
		}
	}
}

// commit commits once.
func (r *run) commit() {
	r.t.Helper()
	batch, err := r.task.Begin()
	if err != nil {
		r.t.Fatal(err)
	}
	r.largest = max(r.largest, len(batch.Messages))
	for _, m := range batch.Messages {
		kept := message{bytes.Clone(m.Key), bytes.Clone(m.Value), m.Headers}
		switch m.Sink {
		case task.SinkChangelog:
			r.changelog = append(r.changelog, kept)
		case task.SinkResult:
			r.results = append(r.results, kept)
		case task.SinkLate:
			r.late = append(r.late, kept)
		case task.SinkDead:
			r.dead = append(r.dead, kept)
		}
	}
	for r.task.Next() != task.EffectNone {
		if err := r.task.Did(r.task.Next()); err != nil {
			r.t.Fatal(err)
		}
	}
	r.checkEquations()
}

// drain commits until nothing is left.
func (r *run) drain() *run {
	r.t.Helper()
	for r.task.Dirty() {
		r.commit()
	}
	return r
}

// checkEquations holds the committed counters to I9.
func (r *run) checkEquations() {
	r.t.Helper()
	c := r.task.Committed()
	if n := c.Counters; n.In != n.Accepted+n.DeadLettered+n.Filtered+n.Skipped+n.Duplicates {
		r.t.Fatalf("I9: in is not the sum of the rest: %+v", n)
	}
	for _, a := range c.Aggregations {
		if c.Counters.Accepted-a.Since != a.Folded+a.PartlyLate+a.Late {
			r.t.Fatalf("I9: %d accepted, but %+v", c.Counters.Accepted, a)
		}
	}
}

// record makes the next input record of a device; the record timestamp is the event time, which is at ms after t0.
func (r *run) record(device string, at int64, value string) task.Input {
	in := task.Input{Offset: r.next, Epoch: 1, Timestamp: t0 + at, Key: []byte(device),
		Value: fmt.Appendf(nil, `{"device":%s,"ts":%d,"value":%s}`, appendString(nil, []byte(device)), t0+at, value)}
	r.next++
	return in
}

// add feeds one record as made by record.
func (r *run) add(device string, at int64, value string) { r.feed(r.record(device, at, value)) }

// raw feeds one record with any value; the record timestamp is that of an honest reading.
func (r *run) raw(key, value []byte) {
	r.feed(task.Input{Offset: r.next, Epoch: 1, Timestamp: t0 + 1000, Key: key, Value: value})
	r.next++
}

// line is a result or dump line, read by encoding/json.
type line struct {
	Agg            string
	Key            []string
	Start, End     int64
	Count          int64
	Sum, Min, Max  json.Number
	Mean           json.Number
	First, Last    json.Number
	Overflow       bool
	SumExact       string `json:"sum_exact"`
	Final, Merged  bool
	compactForTest string
}

func (r *run) parse(text []byte) line {
	r.t.Helper()
	l := line{compactForTest: string(text)}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
	return l
}

// String is "key +start count sum", times in s after t0.
func (l *line) String() string {
	return fmt.Sprintf("%s +%d %d %s", strings.Join(l.Key, "/"), (l.Start-t0)/1000, l.Count, l.Sum)
}

// summary lists lines, sorted.
func (r *run) summary(texts [][]byte) []string {
	r.t.Helper()
	var list []string
	for _, text := range texts {
		l := r.parse(text)
		list = append(list, l.String())
	}
	slices.Sort(list)
	return list
}

func (r *run) expectResults(want ...string) {
	r.t.Helper()
	var texts [][]byte
	for _, m := range r.results {
		texts = append(texts, m.value)
	}
	if got := r.summary(texts); !slices.Equal(got, want) {
		r.t.Errorf("results\n got %q\nwant %q", got, want)
	}
}

func (r *run) expectState(want ...string) {
	r.t.Helper()
	if got := r.summary(r.dump(false)); !slices.Equal(got, want) {
		r.t.Errorf("state\n got %q\nwant %q", got, want)
	}
}

// dump is the committed state as dump lines, in the order of Compare.
func (r *run) dump(exact bool) [][]byte {
	r.t.Helper()
	d, err := NewDumper(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	var keys [][]byte
	r.base.All(func(_ uint64, key, _ []byte) bool {
		keys = append(keys, bytes.Clone(key))
		return true
	})
	slices.SortFunc(keys, Compare)
	var lines [][]byte
	for _, key := range keys {
		text, err := d.Append(nil, key, r.base.values[string(key)], exact)
		if errors.Is(err, ErrNoWindow) {
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		lines = append(lines, text)
	}
	return lines
}

// expectDead compares the reasons of the dead letters.
func (r *run) expectDead(want ...string) {
	r.t.Helper()
	var got []string
	for i := range r.dead {
		got = append(got, r.dead[i].header(HeaderReason))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("dead letters\n got %q\nwant %q", got, want)
	}
}

func (r *run) counters() record.Counters { return r.task.Committed().Counters }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

type inputRecord = task.Input

// restartOn makes a task of a run's job and commit record over another base.
func restartOn(t *testing.T, r *run, base task.Base) *task.Task {
	t.Helper()
	j, err := New(r.config, r.partition, r.partitions, r.limits)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := task.New(base, j, r.task.Committed(), task.Options{Job: "test", MaxRecords: r.batch, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

// onlyKey is the changelog key of the only entry.
func (r *run) onlyKey() string {
	r.t.Helper()
	if len(r.base.values) != 1 {
		r.t.Fatalf("%d entries", len(r.base.values))
	}
	for key := range r.base.values {
		return key
	}
	return ""
}

// replace puts other bytes into an entry, as if they had been committed; the next start must be by crash.
func (r *run) replace(key string, value []byte) {
	sum := func(v []byte) record.Digest { return record.EntryDigest(append([]byte(key), v...), len(key)) }
	c := r.task.Committed()
	c.Digest = c.Digest.Sub(sum(r.base.values[key])).Add(sum(value))
	r.base.Put(0, []byte(key), value, sum(value).Sub(sum(r.base.values[key])))
}
