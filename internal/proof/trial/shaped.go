package trial

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// shaped makes records for a Shape: it fills the paths that are configured, by guesses where an expression decides, and
// lets the oracle say whether somebody could read the record. Few of those that nobody can are kept.
type shaped struct {
	*generated
	shape *oracle.Shape
	times map[string]*time.Location

	words   []string // what expressions compare with
	guessed []string // paths of fields in expressions
	rooted  bool     // some paths begin at the document
}

// ErrShape is the error of a configuration for which no readings can be made up.
var ErrShape = errors.New("readings that are read as this job reads them cannot be made up")

// tokens are the parts of an expression that matter here: texts, fields, functions and numbers.
var tokens = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|[A-Za-z_$][A-Za-z0-9_.$]*\\(?|[0-9]+(?:\\.[0-9]+)?")

func newShaped(g *generated) (*shaped, error) {
	s := &shaped{generated: g, shape: g.config.Shape}
	s.take(s.shape.Where)
	paths := slices.Concat(s.config.Values, []string{s.config.Time.Name, s.shape.Time.Plus})
	for _, n := range s.shape.Numbers {
		s.take(n.Value)
		paths = append(paths, n.Path)
	}
	for _, p := range s.shape.Parts {
		paths = append(paths, p.Path)
	}
	s.rooted = slices.ContainsFunc(append(paths, s.guessed...), func(path string) bool { return strings.HasPrefix(path, "$") })
	slices.Sort(s.guessed) // the shape holds maps
	s.guessed = slices.Compact(s.guessed)
	slices.Sort(s.words)
	const tries = 80
	read := 0
	probe, fresh := *s, *g // the readings of a seed do not depend on what is tried here
	fresh.random = rand.New(rand.NewPCG(1, 3))
	probe.generated = &fresh
	for range tries {
		if _, ok := probe.record(); ok {
			read++
		}
	}
	if read < tries/20 {
		return nil, ErrShape
	}
	return s, nil
}

// take collects the fields and the words of an expression.
func (s *shaped) take(expression string) {
	for _, t := range tokens.FindAllString(expression, -1) {
		switch {
		case strings.HasSuffix(t, "("):
		case t[0] == '`':
			s.guessed = append(s.guessed, strings.Trim(t, "`"))
		case t == "true" || t == "false" || t[0] == '"' || t[0] >= '0' && t[0] <= '9':
			s.words = append(s.words, t)
		default:
			s.guessed = append(s.guessed, t)
		}
	}
}

// next is the next record, most often one that can be read.
func (s *shaped) next() (Reading, bool) {
	const tries = 40
	var r Reading
	for range tries {
		var readable bool
		if r, readable = s.record(); readable || s.random.IntN(100) == 0 {
			break
		}
	}
	if s.random.IntN(200) == 0 && len(r.Value) > 1 {
		r.Value = r.Value[:len(r.Value)-1-s.random.IntN(len(r.Value)/2)]
	}
	return r, true
}

// record makes a record, and tells whether the oracle takes a reading out of it.
func (s *shaped) record() (r Reading, readable bool) {
	s.sent++
	at := s.instant()
	fields := map[string]string{}
	for i, name := range s.config.Key {
		fields[name] = s.key(i, name)
	}
	r.Time = time.Now().UnixMilli()
	if s.shape.Time.Record {
		r.Time = at
	}
	for _, name := range s.config.Key {
		switch p := s.shape.Parts[name]; {
		case p.Key:
			r.Key = []byte(within(p.Take, fields[name]))
		case p.Header != "":
			r.Headers = append(r.Headers, oracle.Header{Key: p.Header, Value: []byte(within(p.Take, fields[name]))})
		case p.Constant != "":
			fields[name] = p.Constant
		}
	}
	r.Value = s.document(at, fields)
	all, _ := s.config.Readings(oracle.Record{Timestamp: r.Time, Key: r.Key, Value: r.Value, Headers: r.Headers})
	for i := range all {
		if j := &all[i]; len(j.Faults) == 0 && !j.Filtered {
			readable = true
			if r.Key == nil && !s.strewn {
				r.Key = j.Reading.Record
			}
		}
	}
	r.Partition = s.partitionOf(r.Key)
	return r, readable
}

// document writes the document, or the row, of one record.
func (s *shaped) document(at int64, fields map[string]string) []byte {
	item := object{}
	if s.shape.Columns != nil {
		s.fill(item, nil, at, fields)
		var cells []string
		for _, name := range s.shape.Columns {
			cells = append(cells, s.cell(item[name]))
		}
		return []byte(strings.Join(cells, string(rune(s.shape.Separator))))
	}
	if s.shape.Each == "" {
		return text(s.fill(item, nil, at, fields))
	}
	var way []string
	if s.shape.Each != "$" && s.shape.Each != "." {
		way = split(s.shape.Each)
	}
	root := object{}
	all := s.branch(root, way, at, fields, 1)
	if whole, ok := all.(object); ok {
		merge(whole, root)
	}
	return text(all)
}

// branch makes what lies behind the steps that are left on the way to the items; level counts those that have names of
// their own.
func (s *shaped) branch(root object, way []string, at int64, fields map[string]string, level int) any {
	if len(way) > 0 && way[0] != "*" {
		return object{way[0]: s.branch(root, way[1:], at, fields, level)}
	}
	last := len(way) == 0
	below := func() any {
		if last {
			return s.fill(object{}, root, at, fields)
		}
		return s.branch(root, way[1:], at, fields, level+1)
	}
	for name, p := range s.shape.Parts {
		if p.Member == level {
			return object{within(p.Take, fields[name]): below()}
		}
	}
	if last && !s.rooted && s.random.IntN(2) == 0 {
		return []any{below(), below()}
	}
	return object{"m1": below(), "m2": below()}
}

// object is a JSON object in the making.
type object map[string]any

func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is made of what can be written
	}
	return b
}

