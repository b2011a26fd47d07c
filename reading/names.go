package reading

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// name is one field name of a document.
type name struct {
	head    uint64 // the first eight bytes, the first one lowest, padded with zeros: with size, all of a short name
	start   int    // in the document, or in the scanner's text
	size    int    // of the decoded name
	decoded bool   // in the scanner's text
	slot    uint16 // 1 + its place in the table, 0 when it is not there
}

// fewNames is the number of names of one object up to which each new one is compared with all before it.
const fewNames = 16

// nameSet is the names of all open objects, innermost last, to find duplicates in. An object with more than fewNames
// keeps its names in a hash table, so that the cost of a document stays linear in its size whatever it holds: the seed
// is random and has no influence on any result.
//
// Names leave the table in the reverse order of their coming, when their object is closed. What came later is gone by
// then, so emptying the slot is all there is to deleting.
type nameSet struct {
	names []name
	table [2 * MaxNames]uint16 // 1 + index into names, 0 for none; linear probing; at most half full
	seed  maphash.Seed
}

// forget drops the names from base on: their object is closed.
func (set *nameSet) forget(base int) {
	for i := len(set.names) - 1; i >= base; i-- {
		if slot := set.names[i].slot; slot != 0 {
			set.table[slot-1] = 0
		}
	}
	set.names = set.names[:base]
}

// name scans a name from behind its opening quote.
func (s *scanner) name(p int) (name, int) {
	if p+8 <= len(s.data) {
		w := binary.LittleEndian.Uint64(s.data[p:])
		if m := special(w); m != 0 {
			mark := bits.TrailingZeros64(m)
			if size := mark >> 3; s.data[p+size] == '"' {
				return name{head: w & (1<<(mark&^7) - 1), start: p, size: size}, p + size + 1
			}
		}
	}
	return s.longName(p)
}

// longName scans a name of any length, with escapes or without.
func (s *scanner) longName(p int) (name, int) {
	s.escaped = false
	end := s.string(p)
	if end == failed {
		return name{}, failed
	}
	n := name{start: p, size: end - 1 - p}
	if s.escaped {
		n.decoded, n.start = true, len(s.text)
		n.size = len(s.decode(p, end-1))
	}
	n.head = head(s.nameBytes(&n))
	return n, end
}

// head is the head of a name.
func head(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.LittleEndian.Uint64(b)
	}
	var w uint64
	for i, c := range b {
		w |= uint64(c) << (8 * i)
	}
	return w
}

func (s *scanner) nameBytes(n *name) []byte {
	if n.decoded {
		return s.text[n.start : n.start+n.size]
	}
	return s.data[n.start : n.start+n.size]
}

func (s *scanner) same(a, b *name) bool {
	return a.head == b.head && a.size == b.size &&
		(a.size <= 8 || string(s.nameBytes(a)) == string(s.nameBytes(b)))
}

// find returns the index of a configured field by its name, or failed.
func (s *scanner) find(n *name) int {
	i := s.next
	for range s.wanted {
		if i >= len(s.wanted) {
			i = 0
		}
		w := &s.wanted[i]
		if w.head == n.head && len(w.name) == n.size && (n.size <= 8 || string(s.nameBytes(n)) == w.name) {
			s.next = i + 1
			return i
		}
		i++
	}
	return failed
}

// add adds a name that stands at p to those of its object, which begin at base.
func (s *scanner) add(n *name, base, p int) bool {
	if len(s.names) >= MaxNames {
		return s.tooManyNames(p) != failed
	}
	open := s.names[base:]
	if len(open) < fewNames {
		for i := range open {
			if s.same(&open[i], n) {
				return s.duplicate(n, p) != failed
			}
		}
		s.names = append(s.names, *n)
		return true
	}
	if len(open) == fewNames {
		for i := range open {
			s.enter(&open[i], base, base+i)
		}
	}
	if !s.enter(n, base, len(s.names)) {
		return s.duplicate(n, p) != failed
	}
	s.names = append(s.names, *n)
	return true
}

// enter puts a name that has or will have this index into the table. It is false when the object has that name already.
func (s *scanner) enter(n *name, base, index int) bool {
	h := maphash.Bytes(s.seed, s.nameBytes(n))
	for i := h % uint64(len(s.table)); ; i = (i + 1) % uint64(len(s.table)) {
		other := int(s.table[i]) - 1
		if other < 0 {
			s.table[i] = uint16(index + 1)
			n.slot = uint16(i + 1)
			return true
		}
		if other >= base && s.same(&s.names[other], n) {
			return false
		}
	}
}
