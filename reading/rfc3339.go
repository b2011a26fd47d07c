package reading

import "strings"

// parseRFC3339 reads a time of RFC 3339, section 5.6. The fault is "" when it is one, and else says what is wrong.
func parseRFC3339(b []byte) (t instant, fault string) {
	const shape = "0000-00-00T00:00:00"
	if len(b) < len(shape) {
		return t, "is too short for a time of RFC 3339, as 2024-01-01T00:00:00Z"
	}
	for i := range len(shape) {
		if fault = shapeFault(shape[i], b[i]); fault != "" {
			return t, fault
		}
	}
	c, fault := makeCivil(int64(number4(b)), number2(b[5:]), number2(b[8:]), number2(b[11:]), number2(b[14:]), number2(b[17:]))
	if fault != "" {
		return t, fault
	}
	rest := b[len(shape):]
	var n int
	if c.nanos, n, fault = fractionAfter(rest, "."); fault != "" {
		return t, fault
	}
	offset, fault := zone(rest[n:])
	if fault != "" {
		return t, fault
	}
	return c.at(offset)
}

// shapeFault compares one byte with the shape of a time: a 0 stands for any digit.
func shapeFault(shape, c byte) string {
	switch {
	case shape == '0' && c-'0' <= 9, shape == c, shape == 'T' && c == 't':
		return ""
	case shape == 'T' && c == ' ':
		return "has a blank where RFC 3339 has T, as 2024-01-01T00:00:00Z"
	}
	return "is no time of RFC 3339, as 2024-01-01T00:00:00Z"
}

func number2(b []byte) int { return int(b[0]-'0')*10 + int(b[1]-'0') }

func number4(b []byte) int { return number2(b)*100 + number2(b[2:]) }

// fractionAfter reads the fraction of a second at the front of b, after one of marks, if there is one, as nanoseconds,
// and its length.
func fractionAfter(b []byte, marks string) (nanos int64, size int, fault string) {
	if len(b) == 0 || strings.IndexByte(marks, b[0]) < 0 {
		return 0, 0, ""
	}
	const most = 9
	n := 1
	for ; n < len(b) && b[n]-'0' <= 9; n++ {
		if n > most {
			return 0, 0, "has more than 9 digits after the second's point"
		}
		nanos = nanos*10 + int64(b[n]-'0')
	}
	if n == 1 {
		return 0, 0, "has no digit after the second's point"
	}
	for range most + 1 - n {
		nanos *= 10
	}
	return nanos, n, ""
}

// zone reads the zone that ends a time as minutes east of UTC.
func zone(b []byte) (minutes int64, fault string) {
	switch {
	case len(b) == 0:
		return 0, "has no zone; want Z or an offset as +01:00 at its end"
	case len(b) == 1 && b[0]|0x20 == 'z':
		return 0, ""
	}
	const shape = "+00:00"
	if len(b) != len(shape) || b[0] != '+' && b[0] != '-' {
		return 0, "does not end in Z or an offset as +01:00"
	}
	for i := 1; i < len(shape); i++ {
		if shapeFault(shape[i], b[i]) != "" {
			return 0, "does not end in Z or an offset as +01:00"
		}
	}
	hour, minute := number2(b[1:]), number2(b[4:])
	if hour > 23 || minute > 59 {
		return 0, "has an offset beyond 23:59"
	}
	minutes = int64(hour*60 + minute)
	if b[0] == '-' {
		minutes = -minutes
	}
	return minutes, ""
}

// dayNumber is the number of days from 1970-01-01 to a date of the years 0 to 9999; false for a date that is none.
func dayNumber(year int64, month, day int) (int64, bool) {
	if month < 1 || month > 12 || day < 1 || day > monthDays(year, month) {
		return 0, false
	}
	// A year that begins in March has its leap day at its end, and 153 days in each five months.
	m := int64(month+9) % 12
	if month <= 2 {
		year--
	}
	const shift = 400 // one full period, so that no quotient below is negative
	y := year + shift
	const toEpoch = 719468 + shift/400*146097
	return y*365 + y/4 - y/100 + y/400 + (153*m+2)/5 + int64(day-1) - toEpoch, true
}

func monthDays(year int64, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}