// split takes a path apart.
func split(path string) []string {
	return strings.Split(strings.NewReplacer(`\.`, "\x00", `\\`, `\`).Replace(strings.TrimPrefix(path, "$.")), ".")
}

// merge adds the members of another object, and of those that both have theirs.
func merge(into, from object) {
	for name, v := range from {
		a, ok1 := into[name].(object)
		b, ok2 := v.(object)
		if ok1 && ok2 {
			merge(a, b)
		} else if _, there := into[name]; !there {
			into[name] = v
		}
	}
}

// put sets what a path leads to.
func put(in object, way []string, v any) {
	step := strings.ReplaceAll(way[0], "\x00", ".")
	if len(way) == 1 {
		if _, there := in[step]; !there {
			in[step] = v
		}
		return
	}
	below, ok := in[step].(object)
	if !ok {
		below = object{}
		in[step] = below
	}
	put(below, way[1:], v)
}

// within is a text of which a pattern takes the part.
func within(pattern, part string) string {
	if pattern == "" {
		return part
	}
	return strings.NewReplacer("{**}", part, "{}", part, "**", "x", "*", "x").Replace(pattern)
}

// fill makes one reading. Paths that begin at the document go to the root, which is nil where the reading is the document.
// The result is the item, which may be a single value.
func (s *shaped) fill(item, root object, at int64, fields map[string]string) any {
	var whole any = item
	set := func(path string, v any) {
		_, document := strings.CutPrefix(path, "$")
		switch {
		case path == "." || path == "$":
			whole = v
		case document && root != nil:
			put(root, split(path), v)
		default:
			put(item, split(path), v)
		}
	}
	for i, name := range s.config.Key {
		p, configured := s.shape.Parts[name]
		if !configured {
			p.Path = name
		}
		if p.Path != "" && !p.Key && p.Header == "" && p.Constant == "" && p.Member == 0 {
			if !slices.Contains(s.config.RecordKeyFields(), name) && root != nil && !strings.HasPrefix(p.Path, "$") {
				set(p.Path, within(p.Take, s.key(i, name)))
				continue
			}
			set(p.Path, within(p.Take, fields[name]))
		}
	}
	if !s.shape.Time.Record {
		moment := s.written(at)
		if whole, isText := moment.(string); isText && len(s.shape.Time.Then) > 0 {
			pieces := strings.SplitN(whole, " ", 1+len(s.shape.Time.Then))
			moment = pieces[0]
			for i, piece := range pieces[1:] {
				set(s.shape.Time.Then[i], piece)
			}
		}
		set(s.config.Time.Name, moment)
	}
	if s.shape.Time.Plus != "" {
		set(s.shape.Time.Plus, s.random.IntN(1000))
	}
	for _, name := range s.config.Values {
		n, configured := s.shape.Numbers[name]
		if n.Value == "" {
			path := name
			if configured && n.Path != "" {
				path = n.Path
			}
			set(path, s.number(&n))
		}
	}
	for _, path := range s.guessed {
		set(path, s.guess())
	}
	return whole
}

// number is a value as it is written.
func (s *shaped) number(n *oracle.Number) any {
	if s.random.IntN(60) == 0 {
		return nil
	}
	if len(n.MissingTexts) > 0 && s.random.IntN(40) == 0 {
		return n.MissingTexts[0]
	}
	v := s.value()
	if n.Min != nil || n.Max != nil {
		low, high := -1e6, 1e6
		if n.Min != nil {
			low = max(low, *n.Min)
		}
		if n.Max != nil {
			high = min(high, *n.Max)
		}
		v = json.Number(strconv.FormatFloat(low+s.random.Float64()*(high-low)*1.01, 'f', 2, 64))
	}
	if !n.Text {
		return v
	}
	written := v.String()
	if n.Comma {
		written = strings.Replace(written, ".", ",", 1)
	}
	return within(n.Take, written)
}

// guess is a value for a field of an expression: often one that something is compared with.
func (s *shaped) guess() any {
	if len(s.words) > 0 && s.random.IntN(3) > 0 {
		word := s.words[s.random.IntN(len(s.words))]
		if word[0] == '"' {
			unquoted, err := strconv.Unquote(word)
			if err == nil {
				return unquoted
			}
		}
		return json.RawMessage(word)
	}
	switch s.random.IntN(6) {
	case 3:
		return s.random.IntN(3) > 0
	case 0:
		return fmt.Sprintf("%032x%032x", s.random.Uint64(), s.random.Uint64())
	case 1:
		return fmt.Sprintf("%d.%d", s.random.IntN(100), s.random.IntN(10))
	case 2:
		return nil
	}
	return s.value()
}

// cell is a value in a row.
func (s *shaped) cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if s.random.IntN(2) == 0 || strings.ContainsAny(v, string(rune(s.shape.Separator))+`"`) {
			return `"` + strings.ReplaceAll(v, `"`, `""`) + `"`
		}
		return v
	}
	return fmt.Sprint(v)
}

