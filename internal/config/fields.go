package config

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/reading"
)

const (
	keyFields   = "a list of paths of fields, or of the keys below"
	valueFields = "a list of paths of fields or of the keys below, or a map of names and such"
)

// scalars tells whether a list holds texts only, or is to be judged as such a list. An item that is a map says more
// about a field.
func (s *section) scalars(name string) bool {
	if s.inEnvironment(name) {
		return true
	}
	i := slices.IndexFunc(s.pairs, func(p pair) bool { return p.name == name })
	return i < 0 || s.pairs[i].value.kind != kindList || !slices.ContainsFunc(s.pairs[i].value.items, func(n node) bool { return n.kind == kindMap })
}

func (s *section) inEnvironment(name string) bool {
	_, set := s.d.environ[variableOf(join(s.path, name))]
	return set
}

// item is the section of one member of a list or map: of a map that says more about a field, or of none, with its path.
func (s *section) item(path string, n node) (below *section, field string) {
	at := place{s.d.file, n.line}
	switch n.kind {
	case kindMap:
		return &section{d: s.d, path: path, at: at, pairs: n.pairs, written: true, listed: true}, ""
	case kindText:
		if _, w := anyText.parse(n.text); w != nil {
			s.d.add(at, path, w)
		} else {
			s.d.set(path, quoted(n.text, kindText), at)
		}
		return nil, n.text
	}
	s.d.add(at, path, wrongf("holds %v", n.kind).hinted("want the path of a field, in quotes when it is a number, or keys as  {field: PATH}"))
	return nil, ""
}

// keys asks for the key fields.
func (s *section) keys(in *Input) {
	const hint = "name the fields that tell devices apart, as  key: [device]"
	f := &in.Format
	v, _ := s.find("key", known{want: keyFields})
	s.keyField(&section{d: s.d, path: join(s.path, "key[0]"), listed: true, off: true}, in) // its keys are known in any case
	if s.scalars("key") {
		f.Key, _ = list(s, "key", keyFields, hint, anyText)
		return
	}
	for i, n := range v.items {
		path := fmt.Sprintf("%s[%d]", join(s.path, "key"), i)
		if n.kind == kindText {
			n = node{kind: kindMap, line: n.line, pairs: []pair{{name: "field", line: n.line, value: n}}}
		}
		below, _ := s.item(path, n)
		if below == nil {
			continue
		}
		name, part := s.keyField(below, in)
		f.Key, f.Parts = append(f.Key, name), append(f.Parts, part)
	}
	if !slices.ContainsFunc(f.Parts, func(p reading.Part) bool { return p != reading.Part{} }) {
		f.Parts = nil
	}
}

// origins are the keys that say where a key field comes from.
var origins = []string{"field", "record", "header", "member", "constant"}

// keyField asks for the keys of one key field.
func (s *section) keyField(k *section, in *Input) (name string, part reading.Part) {
	name, _ = get(k, "name", "", anyText)
	part.Path, _ = get(k, "field", "", anyText)
	record, _ := get(k, "record", "", word([]string{"key", "topic"}))
	header, _ := get(k, "header", "", anyText)
	part.Member, _ = get(k, "member", "", whole(1, 4))
	constant, _ := get(k, "constant", "", anyText)
	part.Take, _ = get(k, "take", "", anyText)
	k.close()
	if k.off {
		return "", part
	}
	var said []string
	for _, origin := range origins {
		if k.has(origin) {
			said = append(said, origin)
		}
	}
	if len(said) != 1 {
		s.d.add(k.at, k.path, wrongf("%d origins, want one", len(said)).hinted("want one of field, record, header, member and constant"))
		return name, part
	}
	switch said[0] {
	case "record":
		part.From = reading.FromKey
		if record == "topic" {
			part.From, part.Name = reading.FromConstant, in.Topic
		}
	case "header":
		part.From, part.Name = reading.FromHeader, header
		name = cmp.Or(name, header)
	case "member":
		part.From = reading.FromMember
	case "constant":
		part.From, part.Name = reading.FromConstant, constant
	default:
		if name = cmp.Or(name, part.Path); name == part.Path {
			part.Path = ""
		}
	}
	if name == "" {
		s.d.add(k.at, k.path+".name", wrongf("is missing").hinted("name the key field, as  name: device"))
	}
	return name, part
}

