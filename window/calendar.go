package window

import (
	"fmt"
	"time"
)

// Unit is what a calendar window is as long as.
type Unit uint8

// The units. A week begins on Monday.
const (
	CalendarDay Unit = iota + 1
	CalendarWeek
	CalendarMonth
)

var unitNames = [...]string{CalendarDay: "day", CalendarWeek: "week", CalendarMonth: "month"}

// ParseUnit reads day, week or month.
func ParseUnit(text string) (Unit, error) {
	for u := CalendarDay; u <= CalendarMonth; u++ {
		if unitNames[u] == text {
			return u, nil
		}
	}
	return 0, fmt.Errorf("calendar unit %q: want day, week or month", text)
}

// String is the unit as ParseUnit reads it.
func (u Unit) String() string { return unitNames[u] }

// Calendar cuts time into the days, weeks or months of a time zone. A day begins at the first moment at which the zone's
// clocks show its date, and ends when the next one begins: where they are set forward at midnight it begins at 01:00,
// and days have 23 or 25 hours when clocks are set (W12). A date that a zone has skipped has no window.
//
// The rules of zones are those that this package carries, of version TZData; the machine's play no part.
type Calendar struct {
	unit Unit
	zone *time.Location
}

// NewCalendar makes the windows of a unit in a zone of the IANA data base, such as Europe/Brussels, or UTC.
func NewCalendar(unit Unit, zone string) (Calendar, error) {
	if unit < CalendarDay || unit > CalendarMonth {
		return Calendar{}, fmt.Errorf("calendar unit %d is unknown", unit)
	}
	location, err := Zone(zone)
	if err != nil {
		return Calendar{}, err
	}
	return Calendar{unit: unit, zone: location}, nil
}

// Unit is what the windows are as long as.
func (w Calendar) Unit() Unit { return w.unit }

// Zone is the zone whose dates they are.
func (w Calendar) Zone() *time.Location { return w.zone }

// Equal tells whether w and o are the same windows.
func (w Calendar) Equal(o Calendar) bool {
	return w.unit == o.unit && w.zone.String() == o.zone.String()
}

// Longest is as long as no window of this kind, in ms: a day more than the unit has at most, for what zones do with days.
func (w Calendar) Longest() int64 {
	days := [...]int64{CalendarDay: 1, CalendarWeek: 7, CalendarMonth: 31}
	return (days[w.unit] + 1) * 24 * Hour
}

// Check is Kind.Check; nothing is wrong with what NewCalendar makes.
func (w Calendar) Check() error {
	if w.zone == nil {
		return fmt.Errorf("calendar: made without a zone")
	}
	return nil
}

// The years -1 to 10,000: package time is not made for the rules of zones in the year 292,000,000.
var (
	firstDay = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	lastDay  = time.Date(10_001, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// Assign is Kind.Assign: one window, or none outside of the years -1 to 10,000. It takes about a microsecond: who asks
// for many times of one window keeps it.
func (w Calendar) Assign(dst []Span, t int64) []Span {
	if t < firstDay || t >= lastDay {
		return dst
	}
	d := w.dateOf(t)
	start, next := w.begin(d), d.next(w.unit)
	// Where clocks go back over midnight a date is shown, then the one before it, then the date again: it has begun.
	end := w.begin(next)
	for end <= t {
		start, next = end, next.next(w.unit)
		end = w.begin(next)
	}
	return append(dst, Span{Start: start, End: end})
}

// At is Kind.At.
func (w Calendar) At(start int64) (Span, bool) {
	var one [1]Span
	spans := w.Assign(one[:0], start)
	if len(spans) == 0 || spans[0].Start != start {
		return Span{}, false
	}
	return spans[0], true
}

// String is Kind.String: unit and zone.
func (w Calendar) String() string { return fmt.Sprintf("calendar:%s@%s", w.unit, w.zone) }

// date is the first day of a window, in a form that time.Date takes: day and month may be beyond their ranges.
type date struct {
	year  int
	month time.Month
	day   int
}

func (d date) next(unit Unit) date {
	switch unit {
	case CalendarMonth:
		d.month++
	case CalendarWeek:
		d.day += 7
	default:
		d.day++
	}
	return d
}

// dateOf is the first day of the unit that the zone's clocks show at t.
func (w Calendar) dateOf(t int64) date {
	local := time.UnixMilli(t).In(w.zone)
	year, month, day := local.Date()
	switch w.unit {
	case CalendarMonth:
		day = 1
	case CalendarWeek:
		day -= (int(local.Weekday()) + 6) % 7 // days since Monday
	}
	return date{year, month, day}
}

// No zone has ever been further than this from UTC, nor changed its clocks twice within half of it.
const farthest = 26 * 3600 // s

// begin is the first moment at which the zone's clocks show a date, or a later one, in ms. It looks at the distance from
// UTC alone: Time.ZoneBounds gives an end in the past for the last day of far leap years.
func (w Calendar) begin(d date) int64 {
	wall := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Unix()
	from := wall - farthest // at which they show an earlier date
	offset := w.offset(from)
	for range 4 {
		to := from + farthest/2
		next := w.offset(to)
		change := to
		if next != offset {
			change = w.change(from, to, offset)
		}
		if moment := max(from, wall-offset); moment < change {
			return moment * 1000
		}
		if moment := max(change, wall-next); moment < to {
			return moment * 1000
		}
		from, offset = to, next
	}
	return max(from, wall-offset) * 1000
}

// offset is how far the zone's clocks are ahead of UTC at a second, in s.
func (w Calendar) offset(second int64) int64 {
	_, offset := time.Unix(second, 0).In(w.zone).Zone()
	return int64(offset)
}

// change is the first second in (from, to] at which the distance from UTC is not offset any more.
func (w Calendar) change(from, to, offset int64) int64 {
	for to-from > 1 {
		if middle := from + (to-from)/2; w.offset(middle) == offset {
			from = middle
		} else {
			to = middle
		}
	}
	return to
}
