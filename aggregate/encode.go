package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
)

// The bytes of a Sum, format 1:
//
//	head      uvarint: 0 for the sum zero, which ends here; else bytes of |M| * 2, plus 1 when M is negative
//	exponent  zigzag varint of e
//	M         |M|, least significant byte first, no zero byte at the end; odd
//
// Varints are the shortest possible. There is one encoding of each value and no other is accepted.

// maxBytes is the length of the longest M.
const maxBytes = (maxSumBits + 1074 + 7) / 8

// AppendBinary appends the canonical bytes of the sum.
func (s *Sum) AppendBinary(dst []byte) []byte {
	if s.unit == wideUnit {
		return s.wide.appendBinary(dst)
	}
	m := s.number().odd()
	length := (m.bitLen() + 7) / 8
	if length == 0 {
		return append(dst, 0)
	}
	dst = appendHead(dst, length, m.negative, m.unit-unitBias)
	at := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, m.lo)
	dst = binary.LittleEndian.AppendUint64(dst, m.hi)
	return dst[:at+length]
}

func (w *wide) appendBinary(dst []byte) []byte {
	mag, negative := w.abs()
	n := mag.bitLen()
	if n == 0 {
		return append(dst, 0)
	}
	low := mag.trailingZeros()
	length := (n - low + 7) / 8
	dst = appendHead(dst, length, negative, int32(low)+minUnit-unitBias)
	at := len(dst)
	for ; low < n; low += 64 {
		dst = binary.LittleEndian.AppendUint64(dst, mag.word(low))
	}
	return dst[:at+length]
}

func appendHead(dst []byte, length int, negative bool, exponent int32) []byte {
	head := uint64(length) * 2
	if negative {
		head++
	}
	if head < 0x80 && exponent >= -64 && exponent < 64 {
		return append(dst, byte(head), byte(uint32(exponent)<<1^uint32(exponent>>31)))
	}
	dst = binary.AppendUvarint(dst, head)
	return binary.AppendVarint(dst, int64(exponent))
}

// Errors of decoding. They are wrapped with what was being decoded.
var (
	errShort     = errors.New("the bytes end early")
	errCanonical = errors.New("the bytes are not in their shortest form")
	errRange     = errors.New("the value is out of range")
)

// Decode sets s to the sum at the start of b and returns the bytes behind it. It accepts exactly what AppendBinary
// writes; s is the empty sum after an error. b is not kept.
func (s *Sum) Decode(b []byte) (rest []byte, err error) {
	s.Reset()
	m, exponent, negative, rest, err := takeInteger(b, "sum", maxBytes)
	if err != nil || len(m) == 0 {
		return rest, err
	}
	size := (len(m)-1)*8 + bits.Len8(m[len(m)-1])
	if exponent < minUnit-unitBias || exponent > maxSumBits-int64(size) {
		return nil, fmt.Errorf("sum of %d bits with exponent %d: %w", size, exponent, errRange)
	}
	s.load(b[len(b)-len(rest)-len(m):], len(m), number{unit: int32(exponent) + unitBias, negative: negative}, size)
	return rest, nil
}

// takeInteger takes M * 2^exponent: m is |M|, least significant byte first, with no bytes for zero.
func takeInteger(b []byte, what string, longest uint64) (m []byte, exponent int64, negative bool, rest []byte, err error) {
	head, b, err := takeUvarint(b)
	if err != nil {
		return nil, 0, false, nil, fmt.Errorf("%s: %w", what, err)
	}
	if head == 0 {
		return nil, 0, false, b, nil
	}
	zigzag, b, err := takeUvarint(b)
	if err != nil {
		return nil, 0, false, nil, fmt.Errorf("exponent of a %s: %w", what, err)
	}
	exponent = int64(zigzag>>1) ^ -int64(zigzag&1)
	length := head / 2
	switch {
	case length == 0:
		err = fmt.Errorf("%s: %w", what, errCanonical)
	case length > longest:
		err = fmt.Errorf("%s of %d bytes, at most %d: %w", what, length, longest, errRange)
	case uint64(len(b)) < length:
		err = fmt.Errorf("%s of %d bytes, %d there: %w", what, length, len(b), errShort)
	case b[length-1] == 0 || b[0]&1 == 0:
		err = fmt.Errorf("%s: %w", what, errCanonical)
	}
	if err != nil {
		return nil, 0, false, nil, err
	}
	return b[:length], exponent, head&1 != 0, b[length:], nil
}

// load sets s, which is empty, to the M in the first bytes of b, of size bits, with the exponent and sign of n.
func (s *Sum) load(b []byte, length int, n number, size int) {
	if size >= narrowBits {
		s.toWide()
		for ; length > 0; length -= 8 {
			n.lo = word(b, length)
			s.wide.add(n)
			n.unit += 64
			b = b[min(8, length):]
		}
		return
	}
	n.lo = word(b, length)
	if length > 8 {
		n.hi = word(b[8:], length-8)
	}
	// Room for the readings to come is left on both sides, as commonUnit does.
	s.unit = max(minUnit, n.unit-int32(narrowBits-size-1)/2)
	s.addAt(n)
}

// word is the number in the first length bytes of b, or in the first eight when length is larger.
func word(b []byte, length int) (v uint64) {
	switch {
	case length >= 8:
		return binary.LittleEndian.Uint64(b)
	case len(b) >= 8:
		return binary.LittleEndian.Uint64(b) & (1<<(8*length) - 1)
	}
	for i, c := range b[:length] {
		v |= uint64(c) << (8 * i)
	}
	return v
}

// takeUvarint takes a varint that is as short as it can be.
func takeUvarint(b []byte) (v uint64, rest []byte, err error) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), b[1:], nil
	}
	return takeLongUvarint(b) // apart, so that the short case is inlined
}

func takeLongUvarint(b []byte) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	switch {
	case n == 0:
		return 0, nil, errShort
	case n < 0:
		return 0, nil, errRange
	case b[n-1] == 0:
		return 0, nil, errCanonical
	}
	return v, b[n:], nil
}

// AppendExact appends the exact sum as decimal text "M*2^e", "0*2^0" for zero. It is for people and proofs, not for the
// hot path.
func (s *Sum) AppendExact(dst []byte) []byte { return appendExact(dst, s.AppendBinary(nil)) }

// appendExact appends the text of the integer in the bytes of a Sum, which it spoils.
func appendExact(dst, b []byte) []byte {
	head, b, _ := takeUvarint(b)
	if head == 0 {
		return append(dst, "0*2^0"...)
	}
	zigzag, b, _ := takeUvarint(b)
	slices.Reverse(b)
	m := new(big.Int).SetBytes(b)
	if head&1 != 0 {
		m.Neg(m)
	}
	dst = m.Append(dst, 10)
	return fmt.Appendf(dst, "*2^%d", int64(zigzag>>1)^-int64(zigzag&1))
}

// takeNumber takes the eight bytes of a number, least significant first: a whole number where f says so, else a finite
// double.
func takeNumber(b []byte, f Functions) (bits uint64, rest []byte, err error) {
	if len(b) < numberBytes {
		return 0, nil, errShort
	}
	bits = binary.LittleEndian.Uint64(b)
	if v := math.Float64frombits(bits); f&Whole == 0 && (math.IsInf(v, 0) || math.IsNaN(v)) {
		return 0, nil, errRange
	}
	return bits, b[numberBytes:], nil
}
