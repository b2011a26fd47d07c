package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// clocks is how many clocks of keys are in a run's state.
func (r *run) clocks() (n int) {
	for key := range r.base.values {
		if record.Start([]byte(key)) == task.ClockStart {
			n++
		}
	}
	return n
}

// own is a job in which each key has a stream time of its own.
func own(grace, maxLag int64) Config {
	c := minutes(grace)
	c.MaxLag = maxLag
	return c
}

// R35 b: a gateway without uplink for six hours sends its buffer. By the partition's time all of it is late; by the
// device's own time every window of it is whole, and closes when the device itself is past it, whatever the batches, and
// crashes after every record.
func TestR35GatewayThatBuffers(t *testing.T) {
	const hours = 6 * window.Hour
	for _, crash := range []bool{false, true} {
		for maxLag, want := range map[int64][]string{0: {}, hours + window.Hour: {"slow +0 2 2", "slow +120 2 2", "slow +60 2 2"}} {
			r := newRun(t, own(0, maxLag))
			add := func(device string, at int64) {
				r.add(device, at, "1")
				if crash {
					r.drain().crash()
				}
			}
			add("fast", hours)
			for at := int64(0); at < 200_000; at += 30_000 {
				add("slow", at)
			}
			r.drain().expectResults(want...)
			if late := len(r.late); maxLag > 0 && late != 0 || maxLag == 0 && late != 7 {
				t.Errorf("max lag %d: %d late", maxLag, late)
			}
		}
	}
}

// A key's late readings are told by its own time: the closed end of its windows, the stream time that made it, the grace
// between the two.
func TestLateByTheKeysOwnTime(t *testing.T) {
	r := newRun(t, own(10_000, window.Hour))
	r.add("fast", 1_800_000, "1")
	r.add("slow", 85_000, "1")
	r.add("slow", 59_999, "1") // its window closed at 70 s of its own time
	r.add("none", 59_999, "1")
	r.drain()
	if len(r.late) != 1 {
		t.Fatalf("%d late", len(r.late))
	}
	l := &r.late[0]
	if got := l.header(HeaderStreamTime) + " " + l.header(HeaderLateness) + " " + l.header(HeaderWindowEnd); got != itoa(t0+85_000)+" 15000 "+itoa(t0+60_000) {
		t.Errorf("%s", got)
	}
	r.add("last", 3_700_000, "1")
	r.add("none", 10_000, "1") // closed by the floor: an hour behind, and the grace
	r.drain()
	l = &r.late[1]
	if got := l.header(HeaderStreamTime) + " " + l.header(HeaderLateness); got != itoa(t0+100_000)+" 30000" {
		t.Errorf("%s", got)
	}
}

// R35 a, I13: windows of devices that have fallen silent are closed when the partition is max lag past them, or by ticks;
// then nothing is left of a device that never comes again, of whatever windows, nor of its clock, nor in memory.
func TestSilentKeysLeaveNothing(t *testing.T) {
	for name, kind := range map[string]window.Kind{"tumbling": window.Tumbling{Size: window.Minute},
		"hopping": window.Hopping{Size: window.Minute, Step: 7000}, "sessions": window.Session{Gap: window.Minute}} {
		t.Run(name, func(t *testing.T) {
			c := own(0, window.Hour)
			c.Aggregations[0].Window = kind
			r := newRun(t, c)
			r.batch = 50
			r.crash()
			for i := range 1000 {
				r.add(fmt.Sprintf("once%d", i), int64(i), "1")
			}
			if r.drain(); len(r.results) != 0 || r.clocks() != 1000 || r.task.Clocks() != 1000 || r.task.Open() != len(r.base.values)-1000 {
				t.Fatalf("%d results, %d clocks", len(r.results), r.clocks())
			}
			r.crash()
			windows, ticks := len(r.base.values)-1000, 0
			for ; ; ticks++ {
				ticked, err := r.task.Tick(600_000)
				if err != nil {
					t.Fatal(err)
				}
				if !ticked {
					break
				}
				r.drain()
			}
			if ticks != 7 || len(r.results) != windows || len(r.base.values) != 0 || r.task.Open() != 0 || r.task.Clocks() != 0 {
				t.Errorf("%d ticks, %d results of %d windows, %d entries left, %d open", ticks, len(r.results), windows, len(r.base.values), r.task.Open())
			}
		})
	}
}

// After a wipe, a rebuild, every key is due or forgotten at the same readings as without.
func TestClocksAreRebuilt(t *testing.T) {
	feed := func(crash bool) *run {
		r := newRun(t, own(5_000, 20*window.Minute))
		for i := range int64(400) {
			device := fmt.Sprint("d", i%7)
			at := i*7919%397*1000 + i*10_000
			if i%7 == 3 {
				at = max(0, at-900_000)
			}
			r.add(device, at, "1")
			if i%11 == 0 {
				r.commit()
				if crash {
					r.crash()
				}
			}
		}
		return r.drain()
	}
	plain, crashed := feed(false), feed(true)
	a, b := plain.task.Committed(), crashed.task.Committed()
	if a.Digest != b.Digest || a.Live != b.Live || a.Aggregations[0] != b.Aggregations[0] || len(plain.late) == 0 {
		t.Errorf("%+v\n%+v", a, b)
	}
}

