package reading

import (
	"cmp"
	"errors"
	"math"
	"unicode/utf8"
)

// program is a format made ready: what to look for in documents, and what to do with what is found.
type program struct {
	scan   scanner
	places map[string]int // fields of scan by the place of their path
	late   []lateField    // fields of items, which come last

	where    *node
	parts    []partOf
	sequence *partOf // nil for none
	values   []valueOf
	time     int // field, failed for the record's timestamp
	plus     int // field, failed for none
	then     []int
	take     *pattern
	layout   *layout
	number   Unit // of numeric times, 0 for none
	text     Unit // of times in texts, 0 for none
}

// lateField is a field that is looked for.
type lateField struct {
	path  path
	label string
}

// partOf is a key field made ready.
type partOf struct {
	Part
	field    int
	take     *pattern
	constant []byte
	plain    bool // the whole field, and nothing else to be done
}

// valueOf is a value made ready.
type valueOf struct {
	Number
	field   int // failed when it is computed
	take    *pattern
	compute *node
	convert *node
	name    []byte
	label   string
	plain   bool // a number at a field, and nothing else to be done
}

// compile makes a format ready, or returns everything that is wrong with it.
func (f *Format) compile() (*program, error) {
	c := &checker{Format: f, seen: make(map[string]string)}
	if err := c.checkPlain(); err != nil {
		return nil, err
	}
	p := &program{places: make(map[string]int), time: failed, plus: failed}
	p.scan.init()
	levels := c.each()
	c.key(p, levels)
	c.clock(p)
	c.sequence(p)
	c.values(p)
	if f.Where != "" {
		var err error
		if p.where, err = parseExpression(f.Where, kindBool, false, p.resolver(c)); err != nil {
			c.add("where: %w", err)
		}
	}
	c.layOut(p)
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	return p, nil
}

// field returns the field that a path leads to, made if need be.
func (c *checker) field(p *program, place, text string) (int, *path) {
	at, err := parsePath(text, false)
	if err != nil {
		c.add("%s: %w", place, err)
		return 0, &at
	}
	if c.Each == "" {
		at.document = true
	}
	key := at.where()
	i, ok := p.places[key]
	if !ok {
		i = len(p.late)
		p.places[key] = i
		p.late = append(p.late, lateField{at, text})
	}
	return i, &at
}

// resolver finds the fields of expressions.
func (p *program) resolver(c *checker) func(string) (int, error) {
	return func(text string) (int, error) {
		if _, err := parsePath(text, false); err != nil {
			return 0, err
		}
		i, _ := c.field(p, "expression", text)
		return i, nil
	}
}

// pattern takes a pattern apart; "" is none.
func (c *checker) pattern(place, text string) *pattern {
	if text == "" {
		return nil
	}
	p, err := parsePattern(text)
	if err != nil {
		c.add("%s: %w", place, err)
	}
	return p
}

// each finds the items and returns how many names lead to one.
func (c *checker) each() (levels int) {
	if c.Each == "" {
		return 0
	}
	at, err := parsePath(c.Each, true)
	if err != nil {
		c.add("each: %w", err)
		return maxStars
	}
	levels = 1
	for _, star := range at.stars {
		if star {
			levels++
		}
	}
	if levels > maxStars {
		c.add("each: path %q has %d stars, at most %d are possible", c.Each, levels-1, maxStars-1)
	}
	return levels
}

func (c *checker) key(p *program, levels int) {
	for i, name := range c.Key {
		part := Part{}
		if len(c.Parts) > 0 {
			part = c.Parts[i]
		}
		made := partOf{Part: part, take: c.pattern("key "+name, part.Take), field: failed}
		switch part.From {
		case FromField:
			var at *path
			made.field, at = c.field(p, "key", cmp.Or(part.Path, name))
			if made.plain = part.Take == ""; made.plain {
				c.use("key", cmp.Or(part.Path, name), at)
			}
		case FromHeader:
			if part.Name == "" {
				c.add("key %s: the header has no name", name)
			}
		case FromMember:
			if part.Member < 1 || part.Member > levels {
				c.add("key %s: member %d, want 1 to %d: the names that lead to an item of each", name, part.Member, levels)
			}
		case FromConstant:
			c.constant(name, &made)
		case FromKey:
		default:
			c.add("key %s: origin %d is unknown", name, part.From)
		}
		p.parts = append(p.parts, made)
	}
}

// sequence finds what tells the readings of a key apart. It may be a field that has another use as well.
func (c *checker) sequence(p *program) {
	if c.Sequence == nil {
		return
	}
	made := &partOf{Part: *c.Sequence, take: c.pattern("sequence", c.Sequence.Take), field: failed}
	switch made.From {
	case FromField:
		made.field, _ = c.field(p, "sequence", made.Path)
	case FromHeader, FromKey:
	default:
		c.add("sequence: want a field, a header or the record's key")
	}
	p.sequence = made
}

func (c *checker) constant(name string, made *partOf) {
	made.constant = []byte(made.Name)
	if made.take != nil {
		made.constant = made.take.take(made.constant)
	}
	if len(made.constant) == 0 || !utf8.Valid(made.constant) {
		c.add("key %s: constant %q, of which %q takes nothing: want text", name, made.Name, made.Take)
	}
}

