package aggregate

import (
	"math"
	"math/bits"
)

// Float64 returns the sum rounded once to a double, half to even. When that is beyond the double range, overflow is
// true and v an infinity.
func (s *Sum) Float64() (v float64, overflow bool) {
	m, inexact := s.magnitude()
	return round(m, inexact)
}

// Mean returns the exact quotient of the sum and n rounded once to a double, half to even; overflow is as in Float64.
// n must be positive.
func (s *Sum) Mean(n int64) (v float64, overflow bool) {
	if n <= 0 {
		panic("aggregate: mean of no numbers")
	}
	m, inexact := s.magnitude()
	// The magnitude has 128 bits and n at most 63, so the quotient has at least 65: more than a double needs. What was
	// cut off the magnitude cannot reach the quotient's lowest bit, it only makes it inexact.
	q := m
	var r uint64
	q.hi, r = m.hi/uint64(n), m.hi%uint64(n)
	q.lo, r = bits.Div64(r, m.lo, uint64(n))
	return round(q.left(uint(128-q.bitLen())), inexact || r != 0)
}

// ratio is the exact s * times / by, rounded once to a double, half to even; overflow is as in Float64. by must be
// positive.
func (s *Sum) ratio(times, by uint64) (v float64, overflow bool) {
	var m, product [wideLimbs + 1]uint64
	n, unit, negative := s.limbs(&m)
	natural(product[:n+1]).setProduct(m[:n], natural{times})
	// Three limbs more make the quotient one of more bits than a double needs, whatever the divisor.
	const extra = 3
	var room [wideLimbs + 1 + extra]uint64
	q := natural(room[:n+1+extra])
	copy(q[extra:], product[:n+1])
	inexact := q.divide(by) != 0
	size := q.bitLen()
	if size == 0 {
		return 0, false
	}
	low := size - 128
	inexact = inexact || q.trailingZeros() < low
	return round(number{hi: q.word(low + 64), lo: q.word(low), unit: int32(low + unit - 64*extra), negative: negative}, inexact)
}

// limbs sets m, which is zero, to |s| and returns how many limbs it has, and the biased exponent of the lowest bit.
func (s *Sum) limbs(m *[wideLimbs + 1]uint64) (n, unit int, negative bool) {
	if s.unit != wideUnit {
		own := s.number()
		m[0], m[1] = own.lo, own.hi
		return 2, int(own.unit), own.negative
	}
	mag, negative := s.wide.abs()
	copy(m[:], mag[:])
	return wideLimbs, minUnit, negative
}

// round rounds m, a magnitude whose highest bit is set or which is zero, to a double, half to even. inexact says that
// the true value lies a little above m, by less than m's lowest bit.
func round(m number, inexact bool) (v float64, overflow bool) {
	if m.hi == 0 {
		return 0, false
	}
	var sign uint64
	if m.negative {
		sign = 1 << 63
	}
	// unit is the biased exponent of the result's lowest bit: 53 bits below the top, but no lower than 2^-1074.
	unit := max(m.unit+128-(mantissaBits+1), minUnit)
	if unit > fieldMask-1 {
		return math.Float64frombits(sign | fieldMask<<mantissaBits), true
	}
	drop := uint(unit - m.unit) // at least 75, so that the kept bits are all in m.hi
	if drop > 128 {
		return math.Float64frombits(sign), false
	}
	kept := m.hi >> (drop - 64)
	half := m.hi >> (drop - 65) & 1
	below := m.hi&(1<<(drop-65)-1) | m.lo
	if half != 0 && (below != 0 || inexact || kept&1 != 0) {
		kept++
	}
	// The highest kept bit carries into the exponent field, which therefore starts one lower; it does so for
	// subnormals and for a mantissa that was rounded up to 2^53 as well.
	b := uint64(unit-minUnit)<<mantissaBits + kept
	if b >= fieldMask<<mantissaBits {
		return math.Float64frombits(sign | fieldMask<<mantissaBits), true
	}
	return math.Float64frombits(sign | b), false
}
