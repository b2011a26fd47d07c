package oracle

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Shape says what records look like that are more than an object with plain fields: paths, several readings in a record,
// texts with numbers in them, and the like. Names of key fields and values are looked up in the maps; what is not there
// is a path.
type Shape struct {
	Each        string
	Columns     []string // a record is a row of these cells, and paths are their names
	Separator   byte     // of the cells
	Parts       map[string]Part
	Numbers     map[string]Number
	Series      bool
	SkipMissing bool
	Where       string
	Time        Times
}

// Part says where a key field comes from: one of these.
type Part struct {
	Path, Header, Constant string
	Key                    bool // the record's key
	Member                 int  // the n-th name on the way to an item, from 1
	Take                   string
}

// Number says how a value is found.
type Number struct {
	Path, Value, Take, Convert string
	Text, Comma                bool
	MissingNumbers             []float64
	MissingTexts               []string
	Min, Max                   *float64
}

// Times says more about the time than its unit.
type Times struct {
	Record, Text         bool
	Also, Layout, Zone   string
	Take, Plus, PlusUnit string
	Then                 []string // paths of what follows the text, each after a blank
}

// tree is a JSON value with its members in order; exactly one of the fields that are not kind counts.
type tree struct {
	kind    byte // n, t, f, 0 for a number, " for a text, { and [, and . for nothing at all
	text    string
	names   []string
	members []tree
}

var nothing = tree{kind: '.'}

// grow reads a valid document.
func grow(value []byte) tree {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var next func() tree
	next = func() tree {
		token, _ := d.Token()
		switch v := token.(type) {
		case nil:
			return tree{kind: 'n'}
		case bool:
			return tree{kind: strconv.FormatBool(v)[0]}
		case json.Number:
			return tree{kind: '0', text: v.String()}
		case string:
			return tree{kind: '"', text: v}
		}
		made := tree{kind: byte(token.(json.Delim))}
		for d.More() {
			name := strconv.Itoa(len(made.members))
			if made.kind == '{' {
				token, _ := d.Token()
				name = token.(string)
			}
			made.names, made.members = append(made.names, name), append(made.members, next())
		}
		_, _ = d.Token()
		return made
	}
	return next()
}

// at follows steps to a value.
func (t tree) at(steps []string) tree {
	for _, step := range steps {
		i := slices.Index(t.names, step)
		if i < 0 {
			return nothing
		}
		t = t.members[i]
	}
	return t
}

// steps takes a path apart and tells whether it begins at the document.
func steps(path string) (all []string, document bool) {
	if path == "." || path == "$" {
		return nil, path == "$"
	}
	path, document = strings.CutPrefix(path, "$.")
	step, escaped := "", false
	for _, r := range path {
		switch {
		case escaped:
			step, escaped = step+string(r), false
		case r == '\\':
			escaped = true
		case r == '.':
			all, step = append(all, step), ""
		default:
			step += string(r)
		}
	}
	return append(all, step), document
}

// Judged is what becomes of one reading of a record.
type Judged struct {
	Reading  Reading
	Index    int64
	Faults   []Fault
	Filtered bool
}

// scene is one item with what is around it.
type scene struct {
	config   *Config
	record   *Record
	document tree
	item     tree
	names    []string // on the way to the item
	given    bool     // x is the number of a field
	inexact  bool     // a number was read that is another than the one written
}

// value is what a path leads to.
func (s *scene) value(path string) tree {
	all, document := steps(path)
	if document || s.config.Shape.Each == "" {
		return s.document.at(all)
	}
	return s.item.at(all)
}

// Readings takes a record apart, or says what is wrong with it as a whole. Faults of place are the caller's affair.
func (c *Config) Readings(r Record) ([]Judged, []Fault) {
	var document tree
	if c.Shape.Columns != nil {
		var faults []Fault
		if document, faults = c.row(string(r.Value)); faults != nil {
			return nil, faults
		}
	} else if faults := c.document(r.Value); faults != nil {
		return nil, faults
	} else {
		document = grow(r.Value)
	}
	scenes := []*scene{{item: document}}
	if c.Shape.Each != "" {
		var ok bool
		if scenes, ok = c.items(document); !ok {
			return nil, []Fault{FaultItems, FaultJSON}
		}
	} else if document.kind != '{' && !c.rooted(document.kind) {
		return nil, []Fault{FaultJSON}
	}
	var all []Judged
	for _, s := range scenes {
		s.config, s.record, s.document = c, &r, document
		all = append(all, s.judge()...)
	}
	for i := range all {
		all[i].Index = int64(i)
	}
	return all, nil
}

