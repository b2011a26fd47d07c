package reading

import (
	"fmt"
	"strings"
	"time"
)

// civil is a date and a time of day, in seconds as if it were UTC, and whether the second is the 60th.
type civil struct {
	seconds int64
	nanos   int64
	leap    bool
}

const secondsPerDay = 24 * 60 * 60

// makeCivil puts a date and a time of day together.
func makeCivil(year int64, month, day, hour, minute, second int) (c civil, fault string) {
	days, ok := dayNumber(year, month, day)
	if !ok {
		return c, "is a day that the calendar does not have"
	}
	if hour > 23 || minute > 59 || second > 60 {
		return c, "is a time of day beyond 23:59:59"
	}
	return civil{seconds: days*secondsPerDay + int64((hour*60+minute)*60+second), leap: second == 60}, ""
}

// at is the instant of a date and time of day at an offset in minutes east of UTC.
func (c civil) at(offset int64) (t instant, fault string) {
	seconds := c.seconds - offset*60
	if c.leap && seconds%secondsPerDay != 0 {
		return t, "has second 60 elsewhere than at 23:59:60 UTC"
	}
	return instant{ms: seconds*millisPerSecond + c.nanos/nanosPerMilli, nanos: int32(c.nanos % nanosPerMilli)}, ""
}

// in is the instant of a local date and time of day. One that comes twice, when clocks are put back, is the first of
// the two; one that the zone skips, when they are put forward, is none.
func (c civil) in(zone *time.Location) (t instant, fault string) {
	switch {
	case zone == nil:
		return t, "has no zone, and none is configured; want Z or an offset as +01:00 at its end, or set the zone of the times"
	case c.leap:
		return t, "has second 60 and no zone"
	}
	offset := func(seconds int64) int64 {
		_, offset := time.Unix(seconds, 0).In(zone).Zone()
		return int64(offset)
	}
	before, after := offset(c.seconds-secondsPerDay), offset(c.seconds+secondsPerDay)
	for _, o := range [...]int64{max(before, after), min(before, after)} { // the greater one comes first
		if offset(c.seconds-o) == o {
			c.seconds -= o
			return c.at(0)
		}
	}
	return t, "does not exist in " + zone.String() + ": the clocks were put forward over it"
}

// parseISO8601 reads a date and a time of day as in ISO 8601 and as most devices write it: T or a blank between, seconds
// and their fraction may be left out, the fraction begins with a point or a comma, and the zone is Z, an offset as
// +01:00, +0100 or +01, or the one configured.
func parseISO8601(b []byte, zone *time.Location) (t instant, fault string) {
	const shape = "0000-00-00T00:00"
	const bad = "is no time of ISO 8601, as 2024-01-31T12:00:00Z or 2024-01-31 12:00:00"
	if len(b) < len(shape) {
		return t, bad
	}
	for i := range len(shape) {
		if shapeFault(shape[i], b[i]) != "" && (shape[i] != 'T' || b[i] != ' ') {
			return t, bad
		}
	}
	second, rest := 0, b[len(shape):]
	if len(rest) >= 3 && rest[0] == ':' {
		if rest[1]-'0' > 9 || rest[2]-'0' > 9 {
			return t, bad
		}
		second, rest = number2(rest[1:]), rest[3:]
	}
	c, fault := makeCivil(int64(number4(b)), number2(b[5:]), number2(b[8:]), number2(b[11:]), number2(b[14:]), second)
	if fault != "" {
		return t, fault
	}
	var n int
	if c.nanos, n, fault = fractionAfter(rest, ".,"); fault != "" {
		return t, fault
	}
	if rest = rest[n:]; len(rest) == 0 {
		return c.in(zone)
	}
	offset, n, ok := looseZone(rest)
	if !ok || n != len(rest) {
		return t, "does not end in Z or an offset as +01:00, +0100 or +01"
	}
	return c.at(offset)
}

// looseZone reads Z, +01:00, +0100 or +01 at the front of b as minutes east of UTC, and its length.
func looseZone(b []byte) (minutes int64, size int, ok bool) {
	if len(b) > 0 && b[0]|0x20 == 'z' {
		return 0, 1, true
	}
	if len(b) < 3 || b[0] != '+' && b[0] != '-' || b[1]-'0' > 9 || b[2]-'0' > 9 {
		return 0, 0, false
	}
	hour, minute, size := number2(b[1:]), 0, 3
	rest := b[3:]
	if len(rest) > 0 && rest[0] == ':' {
		rest, size = rest[1:], 4
	}
	if len(rest) >= 2 && rest[0]-'0' <= 9 && rest[1]-'0' <= 9 {
		minute, size = number2(rest), size+2
	} else if size == 4 {
		return 0, 0, false
	}
	if hour > 23 || minute > 59 {
		return 0, 0, false
	}
	minutes = int64(hour*60 + minute)
	if b[0] == '-' {
		minutes = -minutes
	}
	return minutes, size, true
}

