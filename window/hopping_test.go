package window

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// W17: a step that does not divide the size.
func TestW17Hopping(t *testing.T) {
	w := Hopping{Size: 10 * Second, Step: 3 * Second}
	for at, want := range map[int64][]int64{
		T0 + 9*Second:      {0, 3, 6, 9},
		T0 + 10*Second:     {3, 6, 9},
		T0 + 12*Second - 1: {3, 6, 9},
		T0 + 12*Second:     {3, 6, 9, 12},
		T0 + 13*Second:     {6, 9, 12},
		T0:                 {-9, -6, -3, 0},
		T0 + Second:        {-6, -3, 0},
		T0 + Second - 1:    {-9, -6, -3, 0},
	} {
		var got []int64
		for _, span := range w.Assign(nil, at) {
			if span.End != span.Start+w.Size || !span.Contains(at) {
				t.Errorf("%+v at %d", span, at)
			}
			got = append(got, (span.Start-T0)/Second)
		}
		if !slices.Equal(got, want) {
			t.Errorf("T0+%dms is in the windows at T0+%v s, want %v", at-T0, got, want)
		}
	}
}

// W11 and W17: the windows are those multiples of the step, plus the offset, that hold the time, and no others. The
// oracle is in big integers.
func TestHoppingProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Hopping{Size: rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(1, Longest)).Draw(t, "size")}
		w.Step = rapid.OneOf(rapid.Int64Range(max(1, w.Size/20), w.Size), rapid.Just(w.Size)).Draw(t, "step")
		w.Offset = rapid.Int64Range(0, w.Step-1).Draw(t, "offset")
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		at := rapid.OneOf(
			rapid.Int64(),
			rapid.Int64Range(-1e13, 1e13),
			rapid.Int64Range(-200, 200),
			rapid.Int64Range(math.MaxInt64-2*w.Size, math.MaxInt64),
			rapid.Int64Range(math.MinInt64, math.MinInt64+2*w.Size),
		).Draw(t, "t")

		var want []Span
		size, step, offset, when := big.NewInt(w.Size), big.NewInt(w.Step), big.NewInt(w.Offset), big.NewInt(at)
		// From the first multiple above t - size, one step after the other, up to t.
		n := new(big.Int).Sub(when, size)
		n.Sub(n, offset).Div(n, step).Add(n, big.NewInt(1))
		for start := n.Mul(n, step).Add(n, offset); start.Cmp(when) <= 0; start = new(big.Int).Add(start, step) {
			if end := new(big.Int).Add(start, size); start.IsInt64() && end.IsInt64() {
				want = append(want, Span{start.Int64(), end.Int64()})
			}
		}
		got := w.Assign(nil, at)
		if !slices.Equal(got, want) {
			t.Fatalf("%+v at %d: %v, want %v", w, at, got, want)
		}
		for _, span := range got {
			if same, ok := w.At(span.Start); !ok || same != span {
				t.Fatalf("%+v starts no window of %+v: %+v", span, w, same)
			}
			if _, ok := w.At(span.Start + 1); ok != (w.Step == 1 && span.End < math.MaxInt64) {
				t.Fatalf("a window of %+v at %d: %v", w, span.Start+1, ok)
			}
		}
		if w.Step == w.Size {
			same := Tumbling{Size: w.Size, Offset: w.Offset}
			if !slices.Equal(got, same.Assign(nil, at)) || w.String() != same.String() {
				t.Fatalf("%v differs from %v", w, same)
			}
		}
	})
}

// W18: what cannot move time, or would lose readings, is refused with the reason.
func TestHoppingCheck(t *testing.T) {
	for want, w := range map[string]Hopping{
		"size 0s": {}, "step 0s": {Size: 10}, "step -1ms": {Size: 10, Step: -1}, "size 1000000h1ms": {Size: Longest + 1, Step: 1},
		"step 2m: longer than the size, 1m":       {Size: Minute, Step: 2 * Minute},
		"the readings between two windows":        {Size: Minute, Step: Minute + 1},
		"step 30s: a time would lie in 2880 win":  {Size: Day, Step: 30 * Second},
		"a step of 41s667ms or more":              {Size: 60_000_000, Step: 1},
		"offset 3s: want 0s or more and less tha": {Size: 10 * Second, Step: 3 * Second, Offset: 3 * Second},
		"offset -1ms": {Size: 10 * Second, Step: 3 * Second, Offset: -1},
	} {
		if err := w.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", w, err, want)
		}
	}
	for _, w := range []Hopping{{Size: Day, Step: Minute}, {Size: 1, Step: 1}, {Size: Longest, Step: Longest, Offset: Longest - 1}} {
		if err := w.Check(); err != nil {
			t.Error(err)
		}
	}
}
