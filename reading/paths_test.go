package reading_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/reading"
)

// told is what a Reader says of every reading of a record, one after the other: the key fields, the time, the values;
// "filtered", or the reason and the field of a refusal.
func told(t *testing.T, r *reading.Reader, record *reading.Record) string {
	t.Helper()
	n, refusal := r.Open(record)
	if refusal != nil {
		return fmt.Sprintf("record %s %s@%d", refusal.Reason, refusal.Field, refusal.Pos)
	}
	var all []string
	for i := range n {
		got, refusal := r.Reading(i)
		switch {
		case refusal != nil:
			all = append(all, fmt.Sprintf("%s %s@%d", refusal.Reason, refusal.Field, refusal.Pos))
		case got == nil:
			all = append(all, "filtered")
		default:
			if int(got.Index) != i {
				t.Errorf("reading %d has index %d", i, got.Index)
			}
			var b strings.Builder
			for _, field := range got.Key {
				fmt.Fprintf(&b, "%s ", field)
			}
			at := time.UnixMilli(got.Time).UTC().Add(time.Duration(got.Nanos))
			fmt.Fprintf(&b, "%s %v", at.Format("15:04:05.999999999"), got.Values)
			all = append(all, b.String())
		}
	}
	return strings.Join(all, "; ")
}

// headers are a record's headers.
type headers map[string]string

func (h headers) Header(name string) []byte {
	if value, ok := h[name]; ok {
		return []byte(value)
	}
	return nil
}

// telling is one row of a table: a change to the first format, a document with § in front of a byte whose index % stands
// for, and what is told.
type telling struct {
	change   func(f *reading.Format)
	document string
	want     string
}

// tell holds a table. The record's key is k/dev-1/x, its header gateway gw-1, and its timestamp now.
func tell(t *testing.T, table []telling) {
	t.Helper()
	for _, row := range table {
		f := formats()[0]
		row.change(&f)
		pos := max(strings.Index(row.document, mark), 0)
		value := []byte(strings.Replace(row.document, mark, "", 1))
		want := strings.ReplaceAll(row.want, "%", fmt.Sprint(pos))
		r := newReader(t, f)
		record := reading.Record{Value: value, Key: []byte("k/dev-1/x"), Timestamp: now, Headers: headers{"gateway": "gw-1", "empty": ""}}
		for range 2 { // nothing is left over
			if got := told(t, r, &record); got != want {
				t.Errorf("%s:\n got %s\nwant %s", value, got, want)
			}
		}
	}
}

// at sets the paths of the first format's fields.
func at(key, when, value string) func(f *reading.Format) {
	return func(f *reading.Format) { f.Key, f.Time, f.Values = []string{key}, when, []string{value} }
}

func TestPaths(t *testing.T) {
	tell(t, []telling{
		{at("a.b", "a.t", "a.c.d.e"), `{"x":{"b":0},"a":{"b":"D","c":{"d":{"e":2,"f":{}}},"t":1704067200000}}`, "D 00:00:00 [2]"},
		{at("list.1.id", "t", "list.0"), `{"t":1704067200000,"list":[7,{"id":"D","x":[1]},3]}`, "D 00:00:00 [7]"},
		{at("list.1.id", "t", "list.0"), `{"t":1704067200000,"list":{"0":7,"1":{"id":"D"}}}`, "D 00:00:00 [7]"},
		{at("0.id", "0.t", "1"), `[{"id":"D","t":1704067200000},5]`, "D 00:00:00 [5]"},
		{at(`a\.b`, `\*`, `\\\$`), `{"a.b":"D","*":1704067200000,"\\$":5}`, "D 00:00:00 [5]"},
		{at("$.id", "$.t", "v"), `{"id":"D","t":1704067200000,"v":5}`, "D 00:00:00 [5]"},
		{at("ENERGY.id", "t", "ENERGY.Power"), `{"t":1704067200000,"ENERGY":{"\u0050ower":5,"id":"D","ENERGY":{"Power":6}}}`, "D 00:00:00 [5]"},
		{at("a.id", "t", "a.v"), `{"t":1704067200000,"a":{"id":"D","v":1,§"v":2}}`, "record duplicate_field a.v@%"},
		{at("a.id", "t", "a.v"), `{"t":1704067200000,"a":{"id":"D","v":1},§"a":{}}`, "record duplicate_field @%"},
		{at("a.id", "t", "a.v"), `{"t":1704067200000,"a":{"id":"D"}§}`, "missing_field a.v@%"},
		{at("a.id", "t", "a.v"), `{"t":1704067200000,"a":[]§}`, "missing_field a.id@%"},
		{at("a.id", "t", "a.v"), `{"t":1704067200000,"a":{"id":"D","v":§{"v":1}}}`, "wrong_type a.v@%"},
		{at("a.id", "t", "a.v"), `{"t":1704067200000,"a":{"id":"D","v":1,§}}`, "record syntax @%"},
	})
}

