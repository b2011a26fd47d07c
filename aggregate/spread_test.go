package aggregate

import (
	"encoding/hex"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// exactSpread is the oracle: variance as a rational, over math/big alone; nil where there is none.
func exactSpread(values []float64, sample bool) *big.Rat {
	sum, squares := new(big.Rat), new(big.Rat)
	for _, v := range values {
		x := new(big.Rat).SetFloat64(v)
		sum.Add(sum, x)
		squares.Add(squares, x.Mul(x, x))
	}
	n := int64(len(values))
	by := n
	if sample {
		by--
	}
	if by == 0 {
		return nil
	}
	squares.Mul(squares, new(big.Rat).SetInt64(n)).Sub(squares, sum.Mul(sum, sum))
	return squares.Quo(squares, new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(n), big.NewInt(by)), big.NewInt(1)))
}

// isRoot tells whether v is the square root of x, rounded half to even: x lies between the squares of the points halfway
// to v's neighbours.
func isRoot(v float64, x *big.Rat) bool {
	halfway := func(a, b float64) *big.Rat {
		m := new(big.Rat).SetFloat64(a)
		m.Add(m, new(big.Rat).SetFloat64(b)).Mul(m, big.NewRat(1, 2))
		return m.Mul(m, m)
	}
	low := -1
	var high int
	switch limit := new(big.Rat).SetInt(new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 1024), new(big.Int).Lsh(big.NewInt(1), 970))); {
	case math.IsInf(v, 0): // from halfway between the largest double and 2^1024 on
		return limit.Mul(limit, limit).Cmp(x) <= 0
	case v == math.MaxFloat64:
		high = limit.Mul(limit, limit).Cmp(x)
	default:
		high = halfway(v, math.Nextafter(v, math.Inf(1))).Cmp(x)
	}
	if v > 0 {
		low = halfway(math.Nextafter(v, 0), v).Cmp(x)
	}
	even := math.Float64bits(v)&1 == 0
	return (low < 0 || low == 0 && even) && (high > 0 || high == 0 && even)
}

func checkSpread(t interface {
	Helper()
	Fatalf(string, ...any)
}, values []float64) {
	t.Helper()
	a := accumulate(values)
	for _, c := range []struct {
		variance, stddev Functions
		sample           bool
	}{{Variance, Stddev, true}, {VariancePop, StddevPop, false}} {
		want := exactSpread(values, c.sample)
		v, overflow, defined := a.Spread(c.variance)
		root, rootOverflow, rootDefined := a.Spread(c.stddev)
		if want == nil {
			if defined || rootDefined {
				t.Fatalf("%v: %s is defined", values, c.variance)
			}
			continue
		}
		wanted, beyond := rounded(want)
		if !defined || overflow != beyond || !sameBits(v, wanted) {
			t.Fatalf("%s of %v is %v, %v, %v; want %v", c.variance, values, v, overflow, defined, wanted)
		}
		if rootOverflow != math.IsInf(root, 0) || !rootDefined || !isRoot(root, want) {
			t.Fatalf("%s of %v is %v, %v, which is not the root of %v rounded", c.stddev, values, root, rootOverflow, wanted)
		}
	}
}

func TestSpreadEqualsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkSpread(t, rapid.SliceOfN(doubles(), 1, 20).Draw(t, "values"))
	})
}

// R17: what a sum of rounded squares gets wrong.
func TestSpreadNamedCases(t *testing.T) {
	for _, c := range []struct {
		f      Functions
		values []float64
		want   float64
	}{
		{Variance, []float64{2, 4, 4, 4, 5, 5, 7, 9}, 32.0 / 7},
		{VariancePop, []float64{2, 4, 4, 4, 5, 5, 7, 9}, 4},
		{StddevPop, []float64{2, 4, 4, 4, 5, 5, 7, 9}, 2},
		{Variance, []float64{1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16}, 30}, // cancels
		{Variance, []float64{1e16, 1e16 + 2}, 2},
		{Stddev, []float64{1e-200, 3e-200}, math.Sqrt2 * 1e-200}, // the squares underflow
		{Variance, []float64{1e-200, 3e-200}, 0},
		{StddevPop, []float64{0, 5e-324}, 0}, // a tie: half of the smallest, to even
		{StddevPop, []float64{-1e300, 1e300}, 1e300},
		{StddevPop, []float64{math.MaxFloat64, -math.MaxFloat64}, math.MaxFloat64},
		{VariancePop, []float64{20.1}, 0},
		{VariancePop, []float64{0.1, 0.1, 0.1}, 0},
		{Stddev, []float64{0, math.Copysign(0, -1)}, 0},
	} {
		checkSpread(t, c.values)
		if v, overflow, defined := accumulate(c.values).Spread(c.f); v != c.want || math.Signbit(v) || overflow || !defined {
			t.Errorf("%s of %v is %v, %v, %v; want %v", c.f, c.values, v, overflow, defined, c.want)
		}
	}
	if v, overflow, defined := accumulate([]float64{1e200, -1e200}).Spread(Variance); !overflow || !defined {
		t.Errorf("variance beyond the range: %v, %v, %v", v, overflow, defined)
	}
	checkSpread(t, []float64{1e200, -1e200})
	checkSpread(t, []float64{math.MaxFloat64, -math.MaxFloat64, 5e-324})
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{1}, 0}, {[]float64{3, -4, 1}, 7}, {[]float64{0, math.Copysign(0, -1)}, 0}, {[]float64{0.1, 0.3}, 0.19999999999999998},
		{[]float64{math.MaxFloat64, -math.MaxFloat64}, math.Inf(1)}} {
		if v, overflow := accumulate(c.values).Range(); !sameBits(v, c.want) || overflow != math.IsInf(c.want, 0) {
			t.Errorf("range of %v is %v, %v; want %v", c.values, v, overflow, c.want)
		}
	}
}

