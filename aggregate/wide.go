package aggregate

import "math/bits"

// wideLimbs covers every sum of fewer than 2^63 doubles: 2^-1074 up to 2^1087, a sign bit, rounded up to limbs.
const wideLimbs = 34

// wide is a two's complement number, least significant limb first, in units of 2^-1074.
type wide [wideLimbs]uint64

// add adds n, whose lowest bit is no lower than 2^-1074 unless n is zero.
func (w *wide) add(n number) {
	if n.hi|n.lo == 0 {
		return
	}
	n = n.odd()
	position := uint(n.unit - minUnit)
	limb, off := int(position/64), position%64
	parts := [3]uint64{n.lo << off, n.hi<<off | n.lo>>(64-off), n.hi >> (64 - off)}
	var carry uint64
	for i := 0; limb+i < wideLimbs && (i < len(parts) || carry != 0); i++ {
		var part uint64
		if i < len(parts) {
			part = parts[i]
		}
		if n.negative {
			w[limb+i], carry = bits.Sub64(w[limb+i], part, carry)
		} else {
			w[limb+i], carry = bits.Add64(w[limb+i], part, carry)
		}
	}
	w.check()
}

// addWide adds o.
func (w *wide) addWide(o *wide) {
	var carry uint64
	for i := range w {
		w[i], carry = bits.Add64(w[i], o[i], carry)
	}
	w.check()
}

// check panics when |w| has reached 2^maxSumBits, long before the array could wrap: no honest fold gets there.
func (w *wide) check() {
	const spare = wideLimbs*64 - 1 - (maxSumBits + 1074) // bits between the bound and the sign
	if top := int64(w[wideLimbs-1]) >> (63 - spare); top != 0 && top != -1 {
		panic("aggregate: a sum has more than 2^63 addends")
	}
}

// abs returns |w| and whether w is negative.
func (w *wide) abs() (mag wide, negative bool) {
	if int64(w[wideLimbs-1]) >= 0 {
		return *w, false
	}
	var borrow uint64
	for i := range w {
		mag[i], borrow = bits.Sub64(0, w[i], borrow)
	}
	return mag, true
}

// bitLen is the number of bits of a magnitude.
func (w *wide) bitLen() int {
	for i := wideLimbs - 1; i >= 0; i-- {
		if w[i] != 0 {
			return i*64 + bits.Len64(w[i])
		}
	}
	return 0
}

// trailingZeros is the position of the lowest set bit of a magnitude that is not zero.
func (w *wide) trailingZeros() int {
	i := 0
	for w[i] == 0 {
		i++
	}
	return i*64 + bits.TrailingZeros64(w[i])
}

// word returns the 64 bits of a magnitude from position up; positions outside hold zeros.
func (w *wide) word(position int) uint64 {
	at := func(limb int) uint64 {
		if limb < 0 || limb >= wideLimbs {
			return 0
		}
		return w[limb]
	}
	limb, off := position>>6, uint(position)&63
	return at(limb)>>off | at(limb+1)<<(64-off)
}

// magnitude is Sum.magnitude for a wide sum.
func (w *wide) magnitude() (m number, inexact bool) {
	mag, negative := w.abs()
	n := mag.bitLen()
	if n == 0 {
		return number{}, false
	}
	low := n - 128
	m = number{hi: mag.word(n - 64), lo: mag.word(low), unit: int32(low) + minUnit, negative: negative}
	return m, low > mag.trailingZeros()
}
