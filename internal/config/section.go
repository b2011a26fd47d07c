package config

import (
	"fmt"
	"slices"
	"strings"
)

// section is one map of the document while its keys are asked for. It may be absent from the document: then every key
// has its default, or comes from the environment.
type section struct {
	d       *decoder
	path    string
	at      place
	pairs   []pair
	asked   []string
	written bool // the document has it
	listed  bool // inside a list: out of the environment's reach
	off     bool // not in use: its keys are noted as known, and have neither value nor default
}

// value is what was found for a key.
type value struct {
	node
	at  place
	key string // what faults call it: its path, or the variable
}

// find notes a key as known and returns what the environment or the document says, in this order. An environment value
// has kindText.
func (s *section) find(name string, k known) (v value, ok bool) {
	if !slices.Contains(s.asked, name) {
		s.asked = append(s.asked, name)
	}
	path := join(s.path, name)
	if !s.listed && !k.later && k.want != "" {
		k.variable = variableOf(path)
		if text, set := s.d.environ[k.variable]; set {
			s.d.used[k.variable] = true
			v, ok = value{node{kind: kindText, text: text}, place{file: environment}, k.variable}, true
		}
	}
	s.d.note(path, k)
	if i := slices.IndexFunc(s.pairs, func(p pair) bool { return p.name == name }); i >= 0 && !ok {
		p := s.pairs[i]
		v, ok = value{p.value, place{s.d.file, p.line}, path}, true
		if p.value.kind != kindMap && p.value.kind != kindList && p.value.kind != kindNull {
			v.at.line = p.value.line
		}
	}
	return v, ok
}

