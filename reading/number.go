package reading

import (
	"encoding/binary"
	"math"
	"strconv"
)

// number is a scanned number: (-1)^neg * mant * 10^exp, when exact.
type number struct {
	mant  uint64
	exp   int32 // an exponent beyond maxExponent is cut to it
	neg   bool
	exact bool // at most maxDigits digits; else only neg counts
}

const (
	maxDigits   = 19    // all numbers of so many digits fit into 64 bits
	maxExponent = 99999 // far outside of all that is computed from mant and exp; beyond it the token is asked
)

// number scans a number into n.
func (s *scanner) number(p int, n *number) int {
	n.neg = s.data[p] == '-'
	if n.neg {
		p++
	}
	first := p
	p, mant := s.digits(p, 0)
	digits := p - first
	exp := int32(0)
	switch {
	case digits == 0:
		return s.noNumber(p)
	case digits > 1 && s.data[first] == '0':
		return s.leadingZero(first + 1)
	}
	if p < len(s.data) && s.data[p] == '.' {
		point := p + 1
		p, mant = s.digits(point, mant)
		if p == point {
			return s.noDigit(p)
		}
		digits += p - point
		exp = int32(point - p)
	}
	n.mant, n.exp, n.exact = mant, exp, digits <= maxDigits
	if p < len(s.data) && s.data[p]|0x20 == 'e' {
		if p = s.exponent(p+1, n); p == failed {
			return failed
		}
	}
	return p
}

// digits scans digits, any number of them, and appends them to a mantissa, which overflows silently.
func (s *scanner) digits(p int, m uint64) (int, uint64) {
	for p+8 <= len(s.data) {
		w := binary.LittleEndian.Uint64(s.data[p:])
		if !eightDigits(w) {
			break
		}
		m = m*100000000 + fromDigits(w)
		p += 8
	}
	for ; p < len(s.data); p++ {
		d := s.data[p] - '0'
		if d > 9 {
			break
		}
		m = m*10 + uint64(d)
	}
	return p, m
}

// eightDigits tells whether all bytes of a word are digits.
func eightDigits(w uint64) bool {
	return w&0xF0F0F0F0F0F0F0F0 == '0'*ones && (w+0x06*ones)&0xF0F0F0F0F0F0F0F0 == '0'*ones
}

// fromDigits is the number that eight digits make, the first one in the lowest byte: pairs, then fours, then all.
func fromDigits(w uint64) uint64 {
	w -= '0' * ones
	w = w*10 + w>>8
	const pair = 0x000000FF000000FF
	return ((w&pair)*(100+1000000<<32) + (w>>16&pair)*(1+10000<<32)) >> 32
}

// exponent scans an exponent from behind its letter.
func (s *scanner) exponent(p int, n *number) int {
	neg := false
	if p < len(s.data) && (s.data[p] == '+' || s.data[p] == '-') {
		neg = s.data[p] == '-'
		p++
	}
	first, e := p, int32(0)
	for ; p < len(s.data) && s.data[p]-'0' <= 9; p++ {
		e = min(e*10+int32(s.data[p]-'0'), maxExponent)
	}
	if p == first {
		return s.noDigit(p)
	}
	if neg {
		e = -e
	}
	n.exp += e
	return p
}

// Powers of ten that are doubles exactly, and the first whole number that may not be one.
var exactPowers = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

const beyondExact = 1 << 53

// float is the double nearest to the number, with its sign; false when the number is beyond the doubles. The token is
// the number's text.
//
// A whole number below 2^53 and a power of ten up to 10^22 are doubles exactly, so that one multiplication or division
// rounds once and is right. All else goes to strconv.
func (n *number) float(token []byte) (float64, bool) {
	if n.exact && n.mant < beyondExact && -int(n.exp) < len(exactPowers) && int(n.exp) < len(exactPowers) {
		f := float64(int64(n.mant))
		if n.exp < 0 {
			f /= exactPowers[-n.exp]
		} else {
			f *= exactPowers[n.exp]
		}
		if n.neg {
			f = -f
		}
		return f, true
	}
	return parseToken(token)
}

// suspect tells whether a double may stand for another number than the one written in a way that matters (C03, C22): it
// is 0, or of a size at which doubles are further apart than whole numbers are, or infinite.
func suspect(f float64) bool {
	const sign = 1 // shifted out; and 0 becomes the largest of all
	return math.Float64bits(f)<<sign-1 >= math.Float64bits(beyondExact)<<sign-1
}

// inexact tells whether a suspect double is another number than its token.
func inexact(f float64, token []byte) bool {
	switch {
	case f == 0:
		return !zero(token)
	case math.IsInf(f, 0):
		return true
	}
	const plain = 18 // digits of which every number fits
	if token[0] == '-' {
		token = token[1:]
	}
	if size := math.Abs(f); size < 1e18 && len(token) <= plain {
		n, whole := uint64(0), true
		for _, c := range token {
			n, whole = n*10+uint64(c-'0'), whole && c-'0' <= 9
		}
		if whole {
			return n != uint64(size)
		}
	}
	return otherDigits(math.Abs(f), token)
}

// zero tells whether a number's token stands for 0.
func zero(token []byte) bool {
	for _, c := range token {
		switch {
		case c-'1' < 9:
			return false
		case c|0x20 == 'e':
			return true
		}
	}
	return true
}

// otherDigits tells whether a large double, which is a whole number, has other digits than a token without a sign.
func otherDigits(f float64, token []byte) bool {
	var buffer [310]byte // the largest double has 309 digits
	digits := strconv.AppendFloat(buffer[:0], f, 'f', 0, 64)
	d := parseDecimal(token)
	if d.size > d.point || d.point != int64(len(digits)) {
		return true
	}
	for i, c := range digits {
		if d.digit(int64(i)) != int64(c-'0') {
			return true
		}
	}
	return false
}