func TestPathsThatCannotBe(t *testing.T) {
	for fault, change := range map[string]func(f *reading.Format){
		`"a.b" lies inside another field`:             at("a", "t", "a.b"),
		`"a" holds other fields`:                      at("a.b", "t", "a"),
		`a step is empty`:                             at("a..b", "t", "v"),
		`a backslash at its end`:                      at(`a\`, "t", "v"),
		`* stands in each only`:                       at("a.*", "t", "v"),
		`"k" lies inside a field`:                     at("$", "t", "k"),
		`"$" holds other fields`:                      at("k", "t", "$"),
		`member 1, want 1 to 0`:                       parts(reading.Part{From: reading.FromMember, Member: 1}),
		`takes 0 parts`:                               parts(reading.Part{From: reading.FromKey, Take: "a/*"}),
		`takes 2 parts`:                               parts(reading.Part{From: reading.FromKey, Take: "{}/{}"}),
		`two wildcards in a row`:                      parts(reading.Part{From: reading.FromKey, Take: "{}*"}),
		`the header has no name`:                      parts(reading.Part{From: reading.FromHeader}),
		`constant "", of which "" takes nothing`:      parts(reading.Part{From: reading.FromConstant}),
		`each: "x" is a field`:                        func(f *reading.Format) { f.Each, f.Values = "x", []string{"$.x"} },
		`has 4 stars, at most 3`:                      each("a.*.*.*.*"),
		`a computed value has no field`:               numbers(reading.Number{Value: "a", Path: "b"}),
		`plausible range 2 to 1`:                      numbers(reading.Number{Range: &reading.Range{Min: 2, Max: 1}}),
		`a decimal comma stands in texts only`:        numbers(reading.Number{Comma: true}),
		`only x, the number of the field`:             numbers(reading.Number{Convert: "y + 1"}),
		`field "value" is already used as time`:       func(f *reading.Format) { f.Time = "value" },
		`of two, one is for numbers`:                  func(f *reading.Format) { f.Clock.Also = reading.Seconds },
		`has no Z: the zone`:                          layoutOf("YYYY-MM-DD"),
		`ss is there twice`:                           layoutOf("YYYY-MM-DD hh:mm:ss:ss Z"),
		`mm is there twice`:                           layoutOf("YYYY-M-DD mm:mm Z"),
		`M may have two digits, and those of "D"`:     layoutOf("YYYYMDhh Z"),
		`h may have two digits, and those of "0"`:     layoutOf("YYYY M D h0Z"),
		`want YYYY or YY, MM and DD`:                  layoutOf("hh:mm Z"),
		`no field has a part in it`:                   func(f *reading.Format) { f.Clock.Record = true },
		`time then: a second text`:                    func(f *reading.Format) { f.Clock.Then = []string{"p"} },
		`rfc3339 has 0 for 1 of them`:                 func(f *reading.Format) { f.Unit, f.Clock.Then = reading.RFC3339, []string{"p"} },
		`iso8601 has 1 for 2 of them`:                 func(f *reading.Format) { f.Unit, f.Clock.Then = reading.ISO8601, []string{"p", "q"} },
		`time then: field "p" is there twice`:         func(f *reading.Format) { f.Clock.Then = []string{"p", "q", "p"} },
		`time plus: unit rfc3339`:                     func(f *reading.Format) { f.Clock.Plus, f.Clock.PlusUnit = "p", reading.RFC3339 },
		`the result is a number, want a boolean`:      func(f *reading.Format) { f.Where = "1 + 2" },
		`2 parts of 1 key fields`:                     func(f *reading.Format) { f.Parts = make([]reading.Part, 2) },
		`there is no function sin`:                    func(f *reading.Format) { f.Where = "sin(x) > 1" },
		`a number is written as in JSON`:              func(f *reading.Format) { f.Where = "x > 012" },
		`comparisons in a row`:                        func(f *reading.Format) { f.Where = "1 < x < 3" },
		`is compared with`:                            func(f *reading.Format) { f.Where = `"a" < 3` },
		`< between truth values`:                      func(f *reading.Format) { f.Where = "a < true" },
		`a text without its closing quote`:            func(f *reading.Format) { f.Where = `a == "b` },
		`puts the whole path in backquotes`:           func(f *reading.Format) { f.Where = "a.0.b" },
		`has wants a field`:                           func(f *reading.Format) { f.Where = "has(1)" },
		`reads 1 to 6 bytes`:                          func(f *reading.Format) { f.Where = "int_be(a, 0, 7) > 1" },
		`the expression has 1030 bytes, at most 1024`: func(f *reading.Format) { f.Where = strings.Repeat("(", 1030) },
	} {
		f := formats()[0]
		change(&f)
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("fault is %v, want %q", err, fault)
		}
	}
}

