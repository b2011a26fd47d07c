package aggregate

import "strconv"

// AppendResult appends the result of one function as a JSON number, or null where it is not defined or beyond the range
// of what it is written as; only the latter is an overflow. a must keep what f needs (see Reset), and Count must be
// positive.
func (a *Accumulator) AppendResult(dst []byte, f Functions) (_ []byte, overflow bool) {
	switch f {
	case Count:
		return strconv.AppendInt(dst, a.count, 10), false
	case Distinct:
		return strconv.AppendInt(dst, a.Distinct(), 10), false
	}
	if a.keeps&Whole != 0 {
		if dst, whole := a.appendWhole(dst, f); whole {
			return dst, false
		}
	}
	v, overflow, defined := a.result(f)
	if overflow || !defined {
		return append(dst, "null"...), overflow
	}
	return AppendFloat(dst, v), false
}

// AppendQuantile appends the p-th percentile; see AppendResult and Quantile.
func (a *Accumulator) AppendQuantile(dst []byte, p int) []byte {
	if a.keeps&Whole != 0 {
		return strconv.AppendInt(dst, a.wholeQuantile(p), 10)
	}
	return AppendFloat(dst, a.Quantile(p))
}

// result is the result of one function, the exact value rounded once, half to even; overflow is as in Sum.Float64.
// defined is false where the readings say nothing about it: see Spread, Delta, Rate and TimeMean.
func (a *Accumulator) result(f Functions) (v float64, overflow, defined bool) {
	switch f {
	case Total:
		v, overflow = a.sum.Float64()
	case Min:
		v = a.min
	case Max:
		v = a.max
	case Mean:
		v, overflow = a.Mean()
	case Range:
		v, overflow = a.Range()
	case Variance, Stddev, VariancePop, StddevPop:
		return a.Spread(f)
	case First:
		v = a.First()
	case Last:
		v = a.Last()
	case Delta:
		return a.Delta()
	case Rate:
		return a.Rate()
	case TimeMean:
		return a.TimeMean()
	default:
		panic("aggregate: " + f.String() + " is not one function")
	}
	return v, overflow, true
}
