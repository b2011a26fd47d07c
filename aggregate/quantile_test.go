package aggregate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// percentile is the oracle: the number itself, by the definition.
func percentile(values []float64, p int) float64 {
	sorted := slices.SortedFunc(slices.Values(values), func(a, b float64) int {
		return cmp.Or(cmp.Compare(a, b), cmp.Compare(math.Copysign(1, a), math.Copysign(1, b)))
	})
	for i, v := range sorted {
		if 100*(i+1) >= p*len(sorted) {
			return v
		}
	}
	panic("no values")
}

// Of normal numbers each percentile is at most 1/256 of itself nearer to zero than the true one while there are few
// different ones, and never on its other side.
func TestQuantileEqualsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(doubles(), 1, 60).Draw(t, "values")
		a := foldValues(Quantiles, values...)
		for _, p := range []int{1, 50, 75, 90, 95, 99, 100} {
			want, got := percentile(values, p), a.Quantile(p)
			least := math.Abs(want) - math.Max(math.Abs(want)/256, 0x1p-1030)
			if math.Abs(got) > math.Abs(want) || math.Abs(got) < least || got*want < 0 {
				t.Fatalf("p%d of %v is %v, want %v", p, values, got, want)
			}
		}
	})
}

func TestQuantileNamedCases(t *testing.T) {
	for _, c := range []struct {
		values []float64
		p      int
		want   float64
	}{
		{[]float64{20.1}, 50, 20.1}, // no lower than the lowest
		{[]float64{-20.1}, 99, -20.1},
		{[]float64{20.1, 20.1, 20.1}, 99, 20.1},
		{[]float64{1, 2, 3, 4}, 50, 2}, // at least half are not above it
		{[]float64{1, 2, 3, 4}, 51, 3},
		{[]float64{1, 2, 3, 4}, 75, 3},
		{[]float64{1, 2, 3, 4}, 76, 4},
		{[]float64{511, 510, 509}, 99, 511}, // nine digits
		{[]float64{1023, 0}, 99, 1022},      // ten: cut towards zero
		{[]float64{-1023, -2000}, 99, -1023},
		{[]float64{-1023, 0, 0, 0}, 50, 0},
		{[]float64{math.MaxFloat64, -math.MaxFloat64, 5e-324}, 50, 0},
		{tenths(500), 99, 49.375}, // of 49.4
	} {
		if got := foldValues(Quantiles, c.values...).Quantile(c.p); got != c.want {
			t.Errorf("p%d of %v is %v, want %v", c.p, c.values, got, c.want)
		}
	}
}

// With more different numbers than there are buckets a digit goes, for all alike: 4 octaves of 256 have one less.
func TestQuantileCoarsens(t *testing.T) {
	a := foldValues(Quantiles)
	r := rand.New(rand.NewPCG(3, 4))
	var values []float64
	for range 20_000 {
		v := math.Exp2(r.Float64() * 3.9)
		values = append(values, v)
		a.Add(v, nil)
	}
	if q := a.more.quantiles; q.level != 1 || len(q.buckets) > maxBuckets {
		t.Errorf("level %d, %d buckets", q.level, len(q.buckets))
	}
	for p := firstPercent; p <= lastPercent; p++ {
		want, got := percentile(values, p), a.Quantile(p)
		if got > want || got < want*(1-1.0/128) {
			t.Errorf("p%d is %v, want %v", p, got, want)
		}
	}
	for i := range 4000 { // the whole range of doubles on both sides
		a.Add(math.Ldexp(1, i/2-1000)*float64(1-i%2*2), nil)
	}
	if q := a.more.quantiles; q.level < 8 || len(q.buckets) > maxBuckets {
		t.Errorf("level %d, %d buckets", q.level, len(q.buckets))
	}
	if got := a.Quantile(100); math.IsInf(got, 0) || got < a.Quantile(50) {
		t.Errorf("p100 is %v", got)
	}
}

func TestQuantileGoldenBytes(t *testing.T) {
	checkGoldenValues(t, "quantile", Quantiles, nil, []float64{0}, []float64{math.Copysign(0, -1)}, []float64{20.5, 20.5, -20.25},
		[]float64{5e-324, math.MaxFloat64}, tenths(300))
}

func TestDecodeQuantilesRefuses(t *testing.T) {
	const ends = "000000000000f03f" + "000000000000f03f"
	for name, hexed := range map[string]string{
		"nothing":            "01" + ends,
		"no bucket":          "01" + ends + "0000",
		"no level":           "01" + ends + "01",
		"coarse, but few":    "01" + ends + "0101" + "0000",
		"level too high":     "01" + ends + "0114" + "0000",
		"two of one reading": "01" + ends + "0200" + "0000" + "0000",
		"no count":           "01" + ends + "0100" + "00",
		"count too high":     "01" + ends + "0100" + "0001",
		"readings left over": "02" + ends + "0100" + "0000",
		"beyond the doubles": "01" + ends + "0100" + "80fc3f" + "00",
		"below the doubles":  "01" + ends + "0100" + "81fc3f" + "00",
		"a step far beyond":  "02" + ends + "0200" + "0000" + "ffffffffffffffffff01" + "00",
	} {
		checkRefused(t, name, Quantiles, hexed)
	}
}