func parts(p ...reading.Part) func(f *reading.Format) {
	return func(f *reading.Format) { f.Parts = p }
}

func numbers(n ...reading.Number) func(f *reading.Format) {
	return func(f *reading.Format) { f.Numbers = n }
}

func each(path string) func(f *reading.Format) {
	return func(f *reading.Format) { f.Each = path }
}

func layoutOf(layout string) func(f *reading.Format) {
	return func(f *reading.Format) { f.Unit, f.Clock.Layout = reading.Layout, layout }
}

// eachOf makes items of what is at a path, which a device is the member before.
func eachOf(path string, member int) func(f *reading.Format) {
	return func(f *reading.Format) {
		f.Each, f.Parts = path, []reading.Part{{From: reading.FromMember, Member: member}}
	}
}

func TestItems(t *testing.T) {
	array := func(f *reading.Format) { f.Each, f.Key = "m", []string{"$.device"} }
	tell(t, []telling{
		{array, `{"m":[{"ts":1704067200000,"value":1},{"value":2§},{"value":3,"ts":1704067200001}],"device":"D"}`,
			"D 00:00:00 [1]; missing_field ts@%; D 00:00:00.001 [3]"},
		{array, `{"m":[],"device":"D"}`, ""},
		{array, `{"m":{},"device":"D"}`, ""},
		{array, `{"device":"D"§}`, "record missing_field m@%"},
		{array, `{"device":"D","m":§null}`, "record null_field m@%"},
		{array, `{"device":"D","m":§7}`, "record wrong_type m@%"},
		{array, `{"device":"D","m":[§7]}`, "missing_field ts@%"},
		{array, `{"device":"D","m":[{"ts":1704067200000,"value":1,§"value":2}]}`, "record duplicate_field @%"},
		{array, `[]`, "record not_object @0"},
		{eachOf("$", 1), `{"a":{"ts":1704067200000,"value":1},"caf\u00e9":{"ts":1704067200000,"value":2}}`, "a 00:00:00 [1]; café 00:00:00 [2]"},
		{eachOf("$", 1), ` [{"ts":1704067200000,"value":1},{"ts":1704067200000,"value":2}]`, "0 00:00:00 [1]; 1 00:00:00 [2]"},
		{eachOf("$", 1), `{"a":1,"a":2}`, "record duplicate_field @7"},
		{eachOf("*", 1), `{"a":[{"ts":1704067200000,"value":1},{"ts":1704067200000,"value":2}],"b":{"x":{"ts":1704067200000,"value":3}},"c":[]}`,
			"a 00:00:00 [1]; a 00:00:00 [2]; b 00:00:00 [3]"},
		{eachOf("*", 2), `{"a":[{"ts":1704067200000,"value":1}],"b":{"x":{"ts":1704067200000,"value":3}}}`, "0 00:00:00 [1]; x 00:00:00 [3]"},
		{eachOf("*", 1), `{"a":[],"b":§7}`, "record wrong_type *@%"},
		{eachOf("g.*.m", 1), `{"g":{"a":{"m":[{"ts":1704067200000,"value":1}]},"b":{"m":[{"ts":1704067200000,"value":2}]}}}`, "a 00:00:00 [1]; b 00:00:00 [2]"},
		{eachOf("g.*.m", 1), `{"g":{"a":{"m":[]},"b":{"n":[]§}}}`, "record missing_field g.*.m@%"},
		{eachOf("g.*.m", 1), `{"g":{"a":{"m":[],§"m":[]}}}`, "record duplicate_field @%"},
		{func(f *reading.Format) {
			eachOf("$", 1)(f)
			f.Parts[0].Take, f.Time, f.Values = "*@{}", "$.ts", []string{"."}
		}, `{"ts":1704067200000,"temp@T1":1,"temp@T2":"x","temp":3}`, "T1 00:00:00 [1]; wrong_type .@42; no_match device@0"},
	})
	over := newReader(t, func() reading.Format { f := formats()[0]; array(&f); return f }())
	for n, want := range map[int]string{reading.MaxReadings: "missing_field", reading.MaxReadings + 1: "record too_many_readings"} {
		document := `{"device":"D","m":[` + strings.Repeat("0,", n-1) + `0]}`
		if got := told(t, over, &reading.Record{Value: []byte(document)}); !strings.HasPrefix(got, want) {
			t.Errorf("%d items: %.40s, want %s", n, got, want)
		}
	}
}

