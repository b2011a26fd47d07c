package aggregate

import (
	"fmt"
	"math"
)

// more is what few aggregations need: apart, so that the others do not carry it through the caches.
type more struct {
	low, high   int64 // of whole numbers, in place of the accumulator's min and max
	squares     Squares
	first, last mark   // of no meaning while the count is 0
	trail       *trail // made when first needed, as the others
	distinct    *distinct
	quantiles   *quantiles
}

// early are the functions whose parts stand in front of those of this file in an encoding.
const early = Plain | Range | Spreads

// resetMore empties what a keeps beside the plain part.
func (a *Accumulator) resetMore() {
	if a.more == nil {
		a.more = new(more)
	}
	m := a.more
	m.squares.Reset()
	if a.keeps&Trails != 0 {
		if m.trail == nil {
			m.trail = new(trail)
		}
		m.trail.reset()
	}
	if a.keeps&Distinct != 0 {
		if m.distinct == nil {
			m.distinct = new(distinct)
		}
		m.distinct.reset()
	}
	if a.keeps&Quantiles != 0 {
		if m.quantiles == nil {
			m.quantiles = new(quantiles)
		}
		m.quantiles.reset()
	}
}

// addMore is Add for what a keeps beside the plain part.
func (a *Accumulator) addMore(v float64, at *At) {
	m := a.more
	if a.keeps&Spreads != 0 {
		m.squares.Add(v)
	}
	if a.keeps&Distinct != 0 {
		m.distinct.add(hash(floatBits(v)))
	}
	if a.keeps&Quantiles != 0 {
		m.quantiles.add(keyOf(v), 0, 1)
	}
	if a.keeps&(Ends|Trails) == 0 {
		return
	}
	a.addMark(math.Float64bits(v), at)
}

// addMark takes up where a reading stands.
func (a *Accumulator) addMark(bits uint64, at *At) {
	at.check()
	m, one := a.more, mark{*at, bits}
	if a.keeps&Ends != 0 {
		m.widen(a.count, &one, &one)
	}
	if a.keeps&Trails != 0 {
		m.trail.add(&one, a.keeps)
	}
}

// mergeMore is Merge for the same; a and o have counted something, but for a before its first reading.
func (a *Accumulator) mergeMore(o *Accumulator) {
	if a.keeps&Whole != 0 {
		a.more.mergeEnds(a.count, o.more)
	}
	if a.keeps&Spreads != 0 {
		a.more.squares.Merge(&o.more.squares)
	}
	if a.keeps&Ends != 0 {
		a.more.widen(a.count, &o.more.first, &o.more.last)
	}
	if a.keeps&Trails != 0 {
		a.more.trail.merge(o.more.trail, a.keeps)
	}
	if a.keeps&Distinct != 0 {
		a.more.distinct.merge(o.more.distinct)
	}
	if a.keeps&Quantiles != 0 {
		a.more.quantiles.merge(o.more.quantiles)
	}
}

// widen moves the ends, so far of count readings, to where the readings from first to last stand.
func (m *more) widen(count int64, first, last *mark) {
	if count == 0 || first.before(&m.first) {
		m.first = *first
	}
	if count == 0 || m.last.before(last) {
		m.last = *last
	}
}

// appendMore appends the first and the last reading (see at.go), then the trail, the distinct numbers and
// the buckets (see trail.go, distinct.go, quantile.go), as f needs them.
func (a *Accumulator) appendMore(dst []byte, f Functions) []byte {
	m := a.more
	if f&First != 0 {
		dst = m.first.appendBinary(dst)
	}
	if f&Last != 0 {
		dst = m.last.appendBinary(dst)
	}
	if f&Trails != 0 {
		dst = m.trail.appendBinary(dst, f)
	}
	if f&Distinct != 0 {
		dst = m.distinct.appendBinary(dst)
	}
	if f&Quantiles != 0 {
		dst = m.quantiles.appendBinary(dst)
	}
	return dst
}

