package aggregate

import (
	"math"
	"math/big"

	"pgregory.net/rapid"
)

// exact is the oracle: a sum as an integer in units of 2^-1074, over math/big alone.
type exact struct{ units *big.Int }

var unit = new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), 1074))

func exactSum(values []float64) exact {
	total := new(big.Rat)
	for _, v := range values {
		total.Add(total, new(big.Rat).SetFloat64(v))
	}
	total.Quo(total, unit)
	if !total.IsInt() {
		panic("a double is a multiple of 2^-1074")
	}
	return exact{new(big.Int).Set(total.Num())}
}

func (e exact) rat() *big.Rat { return new(big.Rat).Mul(new(big.Rat).SetInt(e.units), unit) }

// rounded is the rational as a double, rounded once, half to even; overflow tells that it is beyond the range.
func rounded(r *big.Rat) (v float64, overflow bool) {
	v, _ = r.Float64()
	return v, math.IsInf(v, 0)
}

func (e exact) float() (float64, bool) { return rounded(e.rat()) }

func (e exact) mean(n int64) (float64, bool) {
	return rounded(new(big.Rat).Quo(e.rat(), new(big.Rat).SetInt64(n)))
}

// text is M*2^e with M odd.
func (e exact) text() string {
	if e.units.Sign() == 0 {
		return "0*2^0"
	}
	zeros := e.units.TrailingZeroBits()
	// Rsh of a negative number rounds down, which is no rounding here.
	return new(big.Int).Rsh(e.units, zeros).String() + "*2^" + big.NewInt(int64(zeros)-1074).String()
}

// doubles draws finite doubles of all scales: random bits, neighbours of one another, subnormals, extremes, small
// decimals as sensors send them.
func doubles() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Custom(func(t *rapid.T) float64 {
			return finite(math.Float64frombits(rapid.Uint64().Draw(t, "bits")))
		}),
		rapid.Custom(func(t *rapid.T) float64 {
			return math.Float64frombits(rapid.Uint64Range(0, 1<<53).Draw(t, "small bits"))
		}),
		rapid.Custom(func(t *rapid.T) float64 {
			return float64(rapid.IntRange(-100000, 100000).Draw(t, "decimal")) / 1000
		}),
		rapid.Custom(func(t *rapid.T) float64 {
			exponent := rapid.IntRange(-90, 90).Draw(t, "exponent")
			return math.Ldexp(float64(rapid.Int64Range(-1<<53, 1<<53).Draw(t, "mantissa")), exponent)
		}),
		rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), 1, -1, 0.1, 1e16, -1e16, 1.7e308, -1.7e308, math.MaxFloat64, -math.MaxFloat64,
			math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 0x1p-1022, 0x1.fffffffffffffp-1023, 0x1p53, 0x1p-60,
		}),
	)
}

func finite(v float64) float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return math.Float64frombits(math.Float64bits(v) &^ (1 << 62))
	}
	return v
}
