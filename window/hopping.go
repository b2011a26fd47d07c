package window

import "fmt"

// MaxOverlap is the largest number of windows that may hold one time: a day by the minute. Each reading is folded into
// as many entries, so that one reading could fill a commit without a bound (I13).
const MaxOverlap = 1440

// Hopping cuts time into windows of equal size that begin every Step: [n*Step + Offset, n*Step + Offset + Size) for every
// integer n. They overlap when Step is less than Size, which it need not divide (W17); each time lies in Size/Step
// windows, rounded up or down.
type Hopping struct {
	Size   int64 // ms, within Sizes
	Step   int64 // ms, within Sizes, at most Size and at least Size/MaxOverlap
	Offset int64 // ms, at least 0 and less than Step
}

// Check is Kind.Check.
func (w Hopping) Check() error {
	if err := w.CheckStep(); err != nil {
		return err
	}
	if w.Offset < 0 || w.Offset >= w.Step {
		return fmt.Errorf("offset %s: want 0s or more and less than the step, %s", Format(w.Offset), Format(w.Step))
	}
	return nil
}

// CheckStep is Check without the offset.
func (w Hopping) CheckStep() error {
	if err := Sizes.check(w.Size); err != nil {
		return fmt.Errorf("size %s: %w", Format(w.Size), err)
	}
	if err := Sizes.check(w.Step); err != nil {
		return fmt.Errorf("step %s: %w", Format(w.Step), err)
	}
	switch overlap := (w.Size + w.Step - 1) / w.Step; {
	case w.Step > w.Size:
		return fmt.Errorf("step %s: longer than the size, %s: the readings between two windows would be in none; want at most the size",
			Format(w.Step), Format(w.Size))
	case overlap > MaxOverlap:
		return fmt.Errorf("step %s: a time would lie in %d windows of %s, at most %d are allowed: want a step of %s or more",
			Format(w.Step), overlap, Format(w.Size), MaxOverlap, Format((w.Size+MaxOverlap-1)/MaxOverlap))
	}
	return nil
}

// Assign is Kind.Assign: one window for each step that t is past the start of the last one.
func (w Hopping) Assign(dst []Span, t int64) []Span {
	past := into(t, w.Step, w.Offset)
	// The last window starts past before t, the first one as many steps before that as leave t inside.
	for back := past + (w.Size-1-past)/w.Step*w.Step; back >= past; back -= w.Step {
		if whole(t, back, w.Size) {
			dst = append(dst, Span{Start: t - back, End: t - back + w.Size})
		}
	}
	return dst
}

// At is Kind.At.
func (w Hopping) At(start int64) (Span, bool) { return at(start, w.Size, w.Step, w.Offset) }

// String is Kind.String: the three numbers in ms. With a step of the size these are tumbling windows, and called so.
func (w Hopping) String() string {
	if w.Step == w.Size {
		return Tumbling{Size: w.Size, Offset: w.Offset}.String()
	}
	return fmt.Sprintf("hopping:%d/%d+%d", w.Size, w.Step, w.Offset)
}
