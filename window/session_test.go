package window

import (
	"math"
	"testing"
)

func TestSession(t *testing.T) {
	w := Session{Gap: 30 * Second}
	if got := w.Assign(nil, T0); len(got) != 1 || got[0] != (Span{T0, T0}) {
		t.Errorf("%v", got)
	}
	if !w.Touches(30*Second-1) || w.Touches(30*Second) {
		t.Error("readings a gap apart are of two sessions, closer ones of one")
	}
	for _, moment := range []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - w.Gap + 1} {
		if got := w.Assign(nil, moment); len(got) != 0 {
			t.Errorf("%d: %v", moment, got)
		}
	}
	if _, ok := w.At(T0); ok {
		t.Error("a start tells where a session ends")
	}
	// W18
	for _, gap := range []int64{0, -1, Longest + 1} {
		if (Session{Gap: gap}).Check() == nil {
			t.Errorf("gap %d passes", gap)
		}
	}
}
