package aggregate

import "math/bits"

// natural is a number without sign, least significant limb first, of a length its owner has chosen.
type natural []uint64

// bitLen is the number of bits up to the highest one set.
func (x natural) bitLen() int {
	for i := len(x) - 1; i >= 0; i-- {
		if x[i] != 0 {
			return i*64 + bits.Len64(x[i])
		}
	}
	return 0
}

// trailingZeros is the position of the lowest set bit of a number that is not zero.
func (x natural) trailingZeros() int {
	i := 0
	for x[i] == 0 {
		i++
	}
	return i*64 + bits.TrailingZeros64(x[i])
}

// word returns the 64 bits from position up; positions outside hold zeros.
func (x natural) word(position int) uint64 {
	limb, off := position>>6, uint(position)&63
	var low, high uint64
	if uint(limb) < uint(len(x)) {
		low = x[limb]
	}
	if uint(limb+1) < uint(len(x)) {
		high = x[limb+1]
	}
	return low>>off | high<<(64-off)
}

// setShifted sets x to y << by; by may be negative. What does not fit is lost: the caller knows that it is nothing.
func (x natural) setShifted(y natural, by int) {
	for i := range x {
		x[i] = y.word(i*64 - by)
	}
}

// addShifted adds y << by.
func (x natural) addShifted(y natural, by int) {
	var carry uint64
	end := (by + len(y)*64 + 63) >> 6
	for i := max(0, by>>6); i < len(x) && (i < end || carry != 0); i++ {
		x[i], carry = bits.Add64(x[i], y.word(i*64-by), carry)
	}
}

// sub subtracts y, which has no more limbs, and tells whether the difference would be negative.
func (x natural) sub(y natural) (negative bool) {
	var borrow uint64
	for i := range x {
		var limb uint64
		if i < len(y) {
			limb = y[i]
		}
		x[i], borrow = bits.Sub64(x[i], limb, borrow)
	}
	return borrow != 0
}

// setProduct sets x, which has room for it, to y * z.
func (x natural) setProduct(y, z natural) {
	clear(x)
	for i, a := range y {
		var carry uint64
		for j, b := range z {
			hi, lo := bits.Mul64(a, b)
			var c uint64
			lo, c = bits.Add64(lo, x[i+j], 0)
			hi += c
			lo, c = bits.Add64(lo, carry, 0)
			x[i+j], carry = lo, hi+c
		}
		if carry != 0 {
			x[i+len(z)] = carry
		}
	}
}

// divide sets x to x / d, rounded down, and returns the remainder.
func (x natural) divide(d uint64) (remainder uint64) {
	for i := len(x) - 1; i >= 0; i-- {
		x[i], remainder = bits.Div64(remainder, x[i], d)
	}
	return remainder
}
