package aggregate

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func sumOf(values []float64) *Sum {
	s := new(Sum)
	for _, v := range values {
		s.Add(v)
	}
	return s
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// checkSum compares s with the oracle in everything it can say, and n values' mean.
func checkSum(t interface{ Fatalf(string, ...any) }, s *Sum, values []float64) {
	want := exactSum(values)
	v, overflow := s.Float64()
	if wantV, wantOverflow := want.float(); overflow != wantOverflow || !sameBits(v, wantV) {
		t.Fatalf("sum of %v is %v, overflow %v; want %v, %v", values, v, overflow, wantV, wantOverflow)
	}
	if got := string(s.AppendExact(nil)); got != want.text() {
		t.Fatalf("exact sum of %v is %s, want %s", values, got, want.text())
	}
	for _, n := range []int64{1, int64(len(values)), 3, 7, 1 << 40, math.MaxInt64} {
		if n == 0 {
			continue
		}
		v, overflow := s.Mean(n)
		if wantV, wantOverflow := want.mean(n); overflow != wantOverflow || !sameBits(v, wantV) {
			t.Fatalf("sum of %v over %d is %v, overflow %v; want %v, %v", values, n, v, overflow, wantV, wantOverflow)
		}
	}
	encoded := s.AppendBinary([]byte("before"))
	if !bytes.HasPrefix(encoded, []byte("before")) {
		t.Fatalf("AppendBinary changed what was there: %q", encoded)
	}
	encoded = encoded[len("before"):]
	if len(encoded) > maxBytes+4 {
		t.Fatalf("%d bytes for the sum of %v", len(encoded), values)
	}
	var back Sum
	rest, err := back.Decode(append(slices.Clone(encoded), 0xEE))
	if err != nil || !bytes.Equal(rest, []byte{0xEE}) {
		t.Fatalf("decode %x: rest %x, %v", encoded, rest, err)
	}
	if again := back.AppendBinary(nil); !bytes.Equal(again, encoded) {
		t.Fatalf("%x decodes and encodes to %x", encoded, again)
	}
}

// C11 and R17: the sums that plain folds, compensated folds and non-canonical expansions get wrong.
func TestSumNamedCases(t *testing.T) {
	negativeZero := math.Copysign(0, -1)
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{1e16, 1, -1e16, 1}, 2},
		{[]float64{1.7e308, 1.7e308, -1.7e308}, 1.7e308},
		{[]float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 1},
		{[]float64{negativeZero}, 0},
		{[]float64{negativeZero, negativeZero}, 0},
		{[]float64{5e-324, 5e-324, -5e-324}, 5e-324},
		{[]float64{5e-324, 1.7976931348623157e308, -1.7976931348623157e308}, 5e-324},
		{[]float64{1, 0x1p-53}, 1},                            // a tie goes to even
		{[]float64{1, 0x1p-53, 5e-324}, math.Nextafter(1, 2)}, // a whisker above the tie does not
		{[]float64{math.Nextafter(1, 2), 0x1p-53}, 1 + 0x1p-51},
		{[]float64{10, 20}, 30},
	} {
		permutations(c.values, func(order []float64) {
			s := sumOf(order)
			if v, overflow := s.Float64(); overflow || !sameBits(v, c.want) {
				t.Errorf("sum of %v is %v, overflow %v; want %v", order, v, overflow, c.want)
			}
			checkSum(t, s, order)
		})
	}
}

// permutations calls fn with the orders of values, or with some rotations where there are too many.
func permutations(values []float64, fn func([]float64)) {
	order := slices.Clone(values)
	if len(order) > 5 {
		fn(order)
		return
	}
	var walk func(int)
	walk = func(n int) {
		if n <= 1 {
			fn(order)
			return
		}
		for i := range n {
			order[i], order[n-1] = order[n-1], order[i]
			walk(n - 1)
			order[i], order[n-1] = order[n-1], order[i]
		}
	}
	walk(len(order))
}

