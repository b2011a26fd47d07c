package task

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
)

var (
	seedFlag = flag.Int64("seed", 0, "seed of the random tests; 0 draws one")
	runsFlag = flag.Int("runs", 300, "runs of the random tests")
)

// counting is a Processor whose entries count readings: a record "key end" adds one to the entry of key in the window
// that ends there, unless that window is due; a record "close agg end" raises a closed end.
type counting struct {
	counts []uint64
}

var aggregations = []string{"a", "b"}

func entryKey(aggregation, field string, start int64) []byte {
	return record.AppendStart(record.AppendField(record.EntryPrefix(nil, aggregation), []byte(field)), start)
}

func (c *counting) Aggregations() []Aggregation {
	return []Aggregation{{Name: "a", Fingerprint: 1}, {Name: "b", Fingerprint: 2}}
}

func (c *counting) Process(v *View, in *Input) error {
	counters := v.Counters()
	counters.In++
	counters.Accepted++
	var agg, end int64
	var field string
	if _, err := fmt.Sscan(string(in.Value), &agg, &end, &field); err != nil {
		return err
	}
	if field == "close" {
		v.RaiseClosedEnd(int(agg), end)
		for i := range aggregations {
			v.Aggregation(i).Late++
		}
		return nil
	}
	for i := range aggregations {
		state := v.Aggregation(i)
		if i != int(agg) || end <= v.ClosedEnd(i) {
			state.Late++
			continue
		}
		slot, _, err := v.Touch(entryKey(aggregations[i], field, end-10), Place{i, end - 10, end})
		if err != nil {
			return err
		}
		c.counts[slot]++
		state.Folded++
	}
	return nil
}

func (c *counting) Load(slot Slot, _, value []byte) error {
	for len(c.counts) <= int(slot) {
		c.counts = append(c.counts, 0)
	}
	c.counts[slot] = 0
	if value != nil {
		c.counts[slot] = binary.BigEndian.Uint64(value)
	}
	return nil
}

func (c *counting) Encode(slot Slot, dst []byte) []byte {
	return binary.BigEndian.AppendUint64(dst, c.counts[slot])
}

func (c *counting) Close(v *View, slot Slot, key []byte, place Place) error {
	v.Emit(SinkResult, place.Aggregation, key, fmt.Appendf(nil, "%d", c.counts[slot]), nil)
	return nil
}

func (c *counting) Place(key, _ []byte) (Place, error) {
	parsed, err := record.ParseEntryKey(key)
	if err != nil {
		return Place{}, err
	}
	at := slices.Index(aggregations, parsed.Aggregation)
	return Place{at, parsed.Start, parsed.Start + 10}, nil
}

// mapBase is the plainest Base there can be.
type mapBase struct {
	entries map[string][]byte
	digest  record.Digest
}

func newMapBase() *mapBase { return &mapBase{entries: map[string][]byte{}} }

func (b *mapBase) Get(_ uint64, key []byte) ([]byte, bool) {
	v, ok := b.entries[string(key)]
	return v, ok
}

func (b *mapBase) Find(hash uint64, fn func(key, value []byte) bool) {
	b.All(func(h uint64, key, value []byte) bool { return h != hash || fn(key, value) })
}

func (b *mapBase) Put(_ uint64, key, value []byte, diff record.Digest) {
	b.entries[string(key)] = slices.Clone(value)
	b.digest = b.digest.Add(diff)
}

func (b *mapBase) Delete(_ uint64, key []byte, diff record.Digest) {
	if _, ok := b.entries[string(key)]; !ok {
		panic("deleted an entry that is not there")
	}
	delete(b.entries, string(key))
	b.digest = b.digest.Add(diff)
}

func (b *mapBase) Touch([]uint64) uint64 { return 0 }
func (b *mapBase) Live() record.Count    { return record.Count(len(b.entries)) }
func (b *mapBase) Digest() record.Digest { return b.digest }

func (b *mapBase) All(fn func(hash uint64, key, value []byte) bool) {
	for k, v := range b.entries {
		if !fn(record.Hash([]byte(k)), []byte(k), v) {
			return
		}
	}
}

// flat is the model: the whole state as one map, copied at every step.
type flat struct {
	counts map[string]uint64 // by changelog key
	closed [2]int64
}

func (f flat) clone() flat {
	c := flat{counts: map[string]uint64{}, closed: f.closed}
	for k, v := range f.counts {
		c.counts[k] = v
	}
	return c
}