// clock finds the time field.
func (c *checker) clock(p *program) {
	for _, unit := range []Unit{c.Unit, c.Clock.Also} {
		if unit.Numeric() {
			p.number = unit
		} else if unit != 0 {
			p.text = unit
		}
	}
	p.take = c.pattern("time", c.Clock.Take)
	if p.text == Layout {
		p.layout, _ = parseLayout(c.Clock.Layout)
	}
	if c.Time == "" || c.Clock.Record {
		return
	}
	var at *path
	if p.time, at = c.field(p, "time", c.Time); c.Clock.Take == "" {
		c.use("time", c.Time, at)
	}
	for _, path := range c.Clock.Then {
		i, _ := c.field(p, "time then", path)
		p.then = append(p.then, i)
	}
	if c.Clock.Plus != "" {
		p.plus, _ = c.field(p, "time plus", c.Clock.Plus)
	}
}

func (c *checker) values(p *program) {
	for i, name := range c.Values {
		number := Number{}
		if len(c.Numbers) > 0 {
			number = c.Numbers[i]
		}
		place := "value " + name
		made := valueOf{Number: number, field: failed, take: c.pattern(place, number.Take), name: []byte(name), label: name}
		var err error
		switch {
		case number.Value != "":
			if number.Path != "" || number.Text || number.Take != "" || len(number.Missing) > 0 || number.Convert != "" {
				c.add("%s: a computed value has no field to be read", place)
			}
			if made.compute, err = parseExpression(number.Value, kindNumber, false, p.resolver(c)); err != nil {
				c.add("%s: %w", place, err)
			}
		default:
			var at *path
			made.field, at = c.field(p, "values", cmp.Or(number.Path, name))
			made.label = cmp.Or(number.Path, name)
			if number.Convert != "" {
				none := func(string) (int, error) { return 0, errors.New("a field") }
				if made.convert, err = parseExpression(number.Convert, kindNumber, true, none); err != nil {
					c.add("%s: convert: %w", place, err)
				}
			}
			made.plain = !number.Text && number.Take == "" && len(number.Missing) == 0 && number.Convert == ""
			if made.plain {
				c.use("values", made.label, at)
			}
		}
		if r := number.Range; r != nil && !(r.Min <= r.Max) {
			c.add("%s: plausible range %v to %v holds nothing", place, r.Min, r.Max)
		}
		if c.Whole && (number.Value != "" || number.Convert != "") {
			c.add("%s: expressions compute with doubles, and whole numbers of 64 bits are taken as they are", place)
		}
		if number.Comma && !number.Text {
			c.add("%s: a decimal comma stands in texts only", place)
		}
		for _, m := range number.Missing {
			if m.IsNumber && (math.IsNaN(m.Number) || math.IsInf(m.Number, 0)) {
				c.add("%s: missing: %v is no number of JSON; as a text it stands in quotes", place, m.Number)
			}
		}
		made.plain = made.plain && number.Range == nil
		p.values = append(p.values, made)
	}
}

// layOut gives fields their order, those of the document first, and makes the trees that lead to them.
func (c *checker) layOut(p *program) {
	s := &p.scan
	s.of, s.inItem, s.misfit = newTree(), newTree(), failed
	order := make([]int, len(p.late))
	n := 0
	for _, document := range []bool{true, false} {
		if !document {
			s.first = n
		}
		for i := range p.late {
			if p.late[i].path.document == document {
				order[i] = n
				s.labels = append(s.labels, p.late[i].label)
				n++
			}
		}
	}
	s.fields = make([]field, n)
	if n > MaxFields {
		c.add("%d fields, at most %d are possible", n, MaxFields)
	}
	if len(c.Columns) > 0 {
		c.checkColumns(s, p.late, order)
		p.reorder(order)
		return
	}
	for i := range p.late {
		t := &s.of
		if !p.late[i].path.document {
			t = &s.inItem
		}
		if err := t.add(&p.late[i].path, p.late[i].label, order[i]); err != nil {
			c.add("field %w", err)
		}
	}
	c.openDocument(s)
	p.reorder(order)
}

// openDocument says what the document may be, and leads to the items.
func (c *checker) openDocument(s *scanner) {
	s.scalar = s.of.whole != failed
	for i := range s.of.root.wanted {
		s.array = s.array || s.of.root.wanted[i].element != failed
	}
	if c.Each == "" {
		return
	}
	at, err := parsePath(c.Each, true)
	if err != nil {
		return
	}
	s.each, s.eachLabel, s.maxItems = true, c.Each, MaxReadings
	if c.Series {
		s.maxItems /= max(len(c.Values), 1)
	}
	if err := s.of.lead(&at, c.Each); err != nil {
		c.add("each: %w", err)
	}
	s.array = s.array || len(at.names) == 0 || at.stars[0] || element(at.names[0]) >= 0
}

// reorder puts the fields' final numbers in place of the first ones.
func (p *program) reorder(order []int) {
	final := func(i *int) {
		if *i != failed && *i < len(order) {
			*i = order[*i]
		}
	}
	var nodes func(n *node)
	nodes = func(n *node) {
		if n != nil {
			final(&n.field)
			nodes(n.left)
			nodes(n.right)
		}
	}
	final(&p.time)
	final(&p.plus)
	for i := range p.then {
		final(&p.then[i])
	}
	nodes(p.where)
	for i := range p.parts {
		final(&p.parts[i].field)
	}
	if p.sequence != nil {
		final(&p.sequence.field)
	}
	for i := range p.values {
		final(&p.values[i].field)
		nodes(p.values[i].compute)
	}
}
