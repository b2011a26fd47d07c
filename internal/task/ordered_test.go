package task

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// joining is a Processor with one ordered aggregation of sessions: a record "key time" joins the sessions of key that lie
// less than gap away, a record "close - end" raises the closed end. Keyed, a record raises that of its key too, to some
// time before its own. An entry is its last time and how many readings it took, none for a clock.
type joining struct {
	keyed        bool
	ends, counts []int64
}

const (
	gap   = 5
	grace = 8 // of keys with clocks
)

func (p *joining) Aggregations() []Aggregation {
	return []Aggregation{{Name: "s", Ordered: true, Keyed: p.keyed}}
}

func (p *joining) Process(v *View, in *Input) error {
	counters, state := v.Counters(), v.Aggregation(0)
	counters.In++
	counters.Accepted++
	var key string
	var t int64
	if _, err := fmt.Sscan(string(in.Value), &key, &t); err != nil {
		return err
	}
	if key == "close" {
		v.RaiseClosedEnd(0, t)
		state.Late++
		return nil
	}
	head := record.AppendField(record.EntryPrefix(nil, "s"), []byte(key))
	closed, err := p.raise(v, head, t-grace)
	if err != nil {
		return err
	}
	if t <= closed {
		state.Late++
		return nil
	}
	state.Folded++
	before, after, err := v.Around(head, t)
	if err != nil {
		return err
	}
	start, end, count := t, t, int64(1)
	for _, near := range []Place{before, after} {
		if near.Aggregation == Removed || near.End <= closed || near.Start-t >= gap || t-near.End >= gap {
			continue
		}
		slot, _, err := v.Touch(record.AppendStart(slices.Clone(head), near.Start), near)
		if err != nil {
			return err
		}
		start, end, count = min(start, near.Start), max(end, near.End), count+p.counts[slot]
		if near.Start != start || near == after {
			v.Delete(slot)
		}
	}
	slot, _, err := v.Touch(record.AppendStart(head, start), Place{0, start, end})
	if err != nil {
		return err
	}
	p.ends[slot], p.counts[slot] = end, count
	v.Move(slot, end)
	return nil
}

// raise moves how far the sessions of a key are closed.
func (p *joining) raise(v *View, head []byte, to int64) (closed int64, err error) {
	if !p.keyed {
		return v.ClosedEnd(0), nil
	}
	closed, slot, before, err := v.RaiseKeyClosedEnd(0, head, to)
	if err != nil || slot < 0 {
		return closed, err
	}
	p.ends[slot] = closed
	return closed, v.CloseKey(0, head, before, closed)
}

func (p *joining) Load(slot Slot, _, value []byte) error {
	for len(p.ends) <= int(slot) {
		p.ends, p.counts = append(p.ends, 0), append(p.counts, 0)
	}
	p.ends[slot], p.counts[slot] = 0, 0
	if value != nil {
		p.ends[slot], p.counts[slot] = int64(binary.BigEndian.Uint64(value)), int64(binary.BigEndian.Uint64(value[8:]))
	}
	return nil
}

func (p *joining) Encode(slot Slot, dst []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(p.ends[slot])), uint64(p.counts[slot]))
}

func (p *joining) Close(v *View, slot Slot, key []byte, place Place) error {
	v.Emit(SinkResult, 0, key, fmt.Appendf(nil, "%d..%d %d", place.Start, place.End, p.counts[slot]), nil)
	return nil
}

func (p *joining) Place(key, value []byte) (Place, error) {
	return Place{0, record.Start(key), int64(binary.BigEndian.Uint64(value))}, nil
}

// session is one session of the model.
type session struct {
	key               string
	start, end, count int64
}

// journal is the model: all sessions in one list, and how far they are closed, all of them and those of each key.
type journal struct {
	sessions []session
	closed   int64
	clocks   map[string]int64 // nil: there are none
}

func (j journal) clone() journal {
	return journal{slices.Clone(j.sessions), j.closed, maps.Clone(j.clocks)}
}

// closedOf is how far the sessions of a key are closed.
func (j *journal) closedOf(key string) int64 {
	if own, ok := j.clocks[key]; ok {
		return max(j.closed, own)
	}
	return j.closed
}

