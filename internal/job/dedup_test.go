package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// remembered is how many readings a run has in its state for dedup.
func (r *run) remembered() (n int) {
	for key := range r.base.values {
		if name, _ := record.AggregationOf([]byte(key)); string(name) == MemoryName {
			n++
		}
	}
	return n
}

// C21: a reading that comes again is counted once, whatever happens in between: crashes, other values, other readings of
// its key. Another time, another device and another nanosecond are other readings.
func TestC21DedupByTime(t *testing.T) {
	for _, crash := range []bool{false, true} {
		c := minutes(0)
		c.Format.Unit = reading.RFC3339
		c.Dedup.Within = 10 * window.Minute
		r := newRun(t, c)
		for _, add := range []struct{ device, at, value string }{
			{"a", "00:00:01", "1"}, {"a", "00:00:01", "1"}, {"b", "00:00:01", "10"}, {"a", "00:00:02", "2"}, {"a", "00:00:01", "100"},
			{"a", "00:00:01.000000001", "4"}, {"b", "00:00:01", "10"}, {"a", "00:00:02", "2"}, {"a", "00:00:01.000000001", "4"},
		} {
			r.raw([]byte(add.device), fmt.Appendf(nil, `{"device":%q,"ts":"2024-01-01T%sZ","value":%s}`, add.device, add.at, add.value))
			if crash {
				r.drain().crash()
			}
		}
		r.drain()
		r.expectState("a +0 3 7", "b +0 1 10")
		if n := r.counters(); n.In != 9 || n.Accepted != 4 || n.Duplicates != 5 {
			t.Errorf("crashes %v: %+v", crash, n)
		}
		if r.remembered() != 4 {
			t.Errorf("%d readings are remembered", r.remembered())
		}
	}
}

// A reading is remembered for as long as asked, and not for ever: state holds those of that time only (I13), and one that
// comes later is not judged: it is late where windows are shut, and counts again where they are not.
func TestDedupForgets(t *testing.T) {
	c := minutes(30 * window.Minute)
	c.Dedup.Within = window.Minute
	r := newRun(t, c)
	for i := range 100 {
		r.add("a", int64(i)*10_000, "1")
		r.drain()
	}
	if n := r.remembered(); n < 6 || n > 8 {
		t.Errorf("%d readings are remembered of a minute of them", n)
	}
	r.add("a", 990_000, "1")
	r.add("a", 930_000, "1") // 60 s before the last one: for 58 s and one step known at least
	r.add("a", 10_000, "1")  // forgotten
	r.drain().crash()
	n, a := r.counters(), r.task.Committed().Aggregations[1]
	if n.Duplicates != 1 && n.Duplicates != 2 || n.Accepted+n.Duplicates != 103 {
		t.Errorf("%+v", n)
	}
	if a.Name != MemoryName || a.Late == 0 || a.Folded+a.Late != n.Accepted || int(a.Folded-a.Results) != r.remembered() {
		t.Errorf("%+v of %d, %d remembered", a, n.Accepted, r.remembered())
	}
}

// By a sequence number the times do not matter; one that is forgotten begins anew.
func TestDedupBySequence(t *testing.T) {
	c := minutes(window.Hour)
	c.Format.Sequence = &reading.Part{Path: "seq"}
	c.Dedup.Within = window.Minute
	r := newRun(t, c)
	add := func(at int64, seq string, value int) {
		r.feed(r.record("a", at, fmt.Sprintf(`%d,"seq":%s`, value, seq)))
		r.drain().crash()
	}
	add(1000, "1", 1)
	add(2000, "1", 10) // again
	add(3000, `"1"`, 100)
	add(4000, "2", 2)
	add(300_000, "3", 4)
	add(301_000, "1", 8) // forgotten long ago: a counter that wraps
	add(302_000, "1", 1000)
	r.expectState("a +0 2 3", "a +300 2 12")
	if n := r.counters(); n.Accepted != 4 || n.Duplicates != 3 {
		t.Errorf("%+v", n)
	}
	r.raw([]byte("a"), fmt.Appendf(nil, `{"device":"a","ts":%d,"value":1}`, t0))
	if r.drain(); len(r.dead) != 1 || r.dead[0].header(HeaderReason) != "missing_field" || r.dead[0].header(HeaderField) != "seq" {
		t.Errorf("without its sequence: %v", r.dead)
	}
}

// Dedup comes and goes as aggregations do: taken away, nothing of it stays; brought back, it begins with nothing.
func TestDedupComesAndGoes(t *testing.T) {
	c := minutes(0)
	c.Dedup.Within = window.Minute
	r := newRun(t, c)
	r.add("a", 1000, "1")
	r.drain()
	without := c
	without.Dedup.Within = 0
	r.config = without
	r.crash()
	r.add("a", 1000, "1")
	if r.drain(); r.remembered() != 0 {
		t.Errorf("%d readings are remembered without dedup", r.remembered())
	}
	r.config = c
	r.crash()
	r.add("a", 1000, "1")
	r.add("a", 1000, "1")
	r.drain()
	r.expectState("a +0 3 3")
}

// A key that leaves no room for what dedup adds to it is refused before anything is folded (R7).
func TestDedupLimits(t *testing.T) {
	c := minutes(0)
	c.Format.Sequence, c.Dedup.Within = &reading.Part{Path: "seq"}, window.Minute
	r := newRun(t, c)
	r.feed(r.record("a", 1000, `1,"seq":"`+strings.Repeat("s", record.MaxKeyBytes)+`"`))
	if r.drain(); len(r.dead) != 1 || r.dead[0].header(HeaderReason) != string(TooLarge) {
		t.Errorf("%v", r.dead)
	}
	for name, change := range map[string]func(*Config){
		"below zero":     func(c *Config) { c.Dedup.Within = -1 },
		"sequence alone": func(c *Config) { c.Dedup.Within = 0 },
		"between parts":  func(c *Config) { c.Part = Relayed },
		"the name":       func(c *Config) { c.Aggregations[0].Name = MemoryName },
	} {
		other := c
		other.Aggregations = append([]Aggregation{}, c.Aggregations...)
		if change(&other); other.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
