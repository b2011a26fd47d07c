package proof

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/reading"
)

// shapeOf says the same as a format in the oracle's words, by way of the paths that are more than names.
func shapeOf(f *reading.Format) oracle.Config {
	c := readAs(f)
	if c.Shape == nil {
		c.Shape = &oracle.Shape{}
	}
	c.PartitionedBy, c.Partitions = f.RecordKey(), 1
	c.Aggregations = []oracle.Aggregation{{Name: "a", Size: 1}}
	return c
}

// shaped makes documents for one format: its paths lead to values that may or may not be what is wanted.
type shaped struct {
	generator
	paths  [][]string // steps from the document or from an item
	each   []string
	inItem [][]string
	dated  bool                // dates and times of day stand apart
	pieces map[string][]string // what members that hold a part of a time may be

	columns   []string // of a row
	separator string
}

// pieces are parts of times, more or less, and what else makes a reading.
var pieces = map[string][]string{
	"device": {`"a"`, `"b"`, "5", `"c"`, `""`}, "value": {"1", "2.5", "-7e3", "9007199254740993", `"7"`, "0", "null"},
	"year":  {"2023", "2022", "2021", `"2020"`, "2015", "2016", "2000", "2001", `"2017"`, "2018", "24", "20240", "1999", "null"},
	"month": {"1", "2", "3", "4", "5", "6", "7", "8", "10", "11", "12", `"03"`, `"\u0031"`, "0", "13", "3.0", `""`},
	"day":   {"1", "2", "3", "9", "10", "11", "26", "27", "28", "29", "30", "31", `"05"`, "0", "-1", `"1 1"`},
	"hour":  {"0", "1", "2", "3", "4", "9", "10", "20", "23", `"07"`, "24", "1e0", "true", `"2x"`},
	"date":  {`"3/31/2024 2:30:00"`, `"10/27/2023 1:5:7"`, `"03/01/2024 00:00:00"`, `"1/1/2024 9:08:7.25"`, `"1/1/2024 9:08"`, `"13/1/2024 9:08:00"`, `"1/1/2024  9:08:00"`},
}

func newShaped(f *reading.Format, g generator) *shaped {
	s := &shaped{generator: g, columns: f.Columns, separator: string(rune(f.Separator))}
	add := func(path string) {
		text, document := strings.CutPrefix(path, "$.")
		steps := strings.Split(strings.ReplaceAll(text, `\.`, "\x00"), ".")
		if path == "." || path == "$" {
			steps = nil
		}
		if f.Each != "" && !document && path != "$" {
			s.inItem = append(s.inItem, steps)
		} else {
			s.paths = append(s.paths, steps)
		}
	}
	for i, name := range f.Key {
		if len(f.Parts) == 0 || f.Parts[i].From == reading.FromField {
			if len(f.Parts) > 0 && f.Parts[i].Path != "" {
				name = f.Parts[i].Path
			}
			add(name)
		}
	}
	for i, name := range f.Values {
		if len(f.Numbers) > 0 && f.Numbers[i].Path != "" {
			name = f.Numbers[i].Path
		}
		add(name)
	}
	for _, word := range words(f.Where) {
		add(word)
	}
	for i := range f.Numbers {
		for _, word := range words(f.Numbers[i].Value) {
			add(word)
		}
	}
	if f.Time != "" {
		add(f.Time)
	}
	if f.Clock.Plus != "" {
		add(f.Clock.Plus)
	}
	if s.dated = len(f.Clock.Then) > 0; s.dated {
		for _, path := range f.Clock.Then {
			add(path)
		}
	}
	if len(f.Clock.Then) > 1 || strings.HasPrefix(f.Clock.Layout, "M/D/") {
		s.pieces, s.dated = pieces, false
	}
	if f.Each != "" && f.Each != "$" {
		s.each = strings.Split(f.Each, ".")
	}
	return s
}

// words are the paths in an expression, more or less: too many do no harm.
func words(expression string) []string {
	return strings.FieldsFunc(expression, func(r rune) bool { return strings.ContainsRune("()!&|<>=+-*/, `", r) })
}

// build makes an object that some paths lead through.
func (s *shaped) build(paths [][]string, leaf func() string) string {
	if len(paths) == 0 {
		return leaf()
	}
	below := map[string][][]string{}
	var names []string
	for _, p := range paths {
		if len(p) == 0 {
			return leaf()
		}
		if !slices.Contains(names, p[0]) {
			names = append(names, p[0])
		}
		if len(p) > 1 {
			below[p[0]] = append(below[p[0]], p[1:])
		} else if _, ok := below[p[0]]; !ok {
			below[p[0]] = nil
		}
	}
	s.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var members []string
	for _, name := range names {
		if s.random.IntN(25) == 0 {
			continue // absent
		}
		var value string
		if parts := s.pieces[name]; parts != nil && s.random.IntN(20) > 0 {
			value = s.one(parts...)
		} else {
			value = s.build(below[name], leaf)
		}
		members = append(members, s.name(strings.ReplaceAll(name, "\x00", "."))+":"+value)
	}
	for range s.random.IntN(2) {
		members = append(members, s.name(s.one("more", "x", "0", "ts"))+":"+s.any(2))
	}
	return "{" + strings.Join(members, ",") + "}"
}

