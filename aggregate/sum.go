package aggregate

import (
	"math"
	"math/bits"
)

// Sum is an exact sum of finite doubles. The zero value is the empty sum.
//
// A Sum holds up to 2^63-1 addends. As long as the sum fits 128 bits at one exponent, which real readings do, nothing
// is allocated; otherwise the sum goes over to a fixed array of 272 bytes that Reset keeps for later use.
//
// A Sum must not be copied once it has been used: the copy would share that array.
type Sum struct {
	lo, hi uint64 // two's complement; |hi:lo| < 2^126
	unit   int32  // exponent of the lowest bit, biased by unitBias; wideUnit: the sum is in wide
	wide   *wide
}

// The lowest bit of a double is 2^(field - 1075), where field is its exponent field, at least 1. A Sum keeps its
// exponent in the same bias, so that the shift of an addend is one subtraction.
const (
	unitBias = 1075
	minUnit  = 1       // 2^-1074, the lowest bit of any double
	wideUnit = 1 << 20 // above any exponent field, so that the fast path of Add is never taken

	mantissaBits = 52
	fieldMask    = 0x7ff

	narrowBits = 126             // |hi:lo| stays below 2^narrowBits
	maxShift   = narrowBits - 54 // an addend of 53 bits so shifted stays below 2^125
	maxSumBits = 1024 + 63       // |sum| < 2^maxSumBits: fewer than 2^63 addends, each below 2^1024
)

// Reset makes s the empty sum.
func (s *Sum) Reset() { s.lo, s.hi, s.unit = 0, 0, 0 }

// Add adds x exactly. Negative zero adds as zero. It panics when x is not finite: such readings are refused long before.
func (s *Sum) Add(x float64) {
	b := math.Float64bits(x)
	field := uint32(b>>mantissaBits) & fieldMask
	shift := field - uint32(s.unit)
	if shift > maxShift || field-1 >= fieldMask-1 {
		s.addSlow(b)
		return
	}
	m := b&(1<<mantissaBits-1) | 1<<mantissaBits
	negative := uint64(int64(b) >> 63)
	lo, carry := bits.Add64(s.lo, m<<shift^negative, negative&1)
	hi, _ := bits.Add64(s.hi, (m>>(64-shift)|m<<(shift-64))^negative, carry)
	s.lo, s.hi = lo, hi
	if (hi^hi<<1)>>63 != 0 {
		s.addNumber(number{}) // 2^126 is reached: find another exponent, or go wide
	}
}

// addSlow adds the double with bits b where the fast path cannot: zeros, subnormals, exponents out of reach.
func (s *Sum) addSlow(b uint64) {
	if n := parts(math.Float64frombits(b)); n.lo != 0 {
		s.addNumber(n)
	}
}

// parts is a double as a number. It panics when x is not finite.
func parts(x float64) number {
	b := math.Float64bits(x)
	field := int32(b>>mantissaBits) & fieldMask
	n := number{lo: b & (1<<mantissaBits - 1), unit: field, negative: b>>63 != 0}
	switch field {
	case fieldMask:
		panic("aggregate: " + string(AppendFloat(nil, x)) + " is not a finite number")
	case 0:
		n.unit = minUnit
	default:
		n.lo |= 1 << mantissaBits
	}
	return n
}

// Merge adds the sum o to s; o is not changed. It panics when the result could not come from fewer than 2^63 doubles.
func (s *Sum) Merge(o *Sum) {
	if o.unit != wideUnit {
		s.addNumber(o.number())
		return
	}
	s.toWide()
	s.wide.addWide(o.wide)
}

// number is hi:lo x 2^(unit - unitBias) with its sign apart.
type number struct {
	hi, lo   uint64
	unit     int32
	negative bool
}

// number is the value of a narrow s.
func (s *Sum) number() number {
	n := number{hi: s.hi, lo: s.lo, unit: s.unit, negative: int64(s.hi) < 0}
	if n.negative {
		var borrow uint64
		n.lo, borrow = bits.Sub64(0, n.lo, 0)
		n.hi, _ = bits.Sub64(0, n.hi, borrow)
	}
	return n
}

// odd returns n with its lowest bit set, or zero.
func (n number) odd() number {
	switch {
	case n.lo != 0:
		return n.right(uint(bits.TrailingZeros64(n.lo)))
	case n.hi != 0:
		return n.right(64 + uint(bits.TrailingZeros64(n.hi)))
	}
	return number{}
}

func (n number) right(by uint) number {
	n.lo = n.lo>>by | n.hi<<(64-by) | n.hi>>(by-64)
	n.hi >>= by
	n.unit += int32(by)
	return n
}

func (n number) left(by uint) number {
	n.hi = n.hi<<by | n.lo>>(64-by) | n.lo<<(by-64)
	n.lo <<= by
	n.unit -= int32(by)
	return n
}

func (n number) bitLen() int {
	if n.hi != 0 {
		return 64 + bits.Len64(n.hi)
	}
	return bits.Len64(n.lo)
}

// top is the biased exponent just above the highest bit.
func (n number) top() int { return int(n.unit) + n.bitLen() }

// addNumber adds n under an exponent that suits both, or goes wide where there is none.
func (s *Sum) addNumber(n number) {
	if s.unit == wideUnit {
		s.wide.add(n)
		return
	}
	old, n := s.number().odd(), n.odd()
	unit, ok := commonUnit(old, n)
	if !ok {
		s.toWide()
		s.wide.add(n)
		return
	}
	s.lo, s.hi, s.unit = 0, 0, unit
	s.addAt(old)
	s.addAt(n)
}

// commonUnit is an exponent under which a + b fits a narrow sum, with the free bits shared out above and below, so that
// the readings to come find room on both sides.
func commonUnit(a, b number) (unit int32, ok bool) {
	if a.bitLen() == 0 {
		a = b
	}
	if b.bitLen() == 0 {
		b = a
	}
	if a.bitLen() == 0 {
		return 0, true
	}
	low := min(a.unit, b.unit)
	span := int32(max(a.top(), b.top())) + 1 - low
	if span > narrowBits {
		return 0, false
	}
	return max(minUnit, low-(narrowBits-span)/2), true
}

// addAt adds n to a narrow s whose exponent suits n.
func (s *Sum) addAt(n number) {
	if n.bitLen() == 0 {
		return
	}
	n = n.left(uint(n.unit - s.unit))
	if n.negative {
		var borrow uint64
		s.lo, borrow = bits.Sub64(s.lo, n.lo, 0)
		s.hi, _ = bits.Sub64(s.hi, n.hi, borrow)
		return
	}
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, n.lo, 0)
	s.hi, _ = bits.Add64(s.hi, n.hi, carry)
}

// toWide moves s into its wide array, made when first needed.
func (s *Sum) toWide() {
	if s.unit == wideUnit {
		return
	}
	if s.wide == nil {
		s.wide = new(wide)
	}
	*s.wide = wide{}
	s.wide.add(s.number())
	s.unit = wideUnit
}

// magnitude is |s| as 128 bits with the highest one set (or zero), 2^exp being the lowest; inexact tells that lower
// bits were cut off.
func (s *Sum) magnitude() (m number, inexact bool) {
	if s.unit == wideUnit {
		return s.wide.magnitude()
	}
	m = s.number()
	return m.left(uint(128 - m.bitLen())), false
}
