package oracle

import (
	"encoding/binary"
	"math/big"
)

// kept is how many of the latest readings of a window are kept one by one for delta, rate and time_mean.
const kept = 32

// longest is the time in ns from the first reading to the last from which on they are not known.
var longest = new(big.Int).Lsh(big.NewInt(1), 62)

// strays tells whether a reading belongs between two of those that came before it and of which at least kept are later:
// between them only sums are kept.
func strays(readings []Folded, one *Folded) bool {
	earlier, later := 0, 0
	for i := range readings {
		if readings[i].before(one) {
			earlier++
		} else {
			later++
		}
	}
	return earlier > 0 && later > kept
}

// nanosBetween is the time from one reading to another.
func nanosBetween(a, b sample) *big.Int {
	ns := big.NewInt(b.reading.Time - a.reading.Time)
	ns.Mul(ns, big.NewInt(1e6))
	return ns.Add(ns, big.NewInt(b.reading.Nanos-a.reading.Nanos))
}

// Unordered tells that delta, rate and time_mean are not known.
func (s Stats) Unordered() bool { return s.lost }

// delta is how far a counter rose that begins again at 0 where it falls; nil where that is not known.
func (s Stats) delta() *big.Rat {
	if s.lost || len(s.ordered) < 2 {
		return nil
	}
	return unscaled(riseOf(s.ordered))
}

// riseOf is the rise from the first of the readings to the last, times 2^1074.
func riseOf(ordered []sample) *big.Int {
	total := new(big.Int)
	for i := 1; i < len(ordered); i++ {
		from, to := ordered[i-1].scaled(), ordered[i].scaled()
		if to.Cmp(from) >= 0 {
			to.Sub(to, from)
		}
		total.Add(total, to)
	}
	return total
}

// area is the integral over straight lines from reading to reading, in seconds; nil where it is not known.
func (s Stats) area() *big.Rat {
	if s.lost || len(s.ordered) < 2 {
		return nil
	}
	area := unscaled(twiceArea(s.ordered))
	return area.Mul(area, big.NewRat(1, 2e9))
}

// twiceArea is twice the integral from the first of the readings to the last over ns, times 2^1074.
func twiceArea(ordered []sample) *big.Int {
	total := new(big.Int)
	for i := 1; i < len(ordered); i++ {
		height := ordered[i-1].scaled()
		height.Add(height, ordered[i].scaled())
		total.Add(total, height.Mul(height, nanosBetween(ordered[i-1], ordered[i])))
	}
	return total
}

// perSecond is x by the time from the first reading to the last; nil for no x or no time.
func (s Stats) perSecond(x *big.Rat) *big.Rat {
	if x == nil {
		return nil
	}
	ns := nanosBetween(s.ordered[0], s.ordered[len(s.ordered)-1])
	if ns.Sign() == 0 {
		return nil
	}
	return x.Quo(x, new(big.Rat).SetFrac(ns, big.NewInt(1e9)))
}

// unscaled is n / 2^1074.
func unscaled(n *big.Int) *big.Rat {
	return new(big.Rat).SetFrac(n, new(big.Int).Lsh(big.NewInt(1), scaleBits))
}

// appendTrail appends what is kept for delta, rate and time_mean: one byte, which is 34 when they are not known and
// nothing else follows, 33 when there are more readings than are kept one by one, else their number; when there are
// more, the first and the last of the others and the exact sums over the steps between these; then the latest readings,
// after the first of them with time and offset as differences.
func (s Stats) appendTrail(b []byte, rises, areas bool) []byte {
	if s.lost {
		return append(b, kept+2)
	}
	latest := s.ordered
	if summed := len(s.ordered) - kept; summed <= 0 {
		b = append(b, byte(len(s.ordered)))
	} else {
		others := s.ordered[:summed]
		latest = s.ordered[summed:]
		b = others[summed-1].append(others[0].append(append(b, kept+1)))
		if rises {
			b = appendSum(b, riseOf(others), scaleBits)
		}
		if areas {
			b = appendSum(b, twiceArea(others), scaleBits)
		}
	}
	b = latest[0].append(b)
	for i, one := range latest[1:] {
		b = binary.AppendUvarint(b, uint64(one.reading.Time-latest[i].reading.Time))
		b = binary.AppendUvarint(b, uint64(one.reading.Nanos))
		b = binary.AppendVarint(b, one.reading.Offset-latest[i].reading.Offset)
		b = binary.AppendUvarint(b, uint64(one.reading.Index))
		b = one.appendNumber(b)
	}
	return b
}
