package window

import (
	"fmt"
	"math"
)

// Session groups the readings of a key until nothing came for Gap: a reading belongs to a session when it lies less than
// Gap before its first or after its last reading; readings exactly Gap apart are of two sessions. A session is written as
// the times of its first and its last reading, so Start <= t <= End for its readings, and it is over Gap after End.
//
// Sessions depend on what else a key has sent: Assign gives the session that a reading makes alone, and whoever keeps
// the sessions of a key merges it with its neighbours. Before everything else that lone session is judged: if it is due,
// the reading is late even where it touches a session that is open (V7).
type Session struct {
	Gap int64 // ms, within Sizes
}

// Check is Kind.Check.
func (w Session) Check() error {
	if err := Sizes.check(w.Gap); err != nil {
		return fmt.Errorf("gap %s: %w", Format(w.Gap), err)
	}
	return nil
}

// Assign is Kind.Assign: the session of this reading alone, [t, t], or none within Gap of either end of int64.
func (w Session) Assign(dst []Span, t int64) []Span {
	if t > math.MaxInt64-w.Gap || t < math.MinInt64+w.Gap {
		return dst
	}
	return append(dst, Span{Start: t, End: t})
}

// At is Kind.At: where a session ends is written with the session only, so ok is always false.
func (w Session) At(int64) (Span, bool) { return Span{}, false }

// Touches tells whether readings or sessions that lie apart ms from each other belong together.
func (w Session) Touches(apart int64) bool { return apart < w.Gap }

// String is Kind.String: the gap in ms.
func (w Session) String() string { return fmt.Sprintf("session:%d", w.Gap) }