// TestSeries: a map of values is one reading for each value, told apart by its name; a missing one does not touch the
// others.
func TestSeries(t *testing.T) {
	series := func(skip bool) func(f *reading.Format) {
		return func(f *reading.Format) {
			f.Values, f.Series, f.SkipMissing = []string{"temp", "hum"}, true, skip
			f.Numbers = []reading.Number{{Path: "s.t"}, {Path: "s.h"}}
		}
	}
	for document, want := range map[string][2]string{
		`{"device":"D","ts":1704067200000,"s":{"t":1,"h":2}}`:       {"D temp 00:00:00 [1]; D hum 00:00:00 [2]", ""},
		`{"device":"D","ts":1704067200000,"s":{"t":1}§}`:            {"D temp 00:00:00 [1]; missing_field s.h@%", "D temp 00:00:00 [1]; filtered"},
		`{"device":"D","ts":1704067200000,"s":{"t":null,"h":2}}`:    {"null_field s.t@42; D hum 00:00:00 [2]", "filtered; D hum 00:00:00 [2]"},
		`{"device":"D","ts":1704067200000,"s":{"t":"1","h":1e400}}`: {"wrong_type s.t@42; not_finite s.h@50", ""},
		`{"device":"D","ts":0,"s":{"t":1,"h":2}}`:                   {"implausible_time ts@19; implausible_time ts@19", ""},
	} {
		tell(t, []telling{{series(false), document, want[0]}})
		if want[1] == "" {
			want[1] = want[0]
		}
		tell(t, []telling{{series(true), document, want[1]}})
	}
	all := func(f *reading.Format) { series(true)(f); f.Series = false }
	tell(t, []telling{
		{all, `{"device":"D","ts":1704067200000,"s":{"t":1,"h":2}}`, "D 00:00:00 [1 2]"},
		{all, `{"device":"D","ts":1704067200000,"s":{"t":1}}`, "filtered"},
	})
}

