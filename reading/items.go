package reading

import "strconv"

// MaxReadings bounds the readings of one record.
const MaxReadings = 10_000

// maxStars bounds the steps of a path of items that stand for any member or element, the last one included.
const maxStars = 4

// span is a name: in the document, or decoded in the scanner's text.
type span struct {
	start, end int
	decoded    bool
}

// item is one element of an array or member of an object that is read as a reading of its own.
type item struct {
	start, end int
	names      [maxStars]span // of the members that lead to it, by level; an element's name is its index
}

// itemSet is the items of a document. The first scan finds them, and holds them to the grammar; each is then scanned
// again for its fields when its turn comes, so that a record of many items needs little memory.
type itemSet struct {
	each      bool   // the document holds items; otherwise it is the only one
	eachLabel string // their path
	inItem    tree   // paths from an item
	first     int    // their first field

	maxItems int // so that a record has at most MaxReadings

	items    []item
	path     [maxStars]span // of the value being scanned
	level    int
	misfit   int // where a value is that should hold items, failed for none
	misfitIs kind
	textMark int // decoded text of the document; what follows is the present item's
}

func (s *scanner) forgetItems() {
	s.items, s.level, s.misfit = s.items[:0], 0, failed
}

// spread scans a member or element, called name, of a branch whose members are items or lead to them.
func (s *scanner) spread(p, depth int, b *branch, name span) int {
	s.path[s.level] = name
	if b.items {
		end, _ := s.value(p, depth, nil, &s.skipped)
		if end == failed {
			return failed
		}
		return s.note(p, end, name)
	}
	star := b.star
	for _, below := range star.subtree {
		below.last, below.kind = failed, kindAbsent
	}
	s.level++
	end, kind := s.value(p, depth, star, &s.skipped)
	s.level--
	star.kind, star.start = kind, p
	s.judgeGate(star.gate, end-1)
	return end
}

// note takes down an item, called name.
func (s *scanner) note(p, end int, name span) int {
	if len(s.items) >= s.maxItems {
		return s.fail(TooManyReadings, p, "more than "+strconv.Itoa(MaxReadings)+" readings in one record")
	}
	s.path[s.level] = name
	s.items = append(s.items, item{start: p, end: end, names: s.path})
	return end
}

// judgeGate notes that a branch, which leads to items, holds none: it is neither an object nor an array. p is where it
// should be when it is absent.
func (s *scanner) judgeGate(b *branch, p int) {
	if b.kind == kindObject || b.kind == kindArray || s.misfit != failed {
		return
	}
	s.misfit, s.misfitIs = b.start, b.kind
	if b.kind == kindAbsent {
		s.misfit = p
	}
}

// elements scans an array of which something is wanted, as skipArray does.
func (s *scanner) elements(p, depth int, b *branch) int {
	if depth > MaxDepth {
		return s.tooDeep(p)
	}
	if p = s.blank(p + 1); p < len(s.data) && s.data[p] == ']' {
		return p + 1
	}
	for n := 0; ; n++ {
		s.inside = failed
		if p = s.element(p, depth, b, n); p == failed {
			return failed
		}
		s.inside = failed
		if p = s.blank(p); p >= len(s.data) {
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

// element scans the n-th element of an array.
func (s *scanner) element(p, depth int, b *branch, n int) int {
	for i := range b.wanted {
		if b.wanted[i].element != n {
			continue
		}
		end := s.configured(p, depth, b, i)
		if !b.items || end == failed {
			return end
		}
		return s.note(p, end, span{start: n, end: -1}) // a field lies in it; it is a reading all the same
	}
	if b.items || b.star != nil {
		return s.spread(p, depth, b, span{start: n, end: -1})
	}
	end, _ := s.value(p, depth, nil, &s.skipped)
	return end
}

// nameSpan is where a scanned name is.
func (s *scanner) nameSpan(n *name) span { return span{n.start, n.start + n.size, n.decoded} }

// nameOf is the name of the member that an item is, or that leads to it; of an element it is the index.
func (s *scanner) nameOf(it *item, level int) []byte {
	switch at := it.names[level]; {
	case at.end < 0:
		start := len(s.text)
		s.text = strconv.AppendInt(s.text, int64(at.start), 10)
		return s.text[start:]
	case at.decoded:
		return s.text[at.start:at.end]
	default:
		return s.data[at.start:at.end]
	}
}

// split tells whether a scanned document holds items; if not it notes why. An empty array or object holds none and is
// no fault.
func (s *scanner) split() bool {
	s.textMark = len(s.text)
	if s.judgeGate(s.of.root.gate, s.close); s.misfit == failed {
		return true
	}
	reason := WrongType
	switch s.misfitIs {
	case kindAbsent:
		reason = MissingField
	case kindNull:
		reason = NullField
	}
	s.refusal = Refusal{Reason: reason, Pos: s.misfit, Field: s.eachLabel,
		Detail: "is " + kindNames[s.misfitIs] + ", want an array or an object of readings"}
	return false
}

// take scans the i-th item for its fields. It has been scanned before, so that nothing can be wrong with it.
func (s *scanner) take(i int) {
	s.text = s.text[:s.textMark]
	s.clear(s.first, len(s.fields))
	s.inItem.forget()
	it := &s.items[i]
	s.rooted(it.start, 0, &s.inItem)
	s.close = it.end - 1
	s.inside = failed
}