func (j *journal) due(s session) bool { return s.end <= j.closedOf(s.key) }

// take adds a reading: everything of its key that is not due and less than gap away becomes one session.
func (j *journal) take(key string, t int64) {
	if j.clocks != nil {
		j.clocks[key] = max(j.closedOf(key), t-grace)
	}
	if t <= j.closedOf(key) {
		return
	}
	one := session{key, t, t, 1}
	j.sessions = slices.DeleteFunc(j.sessions, func(s session) bool {
		if s.key != key || j.due(s) || s.start-t >= gap || t-s.end >= gap {
			return false
		}
		one.start, one.end, one.count = min(one.start, s.start), max(one.end, s.end), one.count+s.count
		return true
	})
	j.sessions = append(j.sessions, one)
}

// emit takes out up to n due sessions in the order of emission.
func (j *journal) emit(n int) (texts []string) {
	hash := func(s session) uint64 { return record.Hash(entryKey("s", s.key, s.start)) }
	slices.SortFunc(j.sessions, func(a, b session) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start), cmp.Compare(hash(a), hash(b)))
	})
	j.sessions = slices.DeleteFunc(j.sessions, func(s session) bool {
		if !j.due(s) || len(texts) == n {
			return false
		}
		texts = append(texts, fmt.Sprintf("%s %d..%d %d", s.key, s.start, s.end, s.count))
		return true
	})
	return texts
}

// TestOrderedViewAgainstList runs random readings out of order through sessions, committing, merging, dropping and
// replaying at every point: which sessions there are, what is emitted and in which order must equal one flat list (W13,
// V7, V10).
func TestOrderedViewAgainstList(t *testing.T) { testSessions(t, false) }

// TestKeyedViewAgainstList does so with keys that have clocks of their own (R35). Of these none is left at the end that
// says nothing (I13).
func TestKeyedViewAgainstList(t *testing.T) { testSessions(t, true) }

func testSessions(t *testing.T, keyed bool) {
	seed := uint64(*seedFlag)
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay: go test ./internal/task -run %s -seed %d -runs %d", t.Name(), seed, *runsFlag)
	var seen struct{ emitted, drops, merged, rebuilt int }
	for run := range *runsFlag {
		m := newSessions(t, rand.New(rand.NewPCG(seed, uint64(run))), keyed)
		for range 300 {
			m.step()
		}
		m.end()
		seen.emitted, seen.drops, seen.merged, seen.rebuilt = seen.emitted+m.emitted, seen.drops+m.drops, seen.merged+m.merged, seen.rebuilt+m.rebuilt
	}
	if seen.emitted == 0 || seen.drops == 0 || seen.merged == 0 || seen.rebuilt == 0 {
		t.Fatalf("%+v: the test has not tested", seen)
	}
}

type sessions struct {
	t                               *testing.T
	rng                             *rand.Rand
	keyed                           bool
	task                            *Task
	base                            *mapBase
	committed, flight, open         journal
	now                             int64
	offset, atCommit, atFlight      int64
	emitted, drops, merged, rebuilt int
	written                         []Message // to the changelog
}

func newSessions(t *testing.T, rng *rand.Rand, keyed bool) *sessions {
	m := &sessions{t: t, rng: rng, keyed: keyed, base: newMapBase()}
	m.open.closed, m.committed.closed = record.NoTime, record.NoTime
	if keyed {
		m.open.clocks, m.committed.clocks = map[string]int64{}, map[string]int64{}
	}
	m.restart(birth())
	return m
}

func (m *sessions) restart(committed *record.Commit) {
	var err error
	m.task, err = New(m.base, &joining{keyed: m.keyed}, committed, Options{Job: "job", MaxRecords: 8 + m.rng.IntN(40), MaxBytes: 1 << 20})
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *sessions) step() {
	switch n := m.rng.IntN(20); {
	case n < 13:
		m.fold()
	case n < 15 && !m.task.InFlight() && m.task.Dirty():
		m.begin()
	case n < 18 && m.task.InFlight():
		m.finish()
	case n == 18 && m.rng.IntN(3) == 0:
		m.drop()
	case n == 19 && m.rng.IntN(3) == 0:
		m.rebuilt++
		if err := m.task.view.reorder(); err != nil {
			m.t.Fatal(err)
		}
	}
	m.look()
}