// due lists the keys that are due, in the order of emission.
func (f flat) due() []string {
	type item struct {
		key  string
		end  int64
		agg  int
		hash uint64
	}
	var items []item
	for k := range f.counts {
		parsed, _ := record.ParseEntryKey([]byte(k))
		agg := slices.Index(aggregations, parsed.Aggregation)
		if end := parsed.Start + 10; end <= f.closed[agg] {
			items = append(items, item{k, end, agg, record.Hash([]byte(k))})
		}
	}
	sort.Slice(items, func(i, j int) bool {
		a, b := items[i], items[j]
		if a.end != b.end {
			return a.end < b.end
		}
		if a.agg != b.agg {
			return a.agg < b.agg
		}
		if a.hash != b.hash {
			return a.hash < b.hash
		}
		return a.key < b.key
	})
	keys := make([]string, len(items))
	for i := range items {
		keys[i] = items[i].key
	}
	return keys
}

func birth() *record.Commit {
	return &record.Commit{Birth: 7, Fence: 9, Epoch: -1, Anchor: record.Anchor{Offset: -1}, StreamTime: record.NoTime,
		SetterOffset: -1, MinRetention: 1}
}

// TestViewAgainstFlatMap runs random operations on a task and on one flat map, committing, merging and dropping at every
// point (section 4, V10). What is emitted, in which order, what the base holds and what the digest says must be equal.
func TestViewAgainstFlatMap(t *testing.T) {
	seed := uint64(*seedFlag)
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay: go test ./internal/task -run %s -seed %d -runs %d", t.Name(), seed, *runsFlag)
	emitted, drops := 0, 0
	for run := range *runsFlag {
		m := newModel(t, rand.New(rand.NewPCG(seed, uint64(run))))
		for range 200 {
			m.step()
		}
		emitted, drops = emitted+m.emitted, drops+m.drops
	}
	if emitted == 0 || drops == 0 {
		t.Fatalf("%d windows emitted and %d drops: the test has not tested", emitted, drops)
	}
}

type model struct {
	t                       *testing.T
	rng                     *rand.Rand
	task                    *Task
	base                    *mapBase
	committed, flight, open flat
	offset                  int64
	atCommit, atFlight      int64 // input position of the committed state and of the commit in flight
	emitted, drops          int
}

