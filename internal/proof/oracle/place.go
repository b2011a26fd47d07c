package oracle

import (
	"encoding/binary"
	"math"
	"slices"
)

// sample is one number with the reading it is of.
type sample struct {
	reading *Folded
	x       float64
}

// before is the order of readings (W26): event time, then offset, then index in the record.
func (f *Folded) before(g *Folded) bool {
	a, b := [4]int64{f.Time, f.Nanos, f.Offset, f.Index}, [4]int64{g.Time, g.Nanos, g.Offset, g.Index}
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// places puts the readings in order.
func (s *Stats) places(readings []Folded, value int) {
	for i := range readings {
		s.ordered = append(s.ordered, sample{&readings[i], readings[i].Values[value]})
		s.lost = s.lost || readings[i].Stray
	}
	slices.SortFunc(s.ordered, func(a, b sample) int {
		if a.reading.before(b.reading) {
			return -1
		}
		return 1
	})
	if n := len(s.ordered); n > 0 {
		s.lost = s.lost || nanosBetween(s.ordered[0], s.ordered[n-1]).Cmp(longest) >= 0
	}
}

// append appends a reading as it is kept: time as a zigzag varint, nanos, offset and index as unsigned varints, the
// number as eight bytes, least significant first.
func (s sample) append(b []byte) []byte {
	b = binary.AppendVarint(b, s.reading.Time)
	for _, n := range []int64{s.reading.Nanos, s.reading.Offset, s.reading.Index} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return s.appendNumber(b)
}

func (s sample) appendNumber(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(s.x))
}
