package aggregate

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// Squares is an exact sum of the squares of finite doubles. The zero value is the empty sum. As long as the sum fits 255
// bits at one exponent, which real readings do, nothing is allocated; otherwise it goes over to a fixed array that Reset
// keeps. Like a Sum it must not be copied once it has been used, and holds up to 2^63-1 addends.
type Squares struct {
	limbs [4]uint64 // below 2^255
	unit  int32     // exponent of the lowest bit, biased by squareBias; wideUnit: the sum is in wide
	wide  *wideSquares
}

// wideSquares covers every sum of squares, in units of 2^-2148, the square of the smallest double.
type wideSquares [(maxSquareTop + 2148 + 63) / 64]uint64

// The square of a double with exponent field f is a whole multiple of 2^(2f - squareBias).
const (
	squareBias     = 2 * unitBias
	minSquareUnit  = 2 * minUnit
	squareBits     = 255
	maxSquareShift = squareBits - 1 - 2*(mantissaBits+1) // a square so shifted stays below 2^254
	maxSquareTop   = 2048 + 63                           // fewer than 2^63 squares, each below 2^2048

	// maxSquareBytes is the length of the longest M (R17).
	maxSquareBytes = (maxSquareTop + 2148 + 7) / 8
)

// Reset makes s the empty sum.
func (s *Squares) Reset() { s.limbs, s.unit = [4]uint64{}, 0 }

// Add adds the square of x exactly. It panics when x is not finite.
func (s *Squares) Add(x float64) {
	b := math.Float64bits(x)
	field := uint32(b>>mantissaBits) & fieldMask
	shift := 2*field - uint32(s.unit)
	if shift > maxSquareShift || field-1 >= fieldMask-1 {
		s.addSlow(b)
		return
	}
	m := b&(1<<mantissaBits-1) | 1<<mantissaBits
	hi, lo := bits.Mul64(m, m)
	off := shift & 63
	high := hi >> (64 - off)
	lo, hi = lo<<off, hi<<off|lo>>(64-off)
	l := &s.limbs
	var carry uint64
	switch shift >> 6 {
	case 0:
		l[0], carry = bits.Add64(l[0], lo, 0)
		l[1], carry = bits.Add64(l[1], hi, carry)
		l[2], carry = bits.Add64(l[2], high, carry)
		l[3] += carry
	case 1:
		l[1], carry = bits.Add64(l[1], lo, 0)
		l[2], carry = bits.Add64(l[2], hi, carry)
		l[3] += high + carry
	default: // high is zero: the shift leaves the square below 2^254
		l[2], carry = bits.Add64(l[2], lo, 0)
		l[3] += hi + carry
	}
	if l[3]>>63 != 0 { // 2^255 is reached: find another exponent, or go wide
		full := *s
		s.Reset()
		s.Merge(&full)
	}
}

// addSlow adds the square of the double with bits b where the fast path cannot: zeros, subnormals, exponents out of
// reach.
func (s *Squares) addSlow(b uint64) {
	field := int32(b>>mantissaBits) & fieldMask
	m := b & (1<<mantissaBits - 1)
	switch field {
	case fieldMask:
		panic("aggregate: " + string(AppendFloat(nil, math.Float64frombits(b))) + " is not a finite number")
	case 0:
		field = minUnit
	default:
		m |= 1 << mantissaBits
	}
	square := Squares{unit: 2 * field}
	square.limbs[1], square.limbs[0] = bits.Mul64(m, m)
	s.Merge(&square)
}

// view is the sum as it stands: its limbs, which stay its own, and the biased exponent of the lowest bit.
func (s *Squares) view() (x natural, unit int) {
	if s.unit == wideUnit {
		return s.wide[:], minSquareUnit
	}
	return s.limbs[:], int(s.unit)
}

// Merge adds o, which is not changed. It panics when the result could not come from fewer than 2^63 doubles.
func (s *Squares) Merge(o *Squares) {
	y, unit := o.view()
	n := y.bitLen()
	if n == 0 {
		return
	}
	if s.unit != wideUnit && s.makeRoom(unit+y.trailingZeros(), unit+n) {
		natural(s.limbs[:]).addShifted(y, unit-int(s.unit))
		return
	}
	s.toWide()
	natural(s.wide[:]).addShifted(y, unit-minSquareUnit)
	if natural(s.wide[:]).bitLen() > maxSquareTop+2148 {
		panic("aggregate: a sum of squares has more than 2^63 addends")
	}
}

// makeRoom finds an exponent under which a narrow s takes an addend with bits from bottom up to below top, with the free
// bits shared out above and below. It tells whether there is one.
func (s *Squares) makeRoom(bottom, top int) bool {
	x := natural(s.limbs[:])
	if n := x.bitLen(); n > 0 {
		bottom, top = min(bottom, int(s.unit)+x.trailingZeros()), max(top, int(s.unit)+n)
	}
	span := top + 1 - bottom
	if span > squareBits {
		return false
	}
	s.move(max(minSquareUnit, bottom-(squareBits-span)/2))
	return true
}

// move changes the exponent of a narrow s to one that suits its value.
func (s *Squares) move(unit int) {
	old := s.limbs
	natural(s.limbs[:]).setShifted(old[:], int(s.unit)-unit)
	s.unit = int32(unit)
}

// toWide moves s into its wide array, made when first needed.
func (s *Squares) toWide() {
	if s.unit == wideUnit {
		return
	}
	if s.wide == nil {
		s.wide = new(wideSquares)
	}
	natural(s.wide[:]).setShifted(s.limbs[:], int(s.unit)-minSquareUnit)
	s.unit = wideUnit
}

// AppendBinary appends the canonical bytes of the sum, which have the form of a Sum's (see encode.go).
func (s *Squares) AppendBinary(dst []byte) []byte {
	x, unit := s.view()
	n := x.bitLen()
	if n == 0 {
		return append(dst, 0)
	}
	low := x.trailingZeros()
	length := (n - low + 7) / 8
	dst = appendHead(dst, length, false, int32(unit+low-squareBias))
	at := len(dst)
	for ; low < n; low += 64 {
		dst = binary.LittleEndian.AppendUint64(dst, x.word(low))
	}
	return dst[:at+length]
}

// Decode sets s to the sum at the start of b and returns the bytes behind it. It accepts exactly what AppendBinary
// writes; s is the empty sum after an error. b is not kept.
func (s *Squares) Decode(b []byte) (rest []byte, err error) {
	s.Reset()
	m, exponent, negative, rest, err := takeInteger(b, "sum of squares", maxSquareBytes)
	if err != nil || len(m) == 0 {
		return rest, err
	}
	size := (len(m)-1)*8 + bits.Len8(m[len(m)-1])
	if negative || exponent < -2148 || exponent > maxSquareTop-int64(size) {
		return nil, fmt.Errorf("sum of squares of %d bits with exponent %d, negative %v: %w", size, exponent, negative, errRange)
	}
	unit := int(exponent) + squareBias
	if size > squareBits {
		s.toWide()
		for i := 0; i < len(m); i += 8 {
			natural(s.wide[:]).addShifted(natural{word(m[i:], len(m)-i)}, unit-minSquareUnit+i*8)
		}
		return rest, nil
	}
	for i := 0; i < len(m); i += 8 {
		s.limbs[i/8] = word(m[i:], len(m)-i)
	}
	s.unit = int32(unit)
	s.makeRoom(unit, unit+size)
	return rest, nil
}

// AppendExact appends the exact sum as decimal text "M*2^e"; see Sum.AppendExact.
func (s *Squares) AppendExact(dst []byte) []byte { return appendExact(dst, s.AppendBinary(nil)) }