// paths are all configured paths of fields, from the document when there are no items.
func (c *Config) paths() (all []string) {
	for _, name := range c.Key {
		p, ok := c.Shape.Parts[name]
		switch {
		case !ok:
			all = append(all, name)
		case p.Path != "":
			all = append(all, p.Path)
		}
	}
	for _, name := range c.Values {
		n := c.Shape.Numbers[name]
		if n.Value == "" {
			all = append(all, firstOf(n.Path, name))
		} else {
			all = append(all, pathsOf(n.Value)...)
		}
	}
	if c.Shape.Where != "" {
		all = append(all, pathsOf(c.Shape.Where)...)
	}
	if !c.Shape.Time.Record {
		all = append(all, c.Time.Name)
	}
	all = append(all, c.Shape.Time.Then...)
	if c.Shape.Time.Plus != "" {
		all = append(all, c.Shape.Time.Plus)
	}
	return all
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// rooted tells whether a document of a kind that is no object can be meant.
func (c *Config) rooted(kind byte) bool {
	for _, path := range c.paths() {
		all, _ := steps(path)
		if len(all) == 0 || kind == '[' && isIndex(all[0]) {
			return true
		}
	}
	return false
}

func isIndex(step string) bool {
	n, err := strconv.Atoi(step)
	return err == nil && n >= 0 && strconv.Itoa(n) == step
}

// items finds the items; false when a value on the way is none that could hold any.
func (c *Config) items(document tree) ([]*scene, bool) {
	way, _ := steps(c.Shape.Each)
	if c.Shape.Each == "$" || c.Shape.Each == "." {
		way = nil
	}
	var found []*scene
	var walk func(t tree, done []string, names []string) bool
	walk = func(t tree, done, names []string) bool {
		last := len(done) == len(way)
		if !last && way[len(done)] != "*" {
			return walk(t.at(way[len(done):len(done)+1]), append(done[:len(done):len(done)], way[len(done)]), names)
		}
		if t.kind != '{' && t.kind != '[' {
			return false
		}
		for i, name := range t.names {
			if t.kind == '{' && c.named(done, name) {
				continue
			}
			path := append(names[:len(names):len(names)], name)
			if last {
				found = append(found, &scene{item: t.members[i], names: path})
			} else if !walk(t.members[i], append(done[:len(done):len(done)], "*"), path) {
				return false
			}
		}
		return true
	}
	ok := walk(document, nil, nil)
	return found, ok
}

// named tells whether a path from the document leads to a member, or through it, by its name.
func (c *Config) named(way []string, name string) bool {
	return slices.ContainsFunc(c.paths(), func(path string) bool {
		all, document := steps(path)
		return document && len(all) > len(way) && slices.Equal(all[:len(way)], way) && all[len(way)] == name
	})
}

// judge judges the readings of one item: one, or one for each value.
func (s *scene) judge() []Judged {
	c := s.config
	n := 1
	if c.Shape.Series {
		n = len(c.Values)
	}
	if c.Shape.Where != "" && !s.truth(c.Shape.Where) {
		return slices.Repeat([]Judged{{Filtered: true}}, n)
	}
	var head Judged
	var ok bool
	if head.Reading.Key, ok = s.parts(c.Key); !ok {
		head.Faults = append(head.Faults, FaultKey)
	}
	if parts, ok := s.parts(c.RecordKeyFields()); ok {
		head.Reading.Record = RecordKey(parts)
	}
	if c.Dedup.Sequence != "" {
		if v := s.value(c.Dedup.Sequence); (v.kind == '"' || v.kind == '0') && v.text != "" {
			head.Reading.Sequence = v.text
		} else {
			head.Faults = append(head.Faults, FaultKey)
		}
	}
	if head.Reading.Time, head.Reading.Nanos, ok = s.time(); !ok {
		head.Faults = append(head.Faults, FaultTime)
	}
	if !c.Shape.Series {
		head.take(s, c.Values)
		return []Judged{head}
	}
	var all []Judged
	for _, name := range c.Values {
		one := head
		one.Reading.Key = append(slices.Clone(head.Reading.Key), name)
		one.take(s, []string{name})
		all = append(all, one)
	}
	return all
}

// take finds values. The first that is not there decides: it is missing, or a fault.
func (j *Judged) take(s *scene, names []string) {
	for _, name := range names {
		s.inexact = false
		x, n, fault, missing := s.number(name)
		switch {
		case missing && s.config.Shape.SkipMissing:
			j.Filtered = true // unless a fault of key or time comes before
			return
		case fault != "":
			j.Faults = append(j.Faults, fault)
			return
		}
		if s.config.Whole {
			j.Reading.Whole = append(j.Reading.Whole, n)
		} else {
			j.Reading.Values = append(j.Reading.Values, x)
			if s.inexact {
				j.Reading.Inexact++
			}
		}
	}
}

// parts are the texts of key fields.
func (s *scene) parts(names []string) (all []string, ok bool) {
	for _, name := range names {
		p, configured := s.config.Shape.Parts[name]
		if !configured {
			p.Path = name
		}
		text := ""
		switch {
		case p.Constant != "":
			text = p.Constant
		case p.Header != "":
			for _, h := range s.record.Headers {
				if h.Key == p.Header {
					text = string(h.Value)
				}
			}
		case p.Key:
			text = string(s.record.Key)
		case p.Member > 0:
			text = s.names[p.Member-1]
		default:
			if v := s.value(p.Path); v.kind == '"' || v.kind == '0' {
				text = v.text
			}
		}
		if text != "" && p.Take != "" {
			text, _ = part(p.Take, text)
		}
		if text == "" {
			return nil, false
		}
		all = append(all, text)
	}
	return all, true
}

// part takes a part of a text by a pattern.
func part(pattern, text string) (taken string, ok bool) {
	pattern = strings.NewReplacer("{**}", "\x01", "{}", "\x02", "**", "\x03", "*", "\x04").Replace(pattern)
	i := strings.IndexAny(pattern, "\x01\x02\x03\x04")
	if text, ok = strings.CutPrefix(text, pattern[:i]); !ok {
		return "", false
	}
	for pattern = pattern[i:]; pattern != ""; {
		mark := pattern[0]
		next := pattern[1:]
		after := ""
		if i := strings.IndexAny(next, "\x01\x02\x03\x04"); i >= 0 {
			next, after = next[:i], next[i:]
		}
		size := -1
		if after == "" {
			if strings.HasSuffix(text, next) {
				size = len(text) - len(next)
			}
		} else if len(text) > 0 {
			size = strings.Index(text[1:], next) + 1
		}
		if size < 1 || mark%2 == 0 && strings.Contains(text[:size], "/") {
			return "", false
		}
		if mark <= 2 {
			taken = text[:size]
		}
		text, pattern = text[size+len(next):], after
	}
	return taken, true
}

// number is a value, and with whole numbers that one, or its fault, and whether it is missing rather than wrong.
func (s *scene) number(name string) (x float64, n int64, fault Fault, missing bool) {
	as := s.config.Shape.Numbers[name]
	if as.Value != "" {
		v := s.evaluate(as.Value, 0)
		if x, ok := v.(float64); ok {
			fault := as.plausible(x)
			return x, 0, fault, false
		}
		return 0, 0, FaultValue, v == nil
	}
	token, missing, ok := as.token(s.value(firstOf(as.Path, name)))
	if !ok {
		return 0, 0, FaultValue, missing
	}
	x, err := strconv.ParseFloat(token, 64)
	s.inexact = inexact(x, token)
	switch {
	case err != nil:
		return 0, 0, FaultValue, false
	case slices.Contains(as.MissingNumbers, x):
		return 0, 0, FaultValue, true
	case s.config.Whole:
		if n, ok = whole(member{raw: []byte(token)}); !ok {
			return 0, 0, FaultValue, false
		}
	case as.Convert != "":
		given := *s
		given.given = true
		x, _ = given.evaluate(as.Convert, x).(float64)
	}
	return x, n, as.plausible(x), false
}

// token is the number that a field holds, as it is written.
func (n *Number) token(v tree) (token string, missing, ok bool) {
	switch v.kind {
	case '.', 'n':
		return "", true, false
	case '0':
		return v.text, false, true
	case '"':
		if slices.Contains(n.MissingTexts, v.text) {
			return "", true, false
		}
		text := v.text
		ok = n.Text
		if ok && n.Take != "" {
			text, ok = part(n.Take, text)
		}
		if ok {
			token, ok = writtenToken(text, n.Comma)
		}
		return token, false, ok
	}
	return "", false, false
}

// plausible says what is wrong with a value, "" for nothing.
func (n *Number) plausible(x float64) Fault {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return FaultValue
	case n.Min != nil && x < *n.Min || n.Max != nil && x > *n.Max:
		return FaultRange
	}
	return ""
}
