package reading

import (
	"encoding/binary"
	"strings"
)

// kind is the type of a JSON value; the zero kind is that of a field not yet seen.
type kind uint8

const (
	kindAbsent kind = iota
	kindNull
	kindBool
	kindNumber
	kindText
	kindObject
	kindArray
)

var kindNames = [...]string{"absent", "null", "a boolean", "a number", "a text", "an object", "an array"}

// field is what a document holds for one configured field.
type field struct {
	kind       kind
	escaped    bool // a text with escapes
	form       form
	start, end int // of the token, quotes included
	num        number
}

// wanted is a name that is looked for in an object or an array.
type wanted struct {
	name         string
	head         uint64 // as in name
	plain        bool   // the name is written without escapes
	quoted, mask uint64 // a plain name and its closing quote as eight bytes, and which of them count; 0 when it is longer
	element      int    // the element of an array that the name means, failed for none

	field int     // the configured field that it leads to, failed for none; then below
	below *branch // where more names are wanted
}

func newWanted(name string) wanted {
	w := wanted{name: name, head: head([]byte(name)), plain: strings.IndexFunc(name, mustEscape) < 0, element: element(name), field: failed}
	if size := len(name); w.plain && size < 8 {
		w.quoted, w.mask = head([]byte(name+`"`)), 1<<(8*size+8)-1
	}
	return w
}

// mustEscape tells whether a character of a name is only ever written as an escape.
func mustEscape(r rune) bool { return r < ' ' || r == '"' || r == '\\' }

// begins tells whether the name begins at p, written without escapes, and ends with a quote.
func (w *wanted) begins(data []byte, p int) bool {
	if w.mask != 0 && p+8 <= len(data) {
		return binary.LittleEndian.Uint64(data[p:])&w.mask == w.quoted
	}
	end := p + len(w.name)
	return w.plain && end < len(data) && data[end] == '"' && string(data[p:end]) == w.name
}

// met tells whether the document has had a wanted name already.
func (s *scanner) met(w *wanted) bool {
	if w.field != failed {
		return s.fields[w.field].kind != kindAbsent
	}
	return w.below.kind != kindAbsent
}

// guessed returns the index of the wanted name that is likely to come next when it stands at p and is new, or failed.
func (s *scanner) guessed(b *branch, p int) int {
	if len(b.wanted) == 0 {
		return failed
	}
	i := b.after[b.last+1]
	if w := &b.wanted[i]; w.begins(s.data, p) && !s.met(w) {
		return i
	}
	return failed
}

// anyName scans the name whose quote is at p and returns the index behind it, and the index of the wanted name that it
// is or failed. Names that are not wanted are found in the set of names, last.
func (s *scanner) anyName(p, base int, b *branch) (end, i int) {
	n := s.spare()
	if end = s.name(p+1, n); end == failed {
		return failed, failed
	}
	i = failed
	if b != nil {
		i = s.find(b, n)
	}
	if i == failed {
		return s.add(n, end, base, p), failed
	}
	if w := &b.wanted[i]; s.met(w) {
		s.inside = w.field
		return s.duplicate(n, p), failed
	}
	b.after[b.last+1] = i
	return end, i
}

// find returns the index of a wanted name, or failed.
func (s *scanner) find(b *branch, n *name) int {
	for i := range b.wanted {
		w := &b.wanted[i]
		if w.head == n.head && len(w.name) == n.size && (n.size <= 8 || string(s.nameBytes(n)) == w.name) {
			return i
		}
	}
	return failed
}

// configured scans the value of the i-th wanted name of a branch, in depth containers.
func (s *scanner) configured(p, depth int, b *branch, i int) int {
	b.last = i
	w := &b.wanted[i]
	if w.field == failed {
		return s.within(p, depth, w.below)
	}
	s.inside = w.field
	f := &s.fields[w.field]
	end, kind := s.value(p, depth, nil, &f.num)
	f.kind, f.escaped, f.start, f.end = kind, s.escaped, p, end
	return end
}

// within scans the value that further names are wanted in.
func (s *scanner) within(p, depth int, b *branch) int {
	b.kind, b.start = kindNull, p // met, so that its own name is not taken twice
	end, kind := s.value(p, depth, b, &s.skipped)
	b.kind = kind
	return end
}
