package window

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// T0 is the T0 of the fault cases, 2024-01-01T00:00:00Z.
const T0 = 1704067200000

func TestTumbling(t *testing.T) {
	hour := Tumbling{Size: Hour}
	for _, c := range []struct {
		w    Tumbling
		t    int64
		want Span
	}{
		{hour, T0, Span{T0, T0 + Hour}},
		{hour, T0 - 1, Span{T0 - Hour, T0}},
		{hour, T0 + Hour - 1, Span{T0, T0 + Hour}},
		{hour, 0, Span{0, Hour}},
		{hour, -1, Span{-Hour, 0}},
		{hour, -Hour, Span{-Hour, 0}},
		{hour, -Hour - 1, Span{-2 * Hour, -Hour}},
		{Tumbling{Size: Day, Offset: 5 * Hour}, T0, Span{T0 - 19*Hour, T0 + 5*Hour}}, // W12: the day at UTC-5
		{Tumbling{Size: Day, Offset: 5 * Hour}, T0 + 5*Hour, Span{T0 + 5*Hour, T0 + 29*Hour}},
		{Tumbling{Size: 7, Offset: 3}, 2, Span{-4, 3}},
		{Tumbling{Size: 1}, -5, Span{-5, -4}},
		{Tumbling{Size: 3, Offset: 2}, math.MinInt64 + 1, Span{math.MinInt64 + 1, math.MinInt64 + 4}},
	} {
		got := c.w.Assign(nil, c.t)
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v at %d: %v, want %v", c.w, c.t, got, c.want)
		}
	}
}

// W11: near the ends of int64 there is a right window or none, never a wrapped one. The oracle is in big integers.
func TestTumblingProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Tumbling{Size: rapid.Int64Range(1, Longest).Draw(t, "size")}
		w.Offset = rapid.Int64Range(0, w.Size-1).Draw(t, "offset")
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		at := rapid.OneOf(
			rapid.Int64(),
			rapid.Int64Range(-1e13, 1e13),
			rapid.Int64Range(math.MaxInt64-2*w.Size, math.MaxInt64),
			rapid.Int64Range(math.MinInt64, math.MinInt64+2*w.Size),
		).Draw(t, "t")

		// start = floor((t - offset) / size) * size + offset
		size, offset := big.NewInt(w.Size), big.NewInt(w.Offset)
		start := new(big.Int).Sub(big.NewInt(at), offset)
		start.Sub(start, new(big.Int).Mod(start, size)).Add(start, offset)
		end := new(big.Int).Add(start, size)

		kept := Span{1, 2}
		got := w.Assign([]Span{kept}, at)
		if got[0] != kept {
			t.Fatalf("Assign changed what was there to %v", got[0])
		}
		got = got[1:]
		if !start.IsInt64() || !end.IsInt64() {
			if len(got) != 0 {
				t.Fatalf("%+v at %d: %v, want none, for the window is [%v, %v)", w, at, got, start, end)
			}
			return
		}
		if want := (Span{start.Int64(), end.Int64()}); len(got) != 1 || got[0] != want || !got[0].Contains(at) {
			t.Fatalf("%+v at %d: %v, want %v", w, at, got, want)
		}
	})
}

func TestTumblingCheck(t *testing.T) {
	for _, w := range []Tumbling{
		{}, {Size: -1}, {Size: Longest + 1}, {Size: math.MaxInt64}, {Size: 10, Offset: 10}, {Size: 10, Offset: -1},
	} {
		if err := w.Check(); err == nil {
			t.Errorf("%+v is accepted", w)
		}
	}
	if err := (Tumbling{Size: Longest, Offset: Longest - 1}).Check(); err != nil {
		t.Error(err)
	}
}

// The texts are part of fingerprints: they never change.
func TestKindTexts(t *testing.T) {
	for want, kind := range map[string]Kind{
		"tumbling:3600000+300000":      Tumbling{Size: Hour, Offset: 5 * Minute},
		"tumbling:60000+1":             Hopping{Size: Minute, Step: Minute, Offset: 1},
		"hopping:60000/20000+7000":     Hopping{Size: Minute, Step: 20 * Second, Offset: 7 * Second},
		"calendar:day@Europe/Brussels": calendar(t, CalendarDay, "Europe/Brussels"),
		"calendar:month@UTC":           calendar(t, CalendarMonth, "UTC"),
		"session:30000":                Session{Gap: 30 * Second},
	} {
		if got := kind.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, c := range []struct {
		kind  Kind
		spans int
	}{
		{Tumbling{Size: Hour}, 1},
		{Hopping{Size: Hour, Step: 6 * Minute}, 10},
		{calendar(b, CalendarDay, "Europe/Brussels"), 1},
	} {
		b.Run(c.kind.String(), func(b *testing.B) {
			spans := make([]Span, 0, c.spans)
			b.ReportAllocs()
			for i := range b.N {
				spans = c.kind.Assign(spans[:0], T0+int64(i)*1000)
			}
			if len(spans) != c.spans {
				b.Fatalf("%d windows, want %d", len(spans), c.spans)
			}
		})
	}
}
