package aggregate

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// quantiles counts the numbers of a window by their size: a bucket holds all that have the same sign, exponent and first
// digitBits binary digits behind the leading one. When there are more than maxBuckets such buckets, neighbours are put
// together in pairs, all of them, which is one digit less, until there are not. How many digits are left depends on the
// set of numbers alone, and the counts are exact, so the bytes are canonical (I11) and bounded (I13).
//
// (Buckets of constant relative width with exact counts are those of DDSketch, Masson, Rim, Lee 2019; to put all of them
// together in pairs, which keeps the bound the same for all quantiles, is from UDDSketch, Epicoco and others 2020.
// Buckets by binary digits instead of logarithms are those of HdrHistogram, and the same on every CPU.)
type quantiles struct {
	level   uint8 // digits less than digitBits; the exponent's lowest bits beyond
	buckets []bucket
}

// bucket is the numbers with one key; see keyOf. Buckets stand in the order of their keys, which is that of numbers.
type bucket struct {
	key   int32
	count uint64
}

const (
	digitBits  = 8
	maxBuckets = 512
	maxLevel   = 11 + digitBits // then all of one sign are in one bucket
	keyShift   = mantissaBits - digitBits

	maxQuantileBytes = 2 + 1 + maxBuckets*(3+10)
)

func (q *quantiles) reset() { q.level, q.buckets = 0, q.buckets[:0] }

// keyOf is the key of a number at level 0: its exponent and first digits as one whole number, and below zero the
// complement of what it is above. -0 is 0.
func keyOf(v float64) int32 {
	key := int32(math.Float64bits(math.Abs(v)) >> keyShift)
	if v < 0 {
		return ^key
	}
	return key
}

// numberOf is the number of a bucket: that which is nearest to zero.
func (q *quantiles) numberOf(key int32) float64 {
	if key < 0 {
		return -q.numberOf(^key)
	}
	return math.Float64frombits(uint64(key) << q.level << keyShift)
}

// add counts numbers with a key of the given level, which is not above that of q.
func (q *quantiles) add(key int32, level uint8, count uint64) {
	key >>= q.level - level
	at, there := slices.BinarySearchFunc(q.buckets, key, func(b bucket, key int32) int { return int(b.key - key) })
	if there {
		q.buckets[at].count += count
		return
	}
	q.buckets = slices.Insert(q.buckets, at, bucket{key, count})
	for len(q.buckets) > maxBuckets {
		q.coarsen()
	}
}

// coarsen puts the buckets together in pairs.
func (q *quantiles) coarsen() {
	q.level++
	kept := q.buckets[:0]
	for _, b := range q.buckets {
		b.key >>= 1
		if last := len(kept) - 1; last >= 0 && kept[last].key == b.key {
			kept[last].count += b.count
		} else {
			kept = append(kept, b)
		}
	}
	q.buckets = kept
}

// merge takes up the numbers of o, which is not changed.
func (q *quantiles) merge(o *quantiles) {
	for q.level < o.level {
		q.coarsen()
	}
	for _, b := range o.buckets {
		q.add(b.key, o.level, b.count)
	}
}

// at is the number of the bucket that holds the p-th percentile of n numbers: the smallest number such that at least p
// percent are not above it.
func (q *quantiles) at(p int, n int64) float64 {
	hi, lo := bits.Mul64(uint64(p), uint64(n))
	lo, carry := bits.Add64(lo, 99, 0)
	rank, _ := bits.Div64(hi+carry, lo, 100)
	for _, b := range q.buckets {
		if rank <= b.count {
			return q.numberOf(b.key)
		}
		rank -= b.count
	}
	panic("aggregate: buckets hold fewer numbers than were counted")
}

// appendBinary appends the canonical bytes: the number of buckets as a uvarint, the level as a byte, then for each bucket
// its key, the first as a zigzag varint and the others as a uvarint of how far they lie beyond the next possible one,
// and its count less one as a uvarint.
func (q *quantiles) appendBinary(dst []byte) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(q.buckets))), q.level)
	for i, b := range q.buckets {
		if i == 0 {
			dst = binary.AppendVarint(dst, int64(b.key))
		} else {
			dst = binary.AppendUvarint(dst, uint64(b.key-q.buckets[i-1].key-1))
		}
		dst = binary.AppendUvarint(dst, b.count-1)
	}
	return dst
}

// decode reads what appendBinary wrote of a window of count readings, at least one.
func (q *quantiles) decode(b []byte, count int64) (rest []byte, err error) {
	q.reset()
	n, b, err := takeUvarint(b)
	if err != nil {
		return nil, err
	}
	if n == 0 || n > maxBuckets || n > uint64(count) || len(b) == 0 || b[0] > maxLevel || b[0] > 0 && n <= maxBuckets/2 {
		return nil, fmt.Errorf("%d buckets of %d readings: %w", n, count, errRange)
	}
	q.level, b = b[0], b[1:]
	left := uint64(count)
	for range n {
		if b, err = q.decodeBucket(b, &left); err != nil {
			return nil, err
		}
	}
	if left != 0 {
		return nil, fmt.Errorf("%d readings are in no bucket: %w", left, errRange)
	}
	return b, nil
}

// decodeBucket reads the next bucket; left is how many readings it and those behind it hold.
func (q *quantiles) decodeBucket(b []byte, left *uint64) (rest []byte, err error) {
	distance, b, err := takeUvarint(b)
	if err != nil {
		return nil, err
	}
	least, most := ^lastKey>>q.level, lastKey>>q.level
	key := zigzag(distance)
	if last := len(q.buckets) - 1; last >= 0 {
		key = int64(q.buckets[last].key) + 1 + int64(min(distance, 1<<32))
	}
	more, b, err := takeUvarint(b)
	switch {
	case err != nil:
		return nil, err
	case key < int64(least) || key > int64(most):
		return nil, fmt.Errorf("bucket %d: %w", key, errRange)
	case more >= *left:
		return nil, fmt.Errorf("bucket of more than %d readings, %d are left: %w", more, *left, errRange)
	}
	q.buckets = append(q.buckets, bucket{int32(key), more + 1})
	*left -= more + 1
	return b, nil
}

// lastKey is the key of the largest double.
const lastKey = int32(math.MaxUint64>>1>>keyShift - 1<<digitBits)
