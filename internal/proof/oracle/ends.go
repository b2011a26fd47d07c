package oracle

import (
	"encoding/binary"
	"math"
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

// ends finds the first and the last reading.
func (s *Stats) ends(readings []Folded, value int) {
	for i := range readings {
		one := sample{&readings[i], readings[i].Values[value]}
		if i == 0 || one.reading.before(s.first.reading) {
			s.first = one
		}
		if i == 0 || s.last.reading.before(one.reading) {
			s.last = one
		}
	}
}

// append appends a reading as it is kept: time as a zigzag varint, nanos, offset and index as unsigned varints, the
// number as eight bytes, least significant first.
func (s sample) append(b []byte) []byte {
	b = binary.AppendVarint(b, s.reading.Time)
	for _, n := range []int64{s.reading.Nanos, s.reading.Offset, s.reading.Index} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(s.x))
}