// layout is how times are written, taken apart: YYYY or YY (2000 to 2099), MM, DD, hh, mm and ss are digits; behind ss
// there may be a fraction, after a point or a comma; Z is Z or an offset; * is one letter or more, such as the name of a
// zone; all else is itself.
type layout struct {
	text  string
	steps []layoutStep
	zoned bool
}

// layoutStep is a token by its index in layoutTokens, or failed for a literal byte.
type layoutStep struct {
	token   int
	literal byte
}

// layoutTokens are the tokens; those of the first year to the seconds are digits, so many as the token has letters.
var layoutTokens = [...]string{"YYYY", "YY", "MM", "DD", "hh", "mm", "ss", "Z", "*"}

const (
	tokenYear = iota
	tokenShortYear
	tokenMonth
	tokenDay
	tokenHour
	tokenMinute
	tokenSecond
	tokenZone
	tokenLetters
)

// parseLayout takes a layout apart.
func parseLayout(text string) (*layout, error) {
	l := &layout{text: text}
	var seen [len(layoutTokens)]int
	for rest := text; rest != ""; {
		step, size := layoutStep{token: failed, literal: rest[0]}, 1
		for i, token := range layoutTokens {
			if strings.HasPrefix(rest, token) {
				step.token, size = i, len(token)
				break
			}
		}
		if i := step.token; i != failed {
			if seen[i]++; seen[i] > 1 && i != tokenLetters {
				return nil, fmt.Errorf("time layout %q: %s is there twice", text, layoutTokens[i])
			}
		}
		l.steps = append(l.steps, step)
		rest = rest[size:]
	}
	if seen[tokenYear]+seen[tokenShortYear] != 1 || seen[tokenMonth] == 0 || seen[tokenDay] == 0 ||
		seen[tokenMinute] > seen[tokenHour] || seen[tokenSecond] > seen[tokenMinute] {
		return nil, fmt.Errorf("time layout %q: want YYYY or YY, MM and DD, then hh, mm and ss as far as there are, as YYYY-MM-DD hh:mm:ss", text)
	}
	l.zoned = seen[tokenZone] > 0
	return l, nil
}

// parse reads a time of this layout.
func (l *layout) parse(b []byte, zone *time.Location) (t instant, fault string) {
	var parts [tokenSecond + 1]int
	var offset, nanos int64
	for _, step := range l.steps {
		var n int
		var ok bool
		switch step.token {
		case failed:
			n, ok = 1, len(b) > 0 && b[0] == step.literal
		case tokenZone:
			offset, n, ok = looseZone(b)
		case tokenLetters:
			for n < len(b) && 'a' <= b[n]|0x20 && b[n]|0x20 <= 'z' {
				n++
			}
			ok = n > 0
		default:
			n = len(layoutTokens[step.token])
			parts[step.token], ok = digitsOf(b, n)
		}
		if ok && step.token == tokenSecond {
			var more int
			if nanos, more, fault = fractionAfter(b[n:], ".,"); fault != "" {
				return t, fault
			}
			n += more
		}
		if !ok {
			return t, l.fault()
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return t, l.fault()
	}
	year := int64(parts[tokenYear])
	if parts[tokenYear] == 0 && !strings.Contains(l.text, layoutTokens[tokenYear]) {
		year = 2000 + int64(parts[tokenShortYear])
	}
	c, fault := makeCivil(year, parts[tokenMonth], parts[tokenDay], parts[tokenHour], parts[tokenMinute], parts[tokenSecond])
	if fault != "" {
		return t, fault
	}
	if c.nanos = nanos; l.zoned {
		return c.at(offset)
	}
	return c.in(zone)
}

func (l *layout) fault() string { return "is no time as " + l.text }

// digitsOf reads so many digits.
func digitsOf(b []byte, size int) (v int, ok bool) {
	if len(b) < size {
		return 0, false
	}
	for _, c := range b[:size] {
		if c-'0' > 9 {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	return v, true
}
