package job

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/window"
)

func sessions(gap, grace int64) Config {
	c := minutes(grace)
	c.Aggregations[0].Window = window.Session{Gap: gap}
	c.Aggregations[0].Functions |= aggregate.First | aggregate.Last
	return c
}

// spans lists results as "key start..end count sum", in s after t0.
func (r *run) spans() (list []string) {
	for _, m := range r.results {
		l := r.parse(m.value)
		list = append(list, fmt.Sprintf("%s %d..%d %d %s", l.Key[0], (l.Start-t0)/1000, (l.End-t0)/1000, l.Count, l.Sum))
	}
	slices.Sort(list)
	return list
}

func (r *run) expectSpans(want ...string) {
	r.t.Helper()
	if got := r.spans(); !slices.Equal(got, want) {
		r.t.Errorf("results\n got %q\nwant %q", got, want)
	}
}

// W13: an out-of-order reading makes one session of two, whatever the batches, and a crash after any record.
func TestW13OutOfOrderReadingJoinsSessions(t *testing.T) {
	feed := []struct {
		at    int64
		value string
	}{{0, "1"}, {50, "2"}, {25, "4"}, {300, "0"}}
	for crashAfter := -1; crashAfter < len(feed); crashAfter++ {
		for _, single := range []bool{false, true} {
			r := newRun(t, sessions(30_000, 60_000))
			for i, reading := range feed {
				r.add("a", reading.at*1000, reading.value)
				if single || i == crashAfter {
					r.drain()
				}
				if i == crashAfter {
					r.crash()
				}
			}
			r.drain().expectSpans("a 0..50 3 7")
			if text := string(r.results[0].value); !contains(text, `"min":1,"max":4,`, `"first":1,"last":2,`) {
				t.Errorf("%s", text)
			}
			r.expectState("a +300 1 0")
			live := map[string]bool{}
			for _, m := range r.changelog {
				if kind, _ := record.KindOf(m.key); kind == record.KindEntry {
					live[string(m.key)] = m.value != nil
				}
			}
			for key, alive := range live {
				if start := (record.Start([]byte(key)) - t0) / 1000; alive != (start == 300) {
					t.Errorf("the changelog's last record of the session at %d: alive %v", start, alive)
				}
			}
			if single && len(live) != 3 {
				t.Errorf("%d sessions in the changelog, want those at 0, 50 and 300", len(live))
			}
		}
	}
}

// Readings exactly the gap apart are of two sessions, 1 ms less makes them one. A session is due when the gap and the
// grace have passed after its last reading.
func TestSessionGap(t *testing.T) {
	r := newRun(t, sessions(30_000, 10_000))
	r.add("apart", 0, "1")
	r.add("apart", 30_000, "1")
	r.add("close", 0, "1")
	r.add("close", 29_999, "1")
	r.add("x", 69_998, "1") // the sessions end at 29.999 and 30 s
	r.drain().expectSpans("apart 0..0 1 1")
	r.add("x", 69_999, "1")
	r.drain().expectSpans("apart 0..0 1 1", "close 0..29 2 2")
	r.add("x", 70_000, "1")
	r.drain().expectSpans("apart 0..0 1 1", "apart 30..30 1 1", "close 0..29 2 2")
}

// V7: a reading whose own session is due is late, even where it touches a session that is open: else it could bring a
// start back that has been published.
func TestSessionJudgesTheReadingAloneFirst(t *testing.T) {
	for name, restart := range map[string]bool{"at one go": false, "with crashes": true} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, sessions(30_000, 0))
			for _, at := range []int64{0, 10, 45, 20, 5, 0} {
				r.add("a", at*1000, "1")
				if restart {
					r.drain().crash()
				}
			}
			r.drain()
			r.expectSpans("a 0..10 2 2")
			r.expectState("a +20 2 2")
			if len(r.late) != 2 || r.late[0].header(HeaderWindowStart) != itoa(t0+5000) || r.late[0].header(HeaderWindowEnd) != itoa(t0+5000) ||
				r.late[0].header(HeaderLateness) != "10000" || r.late[0].header(HeaderStreamTime) != itoa(t0+45_000) {
				t.Errorf("late %v", r.late)
			}
			if a := r.task.Committed().Aggregations[0]; a.Folded != 4 || a.Late != 2 || a.Missed != 2 || a.Results != 1 {
				t.Errorf("counters %+v", a)
			}
		})
	}
}

// W28: a million devices with one session each would leave nothing behind: here 20,000, in rounds, with the local state
// lost before the close.
func TestW28OneShotSessions(t *testing.T) {
	const devices = 20_000
	r := newRun(t, sessions(30_000, 0))
	for round := range int64(3) {
		for i := range devices {
			r.add(fmt.Sprintf("d%d-%d", round, i), round*600_000+int64(i%60_000), "1")
		}
		r.drain().crash()
		r.add("closer", round*600_000+300_000, "0")
		r.drain()
		if got, want := len(r.results), int(round+1)*devices+int(round); got != want {
			t.Fatalf("round %d: %d results, want %d", round, got, want)
		}
		if live := r.task.Committed().Live; live != 1 {
			t.Fatalf("round %d: %d entries are left", round, live)
		}
	}
}

// counted is a Base that counts look-ups.
type counted struct {
	entries
	gets int
}

func (c *counted) Get(hash uint64, key []byte) ([]byte, bool) {
	c.gets++
	return c.entries.Get(hash, key)
}

// A reading looks at its neighbours only, however many sessions of its key are open (I13).
func TestSessionCostIsBounded(t *testing.T) {
	const open = 5000
	r := newRun(t, sessions(1000, 100_000_000))
	for i := range int64(open) {
		r.add("a", 2000*(i*37%open), "1")
	}
	r.drain()
	base := &counted{entries: *r.base}
	machine, in := restartOn(t, r, base), r.record("a", 4_001, "1")
	if n, err := machine.Fold([]inputRecord{in}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if base.gets > 4 {
		t.Errorf("%d look-ups for one reading with %d sessions open", base.gets, open)
	}
}

// The value of a session's entry begins with its length; a value without one is damage.
func TestSessionEntryRefuses(t *testing.T) {
	d, err := NewDumper(sessions(30_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	key := record.AppendStart(record.AppendField(record.EntryPrefix(nil, "minute"), []byte("a")), t0)
	one := make([]aggregate.Accumulator, 1)
	one[0].Reset(d.layout.tables[0].functions)
	one[0].Add(1, &aggregate.At{Time: t0})
	good := d.layout.tables[0].encode(nil, 7, one)
	text, err := d.Append(nil, key, good, false)
	if want := fmt.Sprintf(`"start":%d,"end":%d,"count":1`, int64(t0), int64(t0+7)); err != nil || !contains(string(text), want) {
		t.Errorf("%s, %v", text, err)
	}
	for name, value := range map[string][]byte{
		"nothing": {1}, "not the shortest": slices.Concat([]byte{1, 0x87, 0}, good[2:]), "negative": append([]byte{1}, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1),
	} {
		if text, err := d.Append(nil, key, value, false); err == nil || errors.Is(err, ErrNotConfigured) {
			t.Errorf("%s: %s", name, text)
		}
	}
}
