package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/window"
)

func updates(c Config, current bool) Config {
	c.Aggregations[0].Updates, c.Aggregations[0].Current = true, current
	return c
}

// told lists results in the order in which they were written: "key start count final".
func (r *run) told() (list []string) {
	for _, m := range r.results {
		l := r.parse(m.value)
		list = append(list, fmt.Sprintf("%s +%d %d %v", l.Key[0], (l.Start-t0)/1000, l.Count, l.Final))
		if l.Merged {
			list[len(list)-1] += " merged"
		}
	}
	return list
}

// W16: with emit: updates each commit tells each window that it changed once, false, and the last record of each window is
// final, under all batch sizes.
func TestW16Updates(t *testing.T) {
	for _, batch := range []int{4, 30, 1500} {
		r := newRun(t, updates(minutes(0), false))
		r.batch = batch
		r.crash()
		for i := range int64(1000) {
			r.add("a", i*59, "1")
			if i%250 == 249 {
				r.drain()
			}
		}
		r.add("closer", 60_000, "0")
		r.drain()
		last, finals, seen := int64(0), 0, map[string]int{}
		for _, m := range r.results {
			l := r.parse(m.value)
			if l.Key[0] != "a" {
				continue
			}
			if l.Count < last {
				t.Errorf("batch %d: count %d after %d", batch, l.Count, last)
			}
			last = l.Count
			if l.Final {
				finals++
			}
			seen[m.header("tidemark")]++
		}
		if finals != 1 || last != 1000 {
			t.Errorf("batch %d: %d final results, the last one of %d readings", batch, finals, last)
		}
		for commit, n := range seen {
			if n > 1 {
				t.Errorf("batch %d: %d records of one window in commit %s", batch, n, commit)
			}
		}
		if len(seen) < 4 {
			t.Errorf("batch %d: only %d commits told something", batch, len(seen))
		}
	}
}

// A window born and closed within one commit is told once, as final; a commit that changes nothing of it tells nothing.
func TestUpdatesAreOfWhatHasChanged(t *testing.T) {
	r := newRun(t, updates(minutes(0), false))
	r.add("a", 1000, "1")
	r.add("b", 61_000, "1")
	r.drain()
	r.add("c", 62_000, "1")
	r.drain()
	want := []string{"a +0 1 true", "b +60 1 false", "c +60 1 false"}
	if got := r.told(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A commit holds no more than its limit, updates included (I13).
func TestUpdatesCountForTheLimit(t *testing.T) {
	const limit = 40
	r := newRun(t, updates(minutes(0), false))
	r.batch = limit
	r.crash()
	for i := range 500 {
		r.add(fmt.Sprint("d", i), int64(i*100), "1")
		if r.largest > limit+3 {
			t.Fatalf("a commit of %d records, limit %d", r.largest, limit)
		}
	}
	r.drain()
}

// A session whose update was published and that becomes a part of another one is taken back.
func TestUpdatesOfMergedSessions(t *testing.T) {
	r := newRun(t, updates(sessions(30_000, 60_000), false))
	for _, at := range []int64{0, 50, 25} {
		r.add("a", at*1000, "1")
		r.drain()
	}
	want := []string{"a +0 1 false", "a +50 1 false", "a +0 3 false", "a +50 0 false merged"}
	if got := r.told(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// One that nobody has heard of leaves silently.
	r = newRun(t, updates(sessions(30_000, 60_000), false))
	for _, at := range []int64{50, 25} {
		r.add("a", at*1000, "1")
	}
	if got := r.drain().told(); !slices.Equal(got, []string{"a +25 2 false"}) {
		t.Errorf("%q", got)
	}
}

// The last record of a key of a topic of current values stands for its newest window, with readings out of order, hopping
// windows, crashes at every point and both ways to emit.
func TestCurrentValue(t *testing.T) {
	for _, kind := range []window.Kind{window.Tumbling{Size: window.Minute}, window.Hopping{Size: window.Minute, Step: 7 * window.Second},
		window.Session{Gap: 5 * window.Second}} {
		for _, told := range []bool{false, true} {
			config := updates(minutes(30_000), true)
			config.Aggregations[0].Window, config.Aggregations[0].Updates = kind, told
			r := newRun(t, config)
			for i := range int64(120) {
				r.add(fmt.Sprint("d", i%5), i*1000-(i*7919)%25_000+25_000, "1")
				if i%3 == 0 {
					r.drain()
					r.checkCurrent(t, told)
				}
				if i%40 == 0 {
					r.crash()
				}
			}
			r.add("closer", 10_000_000, "1")
			r.drain()
			r.checkCurrent(t, told)
		}
	}
}

// checkCurrent compares the last record of each key with the newest window that there has been.
func (r *run) checkCurrent(t *testing.T, told bool) {
	t.Helper()
	current, newest := map[string]line{}, map[string]line{}
	for _, m := range r.results {
		l := r.parse(m.value)
		if c, ok := current[string(m.key)]; ok && c.Start > l.Start && !strings.HasPrefix(r.config.Aggregations[0].Window.String(), "session") {
			t.Fatalf("%s stood at %d and goes back to %d", m.key, c.Start, l.Start)
		}
		current[string(m.key)] = l
	}
	for _, text := range r.dump(false) {
		if l := r.parse(text); told && l.Start >= newest[l.Key[0]].Start {
			newest[l.Key[0]] = l
		}
	}
	for key, want := range newest {
		if got := current[key]; got.Start != want.Start || got.End != want.End || got.Count != want.Count {
			t.Fatalf("%v: %s stands at %+v, its newest window is %+v", r.config.Aggregations[0].Window, key, got, want)
		}
	}
}
