package reading

// failed is the index that scanning functions return after a fault; the refusal is in the scanner.
const failed = -1

// scanner checks one document against the grammar and notes where the configured fields are. Its methods take the index
// they start at and return the index behind what they scanned, or failed.
type scanner struct {
	data   []byte
	fields []field  // those of the document, then those of the present item
	labels []string // parallel to fields: what refusals call them
	close  int      // index of the document's last byte, or of the item's

	of     tree // paths from the document
	array  bool // the document may be an array
	scalar bool // the document may be anything

	nameSet
	text  []byte // decoded names and texts of this document
	token []byte // the number that a text held last, as JSON writes it

	rounded bool // whether a number read since this was cleared is another than the one written

	skipped number // the number scanned last in a field that is not configured
	escaped bool   // whether the string scanned last has escapes

	inside  int // the configured field being scanned, failed for none
	refusal Refusal

	itemSet
	rowSet
}

// document scans a whole record. After true the fields are filled in.
func (s *scanner) document(data []byte) bool {
	if s.columns != nil {
		return s.row(data)
	}
	s.data = data
	s.text = s.text[:0]
	s.inside = failed
	s.forget(0)
	s.clear(0, len(s.fields))
	for _, b := range s.of.branches {
		b.last, b.kind = failed, kindAbsent
	}
	if s.each {
		s.forgetItems()
	}
	if len(data) == 0 || data[0] != '{' || s.scalar {
		return s.otherDocument()
	}
	p := s.object(0, 1, s.of.root)
	if p == failed {
		return false
	}
	s.of.root.kind = kindObject
	s.close = p - 1
	return s.ends(p)
}

// clear makes fields absent.
func (s *scanner) clear(from, to int) {
	for i := from; i < to; i++ {
		s.fields[i].kind = kindAbsent
	}
}

// otherDocument scans a record that does not begin with an object's brace, or that may be anything.
func (s *scanner) otherDocument() bool {
	if s.noDocument() {
		return false
	}
	start := s.blank(0)
	p, kind := s.rooted(start, 0, &s.of)
	if p == failed || !s.ends(p) {
		return false
	}
	s.close = p - 1
	if kind == kindObject || s.scalar || kind == kindArray && s.array {
		return true
	}
	want := "an object"
	if s.array {
		want = "an object or an array"
	}
	return s.fail(NotObject, start, "the document is "+kindNames[kind]+", want "+want) != failed
}

// rooted scans the value that the paths of a tree begin at.
func (s *scanner) rooted(p, depth int, t *tree) (int, kind) {
	if t.whole == failed {
		end, kind := s.value(p, depth, t.root, &s.skipped)
		t.root.kind, t.root.start = kind, p
		return end, kind
	}
	s.inside = t.whole
	f := &s.fields[t.whole]
	end, kind := s.value(p, depth, nil, &f.num)
	f.kind, f.escaped, f.start, f.end = kind, s.escaped, p, end
	return end, kind
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

// value scans a value that lies in depth containers; b says what is wanted of it, nil for nothing. When it is a number,
// that goes to num.
func (s *scanner) value(p, depth int, b *branch, num *number) (int, kind) {
	if p >= len(s.data) {
		return s.truncated("a value"), kindAbsent
	}
	switch c := s.data[p]; c {
	case '"':
		s.escaped = false
		return s.quoted(p + 1), kindText
	case '{':
		return s.object(p, depth+1, b), kindObject
	case '[':
		if b != nil {
			return s.elements(p, depth+1, b), kindArray
		}
		return s.skipArray(p, depth+1), kindArray
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
func (s *scanner) object(p, depth int, b *branch) int {
	if depth > MaxDepth {
		return s.tooDeep(p)
	}
	base := len(s.names)
	if p = s.blank(p + 1); p < len(s.data) && s.data[p] == '}' {
		return p + 1
	}
	for {
		if p = s.member(p, depth, base, b); p == failed {
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
func (s *scanner) member(p, depth, base int, b *branch) int {
	i := failed
	if b != nil {
		s.inside = failed
	}
	if p >= len(s.data) || s.data[p] != '"' {
		return s.unexpected(p, "a name in double quotes")
	}
	if b != nil {
		i = s.guessed(b, p+1)
	}
	var q int
	if i != failed {
		q = p + len(b.wanted[i].name) + 2
	} else if q, i = s.anyName(p, base, b); q == failed {
		return failed
	}
	q = s.blank(q)
	if q >= len(s.data) || s.data[q] != ':' {
		return s.unexpected(q, "':'")
	}
	q = s.blank(q + 1)
	switch {
	case i != failed:
		q = s.configured(q, depth, b, i)
	case b != nil && (b.items || b.star != nil):
		q = s.spread(q, depth, b, s.nameSpan(&s.names[len(s.names)-1]))
	default:
		q, _ = s.value(q, depth, nil, &s.skipped)
	}
	if q == failed {
		return failed
	}
	return s.blank(q)
}

// skipArray scans an array of which nothing is wanted; its opening bracket is at p and it is the depth-th container from
// outside.
func (s *scanner) skipArray(p, depth int) int {
	if depth > MaxDepth {
		return s.tooDeep(p)
	}
	if p = s.blank(p + 1); p < len(s.data) && s.data[p] == ']' {
		return p + 1
	}
	for {
		end, _ := s.value(p, depth, nil, &s.skipped)
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
