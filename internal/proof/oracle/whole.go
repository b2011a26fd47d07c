package oracle

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// WholeText is the result of a function as a whole number of any size, "null" where it is not defined; ok is false where
// the function's result is no whole number, or the numbers are not.
func (s Stats) WholeText(name string) (text string, ok bool) {
	if !s.least.whole {
		return "", false
	}
	switch name {
	case "sum":
		return wholeText(unscaled(s.sum)), true
	case "min":
		return strconv.FormatInt(s.least.n, 10), true
	case "max":
		return strconv.FormatInt(s.most.n, 10), true
	case "range":
		return wholeText(rangeOf(s.least, s.most)), true
	case "first":
		return strconv.FormatInt(s.ordered[0].n, 10), true
	case "last":
		return strconv.FormatInt(s.ordered[len(s.ordered)-1].n, 10), true
	case "delta":
		return wholeText(s.delta()), true
	}
	if p, ok := percent(name); ok {
		return strconv.FormatInt(s.quantile(p).n, 10), true
	}
	return "", false
}

func wholeText(x *big.Rat) string {
	if x == nil {
		return "null"
	}
	return x.Num().String()
}

var exponent = regexp.MustCompile(`[eE][+-]?[0-9]+$`)

// whole reads a number as a whole one of 64 bits, however it is written.
func whole(m member) (int64, bool) {
	if !isNumber(m.raw) {
		return 0, false
	}
	text := string(m.raw)
	if mantissa := exponent.ReplaceAllString(text, ""); !strings.ContainsAny(mantissa, "123456789") {
		return 0, true
	}
	if e := exponent.FindString(text); e != "" {
		if n, err := strconv.Atoi(e[1:]); err != nil || max(n, -n) > len(text)+20 {
			return 0, false // too large, or a fraction: the text has not as many digits
		}
	}
	x, ok := new(big.Rat).SetString(text)
	if !ok || !x.IsInt() || !x.Num().IsInt64() {
		return 0, false
	}
	return x.Num().Int64(), true
}