func newModel(t *testing.T, rng *rand.Rand) *model {
	m := &model{t: t, rng: rng, base: newMapBase()}
	m.open = flat{counts: map[string]uint64{}, closed: [2]int64{record.NoTime, record.NoTime}}
	m.committed = m.open.clone()
	var err error
	m.task, err = New(m.base, &counting{}, birth(), Options{Job: "job", MaxRecords: 8 + rng.IntN(40), MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *model) step() {
	switch n := m.rng.IntN(10); {
	case n < 6:
		m.fold()
	case n < 7 && !m.task.InFlight() && m.task.Dirty():
		m.begin()
	case n < 9 && m.task.InFlight():
		m.finish()
	case n == 9 && m.rng.IntN(4) == 0:
		m.drop()
	}
}

func (m *model) fold() {
	if m.task.Full() {
		return
	}
	agg, end := m.rng.IntN(2), int64(10*m.rng.IntN(8))
	field := fmt.Sprintf("k%d", m.rng.IntN(12))
	if m.rng.IntN(12) == 0 {
		field = "close"
		m.open.closed[agg] = max(m.open.closed[agg], end)
	} else if end > m.open.closed[agg] {
		m.open.counts[string(entryKey(aggregations[agg], field, end-10))]++
	}
	in := Input{Offset: m.offset, Epoch: -1, Value: fmt.Appendf(nil, "%d %d %s", agg, end, field)}
	if n, err := m.task.Fold([]Input{in}); err != nil || n != 1 {
		m.t.Fatalf("fold: %d, %v", n, err)
	}
	m.offset++
}

func (m *model) begin() {
	want := m.open.due()
	batch, err := m.task.Begin()
	if err != nil {
		m.t.Fatal(err)
	}
	if len(want)-batch.Closed != batch.Waiting {
		m.t.Fatalf("closed %d of %d due windows, but %d wait", batch.Closed, len(want), batch.Waiting)
	}
	want = want[:batch.Closed]
	var results []string
	for _, msg := range batch.Messages {
		if msg.Sink == SinkResult {
			results = append(results, fmt.Sprintf("%x=%s", msg.Key, msg.Value))
		}
	}
	var expected []string
	for _, key := range want {
		expected = append(expected, fmt.Sprintf("%x=%d", key, m.open.counts[key]))
		delete(m.open.counts, key)
	}
	if got, wanted := strings.Join(results, " "), strings.Join(expected, " "); got != wanted {
		m.t.Fatalf("emitted %s\nwant    %s", got, wanted)
	}
	if len(batch.Messages) > m.task.options.MaxRecords+2 {
		m.t.Fatalf("commit of %d records, limit %d", len(batch.Messages), m.task.options.MaxRecords)
	}
	m.emitted += len(results)
	m.flight, m.atFlight = m.open.clone(), m.offset
}

func (m *model) finish() {
	for m.task.Next() != EffectNone {
		if err := m.task.Did(m.task.Next()); err != nil {
			m.t.Fatal(err)
		}
	}
	m.committed, m.atCommit = m.flight, m.atFlight
	m.compare()
}

// drop forgets everything since the last commit. An unknown commit may have happened: then recovery replays its updates
// onto the base.
func (m *model) drop() {
	m.drops++
	if m.task.InFlight() && m.rng.IntN(2) == 0 {
		m.replayFlight()
	} else {
		m.task.Drop()
	}
	m.open, m.offset = m.committed.clone(), m.atCommit
	m.compare()
}

func (m *model) replayFlight() {
	messages := cloneChangelog(m.task.batch.Messages)
	m.task.Drop()
	replay(m.t, m.task, m.base, messages)
	m.committed, m.atCommit = m.flight, m.atFlight
}

// cloneChangelog copies the messages of a commit that go to the changelog.
func cloneChangelog(messages []Message) (list []Message) {
	for _, m := range messages {
		if m.Sink == SinkChangelog {
			list = append(list, Message{Key: slices.Clone(m.Key), Value: slices.Clone(m.Value)})
		}
	}
	return list
}

// replay brings a live base, whose task has dropped its overlays, to where whole commits lead, as a recovery does (R25).
func replay(t *testing.T, task *Task, base *mapBase, changelog []Message) {
	var last *record.Commit
	for _, u := range changelog {
		if kind, _ := record.KindOf(u.Key); kind == record.KindCommit {
			last, _ = record.ParseCommit(u.Value)
			continue
		}
		hash := record.Hash(u.Key)
		var diff record.Digest
		old, existed := base.Get(hash, u.Key)
		if existed {
			diff = diff.Sub(record.EntryDigest(slices.Concat(u.Key, old), len(u.Key)))
		}
		if u.Value != nil {
			base.Put(hash, u.Key, u.Value, diff.Add(record.EntryDigest(slices.Concat(u.Key, u.Value), len(u.Key))))
		} else if existed {
			base.Delete(hash, u.Key, diff)
		}
		if err := task.Replayed(hash, u.Key, old, u.Value); err != nil {
			t.Fatal(err)
		}
	}
	if err := task.Resume(last); err != nil {
		t.Fatal(err)
	}
}

func (m *model) compare() {
	var sum record.Digest
	for key, count := range m.committed.counts {
		value, ok := m.base.entries[key]
		if !ok || binary.BigEndian.Uint64(value) != count {
			m.t.Fatalf("base has %x for %s, want %d", value, describe([]byte(key)), count)
		}
		sum = sum.Add(record.EntryDigest(slices.Concat([]byte(key), value), len(key)))
	}
	c := m.task.Committed()
	if len(m.base.entries) != len(m.committed.counts) || int(c.Live) != len(m.committed.counts) {
		m.t.Fatalf("base %d, commit record %d, want %d entries", len(m.base.entries), c.Live, len(m.committed.counts))
	}
	if c.Digest != sum {
		m.t.Fatalf("digest %s in the commit record, %s computed", c.Digest, sum)
	}
	for i := range aggregations {
		if c.Aggregations[i].ClosedEnd != m.committed.closed[i] {
			m.t.Fatalf("closed end %d, want %d", c.Aggregations[i].ClosedEnd, m.committed.closed[i])
		}
	}
	if int64(c.Position) != m.atCommit {
		m.t.Fatalf("position %d, want %d", c.Position, m.atCommit)
	}
}