func TestKeyParts(t *testing.T) {
	tell(t, []telling{
		{parts(reading.Part{From: reading.FromKey}), `{"ts":1704067200000,"value":1}`, "k/dev-1/x 00:00:00 [1]"},
		{parts(reading.Part{From: reading.FromKey, Take: "k/{}/*"}), `{"ts":1704067200000,"value":1}`, "dev-1 00:00:00 [1]"},
		{parts(reading.Part{From: reading.FromKey, Take: "k/{**}"}), `{"ts":1704067200000,"value":1}`, "dev-1/x 00:00:00 [1]"},
		{parts(reading.Part{From: reading.FromKey, Take: "**-{}"}), `{"ts":1704067200000,"value":1}`, "no_match device@0"},
		{parts(reading.Part{From: reading.FromKey, Take: "**-{**}"}), `{"ts":1704067200000,"value":1}`, "1/x 00:00:00 [1]"},
		{parts(reading.Part{From: reading.FromKey, Take: "{}"}), `{"ts":1704067200000,"value":1}`, "no_match device@0"},
		{parts(reading.Part{From: reading.FromHeader, Name: "gateway"}), `{"ts":1704067200000,"value":1}`, "gw-1 00:00:00 [1]"},
		{parts(reading.Part{From: reading.FromHeader, Name: "none"}), `{"ts":1704067200000,"value":1}`, "missing_field device@0"},
		{parts(reading.Part{From: reading.FromHeader, Name: "empty"}), `{"ts":1704067200000,"value":1}`, "empty_key device@0"},
		{parts(reading.Part{From: reading.FromConstant, Name: "c"}), `{"ts":1704067200000,"value":1}`, "c 00:00:00 [1]"},
		{parts(reading.Part{From: reading.FromConstant, Name: "a/b", Take: "*/{}"}), `{"ts":1704067200000,"value":1}`, "b 00:00:00 [1]"},
		{parts(reading.Part{Path: "id", Take: "{}:*"}), `{"ts":1704067200000,"value":1,"id":"caf\u00e9:x"}`, "café 00:00:00 [1]"},
		{parts(reading.Part{Path: "id", Take: "1{}"}), `{"ts":1704067200000,"value":1,"id":123}`, "23 00:00:00 [1]"},
	})
}

