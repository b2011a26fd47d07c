package oracle

import (
	"math"
	"testing"
)

// Numbers computed by hand: 10, 12.5, 3 and 4 at 0, 10, 20 and 30 s rise by 2.5, 3 and 1; twice the areas are 225, 155
// and 70.
func TestTrail(t *testing.T) {
	w := &Window{Readings: []Folded{
		{Time: 0, Offset: 7, Values: []float64{10}},
		{Time: 20_000, Offset: 8, Values: []float64{3}},
		{Time: 10_000, Offset: 9, Values: []float64{12.5}},
		{Time: 30_000, Offset: 10, Values: []float64{4}},
	}}
	for name, want := range map[string]float64{"first": 10, "last": 4, "delta": 6.5, "rate": 6.5 / 30, "time_mean": 7.5} {
		if got, ok := w.Stats(0, 4).Function(name); !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"delta", "rate", "time_mean"} {
		if got, _ := w.Stats(0, 1).Function(name); !math.IsNaN(got) {
			t.Errorf("%s of one reading is %v", name, got)
		}
	}
	const want = "\x01\x03" + "\x03" + "\x00\x00\x07\x00" + "\x00\x00\x00\x00\x00\x00\x24\x40" +
		"\x90\x4e\x00\x04\x00" + "\x00\x00\x00\x00\x00\x00\x29\x40" + "\x90\x4e\x00\x01\x00" + "\x00\x00\x00\x00\x00\x00\x08\x40"
	if got := string(w.EntryValue(3, 1, []string{"rate"})); got != want {
		t.Errorf("entry %x, want %x", got, want)
	}
}

// One of which more than kept later ones are there already is a stray when it belongs between two of the others.
func TestStrays(t *testing.T) {
	var readings []Folded
	for i := range int64(kept + 3) {
		readings = append(readings, Folded{Time: 1000 * i, Offset: i}) // those at 0, 1000 and 2000 are summed up
	}
	for at, want := range map[int64]bool{-1: false, 1: true, 1500: true, 2001: false, 50_000: false} {
		if got := strays(readings, &Folded{Time: at, Offset: 99}); got != want {
			t.Errorf("a reading at %d strays: %v, want %v", at, got, want)
		}
	}
	if strays(readings[:kept], &Folded{Time: 1, Offset: 99}) {
		t.Error("one strays though all are kept")
	}
}