func (a *Accumulator) decodeMore(b []byte, f Functions) (rest []byte, err error) {
	m := a.more
	if f&First != 0 {
		if b, err = m.first.decode(b, f); err != nil {
			return nil, fmt.Errorf("first: %w", err)
		}
	}
	if f&Last != 0 {
		if b, err = m.last.decode(b, f); err != nil {
			return nil, fmt.Errorf("last: %w", err)
		}
	}
	if f.Has(Ends) && m.last.before(&m.first) {
		return nil, fmt.Errorf("first %+v behind last %+v: %w", m.first.at, m.last.at, errRange)
	}
	if f&Trails != 0 {
		if b, err = m.trail.decode(b, f, a.count); err != nil {
			return nil, fmt.Errorf("trail: %w", err)
		}
	}
	if f&Distinct != 0 {
		if b, err = m.distinct.decode(b, a.count); err != nil {
			return nil, fmt.Errorf("distinct numbers: %w", err)
		}
	}
	if f&Quantiles != 0 {
		if b, err = m.quantiles.decode(b, a.count); err != nil {
			return nil, fmt.Errorf("quantiles: %w", err)
		}
	}
	return b, nil
}

// First is the number of the reading that stands first (see At), bit for bit. It has no meaning while Count is 0, or with
// Whole; a must keep the ends (see Reset).
func (a *Accumulator) First() float64 { return a.more.first.float() }

// Last is the number of the reading that stands last; see First.
func (a *Accumulator) Last() float64 { return a.more.last.float() }

// Distinct is how many different numbers there are, 0 and -0 being one: exact up to 256 of them, and beyond an estimate
// whose standard error is 1.6 percent. a must keep what it needs (see Reset).
func (a *Accumulator) Distinct() int64 { return a.more.distinct.count(a.count) }

// Quantile is the p-th percentile, p from 1 to 100: the smallest number such that at least p percent are not above it, cut
// towards zero to 9 binary digits, but no lower than Min and no higher than Max. With more than 512 different numbers of
// so many digits it is cut to fewer: see quantiles. Count must be positive, and a must keep Quantiles (see Reset).
// It has no meaning with Whole.
func (a *Accumulator) Quantile(p int) float64 {
	return max(a.min, min(a.max, a.more.quantiles.at(p, a.count)))
}

// Unordered tells that readings came so far out of order that the functions of Trails are not known; they are not
// defined then. a must keep what these need (see Reset).
func (a *Accumulator) Unordered() bool { return a.more.trail.lost }

// Delta is how far a counter has risen from the first reading to the last, rounded once, half to even: the sum of
// x' - x over all x and the x' next to it, and of x' where that is lower, for the counter has begun again at 0 then.
// defined is false for fewer than two readings, and when Unordered; overflow is as in Sum.Float64.
func (a *Accumulator) Delta() (v float64, overflow, defined bool) {
	if a.count < 2 || a.more.trail.lost {
		return 0, false, false
	}
	var s Sum
	a.more.trail.addTo(&s, Delta|a.keeps&Whole)
	v, overflow = s.Float64()
	return v, overflow, true
}

// Rate is Delta by the seconds between the first reading and the last, rounded once from the exact quotient. It is not
// defined either when no time passes between them.
func (a *Accumulator) Rate() (v float64, overflow, defined bool) {
	ns := a.span()
	if ns == 0 {
		return 0, false, false
	}
	var s Sum
	a.more.trail.addTo(&s, Rate|a.keeps&Whole)
	v, overflow = s.ratio(1e9, ns)
	return v, overflow, true
}

// TimeMean is the mean over the time between the first reading and the last, of straight lines from reading to reading,
// rounded once from the exact value. Where it is defined, and overflow, are as in Rate.
func (a *Accumulator) TimeMean() (v float64, overflow, defined bool) {
	ns := a.span()
	if ns == 0 {
		return 0, false, false
	}
	var s Sum
	a.more.trail.addTo(&s, TimeMean|a.keeps&Whole)
	v, overflow = s.ratio(1, 2*ns)
	return v, overflow, true
}

// span is the time between the first reading and the last in ns, 0 when it is not known.
func (a *Accumulator) span() uint64 {
	t := a.more.trail
	if a.count < 2 || t.lost {
		return 0
	}
	ns, _ := since(t.first(), t.last())
	return ns
}
