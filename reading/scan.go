package reading

// failed is the index that scanning functions return after a fault; the refusal is in the scanner.
const failed = -1

// scanner checks one document against the grammar and notes where the configured fields are. Its methods take the index
// they start at and return the index behind what they scanned, or failed.
type scanner struct {
	data   []byte
	fields []field // parallel to wanted
	close  int     // index of the outermost object's closing brace

	wanted []wanted
	last   int   // the configured field met last, failed for none
	after  []int // at last + 1: the field that came next in the documents before, for those of one source are alike

	nameSet
	text []byte // decoded names and texts of this document

	skipped number // the number scanned last in a field that is not configured
	escaped bool   // whether the string scanned last has escapes

	inside  int // the configured field being scanned, failed for none
	refusal Refusal
}

// document scans a whole record. After true the fields are filled in.
func (s *scanner) document(data []byte) bool {
	s.data = data
	s.text = s.text[:0]
	s.inside, s.last = failed, failed
	s.forget(0)
	for i := range s.fields {
		s.fields[i].kind = kindAbsent
	}
	if len(data) == 0 || data[0] != '{' {
		return s.otherDocument()
	}
	p := s.object(0, 1)
	if p == failed {
		return false
	}
	s.close = p - 1
	return s.ends(p)
}

// otherDocument scans a record that does not begin with an object's brace.
func (s *scanner) otherDocument() bool {
	if s.noDocument() {
		return false
	}
	start := s.blank(0)
	p, kind := s.value(start, 0, &s.skipped)
	if p == failed || !s.ends(p) {
		return false
	}
	s.close = p - 1
	if kind != kindObject {
		return s.fail(NotObject, start, "the document is "+kindNames[kind]+", want an object") != failed
	}
	return true
}

// ends tells whether only white space follows the document, which ends at p.
func (s *scanner) ends(p int) bool {
	s.inside = failed
	if p = s.blank(p); p < len(s.data) {
		return s.fail(TrailingData, p, found(s.data[p])+" after the document; a record holds one document") != failed
	}
	return true
}

// blank returns the index of the first byte from p on that is not white space.
func (s *scanner) blank(p int) int {
	for p < len(s.data) && s.data[p] <= ' ' && isBlank(s.data[p]) {
		p++
	}
	return p
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// value scans a value that lies in depth containers. When it is a number, that goes to num.
func (s *scanner) value(p, depth int, num *number) (int, kind) {
	if p >= len(s.data) {
		return s.truncated("a value"), kindAbsent
	}
	switch c := s.data[p]; c {
	case '"':
		s.escaped = false
		return s.quoted(p + 1), kindText
	case '{':
		return s.object(p, depth+1), kindObject
	case '[':
		return s.array(p, depth+1), kindArray
	case 't':
		return s.literal(p, "true"), kindBool
	case 'f':
		return s.literal(p, "false"), kindBool
	case 'n':
		return s.literal(p, "null"), kindNull
	default:
		if c == '-' || c-'0' <= 9 {
			return s.number(p, num), kindNumber
		}
		return s.noValue(p), kindAbsent
	}
}

// object scans an object whose opening brace is at p and which is the depth-th container from outside.
func (s *scanner) object(p, depth int) int {
	if depth > MaxDepth {
		return s.tooDeep(p)
	}
	base := len(s.names)
	if p = s.blank(p + 1); p < len(s.data) && s.data[p] == '}' {
		return p + 1
	}
	for {
		if p = s.member(p, depth, base); p == failed {
			return failed
		}
		if p >= len(s.data) {
			return s.truncated("',' or '}'")
		}
		switch s.data[p] {
		case ',':
			p = s.blank(p + 1)
		case '}':
			s.forget(base)
			return p + 1
		default:
			return s.badEnd(p, "',' or '}'")
		}
	}
}

// member scans a name, its colon, its value and the white space after it. Names of the same object begin at base.
func (s *scanner) member(p, depth, base int) int {
	if depth == 1 {
		s.inside = failed
	}
	if p >= len(s.data) || s.data[p] != '"' {
		return s.unexpected(p, "a name in double quotes")
	}
	i := failed
	if depth == 1 {
		i = s.guessed(p + 1)
	}
	var q int
	if i != failed {
		q = p + len(s.wanted[i].name) + 2
	} else if q, i = s.anyName(p, depth, base); q == failed {
		return failed
	}
	q = s.blank(q)
	if q >= len(s.data) || s.data[q] != ':' {
		return s.unexpected(q, "':'")
	}
	q = s.blank(q + 1)
	if i == failed {
		q, _ = s.value(q, depth, &s.skipped)
	} else {
		q = s.configured(q, i)
	}
	if q == failed {
		return failed
	}
	return s.blank(q)
}

// array scans an array whose opening bracket is at p and which is the depth-th container from outside.
func (s *scanner) array(p, depth int) int {
	if depth > MaxDepth {
		return s.tooDeep(p)
	}
	if p = s.blank(p + 1); p < len(s.data) && s.data[p] == ']' {
		return p + 1
	}
	for {
		end, _ := s.value(p, depth, &s.skipped)
		if end == failed {
			return failed
		}
		if p = s.blank(end); p >= len(s.data) {
			return s.truncated("',' or ']'")
		}
		switch s.data[p] {
		case ',':
			p = s.blank(p + 1)
		case ']':
			return p + 1
		default:
			return s.badEnd(p, "',' or ']'")
		}
	}
}

func (s *scanner) literal(p int, word string) int {
	if end := p + len(word); end <= len(s.data) && string(s.data[p:end]) == word {
		return end
	}
	return s.badLiteral(p, word)
}
