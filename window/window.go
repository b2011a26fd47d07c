// Package window turns event times into windows, and the durations of a configuration into milliseconds.
//
// Times are int64 milliseconds since the Unix epoch, UTC, and so are the bounds of windows: neither the time zone of the
// machine nor its clock plays a part (I11). Windows are aligned to the epoch plus an offset, or to the calendar of a zone
// whose rules this package carries, so that every instance and every restart cuts time at the same places. Sessions
// alone depend on the readings.
//
// The package is pure; its values may be used by many goroutines.
package window

import (
	"fmt"
	"math"
)

// Span is one window: the times t with Start <= t < End, in ms since the epoch.
type Span struct {
	Start, End int64
}

// Contains tells whether t lies in the window.
func (s Span) Contains(t int64) bool { return s.Start <= t && t < s.End }

// Kind is a way to cut time into windows: a Tumbling, a Hopping, a Session or a Calendar.
type Kind interface {
	// Check tells what is wrong with the sizes, nil when nothing is. The other methods demand a kind without faults.
	Check() error
	// Assign appends the windows that hold t, earliest start first. A window whose bounds are not both int64 is left
	// out (W11). It allocates only to grow dst.
	Assign(dst []Span, t int64) []Span
	// At returns the window that starts at start; ok is false when none does, or when a start does not tell.
	At(start int64) (s Span, ok bool)
	// String tells the windows apart in the definition of an aggregation, whose hash is kept with the state: two kinds
	// have the same text exactly when they have the same windows, and the text of a kind never changes.
	String() string
}

// Tumbling cuts time into windows of equal size that do not overlap: [n*Size + Offset, (n+1)*Size + Offset) for every
// integer n.
type Tumbling struct {
	Size   int64 // ms, within Sizes
	Offset int64 // ms, at least 0 and less than Size
}

// Check is Kind.Check.
func (w Tumbling) Check() error {
	if err := Sizes.check(w.Size); err != nil {
		return fmt.Errorf("size %s: %w", Format(w.Size), err)
	}
	if w.Offset < 0 || w.Offset >= w.Size {
		return fmt.Errorf("offset %s: want 0s or more and less than the size, %s", Format(w.Offset), Format(w.Size))
	}
	return nil
}

// Assign is Kind.Assign: one window, or none within Size of either end of int64.
func (w Tumbling) Assign(dst []Span, t int64) []Span {
	past := into(t, w.Size, w.Offset)
	if !whole(t, past, w.Size) {
		return dst
	}
	return append(dst, Span{Start: t - past, End: t - past + w.Size})
}

// At is Kind.At.
func (w Tumbling) At(start int64) (Span, bool) { return at(start, w.Size, w.Size, w.Offset) }

// String is Kind.String: both numbers in ms.
func (w Tumbling) String() string { return fmt.Sprintf("tumbling:%d+%d", w.Size, w.Offset) }

// into is how far t lies behind the last bound at n*step + offset: t - offset modulo step, rounded down before the epoch
// too, on a way that cannot leave int64.
func into(t, step, offset int64) int64 {
	past := t%step - offset
	if past < 0 {
		past += step
	}
	if past < 0 {
		past += step
	}
	return past
}

// whole tells that the window of this size which starts back before t has both bounds in int64.
func whole(t, back, size int64) bool {
	return t >= math.MinInt64+back && t-back <= math.MaxInt64-size
}

func at(start, size, step, offset int64) (Span, bool) {
	if into(start, step, offset) != 0 || !whole(start, 0, size) {
		return Span{}, false
	}
	return Span{Start: start, End: start + size}, true
}
