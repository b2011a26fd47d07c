package oracle

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Distinct numbers are known one by one up to mostKnown; beyond, by a HyperLogLog of 2^prefix registers.
const (
	mostKnown = 256
	prefix    = 12
)

// hashes are the hashes of all different numbers, in rising order: the output function of SplitMix64 for the number's bits
// as the state before.
func (s Stats) hashes() []uint64 {
	var all []uint64
	for _, one := range s.ordered {
		z := one.bits()
		if !one.whole && one.x == 0 {
			z = 0 // of -0 too
		}
		z += 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		all = append(all, z^z>>31)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// ranks are the registers: for each prefix of a hash the largest position of the first bit set behind it, from 1.
func ranks(hashes []uint64) []int {
	all := make([]int, 1<<prefix)
	for _, h := range hashes {
		behind := h & (1<<(64-prefix) - 1)
		at := &all[h>>(64-prefix)]
		*at = max(*at, 64-prefix-bits.Len64(behind)+1)
	}
	return all
}

// distinct is how many different numbers there are, exactly or by Ertl's improved raw estimator, in arithmetic of 300
// bits.
func (s Stats) distinct() int64 {
	hashes := s.hashes()
	if len(hashes) <= mostKnown {
		return int64(len(hashes))
	}
	const m = 1 << prefix
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }
	z, empty := number(0), 0
	for _, rank := range ranks(hashes) {
		if rank == 0 {
			empty++
			continue
		}
		z.Add(z, number(math.Ldexp(1, -rank)))
	}
	x := number(float64(empty))
	x.Quo(x, number(m))
	sum := number(0).Set(x)
	for weight := number(1); x.Sign() != 0 && x.MantExp(nil) > -300; weight.Add(weight, weight) {
		x.Mul(x, x)
		sum.Add(sum, number(0).Mul(x, weight))
	}
	z.Add(z, sum.Mul(sum, number(m)))
	alpha, _ := number(0).SetString("0.7213475204444817036799623405009460687133") // 1 / (2 ln 2)
	estimate := alpha.Mul(alpha, number(m*m))
	estimate.Quo(estimate, z)
	rounded, _ := estimate.Add(estimate, number(0.5)).Int64()
	return min(s.Count, max(mostKnown+1, rounded))
}

// appendDistinct appends what is kept of different numbers: their number and their hashes, or 257 and the registers,
// each in six bits, the first in the lowest bits.
func (s Stats) appendDistinct(b []byte) []byte {
	hashes := s.hashes()
	if len(hashes) <= mostKnown {
		b = binary.AppendUvarint(b, uint64(len(hashes)))
		for _, h := range hashes {
			b = binary.LittleEndian.AppendUint64(b, h)
		}
		return b
	}
	packed := new(big.Int)
	for i, rank := range ranks(hashes) {
		packed.Or(packed, new(big.Int).Lsh(big.NewInt(int64(rank)), uint(6*i)))
	}
	little := packed.FillBytes(make([]byte, 6<<prefix/8))
	slices.Reverse(little)
	return append(binary.AppendUvarint(b, mostKnown+1), little...)
}

// mostBuckets is how many buckets of numbers there may be.
const mostBuckets = 512

// keys are the numbers of a window, each cut towards zero to so many binary digits that at most mostBuckets different
// ones are left, in rising order, and how many digits fewer than nine that is. The key of a number is what is left of its
// exponent and digits as one whole number; below zero it is -1 minus that.
func (s Stats) keys() (keys []int64, less int) {
	for ; ; less++ {
		keys = keys[:0]
		for _, one := range s.ordered {
			x := new(big.Float).SetPrec(53).SetMode(big.ToZero)
			if one.whole {
				x.SetInt64(one.n)
			} else {
				x.SetFloat64(one.x)
			}
			cut, _ := x.Float64()
			size := new(big.Int).SetUint64(math.Float64bits(math.Abs(cut)))
			key := size.Rsh(size, uint(44+less)).Int64()
			if cut < 0 {
				key = -1 - key
			}
			keys = append(keys, key)
		}
		slices.Sort(keys)
		if len(slices.Compact(slices.Clone(keys))) <= mostBuckets {
			return keys, less
		}
	}
}

// quantile is the p-th percentile: of the cut numbers the one at the first place that p percent do not lie behind, but
// no lower than the lowest number of all and no higher than the highest.
func (s Stats) quantile(p int64) sample {
	keys, less := s.keys()
	key := keys[(p*s.Count+99)/100-1]
	x := math.Float64frombits(uint64(max(key, -1-key)) << (44 + less))
	if key < 0 {
		x = -x
	}
	one := sample{x: x, whole: s.least.whole}
	if one.whole {
		n, _ := new(big.Float).SetFloat64(x).Int(nil)
		one.n = n.Int64()
	}
	switch {
	case one.below(s.least):
		return s.least
	case s.most.below(one):
		return s.most
	}
	return one
}

// appendBuckets appends what is kept for percentiles: how many different keys there are, how many digits fewer than nine,
// and for each key, in rising order, itself as a zigzag varint or how far it lies beyond the next possible one, and how
// many numbers have it, less one.
func (s Stats) appendBuckets(b []byte) []byte {
	keys, less := s.keys()
	b = binary.AppendUvarint(b, uint64(len(slices.Compact(slices.Clone(keys)))))
	b = append(b, byte(less))
	for i := 0; i < len(keys); {
		if i == 0 {
			b = binary.AppendVarint(b, keys[0])
		} else {
			b = binary.AppendUvarint(b, uint64(keys[i]-keys[i-1]-1))
		}
		n := 1
		for i+n < len(keys) && keys[i+n] == keys[i] {
			n++
		}
		b = binary.AppendUvarint(b, uint64(n-1))
		i += n
	}
	return b
}

// percent is the p of a percentile by its name, "p50" to "p99".
func percent(name string) (p int64, ok bool) {
	digits, ok := strings.CutPrefix(name, "p")
	p, err := strconv.ParseInt(digits, 10, 64)
	return p, ok && err == nil && p >= 50 && p <= 99
}