// A clock never runs ahead of the stream time that a quorum vouches for: a device that is alone with its time does not
// close its own windows with it, and has lost nothing when its clock is right again (W01).
func TestClocksWaitForTheQuorum(t *testing.T) {
	c := own(0, window.Hour)
	c.Quorum = 2
	r := newRun(t, c)
	for _, device := range []string{"a", "b", "c"} {
		r.add(device, 1000, "1")
	}
	r.add("a", 900_000, "9")
	for _, device := range []string{"b", "c", "a"} {
		r.add(device, 61_000, "1")
	}
	r.drain()
	r.expectResults("a +0 1 1", "b +0 1 1", "c +0 1 1")
	if len(r.late) != 0 || r.task.StreamTime() != t0+61_000 {
		t.Errorf("%d late, stream time t0+%d", len(r.late), r.task.StreamTime()-t0)
	}
}

// V6: a longer grace opens nothing again, per key too, and one that is shorter closes at the key's next reading. A longer
// or shorter lag may be asked for at any time; whether keys have times of their own is decided once for an aggregation.
func TestClocksAndGrace(t *testing.T) {
	r := newRun(t, own(0, window.Hour))
	r.add("fast", 3_000_000, "1")
	r.add("slow", 130_000, "1")
	r.add("slow", 70_000, "1") // late
	r.drain()
	r.config.Aggregations[0].Grace = 600_000
	r.config.MaxLag = 2 * window.Hour
	r.crash()
	r.add("slow", 119_999, "1") // late all the same: closed before
	r.add("slow", 125_000, "1")
	r.drain()
	if len(r.late) != 2 || len(r.results) != 0 {
		t.Fatalf("%d late, %d results", len(r.late), len(r.results))
	}
	r.config.MaxLag = window.Minute
	r.crash()
	r.add("fast", 3_001_000, "1") // the floor follows at once
	r.drain().expectResults("slow +120 2 2")
	r.config.MaxLag = 0
	j, err := New(r.config, 0, 1, roomy)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := task.New(r.base, j, r.task.Committed(), task.Options{MaxRecords: 10, MaxBytes: 1000}); err == nil || !strings.Contains(err.Error(), "means something else") {
		t.Errorf("%v", err)
	}
	for _, lag := range []int64{-1, window.Longest + 1} {
		if c := own(0, lag); c.Check() == nil {
			t.Errorf("a lag of %d is accepted", lag)
		}
	}
}

// The results of one key come in the order of time, whatever other keys do; with mode current the last one stands.
func TestKeysCloseInOrder(t *testing.T) {
	c := own(120_000, window.Hour)
	c.Aggregations = append(c.Aggregations, c.Aggregations[0])
	c.Aggregations[1].Name, c.Aggregations[1].Updates, c.Aggregations[1].Current = "now", true, true
	r := newRun(t, c)
	r.batch = 8
	r.crash()
	for i := range int64(500) {
		r.add(fmt.Sprint("d", i%5), i*6007%200_000+i*2000*(i%5), "1")
		if i%17 == 0 {
			r.commit()
		}
	}
	r.drain()
	ends, finals := map[string]int64{}, 0
	for _, m := range r.results {
		l := r.parse(m.value)
		id := l.Agg + l.Key[0]
		if l.End < ends[id] || l.Final && l.Agg == "minute" && l.End == ends[id] {
			t.Fatalf("%s after the window that ends at %d", m.value, ends[id])
		}
		ends[id] = l.End
		if l.Final && l.Agg == "minute" {
			finals++
		}
	}
	if finals < 100 {
		t.Errorf("%d final results", finals)
	}
}

// A clock that cannot be read is damage, and says so; state dump shows none.
func TestClockEntries(t *testing.T) {
	r := newRun(t, own(0, window.Hour))
	r.add("a", 1000, "1")
	r.drain()
	d, err := NewDumper(r.config)
	if err != nil {
		t.Fatal(err)
	}
	for key := range r.base.values {
		if record.Start([]byte(key)) != task.ClockStart {
			continue
		}
		for _, value := range [][]byte{nil, {1}, {1, 0x80, 0}, {2, 1}, {1, 1, 1}} {
			if _, err := d.Append(nil, []byte(key), value, false); err == nil || errors.Is(err, ErrNoWindow) {
				t.Errorf("% x: %v", value, err)
			}
		}
		if text, err := d.Append(nil, []byte(key), r.base.values[key], false); !errors.Is(err, ErrNoWindow) || len(text) > 0 {
			t.Errorf("%s, %v", text, err)
		}
	}
	if len(r.dump(false)) != 1 || len(r.base.values) != 2 {
		t.Errorf("%d lines of %d entries", len(r.dump(false)), len(r.base.values))
	}
}

// What a reset of the stream time asks: which clocks are ahead. After it the key begins at the bound again.
func TestClocksAhead(t *testing.T) {
	r := newRun(t, own(10_000, window.Hour))
	r.add("a", 100_000, "1")
	r.drain()
	j, err := New(r.config, 0, 1, roomy)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for key, value := range r.base.values {
		clock := record.Start([]byte(key)) == task.ClockStart
		for at, want := range map[int64]bool{99_999: clock, 100_000: false} {
			if got, err := j.Ahead([]byte(key), value, t0+at); err != nil || got != want {
				t.Errorf("clock %v at %d: %v, %v", clock, at, got, err)
			}
		}
		seen++
	}
	if ahead, err := j.Ahead(record.CommitKey, nil, 0); seen != 2 || ahead || err != nil {
		t.Errorf("%d entries; of a commit record %v, %v", seen, ahead, err)
	}
}
