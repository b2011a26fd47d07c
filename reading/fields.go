package reading

import (
	"encoding/binary"
	"hash/maphash"
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
	start, end int  // of the token, quotes included
	num        number
}

// wanted is a configured field as it is looked for.
type wanted struct {
	name         string
	head         uint64 // as in name
	plain        bool   // the name is written without escapes
	quoted, mask uint64 // a plain name and its closing quote as eight bytes, and which of them count; 0 when it is longer
}

// init makes the scanner look for fields.
func (s *scanner) init(fields []string) {
	s.fields = make([]field, len(fields))
	s.after = make([]int, len(fields)+1)
	for i, name := range fields {
		w := wanted{name: name, head: head([]byte(name)), plain: strings.IndexFunc(name, mustEscape) < 0}
		if size := len(name); w.plain && size < 8 {
			w.quoted, w.mask = head([]byte(name+`"`)), 1<<(8*size+8)-1
		}
		s.wanted = append(s.wanted, w)
		s.after[i] = i
	}
	s.seed = maphash.MakeSeed()
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

// guessed returns the configured field that is likely to come next when its name stands at p and is new, or failed.
func (s *scanner) guessed(p int) int {
	if i := s.after[s.last+1]; s.fields[i].kind == kindAbsent && s.wanted[i].begins(s.data, p) {
		return i
	}
	return failed
}

// anyName scans the name whose quote is at p and returns the index behind it, and the configured field that it belongs
// to or failed.
func (s *scanner) anyName(p, depth, base int) (end, i int) {
	n := s.spare()
	if end = s.name(p+1, n); end == failed {
		return failed, failed
	}
	i = failed
	if depth == 1 {
		i = s.find(n)
	}
	if i == failed {
		return s.add(n, end, base, p), failed
	}
	if s.fields[i].kind != kindAbsent {
		s.inside = i
		return s.duplicate(n, p), failed
	}
	s.after[s.last+1] = i
	return end, i
}

// find returns the configured field with a name, or failed.
func (s *scanner) find(n *name) int {
	for i := range s.wanted {
		w := &s.wanted[i]
		if w.head == n.head && len(w.name) == n.size && (n.size <= 8 || string(s.nameBytes(n)) == w.name) {
			return i
		}
	}
	return failed
}

// configured scans the value of the i-th configured field.
func (s *scanner) configured(p, i int) int {
	s.inside, s.last = i, i
	f := &s.fields[i]
	end, kind := s.value(p, 1, &f.num)
	f.kind, f.escaped, f.start, f.end = kind, s.escaped, p, end
	return end
}