// leaf is a value that some format wants, or none does.
func (s *shaped) leaf() string {
	if s.dated && s.random.IntN(2) == 0 {
		return s.one(`"31/03/2024"`, `"27\/10/2024"`, `"12:30"`, `"02:30"`, `"02:\u00330:15,5"`, `""`, "31", "0230", "null")
	}
	switch s.random.IntN(12) {
	case 0:
		return s.any(1)
	case 1, 2, 3:
		return s.number()
	case 4, 5:
		units := []reading.Unit{reading.Milliseconds, reading.Seconds, reading.Microseconds, reading.Nanoseconds, reading.RFC3339}
		return s.time(units[s.random.IntN(len(units))])
	case 6:
		return s.one("true", "false", "null", `"GOOD"`, `"Double"`, `"NaN"`, `"unavailable"`, "-999", "-999.0")
	case 7:
		return `"` + s.one("12.5", "12,5", " 7 ", "+5", "+-5", "1e2", "1_0", "0x10", "9007199254740993", "+228930314431312345", "5e-400", "30.11 °C", "-0", "1.234,5", "1e400", "٣", "0") + `"`
	case 8:
		at := time.UnixMilli(recordTime - s.random.Int64N(20_000_000_000)).UTC()
		return `"` + at.Format(s.one("2006-01-02T15:04:05", "2006-01-02 15:04:05.000", "2006-01-02 15:04", "2006/01/02T15:04:05z",
			"2006-01-02 15:04:05 CET+0100", "2006-01-02T15:04:05,123+01", "2006-03-31T02:30:00", "2006-10-27T02:30:00", "2006-01-02T15:04:60")) + `"`
	case 9:
		return s.one("240330030000", "231029023000", `"1704067100"`, "1704067100", "240331023000", "0", "-5", "250000000")
	case 10:
		return `"` + s.one("0201061BFF99040512FC5394C37C0004FFFC", "0201061bff990405FFFC53", "02", "zz", "a/b/things/c", "/features/t/properties/value", "x/y") + `"`
	}
	return s.text()
}

func (s *shaped) document() []byte {
	var b []byte
	switch {
	case s.columns != nil:
		b = []byte(s.row())
	case s.inItem == nil:
		b = []byte(s.build(s.paths, s.leaf))
	default:
		b = []byte(s.around(s.each, s.paths))
	}
	if len(b) > 0 && s.random.IntN(10) == 0 {
		at := s.random.IntN(len(b))
		b[at] = byte(s.random.IntN(256))
	}
	return b
}

// row makes a row, mostly of as many cells as it should have, some of them in quotes.
func (s *shaped) row() string {
	var cells []string
	for _, column := range s.columns {
		parts := s.pieces[column]
		cell := s.leaf()
		if parts != nil && s.random.IntN(20) > 0 {
			cell = s.one(parts...)
		}
		bare, isText := strings.CutPrefix(strings.TrimSuffix(cell, `"`), `"`)
		switch n := s.random.IntN(20); {
		case n == 0:
			cell = s.one("", "NA", `""`, `"a""b"`, `"12,5"`, `a"b`, `"a"b`, `"x`+s.separator+`y"`, "  ", "-", "1.", "é", "NaN", "1e400")
		case isText && n < 16:
			cell = bare // else in quotes, of which an escape is none here
		}
		cells = append(cells, cell)
	}
	if s.random.IntN(25) == 0 {
		cells = cells[s.random.IntN(2):max(1, len(cells)-s.random.IntN(2))]
	}
	return strings.Join(cells, s.separator) + s.one("", "", "", "\n", "\r\n")
}