func (m *sessions) fold() {
	if m.task.Full() {
		return
	}
	m.now++
	key, at := fmt.Sprintf("k%d", m.rng.IntN(3)), m.now+int64(m.rng.IntN(60))
	if m.rng.IntN(8) == 0 {
		key = "close"
		m.open.closed = max(m.open.closed, at-20)
		at -= 20
	} else {
		before := len(m.open.sessions)
		m.open.take(key, at)
		if len(m.open.sessions) < before {
			m.merged++
		}
	}
	in := Input{Offset: m.offset, Epoch: -1, Value: fmt.Appendf(nil, "%s %d", key, at)}
	if n, err := m.task.Fold([]Input{in}); err != nil || n != 1 {
		m.t.Fatalf("fold: %d, %v", n, err)
	}
	m.offset++
}

func (m *sessions) begin() {
	batch, err := m.task.Begin()
	if err != nil {
		m.t.Fatal(err)
	}
	var got []string
	for _, msg := range batch.Messages {
		if msg.Sink == SinkResult {
			parsed, _ := record.ParseEntryKey(msg.Key)
			got = append(got, fmt.Sprintf("%s %s", parsed.Fields[0], msg.Value))
		}
	}
	want := m.open.emit(len(got))
	if !slices.Equal(got, want) {
		m.t.Fatalf("emitted\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if left := m.open.clone(); batch.Waiting == 0 && len(left.emit(1)) > 0 || batch.Closed < len(got) || !m.keyed && batch.Closed > len(got) {
		m.t.Fatalf("%v is due and not emitted, but nothing waits, %d closed", left.sessions, batch.Closed)
	}
	m.emitted += len(got)
	m.written = append(m.written, cloneChangelog(batch.Messages)...)
	m.flight, m.atFlight = m.open.clone(), m.offset
}

func (m *sessions) finish() {
	for m.task.Next() != EffectNone {
		if err := m.task.Did(m.task.Next()); err != nil {
			m.t.Fatal(err)
		}
	}
	m.committed, m.atCommit = m.flight, m.atFlight
}

// drop loses what is not committed: on the live base, by a replay of the commit in flight, or by a start from the base.
func (m *sessions) drop() {
	m.drops++
	switch {
	case m.rng.IntN(3) == 0:
		m.restart(m.task.Committed())
	case m.rng.IntN(3) == 0:
		m.foreign()
	case m.task.InFlight() && m.rng.IntN(2) == 0:
		replay := model{t: m.t, task: m.task, base: m.base}
		replay.replayFlight()
		m.committed, m.atCommit = m.flight, m.atFlight
	default:
		m.task.Drop()
	}
	m.open, m.offset = m.committed.clone(), m.atCommit
}

// foreign lets another owner go on from what is committed, and then this one, on its live base, from where that one has
// stopped. Of what it wrote a compaction may have left the last of each key only.
func (m *sessions) foreign() {
	other := &sessions{t: m.t, rng: m.rng, keyed: m.keyed, committed: m.committed.clone(), open: m.committed.clone(),
		base: &mapBase{entries: maps.Clone(m.base.entries), digest: m.base.digest}, now: m.now, offset: m.atCommit, atCommit: m.atCommit}
	other.restart(m.task.Committed())
	for range m.rng.IntN(60) {
		switch {
		case other.task.InFlight():
			other.finish()
		case other.task.Dirty() && m.rng.IntN(5) == 0:
			other.begin()
		default:
			other.fold()
		}
		other.look()
	}
	for other.task.InFlight() || other.task.Dirty() && len(other.written) == 0 {
		if !other.task.InFlight() {
			other.begin()
		}
		other.finish()
	}
	if m.rng.IntN(2) == 0 {
		last := map[string]int{}
		for i, u := range other.written {
			last[string(u.Key)] = i
		}
		i := -1
		other.written = slices.DeleteFunc(other.written, func(u Message) bool { i++; return last[string(u.Key)] != i })
	}
	m.task.Drop()
	if len(other.written) == 0 {
		return
	}
	replay(m.t, m.task, m.base, other.written)
	m.committed, m.atCommit, m.now = other.committed, other.atCommit, other.now
}

// end commits all there is, and looks whether the clocks that are left are those that say something.
func (m *sessions) end() {
	for m.task.InFlight() || m.task.Dirty() {
		if !m.task.InFlight() {
			m.begin()
		}
		m.finish()
	}
	clocks := 0
	m.base.All(func(_ uint64, key, value []byte) bool {
		parsed, _ := record.ParseEntryKey(key)
		if end := int64(binary.BigEndian.Uint64(value)); parsed.Start == ClockStart {
			clocks++
			if own := m.committed.clocks[parsed.Fields[0]]; end != own || own <= m.committed.closed {
				m.t.Fatalf("the clock of %s stands at %d, want %d, floor %d", parsed.Fields, end, own, m.committed.closed)
			}
		}
		return true
	})
	want := 0
	for _, own := range m.committed.clocks {
		if own > m.committed.closed {
			want++
		}
	}
	if clocks != want || m.task.view.starts.clocks != want {
		m.t.Fatalf("%d clocks, %d counted, want %d", clocks, m.task.view.starts.clocks, want)
	}
}

// look compares the open state, entry by entry through Around, and the end that comes next.
func (m *sessions) look() {
	next := record.NoTime
	byKey := map[string][]session{}
	for _, s := range m.open.sessions {
		byKey[s.key] = append(byKey[s.key], s)
		if !m.keyed && s.end > m.open.closed && (next == record.NoTime || s.end < next) {
			next = s.end
		}
	}
	if got := m.task.NextEnd(0); got != next && m.task.Waiting() == 0 {
		m.t.Fatalf("next end %d, want %d", got, next)
	}
	if got := m.task.view.starts.size; got != len(m.open.sessions) {
		m.t.Fatalf("%d starts for %d sessions", got, len(m.open.sessions))
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		list := byKey[key]
		slices.SortFunc(list, func(a, b session) int { return cmp.Compare(a.start, b.start) })
		at := m.rng.IntN(len(list))
		head := record.AppendField(record.EntryPrefix(nil, "s"), []byte(key))
		before, after, err := m.task.view.Around(head, list[at].start)
		if err != nil || before != (Place{0, list[at].start, list[at].end}) {
			m.t.Fatalf("around %d: before %+v, %v; want %+v", list[at].start, before, err, list[at])
		}
		want := Place{Aggregation: Removed}
		if at+1 < len(list) {
			want = Place{0, list[at+1].start, list[at+1].end}
		}
		if after != want {
			m.t.Fatalf("around %d: after %+v, want %+v", list[at].start, after, want)
		}
	}
}

// TestDroppedClockStandsForNothing: a clock that is born in a batch which is dropped takes with it what it stood for: a
// committed window of its key, filed anew meanwhile, must still be found when the floor reaches it (I10, R35).
func TestDroppedClockStandsForNothing(t *testing.T) {
	m := newSessions(t, rand.New(rand.NewPCG(1, 1)), true)
	fold := func(text string) {
		t.Helper()
		if n, err := m.task.Fold([]Input{{Offset: m.offset, Epoch: -1, Value: []byte(text)}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		m.offset++
	}
	commit := func() (results []string) {
		t.Helper()
		batch, err := m.task.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for _, msg := range batch.Messages {
			if msg.Sink == SinkResult {
				results = append(results, string(msg.Value))
			}
		}
		m.finish()
		return results
	}
	fold("k 10")
	commit()
	fold("close 2") // the floor reaches the clock of k, which goes
	commit()
	if n := m.task.Clocks(); n != 0 {
		t.Fatalf("%d clocks", n)
	}
	fold("k 16")
	if err := m.task.view.reorder(); err != nil {
		t.Fatal(err)
	}
	if n := m.task.Clocks(); n != 1 {
		t.Fatalf("%d clocks", n)
	}
	m.task.Drop()
	m.offset = 2
	fold("close 12")
	if got := commit(); !slices.Equal(got, []string{"10..10 1"}) {
		t.Errorf("emitted %v, want the window of k", got)
	}
}
