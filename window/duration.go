package window

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Milliseconds in the units of a duration.
const (
	Millisecond int64 = 1
	Second            = 1000 * Millisecond
	Minute            = 60 * Second
	Hour              = 60 * Minute
	Day               = 24 * Hour // always: a day of a time zone is a calendar window
)

// Longest is the longest duration a configuration may name: 1,000,000 hours, about 114 years.
const Longest = 1_000_000 * Hour

// Range is what a duration may be, both bounds included, in ms.
type Range struct {
	Min, Max int64
}

// Ranges of the durations of windows. Nothing in a window is finer than a millisecond, for its bounds are milliseconds.
var (
	Sizes  = Range{Millisecond, Longest} // size, step and gap
	Graces = Range{0, Longest}           // grace and offset
)

// String is the range for people, for example "1ms to 1000000h".
func (r Range) String() string { return Format(r.Min) + " to " + Format(r.Max) }

// check returns an error when ms is out of range.
func (r Range) check(ms int64) error {
	if ms < r.Min || ms > r.Max {
		return fmt.Errorf("want %s", r)
	}
	return nil
}

// units are the units of a duration, longest first.
var units = []struct {
	name string
	ms   int64
}{{"d", Day}, {"h", Hour}, {"m", Minute}, {"s", Second}, {"ms", Millisecond}}

// ParseDuration reads a duration such as 1h30m, 5m, 30s, 100ms or 1d (24 hours) and returns it in ms. The numbers are
// whole, each has its unit, and the units come in falling order, each once. 0 needs no unit.
//
// An error says what is wrong with the text and names the allowed range (W18).
func ParseDuration(text string, allowed Range) (ms int64, err error) {
	ms, fault := parseDuration(text)
	switch {
	case fault != "":
	case ms < allowed.Min && ms == 0:
		fault = "must not be zero"
	case ms < allowed.Min:
		fault = "is too short"
	case ms > allowed.Max:
		fault = "is too long"
	default:
		return ms, nil
	}
	return 0, fmt.Errorf("duration %q %s: want %s, written like 1h30m, 5m, 30s or 100ms", text, fault, allowed)
}

// parseDuration returns the duration, saturated, or what is wrong with the text.
func parseDuration(text string) (ms int64, fault string) {
	switch {
	case text == "":
		return 0, "is empty"
	case text == "0":
		return 0, ""
	case text[0] == '-':
		return 0, "is negative"
	}
	next := 0 // index of the longest unit that may still come
	for rest := text; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		number, tail := rest[:digits], rest[digits:]
		name := tail[:len(tail)-len(strings.TrimLeft(tail, letters))]
		if fault := checkPart(number, name, tail, &next); fault != "" {
			return 0, fault
		}
		ms = addSaturated(ms, number, units[next-1].ms)
		rest = tail[len(name):]
	}
	return ms, ""
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZµμ"

// checkPart judges one number with its unit and moves next behind the unit.
func checkPart(number, name, tail string, next *int) (fault string) {
	switch {
	case strings.HasPrefix(tail, ".") || strings.HasPrefix(tail, ","):
		return "has a fraction, write whole numbers of a smaller unit"
	case number == "":
		return fmt.Sprintf("has no number before %q", tail)
	case name == "":
		return fmt.Sprintf("has no unit after %s", number)
	}
	for i, unit := range units {
		if unit.name != name {
			continue
		}
		if i < *next {
			return fmt.Sprintf("has %q out of order, the units fall from d to ms", name)
		}
		*next = i + 1
		return ""
	}
	switch name {
	case "us", "ns", "µs", "μs":
		return fmt.Sprintf("has unit %q, but nothing is finer than ms", name)
	case "M":
		return `has unit "M", which could be minutes (write m) or months (they are calendar windows)`
	}
	return fmt.Sprintf("has unit %q, known are d, h, m, s, ms", name)
}

// addSaturated returns ms + number * unit, or the largest int64 where that is beyond it.
func addSaturated(ms int64, number string, unit int64) int64 {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > (math.MaxInt64-ms)/unit {
		return math.MaxInt64
	}
	return ms + n*unit
}

// Format is a duration as text that ParseDuration reads back as the same number of ms: hours, minutes, seconds and
// milliseconds, leaving out what is zero. A negative one has a minus sign.
func Format(ms int64) string {
	if ms == 0 {
		return "0s"
	}
	var b []byte
	rest := uint64(ms)
	if ms < 0 {
		b = append(b, '-')
		rest = -rest
	}
	for _, unit := range units[1:] {
		if n := rest / uint64(unit.ms); n > 0 {
			b = strconv.AppendUint(b, n, 10)
			b = append(b, unit.name...)
			rest %= uint64(unit.ms)
		}
	}
	return string(b)
}
