package reading

import "math"

// whole takes the i-th value, which has just been found, as a whole number of 64 bits, with all its digits. How it is
// written does not matter: 12, 12.0 and 1.2e1 are one number, and -0 is 0.
func (r *Reader) whole(i int, to *int64) finding {
	s, v := &r.program.scan, &r.program.values[i]
	f := &s.fields[v.field]
	token := s.token
	if f.kind == kindNumber {
		token = s.data[f.start:f.end]
	}
	n, ok := parseWhole(token)
	if !ok {
		s.refuseValue(v, NotWhole, "is no whole number from -9223372036854775808 to 9223372036854775807")
		return wrong
	}
	*to = n
	return there
}

// parseWhole is the whole number of 64 bits that the token of a number stands for; false when it stands for none.
func parseWhole(token []byte) (int64, bool) {
	const plain = 18 // digits of which every number fits
	digits, negative := token, false
	if token[0] == '-' {
		digits, negative = token[1:], true
	}
	size := uint64(0)
	for i, c := range digits {
		if c -= '0'; c > 9 || i == plain {
			return parseLongWhole(token)
		}
		size = size*10 + uint64(c)
	}
	if negative {
		return -int64(size), true
	}
	return int64(size), true
}

// parseLongWhole is parseWhole for long tokens and such with a point or an exponent.
func parseLongWhole(token []byte) (int64, bool) {
	const most = 19 // digits of the largest number
	d := parseDecimal(token)
	if d.size > d.point && d.size > 0 || d.point > most {
		return 0, false // a fraction, or too large
	}
	size := uint64(0)
	for i := range max(d.point, 0) {
		size = size*10 + uint64(d.digit(i)) // 19 digits fit
	}
	switch {
	case d.neg && size <= -math.MinInt64:
		return -int64(size), true
	case !d.neg && size <= math.MaxInt64:
		return int64(size), true
	}
	return 0, false
}
