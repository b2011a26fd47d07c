package reading

import "time"

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
