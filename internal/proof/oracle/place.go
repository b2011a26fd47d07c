package oracle

import (
	"encoding/binary"
	"math"
	"math/big"
	"slices"
)

// sample is one number with the reading it is of.
type sample struct {
	reading *Folded
	x       float64 // of no meaning where the number is whole
	n       int64
	whole   bool
}

// sampleOf is a value of a reading.
func sampleOf(f *Folded, value int) sample {
	if f.Whole != nil {
		return sample{reading: f, n: f.Whole[value], whole: true}
	}
	return sample{reading: f, x: f.Values[value]}
}

// scaled is the number times 2^1074.
func (a sample) scaled() *big.Int {
	if a.whole {
		return new(big.Int).Lsh(big.NewInt(a.n), scaleBits)
	}
	return exact(a.x)
}

// float is the number as a double, rounded where it is whole.
func (a sample) float() float64 {
	if a.whole {
		x, _ := new(big.Float).SetInt64(a.n).Float64()
		return x
	}
	return a.x
}

// bits are the number's 64 bits.
func (a sample) bits() uint64 {
	if a.whole {
		return uint64(a.n)
	}
	return math.Float64bits(a.x)
}

func (a sample) below(b sample) bool {
	if a.whole {
		return a.n < b.n
	}
	return below(a.x, b.x)
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
func (s *Stats) places(numbers []sample) {
	s.ordered = numbers
	for _, one := range numbers {
		s.lost = s.lost || one.reading.Stray
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
func (a sample) append(b []byte) []byte {
	b = binary.AppendVarint(b, a.reading.Time)
	for _, n := range []int64{a.reading.Nanos, a.reading.Offset, a.reading.Index} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return a.appendNumber(b)
}

func (a sample) appendNumber(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(b, a.bits())
}