// written is a time as the job's times are.
func (s *shaped) written(at int64) any {
	unit, t := s.config.Time.Unit, &s.shape.Time
	if t.Also != "" && s.random.IntN(2) == 0 {
		unit = t.Also
	}
	zone := time.UTC
	if t.Zone != "" {
		if s.times[t.Zone] == nil {
			location, err := time.LoadLocation(t.Zone)
			if err != nil {
				panic(err) // the job has loaded it
			}
			s.times = map[string]*time.Location{t.Zone: location}
		}
		zone = s.times[t.Zone]
	}
	moment := time.UnixMilli(at).In(zone)
	switch unit {
	case "layout":
		return within(t.Take, strings.NewReplacer("YYYY", moment.Format("2006"), "YY", moment.Format("06"), "MM", moment.Format("01"), "M", moment.Format("1"),
			"DD", moment.Format("02"), "D", moment.Format("2"), "hh", moment.Format("15"), "h", fmt.Sprint(moment.Hour()), "mm", moment.Format("04"), "m", moment.Format("4"),
			"ss", moment.Format("05"), "s", moment.Format("5"), "Z", moment.Format("Z07:00"), "*", "CET").Replace(t.Layout))
	case "iso8601":
		return within(t.Take, moment.Format("2006-01-02T15:04:05.000Z07:00"))
	}
	v := instant(at, unit)
	switch _, isText := v.(string); {
	case isText:
		return within(t.Take, v.(string))
	case t.Text && s.random.IntN(2) == 0:
		return within(t.Take, fmt.Sprint(v))
	}
	return v
}
