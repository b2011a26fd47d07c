package aggregate

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// distinct counts how many different numbers there are, 0 and -0 being one. Up to fewDistinct it knows them by their
// hashes, which are different for different numbers, and the count is exact. Beyond it is a HyperLogLog: of all hashes
// that begin with the same indexBits bits, only the longest run of zeros that follows. What is kept depends on the set
// of numbers alone, so its bytes are canonical (I11), and its size is bounded (I13).
type distinct struct {
	hashes    []uint64          // in rising order, while registers are nil or full is false
	full      bool              // the registers count, and no hashes
	registers *[registers]uint8 // made when first needed
}

const (
	fewDistinct  = 256
	indexBits    = 12
	registers    = 1 << indexBits
	maxRank      = 64 - indexBits + 1
	registerBits = 6
	packedBytes  = registers * registerBits / 8

	maxDistinctBytes = 2 + packedBytes
)

func (d *distinct) reset() {
	d.hashes = d.hashes[:0]
	d.full = false
}

// hash mixes the bits of a number so that each of them changes half of the result's: the finalizer of SplitMix64 on the
// next state (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). It is one to one.
func hash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// floatBits are the bits of a double, those of 0 for -0.
func floatBits(v float64) uint64 {
	if v == 0 {
		return 0
	}
	return math.Float64bits(v)
}

func (d *distinct) add(h uint64) {
	if d.full {
		d.register(h)
		return
	}
	at, there := slices.BinarySearch(d.hashes, h)
	if there {
		return
	}
	if len(d.hashes) < fewDistinct {
		d.hashes = slices.Insert(d.hashes, at, h)
		return
	}
	d.fill()
	d.register(h)
}

// fill goes over from hashes to registers.
func (d *distinct) fill() {
	if d.full {
		return
	}
	if d.registers == nil {
		d.registers = new([registers]uint8)
	}
	*d.registers, d.full = [registers]uint8{}, true
	for _, h := range d.hashes {
		d.register(h)
	}
	d.hashes = d.hashes[:0]
}

func (d *distinct) register(h uint64) {
	const rest = 64 - indexBits
	rank := uint8(bits.LeadingZeros64(h<<indexBits|1<<(indexBits-1)) + 1)
	r := &d.registers[h>>rest]
	*r = max(*r, rank)
}

// merge takes up the numbers of o, which is not changed.
func (d *distinct) merge(o *distinct) {
	for _, h := range o.hashes {
		d.add(h)
	}
	if !o.full {
		return
	}
	d.fill()
	for i, rank := range o.registers {
		d.registers[i] = max(d.registers[i], rank)
	}
}

// count is the number of different numbers among at most most: exact up to fewDistinct, then estimated.
func (d *distinct) count(most int64) int64 {
	if !d.full {
		return int64(len(d.hashes))
	}
	return min(most, max(fewDistinct+1, d.estimate()))
}

// estimate is Ertl's improved raw estimator (New cardinality estimation algorithms for HyperLogLog sketches, 2017,
// section 4), without its term for registers that can rise no further, which takes 2^60 numbers to matter. Products are
// rounded before they are added, so that all CPUs agree.
func (d *distinct) estimate() int64 {
	var ranks [maxRank + 1]int
	for _, rank := range d.registers {
		ranks[rank]++
	}
	z := 0.0
	for rank := maxRank; rank > 0; rank-- {
		z = float64(0.5 * (z + float64(ranks[rank])))
	}
	z += float64(registers * sigma(float64(ranks[0])/registers))
	const alpha = 0.5 / math.Ln2
	return int64(math.Round(float64(alpha*registers*registers) / z))
}

// sigma is x + the sum over k of x^(2^k) * 2^(k-1), for x from 0 to below 1: what empty registers weigh.
func sigma(x float64) float64 {
	z := x
	for y := 1.0; ; y += y {
		x *= x
		before := z
		if z += float64(x * y); z == before {
			return z
		}
	}
}

// appendBinary appends the canonical bytes: up to fewDistinct their number as a uvarint and the hashes in rising order,
// each as eight bytes, least significant first; beyond, fewDistinct+1 and then the registers, six bits each, in the order
// of their index, the first in the lowest bits.
func (d *distinct) appendBinary(dst []byte) []byte {
	if !d.full {
		dst = binary.AppendUvarint(dst, uint64(len(d.hashes)))
		for _, h := range d.hashes {
			dst = binary.LittleEndian.AppendUint64(dst, h)
		}
		return dst
	}
	dst = binary.AppendUvarint(dst, fewDistinct+1)
	for i := 0; i < registers; i += 4 {
		r := d.registers[i : i+4]
		four := uint32(r[0]) | uint32(r[1])<<registerBits | uint32(r[2])<<(2*registerBits) | uint32(r[3])<<(3*registerBits)
		dst = append(dst, byte(four), byte(four>>8), byte(four>>16))
	}
	return dst
}

// decode reads what appendBinary wrote of a window of count readings, at least one.
func (d *distinct) decode(b []byte, count int64) (rest []byte, err error) {
	d.reset()
	n, b, err := takeUvarint(b)
	switch {
	case err != nil:
		return nil, err
	case n == 0 || n > fewDistinct+1 || n > uint64(count):
		return nil, fmt.Errorf("%d of %d readings: %w", n, count, errRange)
	case n == fewDistinct+1:
		return d.decodeRegisters(b)
	case uint64(len(b)) < n*8:
		return nil, errShort
	}
	for range n {
		h := binary.LittleEndian.Uint64(b)
		if last := len(d.hashes) - 1; last >= 0 && h <= d.hashes[last] {
			return nil, errCanonical
		}
		d.hashes, b = append(d.hashes, h), b[8:]
	}
	return b, nil
}

func (d *distinct) decodeRegisters(b []byte) (rest []byte, err error) {
	if len(b) < packedBytes {
		return nil, errShort
	}
	d.fill()
	used := 0
	for i := range d.registers {
		bit := i % 4 * registerBits
		three := b[i/4*3:]
		rank := uint8((uint32(three[0]) | uint32(three[1])<<8 | uint32(three[2])<<16) >> bit & (1<<registerBits - 1))
		if rank > maxRank {
			return nil, fmt.Errorf("register %d holds %d: %w", i, rank, errRange)
		}
		d.registers[i] = rank
		used += int(min(rank, 1))
	}
	if used == 0 {
		return nil, fmt.Errorf("no register is used: %w", errRange)
	}
	return b[packedBytes:], nil
}
