package tidemark

import (
	"path/filepath"
	"strconv"
	"testing"
)

// W31: a partition changes hands while its windows are open, five times in a row, and each owner then gives up everything:
// no part of an open window stays behind, each window is published once and whole, and every reading is in one. The same
// with owners that are killed, paused and wake up again, on Apache Kafka: TestTwoInstancesKilledAndPaused.
func TestW31FiveJoinsInARow(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(2_001)
	leave := func(o *Options) { o.Leave = true }
	was := w.start(filepath.Join(w.dir, "0"), leave)
	was.until("partition 0", recoveredOn(0))
	was.until("partition 1", recoveredOn(1))
	open := 0
	for n := range 5 {
		is := w.start(filepath.Join(w.dir, strconv.Itoa(n+1)), leave)
		given := was.until("the handover", func(e Event) bool { return e.Kind == EventClosed })
		is.until("what was handed over", recoveredOn(given.Partition))
		w.produce(2_001)
		is.until("a commit of the new owner", func(e Event) bool {
			if e.Kind != EventCommitted || e.Partition != given.Partition || e.Inputs == 0 {
				return false
			}
			open += int(e.Commit.Live)
			return true
		})
		if err := was.end(); err != nil {
			t.Fatal(err)
		}
		for p := range int32(2) {
			is.until("everything else", recoveredOn(p))
		}
		was = is
	}
	if err := was.end(); err != nil {
		t.Fatal(err)
	}
	if open == 0 {
		t.Error("no window was open at any handover: this proves nothing")
	}
	o := w.options()
	o.StateDir = filepath.Join(w.dir, "last")
	w.run(o)
	w.results()
	read := 0
	for p := range int32(2) {
		read += len(w.cluster.Committed("in", p))
	}
	if want := 6 * 2_001; read != want {
		t.Errorf("%d readings, want %d", read, want)
	}
}
