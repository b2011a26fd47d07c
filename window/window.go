// Package window turns event times into windows, and the durations of a configuration into milliseconds.
//
// Times are int64 milliseconds since the Unix epoch, UTC, and so are the bounds of windows: neither the time zone of the
// machine nor its clock plays a part (I11). Windows are aligned to the epoch plus an offset, so that every instance and
// every restart cuts time at the same places.
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

// Tumbling cuts time into windows of equal size that do not overlap: [n*Size + Offset, (n+1)*Size + Offset) for every
// integer n.
type Tumbling struct {
	Size   int64 // ms, within Sizes
	Offset int64 // ms, at least 0 and less than Size
}

// Check tells what is wrong with the sizes, nil when nothing is. The other methods demand a w without faults.
func (w Tumbling) Check() error {
	if err := Sizes.check(w.Size); err != nil {
		return fmt.Errorf("size %s: %w", Format(w.Size), err)
	}
	if w.Offset < 0 || w.Offset >= w.Size {
		return fmt.Errorf("offset %s: want 0s or more and less than the size, %s", Format(w.Offset), Format(w.Size))
	}
	return nil
}

// Assign appends the windows that hold t, earliest start first; for tumbling windows that is one. A window whose bounds
// are not both int64 is left out: within Size of either end of int64 nothing is appended (W11). It allocates only to
// grow dst.
func (w Tumbling) Assign(dst []Span, t int64) []Span {
	// into is t - Offset modulo Size, rounded down before the epoch too, on a way that cannot leave int64.
	into := t%w.Size - w.Offset
	if into < 0 {
		into += w.Size
	}
	if into < 0 {
		into += w.Size
	}
	if t < math.MinInt64+into || t-into > math.MaxInt64-w.Size {
		return dst
	}
	return append(dst, Span{Start: t - into, End: t - into + w.Size})
}
