package store

import (
	"encoding/binary"
	"errors"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// sliceBytes is where a slice of a scan ends: after the shard that reaches it. Copying that much takes well below the
// 1 ms that a slice may stop the task; a shard of 10 million entries of 100 bytes is four times as large, and takes
// about a quarter of a millisecond.
const sliceBytes = 256 << 10

// Sum is what proves a set of entries: their digest and their number. Differences of both are Sums too, so that
// image.Add(delta) == state is the condition of section 6.
type Sum struct {
	Digest record.Digest
	Live   record.Count
}

// Add returns s + o.
func (s Sum) Add(o Sum) Sum { return Sum{s.Digest.Add(o.Digest), s.Live + o.Live} }

// Scan copies a Memory in slices while it is changed between them. It belongs to the goroutine of its Memory.
//
// The image is fuzzy: it starts at the position B of the first slice, contains some later values, and ends at the
// position P after the last one. Every entry is met once, because a slice is whole shards and an entry never leaves its
// shard. Changes in shards already passed are added up: image + Delta == state at P.
type Scan struct {
	m     *Memory
	next  uint64 // first shard not passed
	delta Sum
}

// StartScan begins a scan. One runs at a time.
func (m *Memory) StartScan() *Scan {
	if m.scan != nil {
		panic(&Error{Kind: KindCorrupt, Err: errors.New("a scan runs already")})
	}
	m.Digest() // asserts that it is known: nothing could be proved otherwise
	m.scan = &Scan{m: m}
	return m.scan
}

// Next appends the next slice to dst, which may be nil or a buffer to use again, and tells whether it was the last. A
// slice is a sequence of entries, each as key length and value length (unsigned varints), key, value; it may be empty.
// The scan ends with the last slice: take the state's position P, digest and live count, and Delta, before the store
// is changed again.
func (s *Scan) Next(dst []byte) (slice []byte, done bool) { return s.shards(dst, sliceBytes) }

// shards is Next for slices of a given size.
func (s *Scan) shards(dst []byte, size int) (slice []byte, done bool) {
	if s.m.scan != s {
		panic(&Error{Kind: KindCorrupt, Err: errors.New("next slice of a scan that has ended or was dropped")})
	}
	start := len(dst)
	for s.next < shardCount && len(dst)-start < size {
		s.m.shards[s.next].each(&s.m.arena, func(keyValue []byte, keyLen int) bool {
			dst = appendEntry(dst, keyValue, keyLen)
			return true
		})
		s.next++
	}
	if s.next == shardCount {
		s.m.scan = nil
		return dst, true
	}
	return dst, false
}

func appendEntry(dst, keyValue []byte, keyLen int) []byte {
	dst = binary.AppendUvarint(dst, uint64(keyLen))
	dst = binary.AppendUvarint(dst, uint64(len(keyValue)-keyLen))
	return append(dst, keyValue...)
}

// Delta is what the changes since B did to the shards when they were already passed. It is final when the scan has
// ended.
func (s *Scan) Delta() Sum { return s.delta }

// Drop ends a scan early. Its slices are worth nothing: no position belongs to them.
func (s *Scan) Drop() {
	if s.m.scan == s {
		s.m.scan = nil
	}
}

// changed is told of every change of an entry.
func (s *Scan) changed(hash uint64, diff record.Digest, added record.Count) {
	if shardOf(hash) < s.next {
		s.delta = s.delta.Add(Sum{diff, added})
	}
}
