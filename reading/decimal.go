package reading

import "bytes"

// decimal is a number's token taken apart: 0.DIGITS * 10^point. It refers to the token and needs no memory of its own,
// however long that is.
type decimal struct {
	neg   bool
	text  []byte // the digits from the first to the last that is not zero, with the token's point if it lies among them
	dot   int64  // index of that point in text; beyond its end when there is none
	size  int64  // number of digits, 0 for zero
	point int64
}

// parseDecimal takes the token of a scanned number apart.
func parseDecimal(token []byte) decimal {
	var d decimal
	if token[0] == '-' {
		d.neg, token = true, token[1:]
	}
	mantissa, exponent := token, []byte(nil)
	if e := bytes.IndexAny(token, "eE"); e >= 0 {
		mantissa, exponent = token[:e], token[e+1:]
	}
	dot := bytes.IndexByte(mantissa, '.')
	if dot < 0 {
		dot = len(mantissa)
	}
	const zeros = "0."
	first := len(mantissa) - len(bytes.TrimLeft(mantissa, zeros))
	d.text = bytes.Trim(mantissa, zeros)
	if len(d.text) == 0 {
		return d
	}
	d.dot, d.size, d.point = int64(dot-first), int64(len(d.text)), int64(dot-first)
	switch {
	case d.dot < 0: // the zeros behind the point do not count as digits
		d.dot, d.point = d.size, d.point+1
	case d.dot < d.size:
		d.size--
	}
	d.point += parseExponent(exponent)
	return d
}

// farExponent is what exponents are cut to: beyond the length of any token, and far from overflow.
const farExponent = 1 << 40

// parseExponent is the value of a scanned exponent, which may be missing.
func parseExponent(digits []byte) int64 {
	if len(digits) == 0 {
		return 0
	}
	neg := digits[0] == '-'
	if neg || digits[0] == '+' {
		digits = digits[1:]
	}
	var e int64
	for _, c := range digits {
		e = min(e*10+int64(c-'0'), farExponent)
	}
	if neg {
		return -e
	}
	return e
}

// digit is the i-th digit, counted from 0; beyond both ends it is 0.
func (d *decimal) digit(i int64) int64 {
	if i < 0 || i >= d.size {
		return 0
	}
	if i >= d.dot {
		i++
	}
	return int64(d.text[i] - '0')
}