// around puts items where each leads, and the paths of the document beside.
func (s *shaped) around(each []string, paths [][]string) string {
	items := func(make func() string) string {
		if s.random.IntN(20) == 0 {
			return s.any(1)
		}
		var all []string
		array := s.random.IntN(2) == 0
		for n := range s.random.IntN(4) {
			if array {
				all = append(all, make())
			} else {
				all = append(all, s.name(s.one("t", "k@v", "m/x", "é")+strconv.Itoa(n))+":"+make())
			}
		}
		if array {
			return "[" + strings.Join(all, ",") + "]"
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	item := func() string { return s.build(s.inItem, s.leaf) }
	if len(each) == 0 {
		return items(item)
	}
	inner := items(item)
	for _, step := range slices.Backward(each[1:]) {
		before := inner
		if step == "*" {
			inner = items(func() string { return before })
		} else {
			inner = "{" + s.name(step) + ":" + inner + "}"
		}
	}
	if each[0] == "*" {
		return items(func() string { return inner })
	}
	rest := s.build(paths, s.leaf)
	if rest == "" || rest[0] != '{' || rest == "{}" {
		return "{" + s.name(each[0]) + ":" + inner + "}"
	}
	return "{" + s.name(each[0]) + ":" + inner + "," + rest[1:]
}

// TestShapesAgree gives documents that are made along the paths of every configuration of docs/devices, and then bent, to
// the reader of tidemark and to the oracle's: both see as many readings, accept, filter and refuse the same ones, with
// the same keys, times and bits. TIDEMARK_SEED replays; TIDEMARK_DOCUMENTS is how many for each.
func TestShapesAgree(t *testing.T) {
	seed, documents := uint64(time.Now().UnixNano()), 300
	if n, err := strconv.ParseUint(os.Getenv("TIDEMARK_SEED"), 10, 64); err == nil {
		seed = n
	}
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_DOCUMENTS")); err == nil {
		documents = n
	}
	t.Logf("seed %d, %d documents for each shape", seed, documents)
	paths, err := filepath.Glob("../../docs/devices/*.yml")
	if err != nil || len(paths) < 62 {
		t.Fatalf("%d configurations (%v)", len(paths), err)
	}
	paths = append(paths, "testdata/date-and-time.yml", "testdata/year-month-day.yml", "testdata/american.yml", "testdata/rows.yml", "../../integration/testdata/rows.yaml")
	total := map[string]int{}
	for _, path := range paths {
		defined, err := config.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := defined.Input.Format
		g := newShaped(&f, generator{random: rand.New(rand.NewPCG(seed, 3))})
		reader, err := reading.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		c := shapeOf(&f)
		before := total["accepted"]
		for range documents {
			document := g.document()
			key := g.one("tele/d/SENSOR", "a/b/c", "N/x/y/z", "zigbee2mqtt/q", "group/sensors/dev", "x")
			if fault := compareShape(reader, &c, document, []byte(key), total); fault != "" {
				t.Fatalf("%s: %s\n%s\nkey %s; again: TIDEMARK_SEED=%d go test -run TestShapesAgree ./internal/proof", filepath.Base(path), fault, document, key, seed)
			}
		}
		if accepted := total["accepted"] - before; g.pieces != nil && accepted < documents/30 {
			t.Errorf("%s: %d of %d documents are readings: too few to compare", filepath.Base(path), accepted, documents)
		}
	}
	t.Log(total)
	for _, what := range []string{"accepted", "filtered", "refused", "record"} {
		if total[what] < documents {
			t.Errorf("%s: %d readings are too few to compare", what, total[what])
		}
	}
}

// compareShape says in what the two differ, "" when in nothing.
func compareShape(reader *reading.Reader, c *oracle.Config, document, key []byte, total map[string]int) string {
	record := oracle.Record{Value: document, Key: key, Timestamp: recordTime}
	want, faults := c.Readings(record)
	n, refusal := reader.Open(&reading.Record{Value: document, Key: key, Timestamp: recordTime})
	if refusal != nil {
		total["record"]++
		if faults == nil || !reasonFits(refusal.Reason.String(), faults) {
			return fmt.Sprintf("refused (%s), the oracle sees %v", refusal, faults)
		}
		return ""
	}
	if faults != nil || n != len(want) {
		return fmt.Sprintf("%d readings, the oracle sees %d, %v", n, len(want), faults)
	}
	for i := range n {
		got, refusal := reader.Reading(i)
		j := &want[i]
		if !j.Filtered || j.Reading.Key != nil {
			c.Guard(record, j)
		}
		switch filtered := j.Filtered && len(j.Faults) == 0; {
		case (got == nil && refusal == nil) != filtered:
			return fmt.Sprintf("reading %d: %v, %v; the oracle filters it: %v %v", i, got, refusal, filtered, j.Faults)
		case filtered:
			total["filtered"]++
		case refusal != nil:
			total["refused"]++
			if !reasonFits(refusal.Reason.String(), j.Faults) {
				return fmt.Sprintf("reading %d refused (%s), the oracle sees %v", i, refusal, j.Faults)
			}
		case len(j.Faults) > 0:
			return fmt.Sprintf("reading %d: %v, the oracle sees %v", i, got, j.Faults)
		default:
			total["accepted"]++
			var texts []string
			for _, field := range got.Key {
				texts = append(texts, string(field))
			}
			w := &j.Reading
			if !slices.Equal(texts, w.Key) || got.Time != w.Time || int64(got.Nanos) != w.Nanos || int(got.Inexact) != w.Inexact || !slices.Equal(got.Whole, w.Whole) ||
				w.Whole == nil && !slices.EqualFunc(got.Values, w.Values, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
				return fmt.Sprintf("reading %d is %q %d %d %v (%d inexact), the oracle reads %+v", i, texts, got.Time, got.Nanos, got.Values, got.Inexact, *w)
			}
		}
	}
	return ""
}
