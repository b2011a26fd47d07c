package oracle

import (
	"math"
	"math/big"
)

// rangeOf is the exact difference.
func rangeOf(low, high sample) *big.Rat {
	return unscaled(new(big.Int).Sub(high.scaled(), low.scaled()))
}

// variance is (n*Q - S^2) / (n*by) as a rational, nil where that is not defined: by is n-1 for a sample, else n.
func (s Stats) variance(by int64) *big.Rat {
	if by < 1 {
		return nil
	}
	n := big.NewInt(s.Count)
	top := new(big.Int).Mul(n, s.squares)
	top.Sub(top, new(big.Int).Mul(s.sum, s.sum))
	return new(big.Rat).SetFrac(top, n.Mul(n, big.NewInt(by)).Lsh(n, 2*scaleBits))
}

// rounded is x rounded once, half to even: NaN for nil, an infinity beyond the doubles.
func rounded(x *big.Rat) float64 {
	if x == nil {
		return math.NaN()
	}
	f, _ := x.Float64()
	return f
}

// root is the square root of x, rounded once: the largest double whose lower neighbour is too far away, found by halving
// the interval of all doubles, whose bits are ordered as they are. NaN for nil, an infinity beyond the doubles, which begins
// halfway between the largest one and 2^1024.
func root(x *big.Rat) float64 {
	if x == nil {
		return math.NaN()
	}
	beyond := new(big.Int).Lsh(big.NewInt(1<<54-1), 970)
	if x.Cmp(new(big.Rat).SetInt(beyond.Mul(beyond, beyond))) >= 0 {
		return math.Inf(1)
	}
	low, high := uint64(0), math.Float64bits(math.MaxFloat64)
	for low < high {
		middle := low + (high-low+1)/2
		if reaches(x, math.Float64frombits(middle-1), math.Float64frombits(middle)) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return math.Float64frombits(low)
}

// reaches tells whether the root of x rounds to above, or higher, rather than to its lower neighbour below: whether x
// lies above the square of the point halfway, or on it when above is even.
func reaches(x *big.Rat, below, above float64) bool {
	halfway := new(big.Rat).SetFloat64(below)
	halfway.Add(halfway, new(big.Rat).SetFloat64(above)).Mul(halfway, big.NewRat(1, 2))
	c := x.Cmp(halfway.Mul(halfway, halfway))
	return c > 0 || c == 0 && math.Float64bits(above)&1 == 0
}