func TestSumOverflow(t *testing.T) {
	s := sumOf([]float64{math.MaxFloat64, math.MaxFloat64})
	if v, overflow := s.Float64(); !overflow || !math.IsInf(v, 1) {
		t.Errorf("twice the largest double is %v, overflow %v", v, overflow)
	}
	if v, overflow := s.Mean(2); overflow || v != math.MaxFloat64 {
		t.Errorf("the mean of twice the largest double is %v, overflow %v", v, overflow)
	}
	// The largest double plus less than half its last bit stays; plus half of it, it is a tie that goes up and out.
	half := math.Ldexp(1, 970)
	if v, overflow := sumOf([]float64{math.MaxFloat64, math.Nextafter(half, 0)}).Float64(); overflow || v != math.MaxFloat64 {
		t.Errorf("just below the bound: %v, overflow %v", v, overflow)
	}
	if v, overflow := sumOf([]float64{-math.MaxFloat64, -half}).Float64(); !overflow || !math.IsInf(v, -1) {
		t.Errorf("at the bound: %v, overflow %v", v, overflow)
	}
}

func TestSumRefusesWhatIsNotFinite(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Add(%v) did not panic", v)
				}
			}()
			new(Sum).Add(v)
		}()
	}
}

// A sum that no honest fold reaches stops the program before its array could wrap.
func TestSumBound(t *testing.T) {
	s := sumOf([]float64{math.MaxFloat64, -5e-324})
	defer func() {
		if recover() == nil {
			t.Error("doubling 64 times the largest double did not panic")
		}
	}()
	for range 64 {
		s.Merge(s)
	}
}

// The oracle property: any values of any scale, added one by one.
func TestSumEqualsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(doubles(), 0, 40).Draw(t, "values")
		checkSum(t, sumOf(values), values)
	})
}

// Equal multisets have equal bytes: in any order, any grouping, any merge tree, any number of encodings on the way, in
// fresh and in used memory.
func TestSumCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(doubles(), 1, 40).Draw(t, "values")
		want := sumOf(values).AppendBinary(nil)
		shuffled := rapid.Permutation(values).Draw(t, "order")
		parts := rapid.IntRange(1, 5).Draw(t, "parts")
		sums := make([]Sum, parts)
		for i := range sums {
			if rapid.Bool().Draw(t, "used memory") {
				sums[i].Add(1e300)
				sums[i].Add(1e-300)
				sums[i].Reset()
			}
		}
		for _, v := range shuffled {
			sums[rapid.IntRange(0, parts-1).Draw(t, "part")].Add(v)
		}
		for len(sums) > 1 {
			last := &sums[len(sums)-1]
			if rapid.Bool().Draw(t, "through bytes") {
				encoded := last.AppendBinary(nil)
				if _, err := last.Decode(encoded); err != nil {
					t.Fatalf("decode %x: %v", encoded, err)
				}
			}
			sums[rapid.IntRange(0, len(sums)-2).Draw(t, "into")].Merge(last)
			sums = sums[:len(sums)-1]
		}
		if got := sums[0].AppendBinary(nil); !bytes.Equal(got, want) {
			t.Fatalf("values %v\nin one go %x\nin parts  %x", values, want, got)
		}
	})
}

// Values that cancel leave no trace of how large they were.
func TestSumCancels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(doubles(), 0, 20).Draw(t, "values")
		rest := doubles().Draw(t, "rest")
		s := new(Sum)
		for _, v := range values {
			s.Add(v)
		}
		s.Add(rest)
		for _, v := range values {
			s.Add(-v)
		}
		if got, want := s.AppendBinary(nil), sumOf([]float64{rest}).AppendBinary(nil); !bytes.Equal(got, want) {
			t.Fatalf("%v and back leaves %x, want %x", values, got, want)
		}
	})
}

// Long runs stay exact: many more readings than the free bits above a first value, at three scales.
func TestSumLongRun(t *testing.T) {
	for _, scale := range []float64{1, 1e-300, 1e300} {
		var values []float64
		for i := range 5000 {
			values = append(values, scale*(float64(i%977)+0.1))
		}
		checkSum(t, sumOf(values), values)
	}
	s := new(Sum)
	s.Add(1)
	for range 70 {
		s.Merge(s) // 2^70 leaves the free bits above, and must find another exponent without going wide
	}
	if v, _ := s.Float64(); v != 0x1p70 || s.unit == wideUnit {
		t.Errorf("1 doubled 70 times is %v, unit %d", v, s.unit)
	}
}
