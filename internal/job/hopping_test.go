package job

import (
	"fmt"
	"testing"

	"github.com/tidemark-streams/tidemark/window"
)

func hopping(size, step, offset, grace int64) Config {
	c := minutes(grace)
	c.Aggregations[0].Window = window.Hopping{Size: size, Step: step, Offset: offset}
	return c
}

// W17: with a step that does not divide the size each reading is in the windows that hold it, and in no other.
func TestW17HoppingWindows(t *testing.T) {
	r := newRun(t, hopping(10_000, 3_000, 0, 0))
	r.add("a", 9_000, "1")
	r.add("a", 10_000, "10")
	r.add("closer", 60_000, "0")
	r.drain().expectResults("a +0 1 1", "a +3 2 11", "a +6 2 11", "a +9 2 11")
	r.expectState("closer +51 1 0", "closer +54 1 0", "closer +57 1 0", "closer +60 1 0")
	if a := r.task.Committed().Aggregations[0]; a.Folded != 3 || a.PartlyLate+a.Late+a.Missed != 0 {
		t.Errorf("counters %+v", a)
	}
}

// R18: a reading that is late for some of its windows is counted as that, with the windows that miss it, and only one
// that is late for all goes to the late topic, with the first of them.
func TestHoppingPartlyLate(t *testing.T) {
	for name, restart := range map[string]bool{"at one go": false, "with crashes": true} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, hopping(60_000, 20_000, 1_000, 5_000))
			add := func(at int64, value string) {
				r.add("a", at, value)
				if restart {
					r.drain().crash()
				}
			}
			add(70_000, "1")   // windows at +21, +41, +61; due is what ends at +65 or before: the one at +1
			add(30_000, "10")  // -19 and +1 are due, +21 is not
			add(62_000, "100") // in all of its windows, for the one at +1 does not hold it
			add(20_000, "5")   // -39, -19 and +1, all due
			r.drain().expectState("a +21 3 111", "a +41 2 101", "a +61 2 101")
			a := r.task.Committed().Aggregations[0]
			if got := fmt.Sprint(a.Folded, a.PartlyLate, a.Late, a.Missed); got != "2 1 1 5" {
				t.Errorf("folded, partly late, late and missed: %s", got)
			}
			if len(r.late) != 1 || r.late[0].header(HeaderWindowStart) != itoa(t0-39_000) || r.late[0].header(HeaderLateness) != "44000" {
				t.Errorf("late %q", r.late)
			}
		})
	}
}

// The fingerprint tells windows apart, and a step of the size from none not at all.
func TestHoppingFingerprint(t *testing.T) {
	tumbling, same, other := minutes(0), hopping(60_000, 60_000, 0, 0), hopping(60_000, 20_000, 0, 0)
	if tumbling.Definition(0) != same.Definition(0) || tumbling.Definition(0) == other.Definition(0) {
		t.Errorf("%s\n%s\n%s", tumbling.Definition(0), same.Definition(0), other.Definition(0))
	}
}
