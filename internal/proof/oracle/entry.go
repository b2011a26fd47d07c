package oracle

import (
	"encoding/binary"
	"math/big"
	"slices"
)

// EntryValue is the value that the changelog must hold for the first n readings of a window, byte for byte: equal
// readings have equal bytes whatever happened in between (I11). Format 1, as internal/job and aggregate document it: the
// byte 1, the length of the window as an unsigned varint if it is a session or the calendar's, then for each value field the count as an unsigned varint, the exact sum when a function of sums is wanted,
// the exact sum of squares when a spread is, min and max as eight bytes each, least significant first, when they, range or
// percentiles are, the first and the last reading with where they stand, and what appendTrail,
// appendDistinct and appendBuckets say.
func (w *Window) EntryValue(n int, values int, functions []string) []byte {
	b := []byte{1}
	if w.Stored {
		b = binary.AppendUvarint(b, uint64(w.End-w.Start))
	}
	has := func(names ...string) bool {
		return slices.ContainsFunc(functions, func(f string) bool { return slices.Contains(names, f) })
	}
	for i := range values {
		s := w.Stats(i, n)
		b = binary.AppendUvarint(b, uint64(s.Count))
		if has("sum", "mean", "variance", "stddev", "variance_pop", "stddev_pop") {
			b = appendSum(b, s.sum, scaleBits)
		}
		if has("variance", "stddev", "variance_pop", "stddev_pop") {
			b = appendSum(b, s.squares, 2*scaleBits)
		}
		percentiles := slices.ContainsFunc(functions, func(f string) bool { _, ok := percent(f); return ok })
		if has("min", "range") || percentiles {
			b = binary.LittleEndian.AppendUint64(b, s.least.bits())
		}
		if has("max", "range") || percentiles {
			b = binary.LittleEndian.AppendUint64(b, s.most.bits())
		}
		if has("first") {
			b = s.ordered[0].append(b)
		}
		if has("last") {
			b = s.ordered[len(s.ordered)-1].append(b)
		}
		if has("delta", "rate", "time_mean") {
			b = s.appendTrail(b, has("delta", "rate"), has("time_mean"))
		}
		if has("distinct") {
			b = s.appendDistinct(b)
		}
		if percentiles {
			b = s.appendBuckets(b)
		}
	}
	return b
}

// appendSum appends an exact sum M * 2^e, M odd: twice the number of bytes of |M|, plus 1 below zero, as an unsigned
// varint; e as a zigzag varint; |M|, least significant byte first. Zero is the one byte 0. The sum is given times
// 2^places.
func appendSum(b []byte, scaled *big.Int, places int64) []byte {
	if scaled.Sign() == 0 {
		return append(b, 0)
	}
	zeros := scaled.TrailingZeroBits()
	m := new(big.Int).Rsh(new(big.Int).Abs(scaled), zeros).Bytes()
	head := uint64(len(m)) * 2
	if scaled.Sign() < 0 {
		head++
	}
	b = binary.AppendUvarint(b, head)
	b = binary.AppendVarint(b, int64(zeros)-places)
	slices.Reverse(m)
	return append(b, m...)
}
