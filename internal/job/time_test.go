package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/reading"
)

// W01, third variant, R11: the record's timestamp is from the same bad clock, so no guard sees it. With a quorum of two
// one fast device moves nothing, whether it comes first or in between, and after crashes.
func TestW01QuorumOutvotesAFastClock(t *testing.T) {
	for name, crash := range map[string]bool{"at one go": false, "with crashes": true} {
		t.Run(name, func(t *testing.T) {
			config := minutes(10_000)
			config.Quorum, config.Format.MaxAhead = 2, reading.NoMaxAhead
			r := newRun(t, config)
			add := func(device string, at int64, value string) {
				r.add(device, at, value)
				if crash {
					r.drain().crash()
				}
			}
			add("evil", 86_400_000, "9")
			for _, device := range []string{"a", "b"} {
				add(device, 1000, "1")
			}
			for at := int64(61_000); at <= 601_000; at += 60_000 {
				add("a", at, "1")
				add("b", at, "1")
			}
			r.drain()
			if len(r.late) != 0 || len(r.results) != 18 || r.task.StreamTime() != t0+601_000 {
				t.Errorf("%d late, %d results, stream time t0+%d", len(r.late), len(r.results), r.task.StreamTime()-t0)
			}
			if c := r.task.Committed(); len(c.Quorum) != 2 || string(c.SetterKey) != "a" {
				t.Errorf("quorum %v, set by %q", c.Quorum, c.SetterKey)
			}
		})
	}
}

// R11: stream time is the quorum-th largest of the devices' own latest times, exactly, though few are kept. The model
// keeps them all.
func TestQuorumIsExact(t *testing.T) {
	for q := 2; q <= 5; q++ {
		config := minutes(1_000_000_000)
		config.Quorum = q
		r := newRun(t, config)
		latest, before := map[string]int64{}, record.NoTime
		for i := range int64(400) {
			device, at := fmt.Sprint("d", (i*i+i/7)%11), (i*7919)%600*1000+i*100
			r.add(device, at, "1")
			latest[device] = max(latest[device], t0+at)
			rank := func(t int64) (n int) {
				for _, l := range latest {
					if l >= t {
						n++
					}
				}
				return n
			}
			want := before
			for _, l := range latest {
				if l > want && rank(l) >= q {
					want = l
				}
			}
			if got := r.task.StreamTime(); got != want {
				t.Fatalf("quorum %d, reading %d: stream time %d, want %d", q, i, got, want)
			}
			before = want
			if i%50 == 0 {
				r.drain().crash()
			}
		}
	}
}

// A smaller quorum keeps the latest devices, and none is forgotten altogether; stream time does not go back.
func TestQuorumChanges(t *testing.T) {
	config := minutes(0)
	config.Quorum = 3
	r := newRun(t, config)
	for i, device := range []string{"a", "b", "c"} {
		r.add(device, int64(1000*(i+1)), "1")
	}
	r.drain()
	for _, step := range []struct {
		quorum int
		time   int64
	}{{2, 3000}, {1, 4000}, {3, 4000}} {
		r.config.Quorum = step.quorum
		r.crash()
		r.add("d", 4000, "1")
		r.drain()
		if got := r.task.StreamTime() - t0; got != step.time {
			t.Errorf("quorum %d: stream time t0+%d, want t0+%d", step.quorum, got, step.time)
		}
	}
	config.Quorum = record.MaxQuorum + 1
	if err := config.Check(); err == nil || !strings.Contains(err.Error(), "quorum of 65") {
		t.Errorf("%v", err)
	}
}

// W05: after silence a tick closes what is open, once; a reading behind it is late; a crash neither repeats nor forgets it,
// and no tick comes before the first reading or when nothing is open.
func TestW05TickClosesTheLastWindow(t *testing.T) {
	r := newRun(t, minutes(0))
	tick := func(want bool) {
		t.Helper()
		if got, err := r.task.Tick(30_000); err != nil || got != want {
			t.Fatalf("tick: %v, %v", got, err)
		}
	}
	tick(false)
	r.add("a", 1000, "5")
	r.add("a", 30_000, "7")
	r.drain().expectResults()
	tick(true) // t0+60s
	r.crash()  // not committed
	tick(true)
	if !r.task.Dirty() {
		t.Fatal("a tick is not committed")
	}
	r.drain().expectResults("a +0 2 12")
	if c := r.task.Committed(); c.StreamTime != t0+60_000 || c.SetterOffset != -1 || len(c.SetterKey) != 0 {
		t.Errorf("stream time t0+%d set by %q at %d", c.StreamTime-t0, c.SetterKey, c.SetterOffset)
	}
	r.crash()
	tick(false)
	r.add("a", 40_000, "1")
	r.drain().expectResults("a +0 2 12")
	if len(r.late) != 1 {
		t.Errorf("%d late", len(r.late))
	}
}

// A tick that closes nothing yet is committed too: the next ones count from it.
func TestTicksAddUp(t *testing.T) {
	r := newRun(t, sessions(30_000, 60_000))
	r.add("a", 0, "1")
	for n := 1; n <= 4; n++ {
		if got, err := r.task.Tick(25_000); err != nil || got != (n < 5) {
			t.Fatalf("tick %d: %v, %v", n, got, err)
		}
		r.drain().crash()
		if len(r.results) != n/4 {
			t.Errorf("%d results after %d ticks", len(r.results), n)
		}
	}
}