// variableOf names the environment variable of a key: commit.max_records is TIDEMARK_COMMIT_MAX_RECORDS.
func variableOf(path string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// has tells whether the document or the environment says anything about a key.
func (s *section) has(name string) bool {
	_, set := s.d.environ[variableOf(join(s.path, name))]
	return set && !s.listed || slices.ContainsFunc(s.pairs, func(p pair) bool { return p.name == name })
}

// present tells whether the document has the section, or the environment one of its keys.
func (s *section) present() bool {
	if s.written || s.listed {
		return s.written
	}
	begin := variableOf(s.path) + "_"
	for name := range s.d.environ {
		if strings.HasPrefix(name, begin) {
			return true
		}
	}
	return false
}

// section asks for a map below this one. The example is shown to who wrote something else.
func (s *section) section(name, example string) *section {
	below, _ := s.sectionOr(name, "", example)
	return below
}

// sectionOr asks for a map that one word may stand for; said tells that it does. A section that holds something else is
// off: what it lacks is not counted as well.
func (s *section) sectionOr(name, word, example string) (below *section, said bool) {
	v, ok := s.find(name, known{})
	if !ok {
		v.at = s.at
	}
	below = &section{d: s.d, path: join(s.path, name), at: v.at, pairs: v.pairs, written: ok, listed: s.listed, off: s.off}
	want := example
	switch {
	case v.kind == kindMap || v.kind == kindNull:
		return below, false
	case word != "" && v.text == word:
		return below, true
	case word != "":
		want = word + " or " + example
	}
	what := fmt.Sprintf("%s is %v", shown(v.text), v.kind)
	if v.kind == kindList {
		what = "is a list"
	}
	s.d.add(v.at, v.key, wrongf("%s, want keys", what).hinted("write  %s: %s", name, want))
	below.written, below.off = false, true
	return below, false
}

// later asks for keys that a later version will have.
func (s *section) later(names ...string) {
	for _, name := range names {
		if v, ok := s.find(name, known{later: true}); ok {
			s.d.add(v.at, v.key, wrongf("not yet in this version").hinted("remove the key"))
		}
	}
}

// close hands over what nobody asked for.
func (s *section) close() {
	for _, p := range s.pairs {
		if !slices.Contains(s.asked, p.name) {
			path := join(s.path, p.name)
			s.d.strays = append(s.d.strays, stray{pair: p, path: path, near: s.asked, hidden: secretive.MatchString(path)})
		}
	}
}

// spec says what one value must be.
type spec[T any] struct {
	kind  kind   // what the document must hold: text, number, truth or units
	want  string // what is allowed, in words
	parse func(text string) (T, *wrong)
	list  string // what to write in place of a list; "" where there is nothing to say
}

// emptyText as a default is the empty text; "" as a default is none.
const emptyText = `""`

// get asks for a key with a default, given as it would be written; "" stands for none, and for T's zero value.
func get[T any](s *section, name, def string, sp spec[T]) (T, place) {
	return getShown(s, name, def, def, sp)
}

// getShown is get for a default that the reference page shows in words.
func getShown[T any](s *section, name, def, inWords string, sp spec[T]) (T, place) {
	var zero T
	v, ok := s.find(name, known{def: inWords, want: sp.want})
	if ok {
		return read(s, v, join(s.path, name), sp)
	}
	if def == "" || s.off {
		return zero, place{}
	}
	text := def
	if def == emptyText {
		text = ""
	}
	got, w := sp.parse(text)
	if w != nil { // only a default made of the job's name can be refused
		s.d.add(s.at, join(s.path, name), w)
		return zero, place{}
	}
	s.d.set(join(s.path, name), quoted(text, sp.kind), place{})
	return got, place{}
}

// need asks for a key that has no default.
func need[T any](s *section, name, hint string, sp spec[T]) (T, place) {
	var zero T
	v, ok := s.find(name, known{want: sp.want})
	if ok {
		return read(s, v, join(s.path, name), sp)
	}
	if s.off {
		return zero, place{}
	}
	s.d.add(s.at, join(s.path, name), wrongf("is missing").hinted("%s", hint))
	return zero, place{}
}

// read judges one value.
func read[T any](s *section, v value, path string, sp spec[T]) (T, place) {
	var zero T
	if w := misfit(v, sp); w != nil {
		s.d.add(v.at, v.key, w)
		return zero, v.at
	}
	got, w := sp.parse(v.text)
	if w != nil {
		s.d.add(v.at, v.key, w)
		return zero, v.at
	}
	s.d.set(path, quoted(v.text, sp.kind), v.at)
	return got, v.at
}

// misfit tells why a value is not of the kind that is wanted. Whatever the environment says is text, to be read as what
// is wanted.
func misfit[T any](v value, sp spec[T]) (w *wrong) {
	switch {
	case v.kind == sp.kind || v.at.file == environment || sp.kind == kindUnits && (v.kind == kindText || v.kind == kindNumber):
		return nil
	case v.kind == kindNull:
		w = wrongf("has no value")
	case v.kind == kindMap || v.kind == kindList:
		w = wrongf("holds %v, want one value", v.kind)
		if v.kind == kindList && sp.list != "" {
			return w.hinted("%s", sp.list)
		}
	case v.kind == kindText:
		w = wrongf("%s is text", shown(v.text))
	default:
		w = wrongf("%s is %v", v.text, v.kind)
		if _, unfit := sp.parse(v.text); sp.kind == kindText && unfit == nil {
			return w.hinted("write %q, in quotes", v.text)
		}
	}
	return w.hinted("want %s", sp.want)
}

// list asks for a list of texts. hint is for the case that it is missing; "" means that it may be.
func list[T any](s *section, name, want, hint string, item spec[T]) (got []T, at []place) {
	v, ok := s.find(name, known{want: want})
	path := join(s.path, name)
	switch {
	case !ok && (hint == "" || s.off):
		return nil, nil
	case !ok:
		s.d.add(s.at, path, wrongf("is missing").hinted("%s", hint))
		return nil, nil
	case v.at.file == environment:
		v.items = nil
		for part := range strings.SplitSeq(v.text, ",") {
			v.items = append(v.items, node{kind: kindText, text: strings.TrimSpace(part)})
		}
	case v.kind == kindText || v.kind == kindNumber:
		s.d.add(v.at, v.key, wrongf("%s is %v, want a list", shown(v.text), v.kind).hinted("write [%s]", v.text))
		return nil, nil
	case v.kind != kindList:
		s.d.add(v.at, v.key, wrongf("holds %v, want a list", v.kind).hinted("want %s", want))
		return nil, nil
	}
	if len(v.items) == 0 {
		s.d.add(v.at, v.key, wrongf("the list is empty").hinted("%s", hint))
	}
	return items(s, v, path, item)
}

// items judges the texts of a list, which must differ from each other.
func items[T any](s *section, v value, path string, item spec[T]) (got []T, at []place) {
	seen, texts, before := map[string]place{}, []string{}, len(s.d.faults)
	for i, n := range v.items {
		element := value{node: n, at: place{v.at.file, n.line}, key: v.key}
		if v.at.file == s.d.file {
			element.key = fmt.Sprintf("%s[%d]", v.key, i)
		}
		if first, ok := seen[n.text]; ok && n.kind == kindText {
			s.d.add(element.at, element.key, wrongf("%s is in the list already (%v)", shown(n.text), first))
			continue
		}
		seen[n.text] = element.at
		var one T
		w := misfit(element, item)
		if w == nil {
			one, w = item.parse(n.text)
		}
		if w != nil {
			s.d.add(element.at, element.key, w)
			continue
		}
		got, at, texts = append(got, one), append(at, element.at), append(texts, quoted(n.text, item.kind))
	}
	if len(s.d.faults) == before {
		s.d.set(path, "["+strings.Join(texts, ", ")+"]", v.at)
	}
	return got, at
}
