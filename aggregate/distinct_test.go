package aggregate

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Up to fewDistinct different numbers the count is exact.
func TestDistinctIsExactWhileFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(doubles(), 1, 40).Draw(t, "values")
		for range rapid.IntRange(0, 5).Draw(t, "rounds") {
			values = append(values, values...)
		}
		seen := map[float64]bool{} // for which 0 and -0 are one
		for _, v := range values {
			seen[v] = true
		}
		if got := foldValues(Distinct, values...).Distinct(); got != int64(len(seen)) {
			t.Fatalf("%v has %d different numbers, not %d", values, len(seen), got)
		}
	})
	var values []float64
	for i := range 3 * fewDistinct {
		values = append(values, float64(i%fewDistinct)/10)
	}
	if got := foldValues(Distinct, values...).Distinct(); got != fewDistinct {
		t.Errorf("%d of %d", got, fewDistinct)
	}
}

// Beyond, the count is an estimate whose error is what it should be: 1.04/sqrt(4096) = 1.6 percent for one standard
// deviation. Of sets of all sizes and kinds of numbers that sensors send, none is off by four of them, and the mean of the
// squared errors is that of the theory.
func TestDistinctEstimates(t *testing.T) {
	kinds := map[string]func(i int) float64{
		"whole numbers": func(i int) float64 { return float64(i) },
		"hundredths":    func(i int) float64 { return float64(i) / 100 },
		"below zero":    func(i int) float64 { return -float64(i+1) / 8 },
		"powers":        func(i int) float64 { return math.Ldexp(1+float64(i)/1e6, i%2000-1000) },
	}
	squares, sets := 0.0, 0
	for name, number := range kinds {
		for part := range 8 {
			a := foldValues(Distinct)
			for i := range 50_000 {
				a.Add(number(part*50_000+i), nil)
				if n := i + 1; n > fewDistinct && n&(n-1) == 0 || n == 50_000 {
					off := float64(a.more.distinct.estimate())/float64(n) - 1
					if math.Abs(off) > 0.065 {
						t.Errorf("%s: %d for %d", name, a.more.distinct.estimate(), n)
					}
					squares, sets = squares+off*off, sets+1
				}
			}
		}
	}
	if deviation := math.Sqrt(squares / float64(sets)); deviation < 0.012 || deviation > 0.02 {
		t.Errorf("standard error %.4f over %d sets, want about 0.016", deviation, sets)
	}
}

// A count is never more than there are readings, and what is known to be more than fewDistinct says so.
func TestDistinctStaysWithinWhatIsKnown(t *testing.T) {
	d := new(distinct)
	d.fill()
	d.register(1)
	if got := d.count(1000); got != fewDistinct+1 {
		t.Errorf("one register used: %d", got)
	}
	for i := range uint64(1 << 20) {
		d.register(hash(i))
	}
	if got := d.count(1000); got != 1000 {
		t.Errorf("%d of 1000 readings", got)
	}
}

func TestDistinctGoldenBytes(t *testing.T) {
	checkGoldenValues(t, "distinct", Distinct, nil, []float64{0}, []float64{math.Copysign(0, -1)}, []float64{1, 2, 1},
		[]float64{20.5, -20.5, 5e-324}, tenths(300))
}

func tenths(n int) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i) / 10
	}
	return values
}

func TestDecodeDistinctRefuses(t *testing.T) {
	const hash1, hash2 = "0100000000000000", "0200000000000000"
	for name, hexed := range map[string]string{
		"nothing":               "01",
		"no number":             "0100",
		"two of one reading":    "0102" + hash1 + hash2,
		"out of order":          "0202" + hash2 + hash1,
		"one twice":             "0202" + hash1 + hash1,
		"cut":                   "0202" + hash1 + "02",
		"above the registers":   "8008" + "8202" + strings.Repeat("01", 4000),
		"registers cut":         "8008" + "8102" + strings.Repeat("01", packedBytes-1),
		"no register used":      "8008" + "8102" + strings.Repeat("00", packedBytes),
		"registers of too few":  "8001" + "8102" + strings.Repeat("01", packedBytes),
		"a register beyond all": "8008" + "8102" + "3f" + strings.Repeat("00", packedBytes-1),
	} {
		checkRefused(t, name, Distinct, hexed)
	}
}
