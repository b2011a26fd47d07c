package aggregate

import (
	"math"
	"strconv"
)

// exactInts is 2^53: below it every integer is a double of its own.
const exactInts = 1 << 53

// AppendFloat appends the shortest decimal text that reads back as exactly v, in one fixed form:
//
//   - an integer below 2^53 in magnitude is written plainly: 12, never 12.0 or 1.2e+01;
//   - negative zero is -0;
//   - other numbers from 1e-6 up to below 1e21 have no exponent: 0.000001, 123456789012345680000;
//   - the rest have one digit before the point and an exponent with its sign, without leading zeros: 1e-7, 1.5e+300.
//
// These are the bytes that encoding/json and JavaScript write, but for JavaScript's negative zero. A v that is not
// finite is written as NaN, +Inf or -Inf, which is no JSON: callers write null instead.
func AppendFloat(dst []byte, v float64) []byte {
	if math.Abs(v) < exactInts {
		if i := int64(v); float64(i) == v && (i != 0 || !math.Signbit(v)) {
			return strconv.AppendInt(dst, i, 10)
		}
	}
	size := math.Abs(v)
	if size < shortBelow {
		if millionths := int64(size*1e6 + 0.5); float64(millionths)/1e6 == size && millionths != 0 {
			return appendShort(dst, millionths, math.Signbit(v))
		}
	}
	if size == 0 || size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, v, 'e', -1, 64)
	// strconv writes at least two digits of exponent: 1e-07 becomes 1e-7.
	if n := len(dst); n >= 4 && dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// shortBelow bounds the numbers that are tried as whole millionths: all of those have at most 15 digits. No two texts of so
// few digits stand for the same double, so one that reads back as v, which the division shows, is the shortest that does.
const shortBelow = 1e9

// appendShort appends whole millionths that are no integer.
func appendShort(dst []byte, millionths int64, negative bool) []byte {
	if negative {
		dst = append(dst, '-')
	}
	dst = append(strconv.AppendInt(dst, millionths/1e6, 10), '.')
	for rest, unit := millionths%1e6, int64(1e5); rest != 0; unit /= 10 {
		dst = append(dst, byte('0'+rest/unit))
		rest %= unit
	}
	return dst
}
