package aggregate

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Accumulator folds the numbers of one window. The zero value has folded none. It must not be copied once it has been
// used (see Sum).
type Accumulator struct {
	count    int64
	min, max float64 // of no meaning while count is 0
	sum      Sum
}

// Reset makes a the accumulator that has folded nothing; it keeps its memory.
func (a *Accumulator) Reset() {
	a.count, a.min, a.max = 0, 0, 0
	a.sum.Reset()
}

// Add folds v, which must be finite. It does not allocate unless the exact sum needs more than 128 bits.
func (a *Accumulator) Add(v float64) {
	a.sum.Add(v)
	if a.count == 0 {
		a.min, a.max = v, v
	} else {
		// The builtins order -0 below 0.
		a.min, a.max = min(a.min, v), max(a.max, v)
	}
	a.count++
}

// Merge folds everything that o has folded; o is not changed.
func (a *Accumulator) Merge(o *Accumulator) {
	if o.count == 0 {
		return
	}
	if a.count == 0 {
		a.min, a.max = o.min, o.max
	} else {
		a.min, a.max = min(a.min, o.min), max(a.max, o.max)
	}
	a.sum.Merge(&o.sum)
	a.count += o.count
}

// Count is how many numbers were folded.
func (a *Accumulator) Count() int64 { return a.count }

// Sum returns the exact sum, which stays a's own: it must not be changed.
func (a *Accumulator) Sum() *Sum { return &a.sum }

// Min is the smallest number folded, -0 below 0. It has no meaning while Count is 0.
func (a *Accumulator) Min() float64 { return a.min }

// Max is the largest number folded, -0 below 0. It has no meaning while Count is 0.
func (a *Accumulator) Max() float64 { return a.max }

// Mean is the exact mean rounded once; see Sum.Mean. Count must be positive.
func (a *Accumulator) Mean() (v float64, overflow bool) { return a.sum.Mean(a.count) }

// AppendBinary appends what the functions f need of a, as canonical bytes: the count as the shortest uvarint, and when
// it is not 0 the sum if f has sum or mean (see encode.go), then min and max if f has them, eight bytes each, least
// significant first.
func (a *Accumulator) AppendBinary(dst []byte, f Functions) []byte {
	dst = binary.AppendUvarint(dst, uint64(a.count))
	if a.count == 0 {
		return dst
	}
	if f&needSum != 0 {
		dst = a.sum.AppendBinary(dst)
	}
	if f&Min != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(a.min))
	}
	if f&Max != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(a.max))
	}
	return dst
}

// DecodeBinary sets a from the bytes that AppendBinary wrote for the same functions and returns the bytes behind them.
// It accepts nothing else; a has folded nothing after an error. b is not kept. What f does not need has no meaning in a
// afterwards.
func (a *Accumulator) DecodeBinary(b []byte, f Functions) (rest []byte, err error) {
	rest, err = a.decode(b, f)
	if err != nil {
		a.Reset()
	}
	return rest, err
}

func (a *Accumulator) decode(b []byte, f Functions) (rest []byte, err error) {
	a.Reset()
	count, b, err := takeUvarint(b)
	if err == nil && count > math.MaxInt64 {
		err = errRange
	}
	if err != nil {
		return nil, fmt.Errorf("count: %w", err)
	}
	if count == 0 {
		return b, nil
	}
	a.count = int64(count)
	if f&needSum != 0 {
		if b, err = a.sum.Decode(b); err != nil {
			return nil, err
		}
	}
	if f&Min != 0 {
		if a.min, b, err = takeFloat(b); err != nil {
			return nil, fmt.Errorf("min: %w", err)
		}
	}
	if f&Max != 0 {
		if a.max, b, err = takeFloat(b); err != nil {
			return nil, fmt.Errorf("max: %w", err)
		}
	}
	if f.Has(Min|Max) && math.Float64bits(min(a.min, a.max)) != math.Float64bits(a.min) {
		return nil, fmt.Errorf("min %v above max %v: %w", a.min, a.max, errRange)
	}
	return b, nil
}
