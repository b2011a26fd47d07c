package reading

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
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
	table *[2 * MaxNames]uint16 // 1 + index into names, 0 for none; linear probing; at most half full; made when first needed
	seed  maphash.Seed
}

func (set *nameSet) init() { set.seed = maphash.MakeSeed() }

// forget drops the names from base on: their object is closed.
func (set *nameSet) forget(base int) {
	for i := len(set.names) - 1; i >= base; i-- {
		if slot := set.names[i].slot; slot != 0 {
			set.table[slot-1] = 0
		}
	}
	set.names = set.names[:base]
}

// spare is where the next name is put together, behind the names of the open objects.
func (set *nameSet) spare() *name {
	n := len(set.names)
	if n == cap(set.names) {
		set.names = slices.Grow(set.names, 1)
	}
	return &set.names[:n+1][n]
}

// name scans a name from behind its opening quote into n.
func (s *scanner) name(p int, n *name) int {
	if p+8 <= len(s.data) {
		w := binary.LittleEndian.Uint64(s.data[p:])
		if m := special(w); m != 0 {
			mark := bits.TrailingZeros64(m)
			if size := mark >> 3; s.data[p+size] == '"' {
				n.head, n.start, n.size, n.decoded, n.slot = w&(1<<(mark&^7)-1), p, size, false, 0
				return p + size + 1
			}
		}
	}
	return s.longName(p, n)
}

// longName scans a name of any length, with escapes or without.
func (s *scanner) longName(p int, n *name) int {
	s.escaped = false
	end := s.quoted(p)
	if end == failed {
		return failed
	}
	n.start, n.size, n.decoded, n.slot = p, end-1-p, s.escaped, 0
	if s.escaped {
		n.start = len(s.text)
		n.size = len(s.decode(p, end-1))
	}
	n.head = head(s.nameBytes(n))
	return end
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

// add adds the spare name to those of its object, which begin at base, and returns end. The name stands at p.
func (s *scanner) add(n *name, end, base, p int) int {
	index := len(s.names)
	if index >= MaxNames {
		return s.tooManyNames(p)
	}
	open := s.names[base:]
	if len(open) < fewNames {
		for i := range open {
			if s.same(&open[i], n) {
				return s.duplicate(n, p)
			}
		}
	} else {
		if len(open) == fewNames {
			if s.table == nil {
				s.table = new([2 * MaxNames]uint16)
			}
			for i := range open {
				s.enter(&open[i], base, base+i)
			}
		}
		if !s.enter(n, base, index) {
			return s.duplicate(n, p)
		}
	}
	s.names = s.names[:index+1]
	return end
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
