package aggregate

import (
	"math"
	"math/bits"
)

// Range is the exact difference of max and min, rounded once; overflow is as in Sum.Float64. Count must be positive.
func (a *Accumulator) Range() (v float64, overflow bool) {
	v = a.max - a.min
	return v, math.IsInf(v, 0)
}

// spreadLimbs has room for count times the sum of squares in units of 2^-2148, and for the square of a sum.
const spreadLimbs = (maxSquareTop+63+2*unitBias)/64 + 1

// spread is a number of spreadLimbs and the biased exponent of its lowest bit.
type spread struct {
	limbs [spreadLimbs]uint64
	unit  int
}

// deviations sets d to the exact n*Q - S^2, n being the count, S the sum and Q the sum of squares. ok is false when that
// is negative, which no readings give.
func (a *Accumulator) deviations(d *spread) (ok bool) {
	q, unit := a.more.squares.view()
	n := q.bitLen()
	if n == 0 {
		*d = spread{}
		return a.sum.isZero()
	}
	low := q.trailingZeros()
	var trimmed [len(wideSquares{})]uint64
	limbs := (n - low + 63) / 64
	natural(trimmed[:limbs]).setShifted(q, -low)
	var nq, ss spread
	natural(nq.limbs[:limbs+1]).setProduct(trimmed[:limbs], natural{uint64(a.count)})
	nq.unit = unit + low
	squared := a.sum.square(&ss)
	d.unit = nq.unit
	if squared > 0 {
		d.unit = min(d.unit, ss.unit)
	}
	natural(d.limbs[:]).setShifted(nq.limbs[:limbs+1], nq.unit-d.unit)
	if squared == 0 {
		return true
	}
	var aligned [spreadLimbs]uint64
	natural(aligned[:]).setShifted(ss.limbs[:squared], ss.unit-d.unit)
	return !natural(d.limbs[:]).sub(aligned[:])
}

func (s *Sum) isZero() bool {
	if s.unit == wideUnit {
		return natural(s.wide[:]).bitLen() == 0
	}
	return s.lo|s.hi == 0
}

// square sets d, which is zero, to the square of the sum, in the bias of Squares, and returns how many limbs it has.
func (s *Sum) square(d *spread) (limbs int) {
	var m [wideLimbs]uint64
	n := 2
	if s.unit == wideUnit {
		mag, _ := s.wide.abs()
		high := mag.bitLen()
		if high == 0 {
			return 0
		}
		low := mag.trailingZeros()
		n = (high - low + 63) / 64
		natural(m[:n]).setShifted(mag[:], -low)
		d.unit = 2 * (low + minUnit)
	} else {
		odd := s.number().odd()
		if odd.bitLen() == 0 {
			return 0
		}
		m[0], m[1] = odd.lo, odd.hi
		d.unit = 2 * int(odd.unit)
	}
	natural(d.limbs[:2*n]).setProduct(m[:n], m[:n])
	return 2 * n
}

// Spread is one of Variance, Stddev, VariancePop and StddevPop, rounded once from the exact value, half to even:
//
//	variance     = (n*Q - S^2) / (n*(n-1))     stddev     = its square root
//	variance_pop = (n*Q - S^2) / n^2           stddev_pop = its square root
//
// with n the count, S the exact sum and Q the exact sum of squares. A sample of fewer than two readings has no spread:
// then defined is false. overflow is as in Sum.Float64. Count must be positive, and a must keep the squares (see Reset).
func (a *Accumulator) Spread(f Functions) (v float64, overflow, defined bool) {
	by := uint64(a.count)
	switch f {
	case Variance, Stddev:
		by--
	case VariancePop, StddevPop:
	default:
		panic("aggregate: " + f.String() + " is no spread")
	}
	if by == 0 {
		return 0, false, false
	}
	var d spread
	if !a.deviations(&d) {
		panic("aggregate: a negative variance")
	}
	size := natural(d.limbs[:]).bitLen()
	if size == 0 {
		return 0, false, true
	}
	// Four limbs more make the quotient, whose divisor has at most 126 bits, one of at least 130.
	const extra = 4
	var room [spreadLimbs + extra]uint64
	q := natural(room[:(size+63)/64+extra])
	copy(q[extra:], d.limbs[:])
	inexact := q.divide(uint64(a.count)) != 0
	inexact = q.divide(by) != 0 || inexact
	low := q.bitLen() - 128
	exponent := low + d.unit - 64*extra - squareBias // of the lowest bit that is kept
	if f == Stddev || f == StddevPop {
		if exponent&1 != 0 {
			low, exponent = low+1, exponent+1
		}
		inexact = inexact || q.trailingZeros() < low
		root, exact := root128(q.word(low+64), q.word(low))
		v, overflow = round(number{hi: root, unit: int32(exponent/2 - 64 + unitBias)}, inexact || !exact)
		return v, overflow, true
	}
	inexact = inexact || q.trailingZeros() < low
	v, overflow = round(number{hi: q.word(low + 64), lo: q.word(low), unit: int32(exponent + unitBias)}, inexact)
	return v, overflow, true
}

// root128 is the square root of hi:lo, at least 2^126, rounded down; exact tells that nothing was lost. The estimate in
// floating point decides only where the search begins.
func root128(hi, lo uint64) (root uint64, exact bool) {
	root = math.MaxUint64
	if estimate := math.Sqrt(float64(hi)) * (1 << 32); estimate < 1<<64 {
		root = uint64(estimate)
	}
	if root > hi { // one step of Newton's method, which leaves root at most a few too large
		quotient, _ := bits.Div64(hi, lo, root)
		root = root&quotient + (root^quotient)>>1
	}
	for compareSquare(root, hi, lo) > 0 {
		root--
	}
	for root < math.MaxUint64 && compareSquare(root+1, hi, lo) <= 0 {
		root++
	}
	return root, compareSquare(root, hi, lo) == 0
}

// compareSquare compares r*r with hi:lo.
func compareSquare(r, hi, lo uint64) int {
	h, l := bits.Mul64(r, r)
	switch {
	case h > hi || h == hi && l > lo:
		return 1
	case h == hi && l == lo:
		return 0
	}
	return -1
}
