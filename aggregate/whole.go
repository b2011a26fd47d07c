package aggregate

import (
	"math/bits"
	"strconv"
)

// Whole stands in a set of functions for no function: it says that numbers are whole numbers of 64 bits, without loss.
// They are folded by AddWhole instead of Add, their sums are whole, and so are the results of sum, min, max, range, first,
// last, delta and the percentiles, whatever their size; the others are doubles, rounded once from the exact value.
const Whole Functions = 1 << 31

// AddWhole is Add of a whole number. a must have been Reset with Whole.
func (a *Accumulator) AddWhole(v int64, at *At) {
	m := a.more
	a.sum.addWhole(v)
	if a.count == 0 {
		m.low, m.high = v, v
	} else {
		m.low, m.high = min(m.low, v), max(m.high, v)
	}
	if a.keeps&Spreads != 0 {
		m.squares.addWhole(v)
	}
	if a.keeps&Distinct != 0 {
		m.distinct.add(hash(uint64(v)))
	}
	if a.keeps&Quantiles != 0 {
		m.quantiles.add(keyOfWhole(v), 0, 1)
	}
	if a.keeps&(Ends|Trails) != 0 {
		a.addMark(uint64(v), at)
	}
	a.count++
}

// mergeEnds is the part of Merge that only whole numbers have.
func (m *more) mergeEnds(count int64, o *more) {
	if count == 0 {
		m.low, m.high = o.low, o.high
		return
	}
	m.low, m.high = min(m.low, o.low), max(m.high, o.high)
}

// sizeOf is the size of a whole number and whether it is below zero.
func sizeOf(v int64) (size uint64, negative bool) {
	if v < 0 {
		return -uint64(v), true
	}
	return uint64(v), false
}

// addWhole adds v exactly.
func (s *Sum) addWhole(v int64) {
	// A number of 64 bits so shifted stays below 2^126, where the sum is at most that; the unit is a whole one.
	const most = narrowBits - 1 - 64
	shift := uint32(unitBias) - uint32(s.unit)
	if shift > most {
		if v != 0 {
			n := number{unit: unitBias}
			n.lo, n.negative = sizeOf(v)
			s.addNumber(n)
		}
		return
	}
	lo, carry := bits.Add64(s.lo, uint64(v)<<shift, 0)
	hi, _ := bits.Add64(s.hi, uint64(v>>1>>(63-shift)), carry)
	s.lo, s.hi = lo, hi
	if (hi^hi<<1)>>63 != 0 {
		s.addNumber(number{}) // as in Add
	}
}

// isWhole tells whether s is a whole number that fewer than 2^63 whole numbers of 64 bits can give.
func (s *Sum) isWhole() bool {
	var m [wideLimbs + 1]uint64
	_, unit, _ := s.limbs(&m)
	n := natural(m[:]).bitLen()
	return n == 0 || unit+natural(m[:]).trailingZeros() >= unitBias && unit+n <= unitBias+narrowBits
}

// appendWhole appends a sum that isWhole as decimal text.
func (s *Sum) appendWhole(dst []byte) []byte {
	const digits, block = 19, 1e19
	var m [wideLimbs + 1]uint64
	var x [2]uint64
	n, unit, negative := s.limbs(&m)
	natural(x[:]).setShifted(m[:n], unit-unitBias)
	if negative {
		dst = append(dst, '-')
	}
	if x[1] == 0 && x[0] < block {
		return strconv.AppendUint(dst, x[0], 10)
	}
	// 2^126 has 38 digits, so that two blocks hold them all, and the upper one is below 2^64.
	high, low := bits.Div64(x[1], x[0], block)
	dst = strconv.AppendUint(dst, high, 10)
	at := len(dst)
	dst = strconv.AppendUint(append(dst, "0000000000000000000"...), low, 10)
	copy(dst[at:], dst[len(dst)-digits:])
	return dst[:at+digits]
}

// addWhole adds the square of v exactly.
func (s *Squares) addWhole(v int64) {
	size, _ := sizeOf(v)
	square := Squares{unit: squareBias}
	square.limbs[1], square.limbs[0] = bits.Mul64(size, size)
	s.Merge(&square)
}

// keyOfWhole is keyOf of a whole number cut towards zero to as many digits as a double has.
func keyOfWhole(v int64) int32 {
	size, negative := sizeOf(v)
	if n := bits.Len64(size); n > mantissaBits+1 {
		drop := n - (mantissaBits + 1)
		size = size >> drop << drop
	}
	key := keyOf(float64(size))
	if negative {
		return ^key
	}
	return key
}

// wholeQuantile is Quantile of whole numbers.
func (a *Accumulator) wholeQuantile(p int) int64 {
	// A number cut towards zero is as whole as it was, and a double.
	return max(a.more.low, min(a.more.high, int64(a.more.quantiles.at(p, a.count))))
}

// appendWhole appends the results that are whole numbers; ok is false for the functions whose results are not.
func (a *Accumulator) appendWhole(dst []byte, f Functions) (_ []byte, ok bool) {
	m := a.more
	switch f {
	case Total:
		return a.sum.appendWhole(dst), true
	case Min:
		return strconv.AppendInt(dst, m.low, 10), true
	case Max:
		return strconv.AppendInt(dst, m.high, 10), true
	case Range:
		return strconv.AppendUint(dst, uint64(m.high)-uint64(m.low), 10), true
	case First:
		return strconv.AppendInt(dst, int64(m.first.bits), 10), true
	case Last:
		return strconv.AppendInt(dst, int64(m.last.bits), 10), true
	case Delta:
		if a.count < 2 || m.trail.lost {
			return append(dst, "null"...), true
		}
		var s Sum
		m.trail.addTo(&s, Delta|Whole)
		return s.appendWhole(dst), true
	}
	return dst, false
}