// Equal multisets have equal bytes in any order, by the fast path, the wide array and what was decoded; the value is M*2^e
// of the oracle.
func TestSquaresCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(doubles(), 0, 20).Draw(t, "values")
		var a, b, c, half Squares
		total := new(big.Rat)
		for i, v := range values {
			a.Add(v)
			x := new(big.Rat).SetFloat64(v)
			total.Add(total, x.Mul(x, x))
			if i%2 == 0 {
				half.Add(v)
			}
		}
		for i := len(values) - 1; i >= 0; i-- {
			b.Add(values[i])
			if i%2 == 1 {
				c.Add(values[i])
			}
		}
		c.Merge(&half)
		want := string(a.AppendBinary(nil))
		b.toWide()
		if got := string(b.AppendBinary(nil)); got != want {
			t.Fatalf("backwards and wide %x, want %x", got, want)
		}
		if got := string(c.AppendBinary(nil)); got != want {
			t.Fatalf("merged %x, want %x", got, want)
		}
		var d Squares
		if rest, err := d.Decode([]byte(want + "rest")); err != nil || string(rest) != "rest" || string(d.AppendBinary(nil)) != want {
			t.Fatalf("decoded %x, rest %q, %v; want %x", d.AppendBinary(nil), rest, err, want)
		}
		for range 2 { // goes on from there as if it had never been encoded
			a.Add(1.5)
			d.Add(1.5)
		}
		if string(a.AppendBinary(nil)) != string(d.AppendBinary(nil)) {
			t.Fatalf("after decoding %x, without %x", d.AppendBinary(nil), a.AppendBinary(nil))
		}
		text, _ := new(big.Int).SetString("0", 10)
		text.Div(total.Mul(total, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), 2148))).Num(), total.Denom())
		zeros := uint(0)
		exponent := big.NewInt(0)
		if text.Sign() != 0 {
			zeros = text.TrailingZeroBits()
			exponent = big.NewInt(int64(zeros) - 2148)
		}
		var again Squares
		if _, err := again.Decode([]byte(want)); err != nil {
			t.Fatal(err)
		}
		if got, want := string(again.AppendExact(nil)), text.Rsh(text, zeros).String()+"*2^"+exponent.String(); got != want {
			t.Fatalf("sum of squares of %v is %s, want %s", values, got, want)
		}
	})
}

// A long run of readings stays on the fast path, whose bits are checked where it overflows into another exponent.
func TestSquaresLongRun(t *testing.T) {
	var s, one Squares
	one.Add(0x1.fffffffffffffp100)
	var merged Squares
	for range 100_000 {
		s.Add(0x1.fffffffffffffp100)
		merged.Merge(&one)
	}
	if s.unit == wideUnit || string(s.AppendBinary(nil)) != string(merged.AppendBinary(nil)) {
		t.Errorf("%s, merged %s", s.AppendExact(nil), merged.AppendExact(nil))
	}
	for range 200 { // doubles the sum: in the end beyond what a run of readings can reach, within 255 bits
		if s.unit == wideUnit {
			break
		}
		s.Merge(&s)
	}
	if got := s.AppendBinary(nil); len(got) > 3+2+maxSquareBytes {
		t.Errorf("%d bytes", len(got))
	}
}

// The bounds of R17: 533 bytes of M are taken, 534 are not, nor what readings cannot give.
func TestDecodeSquaresRefuses(t *testing.T) {
	for name, hexed := range map[string]string{
		"nothing":               "",
		"negative":              "030001",
		"even M":                "02" + "00" + "02",
		"exponent too low":      "02" + "c921" + "01",
		"exponent too high":     "02" + "fe20" + "01",
		"M of 534 bytes":        "ac08" + "00" + strings.Repeat("01", 534),
		"zero byte above M":     "0400" + "0100",
		"M of 2 bytes, 1 there": "0400" + "01",
	} {
		b, err := hex.DecodeString(hexed)
		if err != nil {
			t.Fatal(err)
		}
		var s Squares
		if rest, err := s.Decode(b); err == nil {
			t.Errorf("%s: accepted, rest %x", name, rest)
		}
	}
	widest, _ := hex.DecodeString("aa08" + "c721" + strings.Repeat("ff", 532) + "07")
	var s Squares
	if rest, err := s.Decode(widest); err != nil || len(rest) > 0 || string(s.AppendBinary(nil)) != string(widest) {
		t.Errorf("533 bytes: rest %x, %v", rest, err)
	}
	for name, hexed := range map[string]string{
		"no squares of a sum":        "02" + "020001" + "00",     // two readings with sum 1 and squares 0
		"squares below the mean":     "02" + "020201" + "020001", // sum 2 and squares 1: at least 2
		"another square of a single": "01" + "020201" + "020001",
	} {
		checkRefused(t, name, Variance, hexed)
	}
}

// FuzzSpread: the rational oracle on any three doubles.
func FuzzSpread(f *testing.F) {
	f.Add(uint64(0), uint64(1), uint64(1)<<62)
	f.Fuzz(func(t *testing.T, a, b, c uint64) {
		checkSpread(t, []float64{finite(math.Float64frombits(a)), finite(math.Float64frombits(b)), finite(math.Float64frombits(c))})
	})
}
