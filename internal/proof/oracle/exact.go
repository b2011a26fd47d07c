package oracle

import (
	"math"
	"math/big"
)

// scaleBits is the number of binary places of an exact sum: every double is a whole multiple of 2^-1074.
const scaleBits = 1074

// exact returns x * 2^1074, which is a whole number for every finite x.
func exact(x float64) *big.Int {
	fraction, exponent := math.Frexp(x)         // x = fraction * 2^exponent
	mantissa := int64(math.Ldexp(fraction, 53)) // whole: 53 bits are all that a double has
	m := big.NewInt(mantissa)
	shift := exponent - 53 + scaleBits
	if shift < 0 { // a subnormal number: the bits shifted out are zero
		return m.Rsh(m, uint(-shift))
	}
	return m.Lsh(m, uint(shift))
}

// Stats are the exact statistics of a multiset of doubles.
type Stats struct {
	Count    int64
	Min, Max float64 // -0 is lower than 0; whole numbers rounded
	sum      *big.Int
	squares  *big.Int // times 2^2148

	least, most sample
	ordered     []sample // of a window, in the order of their places
	lost        bool     // what is computed from one reading to the next is not known
}

// statsOf computes the statistics of numbers, but for what depends on their places.
func statsOf(numbers []sample) Stats {
	s := Stats{sum: new(big.Int), squares: new(big.Int)}
	for _, one := range numbers {
		if s.Count == 0 || one.below(s.least) {
			s.least, s.Min = one, one.float()
		}
		if s.Count == 0 || s.most.below(one) {
			s.most, s.Max = one, one.float()
		}
		s.Count++
		scaled := one.scaled()
		s.sum.Add(s.sum, scaled)
		s.squares.Add(s.squares, scaled.Mul(scaled, scaled))
	}
	return s
}

// below is the order of min and max: -0 before 0.
func below(a, b float64) bool {
	if a == 0 && b == 0 {
		return math.Signbit(a) && !math.Signbit(b)
	}
	return a < b
}

// Sum is the exact sum, rounded once, half to even. A sum beyond the doubles is an infinity: tidemark says null and
// overflow.
func (s Stats) Sum() float64 { return s.over(1) }

// Mean is the exact sum divided by the count, rounded once.
func (s Stats) Mean() float64 { return s.over(s.Count) }

// over is the exact sum divided by n, rounded once. Factors of 2 that the scaled sum and 2^1074 share are taken out
// before, for math/big would search for them digit by digit.
func (s Stats) over(n int64) float64 {
	shared := min(s.sum.TrailingZeroBits(), scaleBits)
	numerator := new(big.Int).Rsh(s.sum, shared)
	denominator := new(big.Int).Lsh(big.NewInt(n), scaleBits-shared)
	f, _ := new(big.Rat).SetFrac(numerator, denominator).Float64()
	return f
}

// ExactSum is the exact sum as M*2^e with M odd, or "0": what `state dump --exact` prints.
func (s Stats) ExactSum() string { return exactText(s.sum, scaleBits) }

// ExactSquares is the exact sum of squares in the same form.
func (s Stats) ExactSquares() string { return exactText(s.squares, 2*scaleBits) }

func exactText(scaled *big.Int, places int64) string {
	if scaled.Sign() == 0 {
		return "0*2^0"
	}
	zeros := scaled.TrailingZeroBits()
	m := new(big.Int).Rsh(scaled, zeros) // exact, also below zero: only zero bits go
	return m.String() + "*2^" + big.NewInt(int64(zeros)-places).String()
}

// Function returns the result of one function by its configured name; ok is false for a name it does not know. A result
// beyond the doubles is an infinity, one that is not defined is NaN.
func (s Stats) Function(name string) (x float64, ok bool) {
	switch name {
	case "count":
		return float64(s.Count), true
	case "sum":
		return s.Sum(), true
	case "min":
		return s.Min, true
	case "max":
		return s.Max, true
	case "mean":
		return s.Mean(), true
	case "range":
		return rounded(rangeOf(s.least, s.most)), true
	case "variance":
		return rounded(s.variance(s.Count - 1)), true
	case "stddev":
		return root(s.variance(s.Count - 1)), true
	case "variance_pop":
		return rounded(s.variance(s.Count)), true
	case "stddev_pop":
		return root(s.variance(s.Count)), true
	case "first":
		return s.ordered[0].float(), true
	case "last":
		return s.ordered[len(s.ordered)-1].float(), true
	case "delta":
		return rounded(s.delta()), true
	case "rate":
		return rounded(s.perSecond(s.delta())), true
	case "time_mean":
		return rounded(s.perSecond(s.area())), true
	case "distinct":
		return float64(s.distinct()), true
	}
	if p, ok := percent(name); ok {
		return s.quantile(p).float(), true
	}
	return 0, false
}

// SameBits tells whether two doubles are the same number bit for bit.
func SameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