// values asks for the fields that are measured: a list makes one reading of them all, a map one of each. It returns where
// those stand that say more than a path.
func (s *section) values(f *reading.Format) map[string]spot {
	const hint = "name the fields that are measured, as  values: [temperature]"
	v, _ := s.find("values", known{want: valueFields})
	s.value(&section{d: s.d, path: join(s.path, "values[0]"), listed: true, off: true}, false)
	i := slices.IndexFunc(s.pairs, func(p pair) bool { return p.name == "values" })
	f.Series = i >= 0 && !s.inEnvironment("values") && s.pairs[i].value.kind == kindMap
	if s.scalars("values") && !f.Series {
		f.Values, _ = list(s, "values", valueFields, hint, anyText)
		return nil
	}
	spots := map[string]spot{}
	for i, n := range v.items {
		if n.kind == kindText {
			n = node{kind: kindMap, line: n.line, pairs: []pair{{name: "field", line: n.line, value: n}}}
		}
		if below, _ := s.item(fmt.Sprintf("%s[%d]", v.key, i), n); below != nil {
			name, number := s.value(below, true)
			spots[name] = spot{below.at, below.path}
			f.Values, f.Numbers = append(f.Values, name), append(f.Numbers, number)
		}
	}
	for _, p := range v.pairs {
		spots[p.name] = spot{place{s.d.file, p.line}, join(v.key, p.name)}
		s.series(v, p, f)
	}
	if f.Series && len(v.pairs) == 0 {
		s.d.add(v.at, v.key, wrongf("the map is empty").hinted(hint))
	}
	return spots
}

var seriesName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,127}$`)

// series asks for one value of a map.
func (s *section) series(v value, p pair, f *reading.Format) {
	path := join(v.key, p.name)
	if !seriesName.MatchString(p.name) {
		w := wrongf("the name %s of a value: want 1 to 128 letters, digits, _ and -, a letter first", shown(p.name))
		if strings.Contains(p.name, "*") {
			w = w.hinted("to take all members of an object write  each: PATH  with a key field  {name: NAME, member: 1}  and  values: [{name: NAME, field: .}]")
		}
		s.d.add(place{s.d.file, p.line}, path, w)
		return
	}
	below, field := s.item(path, p.value)
	number := reading.Number{Path: field}
	if below != nil {
		_, number = s.value(below, false)
	}
	if number.Path == p.name {
		number.Path = ""
	}
	f.Values, f.Numbers = append(f.Values, p.name), append(f.Numbers, number)
}

// value asks for the keys of one value. In a list it needs a name if it has no field.
func (s *section) value(k *section, named bool) (name string, n reading.Number) {
	if named || k.off {
		name, _ = get(k, "name", "", anyText)
	}
	n.Path, _ = get(k, "field", "", anyText)
	n.Value, _ = get(k, "value", "", anyText)
	n.Text, _ = get(k, "text", "", truth)
	decimal, _ := get(k, "decimal", "", word([]string{"point", "comma"}))
	n.Comma = decimal == "comma"
	n.Take, _ = get(k, "take", "", anyText)
	n.Missing = k.missing()
	n.Convert, _ = get(k, "convert", "", anyText)
	low, _ := get(k, "min", "", number)
	high, _ := get(k, "max", "", number)
	k.close()
	if k.off {
		return name, n
	}
	if k.has("min") || k.has("max") {
		n.Range = &reading.Range{Min: math.Inf(-1), Max: math.Inf(1)}
		if k.has("min") {
			n.Range.Min = low
		}
		if k.has("max") {
			n.Range.Max = high
		}
	}
	if (n.Path == "") == (n.Value == "") {
		s.d.add(k.at, k.path, wrongf("want either field, the path of a number, or value, an expression"))
	}
	if named {
		if name = cmp.Or(name, n.Path); name == "" {
			s.d.add(k.at, k.path+".name", wrongf("is missing").hinted("name what is computed, as  name: power"))
		}
		if name == n.Path {
			n.Path = ""
		}
	}
	return name, n
}

var number = spec[float64]{kind: kindNumber, want: "a number", parse: func(text string) (float64, *wrong) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, wrongf("%s is not a finite number", shown(text))
	}
	return v, nil
}}

// missing asks for what stands for no value: numbers and texts.
func (s *section) missing() (all []reading.Absent) {
	const want = "a list of numbers and texts"
	v, ok := s.find("missing", known{want: want})
	if !ok {
		return nil
	}
	if v.kind != kindList {
		s.d.add(v.at, v.key, wrongf("holds %v, want a list", v.kind).hinted("write  missing: [-9999, \"NA\"]"))
		return nil
	}
	shownAs := ""
	for i, n := range v.items {
		item := reading.Absent{Text: n.text}
		var w *wrong
		switch n.kind {
		case kindNumber:
			item.Text, item.IsNumber = "", true
			item.Number, w = number.parse(n.text)
		case kindText:
		default:
			w = wrongf("holds %v", n.kind).hinted("want %s; null is missing anyway, and other words stand in quotes", want)
		}
		if w != nil {
			s.d.add(place{v.at.file, n.line}, fmt.Sprintf("%s[%d]", v.key, i), w)
			continue
		}
		if shownAs != "" {
			shownAs += ", "
		}
		shownAs += n.text
		if n.kind == kindText {
			shownAs = shownAs[:len(shownAs)-len(n.text)] + strconv.Quote(n.text)
		}
		all = append(all, item)
	}
	s.d.set(v.key, "["+shownAs+"]", v.at)
	return all
}
