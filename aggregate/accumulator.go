package aggregate

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tidemark-streams/tidemark/internal/defect"
)

// Accumulator folds the numbers of one window. The zero value has folded none and keeps what the functions of Plain
// need; Reset asks for more. It must not be copied once it has been used (see Sum).
type Accumulator struct {
	count    int64
	min, max float64 // of no meaning while count is 0
	sum      Sum
	keeps    Functions // those that need more
	more     *more     // made when first needed; of no meaning while keeps is 0
}

// Reset makes a the accumulator that has folded nothing and keeps what the functions f need; its memory stays.
func (a *Accumulator) Reset(f Functions) {
	a.count, a.min, a.max = 0, 0, 0
	a.sum.Reset()
	if a.keeps = f &^ Plain &^ Range; a.keeps != 0 {
		a.resetMore()
	}
}

// Add folds the number v, which must be finite, and not with Whole, of the reading that stands at at; that is not kept, and has no meaning
// for the functions of Plain. It does not allocate unless the exact sum needs more than 128 bits, or that of the squares
// more than 255.
func (a *Accumulator) Add(v float64, at *At) {
	if defect.FloatSums && a.count > 0 {
		total, _ := a.sum.Float64()
		a.sum.Reset()
		a.sum.Add(total + v)
	} else {
		a.sum.Add(v)
	}
	if a.keeps != 0 {
		a.addMore(v, at)
	}
	if a.count == 0 {
		a.min, a.max = v, v
	} else {
		// The builtins order -0 below 0.
		a.min, a.max = min(a.min, v), max(a.max, v)
	}
	a.count++
}

// Merge folds everything that o has folded; o is not changed. Both must keep the same (see Reset).
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
	if a.keeps != 0 {
		a.mergeMore(o)
	}
	a.count += o.count
}

// Count is how many numbers were folded.
func (a *Accumulator) Count() int64 { return a.count }

// Sum returns the exact sum, which stays a's own: it must not be changed.
func (a *Accumulator) Sum() *Sum { return &a.sum }

// Squares returns the exact sum of squares, which stays a's own: it must not be changed. a must keep it (see Reset).
func (a *Accumulator) Squares() *Squares { return &a.more.squares }

// Min is the smallest number folded, -0 below 0. It has no meaning while Count is 0, or with Whole.
func (a *Accumulator) Min() float64 { return a.min }

// Max is the largest number folded, -0 below 0. It has no meaning while Count is 0, or with Whole.
func (a *Accumulator) Max() float64 { return a.max }

// Mean is the exact mean rounded once; see Sum.Mean. Count must be positive.
func (a *Accumulator) Mean() (v float64, overflow bool) { return a.sum.Mean(a.count) }

// AppendBinary appends what the functions f need of a, as canonical bytes: the count as the shortest uvarint, and when
// it is not 0 the sum if f has one of FromSums (see encode.go), the sum of squares if f has one of Spreads, min and max if
// f has them or range, eight bytes each, least significant first, then what only some functions need (see more.go). a
// must keep what f needs (see Reset).
func (a *Accumulator) AppendBinary(dst []byte, f Functions) []byte {
	dst = binary.AppendUvarint(dst, uint64(a.count))
	if a.count == 0 {
		return dst
	}
	if f&FromSums != 0 {
		dst = a.sum.AppendBinary(dst)
	}
	if f&Spreads != 0 {
		dst = a.more.squares.AppendBinary(dst)
	}
	low, high := math.Float64bits(a.min), math.Float64bits(a.max)
	if f&Whole != 0 {
		low, high = uint64(a.more.low), uint64(a.more.high)
	}
	if f&needMin != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, low)
	}
	if f&needMax != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, high)
	}
	if f&^early != 0 {
		return a.appendMore(dst, f)
	}
	return dst
}

// DecodeBinary sets a from the bytes that AppendBinary wrote for the same functions and returns the bytes behind them.
// It accepts nothing else, and afterwards a keeps what f needs; it has folded nothing after an error. b is not kept. What
// f does not need has no meaning in a afterwards.
func (a *Accumulator) DecodeBinary(b []byte, f Functions) (rest []byte, err error) {
	rest, err = a.decode(b, f)
	if err != nil {
		a.Reset(f)
	}
	return rest, err
}

func (a *Accumulator) decode(b []byte, f Functions) (rest []byte, err error) {
	a.Reset(f)
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
	if f&FromSums != 0 {
		if b, err = a.sum.Decode(b); err != nil {
			return nil, err
		}
		if f&Whole != 0 && !a.sum.isWhole() {
			return nil, fmt.Errorf("sum of whole numbers: %w", errRange)
		}
	}
	if f&Spreads != 0 {
		if b, err = a.decodeSquares(b); err != nil {
			return nil, err
		}
	}
	if b, err = a.decodeExtremes(b, f); err != nil {
		return nil, err
	}
	if f&^early != 0 {
		return a.decodeMore(b, f)
	}
	return b, nil
}

func (a *Accumulator) decodeExtremes(b []byte, f Functions) (rest []byte, err error) {
	low, high := uint64(0), uint64(0)
	if f&needMin != 0 {
		if low, b, err = takeNumber(b, f); err != nil {
			return nil, fmt.Errorf("min: %w", err)
		}
	}
	if f&needMax != 0 {
		if high, b, err = takeNumber(b, f); err != nil {
			return nil, fmt.Errorf("max: %w", err)
		}
	}
	both := f&needMin != 0 && f&needMax != 0
	if f&Whole != 0 {
		if a.more.low, a.more.high = int64(low), int64(high); both && a.more.low > a.more.high {
			return nil, fmt.Errorf("min %d above max %d: %w", a.more.low, a.more.high, errRange)
		}
		return b, nil
	}
	a.min, a.max = math.Float64frombits(low), math.Float64frombits(high)
	if both && math.Float64bits(min(a.min, a.max)) != low {
		return nil, fmt.Errorf("min %v above max %v: %w", a.min, a.max, errRange)
	}
	return b, nil
}

func (a *Accumulator) decodeSquares(b []byte) (rest []byte, err error) {
	if rest, err = a.more.squares.Decode(b); err != nil {
		return nil, err
	}
	var d spread
	if !a.deviations(&d) {
		return nil, fmt.Errorf("sum of squares too small for sum and count: %w", errRange)
	}
	return rest, nil
}