// TestLeniences: each is an option, and without it the reading is refused (C06, C22).
func TestLeniences(t *testing.T) {
	document := func(value string) string { return `{"device":"D","ts":1704067200000,"value":` + value + `}` }
	text := reading.Number{Text: true}
	comma := reading.Number{Text: true, Comma: true}
	unit := reading.Number{Text: true, Take: "{} °C", Missing: []reading.Absent{{Text: "NA"}, {Number: -9999, IsNumber: true}}}
	for _, row := range []struct {
		number      reading.Number
		value, want string
	}{
		{reading.Number{}, `"12.5"`, "wrong_type value"},
		{text, `"12.5"`, "[12.5]"}, {text, `"1e2"`, "[100]"}, {text, `"+5"`, "[5]"}, {text, `" 7\t"`, "[7]"}, {text, "3", "[3]"},
		{text, `"-0"`, "[-0]"}, {text, `"12,5"`, "bad_number value"}, {text, `"0x10"`, "bad_number value"}, {text, `"1_000"`, "bad_number value"},
		{text, `"٣"`, "bad_number value"}, {text, `""`, "bad_number value"}, {text, `"NaN"`, "bad_number value"}, {text, `"inf"`, "bad_number value"},
		{text, `"+-5"`, "bad_number value"}, {text, `"1e400"`, "not_finite value"}, {text, `"01"`, "bad_number value"}, {text, `"1."`, "bad_number value"},
		{text, "true", "wrong_type value"}, {text, "null", "null_field value"},
		{comma, `"12,5"`, "[12.5]"}, {comma, `"-0,25e1"`, "[-2.5]"}, {comma, `"12"`, "[12]"}, {comma, `"12.5"`, "bad_number value"}, {comma, `"1.234,5"`, "bad_number value"},
		{comma, `"1,2,3"`, "bad_number value"}, {comma, "12.5", "[12.5]"},
		{unit, `"30.11 \u00b0C"`, "[30.11]"}, {unit, `"30.11 C"`, "no_match value"}, {unit, `"NA"`, "no_value value"}, {unit, `"-9999.0 °C"`, "no_value value"},
		{unit, "-9999", "no_value value"}, {unit, "-9998", "[-9998]"}, {unit, "-9.999e3", "no_value value"},
		{reading.Number{Missing: []reading.Absent{{Text: "NA"}}}, `"NA"`, "no_value value"},
		{reading.Number{Missing: []reading.Absent{{Text: "NA"}}}, `"na"`, "wrong_type value"},
		{reading.Number{Convert: "(x - 32) * 5 / 9"}, "212", "[100]"}, {reading.Number{Convert: "x / 100"}, "2134", "[21.34]"},
		{reading.Number{Convert: "1 / x"}, "0", "not_finite value"},
		{reading.Number{Range: &reading.Range{Min: -40, Max: 85}}, "85", "[85]"}, {reading.Number{Range: &reading.Range{Min: -40, Max: 85}}, "85.1", "out_of_range value"},
		{reading.Number{Convert: "x / 10", Range: &reading.Range{Min: -40, Max: 85}}, "850", "[85]"},
	} {
		want := row.want + "@41"
		if row.want[0] == '[' {
			want = "D 00:00:00 " + row.want
		}
		tell(t, []telling{{numbers(row.number), document(row.value), want}})
	}
}

// TestAbsentAfterPresent: a field that is absent is so whatever the record before held, and however long it was.
func TestAbsentAfterPresent(t *testing.T) {
	f := formats()[0]
	f.Numbers = []reading.Number{{Text: true}}
	r := newReader(t, f)
	long := `{"device":"D","ts":1704067200000,"x":"` + strings.Repeat("x", 500) + `","value":1}`
	for document, want := range map[string]string{
		`{"device":"D","ts":1704067200000}`: "missing_field value@32",
		`{}`:                                "missing_field device@1",
	} {
		told(t, r, &reading.Record{Value: []byte(long)})
		if got := told(t, r, &reading.Record{Value: []byte(document)}); got != want {
			t.Errorf("%s: %s, want %s", document, got, want)
		}
	}
}

// TestNamesWithPoints: who writes the name PM2.5 for a path is told how it is written, in a refusal and for a column.
func TestNamesWithPoints(t *testing.T) {
	f := formats()[0]
	f.Values = []string{"PM2.5"}
	r := newReader(t, f)
	for members, want := range map[string]string{
		`"PM2.5":3`: `is absent, want a number; for the name "PM2.5" write PM2\.5`, `"PM2":{"x":1}`: "is absent, want a number", `"PM2.50":3`: "is absent, want a number",
	} {
		_, refusal := r.Read([]byte(`{"device":"a","ts":1704067200000,`+members+`}`), -1)
		if refusal == nil || refusal.Reason != reading.MissingField || refusal.Detail != want {
			t.Errorf("%s: %v, want %s", members, refusal, want)
		}
	}
	f.Columns, f.Separator = []string{"device", "ts", "PM2.5"}, ','
	if err := f.Check(); err == nil || !strings.HasSuffix(err.Error(), `field "PM2.5" is no column; for the column of that name write PM2\.5`) {
		t.Errorf("%v", err)
	}
	f.Values = []string{`PM2\.5`}
	if got, refusal := newReader(t, f).Read([]byte("a,1704067200000,3"), -1); refusal != nil || got.Values[0] != 3 {
		t.Errorf("%v (%v)", got, refusal)
	}
}
