package reading_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/reading"
)

// The tests of this file are the fault cases that this room holds, by their numbers.

// outcome is a value and what becomes of it: a reason, or "" when it is a reading.
type outcome struct{ value, reason string }

// reads reads a case's records, one after the other, and returns the values of those accepted.
func reads(t *testing.T, f reading.Format, list []outcome) (values []float64) {
	t.Helper()
	r := newReader(t, f)
	for _, want := range list {
		got, refusal := r.Read([]byte(want.value), now+60_000)
		reason := ""
		if refusal != nil {
			reason = refusal.Reason.String()
		} else {
			values = append(values, got.Values...)
		}
		if reason != want.reason {
			t.Errorf("%.100q: %v, want %q", want.value, refusal, want.reason)
		}
	}
	return values
}

func expect(t *testing.T, got []float64, want ...float64) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
		t.Errorf("accepted values %v, want %v", got, want)
	}
}

// valued are records of device a with these raw values.
func valued(reason string, raw ...string) (list []outcome) {
	for _, v := range raw {
		list = append(list, outcome{`{"device":"a","ts":1704067201000,"value":` + v + `}`, reason})
	}
	return list
}

func TestC01NotFinite(t *testing.T) {
	list := slices.Concat(valued("", "2"),
		valued("not_finite", "NaN", "Infinity", "-Infinity", "nan", "1e400", "-1e400"),
		valued("wrong_type", `"NaN"`, `"inf"`), valued("", "4"))
	expect(t, reads(t, formats()[0], list), 2, 4)
}

func TestC03LargeIntegers(t *testing.T) {
	r := newReader(t, formats()[0])
	got, refusal := r.Read([]byte(`{"device":8838840643388017390,"ts":1704067201000,"value":9007199254740993}`), -1)
	if refusal != nil || string(got.Key[0]) != "8838840643388017390" || got.Values[0] != 9007199254740992 {
		t.Errorf("got %v (%v), want the device's own digits and the nearest double", got, refusal)
	}
}

// C03, C22: what is another number as a double is counted where it shows, however the value is found; with whole numbers
// nothing is.
func TestC03Inexact(t *testing.T) {
	plain, text, comma := reading.Number{}, reading.Number{Text: true}, reading.Number{Text: true, Comma: true}
	doubled, sum, guard := reading.Number{Convert: "x * 2"}, reading.Number{Value: "value + other"}, reading.Number{Value: "min(number(value), 5)"}
	for _, c := range []struct {
		number reading.Number
		value  string
		want   int32
	}{
		{plain, "9007199254740991", 0}, {plain, "9007199254740992", 0}, {plain, "9007199254740993", 1}, {plain, "-9007199254740993", 1},
		{plain, "9007199254740994.0", 0}, {plain, "9007199254740993.0", 1}, {plain, "900719925474099.3e1", 1}, {plain, "9007199254740993e1", 1}, {plain, "9007199254740992e1", 0},
		{plain, "9007199254740993e3", 1}, {plain, "9007199254740991.4", 0}, {plain, "9007199254740991.6", 1}, {plain, "9007199254740992.4", 1},
		{plain, "228930314431312345", 1}, {plain, "999999999999999999", 1}, {plain, "1000000000000000000", 0}, {plain, "9223372036854775807", 1},
		{plain, "9223372036854775808", 0}, {plain, "18446744073709551616", 0}, {plain, "18446744073709551617", 1}, {plain, "1e22", 0}, {plain, "1e23", 1},
		{plain, "1.7976931348623157e308", 1}, {plain, "99999999999999991611392", 0}, {plain, "-0.0", 0}, {plain, "0e999", 0}, {plain, "0.000e-7", 0},
		{plain, "5e-400", 1}, {plain, "-0.01e-400", 1}, {plain, "2e-324", 1}, {plain, "3e-324", 0}, {plain, "0.1", 0}, {plain, "0.1234567890123456789012", 0},
		{text, `"9007199254740993"`, 1}, {text, `" +9007199254740994 "`, 0}, {text, "9007199254740993", 1}, {text, `"5e-400"`, 1},
		{comma, `"9007199254740992,5"`, 1}, {comma, `"21,37"`, 0}, {doubled, "9007199254740993", 1}, {doubled, "9007199254740991", 0},
		{sum, "9007199254740993", 1}, {sum, "9007199254740991", 0}, {guard, `"9007199254740993"`, 1}, {guard, "1e23", 1}, {guard, "7", 0},
	} {
		f := formats()[0]
		f.Numbers = []reading.Number{c.number}
		value := fmt.Appendf(nil, `{"device":"a","ts":1704067201000,"value":%s,"other":1}`, c.value)
		r := newReader(t, f)
		for range 2 {
			if got, refusal := r.Read(value, -1); refusal != nil || got.Inexact != c.want {
				t.Fatalf("%s as %+v: %+v (%v), want %d inexact", c.value, c.number, got, refusal, c.want)
			}
		}
		if n := testing.AllocsPerRun(10, func() { r.Read(value, -1) }); n != 0 {
			t.Errorf("%s as %+v: %v allocations", c.value, c.number, n)
		}
	}
	f := formats()[0]
	f.Values, f.Whole = []string{"value", "other"}, true
	value := []byte(`{"device":"a","ts":1704067201000,"value":9007199254740993,"other":9223372036854775807}`)
	if got, refusal := newReader(t, f).Read(value, -1); refusal != nil || got.Inexact != 0 || got.Whole[1] != math.MaxInt64 {
		t.Errorf("whole numbers: %+v (%v)", got, refusal)
	}
	f.Whole = false
	if got, _ := newReader(t, f).Read(value, -1); got.Inexact != 2 {
		t.Errorf("two values: %+v", got)
	}
}

func TestC05NullIsNotZero(t *testing.T) {
	list := slices.Concat(valued("", "10"), valued("null_field", "null"),
		[]outcome{{`{"device":"a","ts":1704067201000}`, "missing_field"}},
		valued("wrong_type", `""`, "[]", "{}", "true"), valued("", "20", "0"))
	expect(t, reads(t, formats()[0], list), 10, 20, 0)
}

func TestC06NumbersAsText(t *testing.T) {
	list := append(valued("wrong_type", `"12.5"`, `"12,5"`, `"0x10"`, `" 7 "`, `"1e2"`, `"1_000"`, `"+5"`, `"٣"`, `""`), valued("", "1")...)
	expect(t, reads(t, formats()[0], list), 1)
}

func TestC07FieldNames(t *testing.T) {
	expect(t, reads(t, formats()[0], []outcome{
		{`{"device":"a","ts":1704067201000,"value":1,"Value":100}`, ""},
		{`{"device":"a","ts":1704067202000,"VALUE":7}`, "missing_field"},
		{`{"device":"a","ts":1704067203000,"value":2,"Value":"x"}`, ""},
		{`{"device":"a","device":"b","ts":1704067204000,"value":4}`, "duplicate_field"},
		{`{"device":"a","ts":1704067205000,"\u0076alue":8}`, ""},
		{`{"device":"a","ts":1704067206000,"value":1,"value":2}`, "duplicate_field"},
	}), 1, 2, 8)
}

func TestC08KeysAreBytes(t *testing.T) {
	r := newReader(t, formats()[0])
	read := func(device string) (string, *reading.Refusal) {
		got, refusal := r.Read([]byte(`{"device":"`+device+`","ts":1704067201000,"value":1}`), -1)
		if refusal != nil {
			return "", refusal
		}
		return string(got.Key[0]), nil
	}
	for device, reason := range map[string]reading.Reason{
		"s\xff": reading.InvalidUTF8, "s\xfe": reading.InvalidUTF8, `s\ud800`: reading.LoneSurrogate,
	} {
		if key, refusal := read(device); refusal == nil || refusal.Reason != reason || refusal.Pos != len(`{"device":"s`) {
			t.Errorf("%q: key %q, refusal %v, want %v", device, key, refusal, reason)
		}
	}
	for device, want := range map[string]string{
		`s\u0000x`: "s\x00x", "S": "S", "s": "s", "\u00e9": "\xc3\xa9", "e\u0301": "e\xcc\x81", `\u00e9`: "\xc3\xa9",
	} {
		if key, refusal := read(device); key != want {
			t.Errorf("%q: key %q (%v), want %q", device, key, refusal, want)
		}
	}
}

func TestC09NoValue(t *testing.T) {
	r := newReader(t, formats()[0])
	for _, want := range []struct {
		value  []byte
		reason reading.Reason
	}{{nil, reading.Tombstone}, {[]byte{}, reading.Empty}, {[]byte("null"), reading.NotObject}} {
		if _, refusal := r.Read(want.value, now); refusal == nil || refusal.Reason != want.reason {
			t.Errorf("%q (nil: %t): %v, want %v", want.value, want.value == nil, refusal, want.reason)
		}
	}
}

func TestC10Keys(t *testing.T) {
	reads(t, formats()[0], []outcome{
		{`{"device":"","ts":1704067201000,"value":1}`, "empty_key"},
		{`{"ts":1704067201000,"value":1}`, "missing_field"},
		{`{"device":null,"ts":1704067201000,"value":1}`, "null_field"},
		{`{"device":["a"],"ts":1704067201000,"value":1}`, "wrong_type"},
		{`{"device":5,"ts":1704067201000,"value":1}`, ""},
	})
}

func TestC13Framing(t *testing.T) {
	good := `{"device":"a","ts":1704067201000,"value":1}`
	frame := string(binary.BigEndian.AppendUint32([]byte{0}, 42))
	reads(t, formats()[0], []outcome{
		{frame + good, "registry_framing"}, {good, ""}, {"\x00\x00\x00\x00\x07\x02a\x00", "registry_framing"}, {"\x00\x00\x01", "syntax"}, {"\x1f\x8b\x08", "not_json"},
	})
	if _, refusal := newReader(t, formats()[0]).Read([]byte(frame+good), now); refusal == nil || !strings.Contains(refusal.Detail, "schema id 42") {
		t.Errorf("the refusal does not name the schema: %v", refusal)
	}
}

func TestC16Depth(t *testing.T) {
	var list []outcome
	for _, depth := range []int{1, 62, 63, 64, 100, 9_999, 10_001, 400_000} {
		reason := ""
		if depth+1 > reading.MaxDepth {
			reason = "too_deep"
		}
		nested := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		list = append(list, outcome{`{"device":"a","ts":1704067201000,"value":1,"x":` + nested + `}`, reason})
	}
	list = append(list, outcome{`{"device":"a","ts":1704067201000,"value":1,"x":` + strings.Repeat("[", 400_000), "too_deep"})
	expect(t, reads(t, formats()[0], append(list, valued("", "2")...)), 1, 1, 1, 2)

	// Nothing behind the bracket that is too much is looked at, so that such a record costs neither time nor memory.
	before := `{"device":"a","ts":1704067201000,"value":1,"x":`
	value := []byte(before + strings.Repeat("[", 400_000))
	r := newReader(t, formats()[0])
	if _, refusal := r.Read(value, now); refusal == nil || refusal.Pos != len(before)+reading.MaxDepth-1 {
		t.Errorf("%v, want it at byte %d", refusal, len(before)+reading.MaxDepth-1)
	}
	if n := testing.AllocsPerRun(10, func() { r.Read(value, now) }); n > 10 {
		t.Errorf("%v allocations for one record", n)
	}
}

func TestC17OneDocument(t *testing.T) {
	good := func(value string) string { return `{"device":"a","ts":1704067201000,"value":` + value + `}` }
	utf16 := []byte{}
	for _, c := range good("32") {
		utf16 = append(utf16, byte(c), 0)
	}
	expect(t, reads(t, formats()[0], []outcome{
		{"\xef\xbb\xbf" + good("1"), "byte_order_mark"},
		{good("2") + "\n", ""},
		{good("4") + " x", "trailing_data"},
		{good("8") + "\n" + good("8"), "trailing_data"},
		{"[" + good("16") + "," + good("16") + "]", "not_object"},
		{string(utf16), "not_json"},
		{`{'device':'a','ts':1704067201000,'value':1}`, "syntax"},
		{`{"device":"a","ts":1704067201000,"value":1,}`, "syntax"},
		{good("1 // comment"), "syntax"},
		{good("1") + "\x00", "trailing_data"},
		{good("012"), "invalid_number"},
		{good("1."), "invalid_number"},
		{good(".5"), "invalid_number"},
	}), 2)
}

func TestC20TypesChange(t *testing.T) {
	list := slices.Concat(valued("", "21.5", "21"), valued("wrong_type", `{"c":21.5}`, `"21.5"`, "true", "[21.5]"),
		[]outcome{
			{`{"device":"a","ts":1704067201000,"value":21.5,"note":{"x":[1,2]},"unused":1e999}`, ""},
			{`{"device":"a","ts":"1704067201000","value":1}`, "wrong_type"},
		})
	expect(t, reads(t, formats()[0], list), 21.5, 21, 21.5)
	keys := make([]string, 0, 2)
	for _, device := range []string{`"7"`, "7"} {
		got, refusal := newReader(t, formats()[0]).Read([]byte(`{"device":`+device+`,"ts":1704067201000,"value":1}`), -1)
		if refusal != nil {
			t.Fatal(refusal)
		}
		keys = append(keys, string(got.Key[0]))
	}
	if keys[0] != "7" || keys[1] != "7" {
		t.Errorf("device %q, want one key", keys)
	}
}

func TestC22BrokenNumbers(t *testing.T) {
	list := slices.Concat(valued("", "10"),
		valued("invalid_number", "1.23.45", "1e", "-", "1e+", "0x1F", "1_0", ".", "00", "-01"),
		valued("not_finite", "1.7976931348623159e308"), valued("", "1E+2", "-0", "5e-400", "-5e-400", "1.7976931348623157e308"))
	expect(t, reads(t, formats()[0], list), 10, 100, math.Copysign(0, -1), 0, math.Copysign(0, -1), math.MaxFloat64)
}

func TestW01FutureIsTheRecordsFuture(t *testing.T) {
	const t0 = int64(1704067200000)
	r := newReader(t, formats()[0])
	_, refusal := r.Read(fmt.Appendf(nil, `{"device":"evil","ts":%d,"value":9}`, t0+86_400_000), t0+1000)
	if refusal == nil || refusal.Reason != reading.FutureTime || refusal.Field != "ts" ||
		!strings.Contains(refusal.Detail, fmt.Sprint(t0+86_400_000)) || !strings.Contains(refusal.Detail, "5m0s") {
		t.Errorf("a day ahead: %v, want future_time with the time and the bound", refusal)
	}
	if got, refusal := r.Read(fmt.Appendf(nil, `{"device":"evil","ts":%d,"value":9}`, t0+86_400_000), t0+86_400_000); got == nil {
		t.Errorf("a pause of a day in the input: %v", refusal)
	}
}

func TestW09Units(t *testing.T) {
	inUnits := []string{"1704067201", "1704067201000", "1704067201000000", "1704067201000000000"}
	words := []string{"seconds", "milliseconds", "microseconds", "nanoseconds"}
	for i := range inUnits {
		unit := reading.Seconds + reading.Unit(i)
		for j, value := range inUnits {
			got, refusal := readTime(t, timeFormat(unit), value)
			switch {
			case i == j && (refusal != nil || got.Time != 1704067201000 || got.Nanos != 0):
				t.Errorf("%s %v: %v (%v)", value, unit, got, refusal)
			case i != j && (refusal == nil || refusal.Reason != reading.ImplausibleTime || refusal.Field != "t" ||
				!strings.Contains(refusal.Detail, value+" "+unit.String()) ||
				!strings.Contains(refusal.Detail, "looks like "+words[j]+" (2024-01-01T00:00:01Z)")):
				t.Errorf("%s %v: %v (%v), want it to look like %s", value, unit, refusal, got, words[j])
			}
		}
	}
}

func TestW11BadTimestamps(t *testing.T) {
	list := []outcome{{`{"device":"a","value":1}`, "missing_field"}, {`{"device":"a","ts":"","value":1}`, "wrong_type"},
		{`{"device":"a","ts":null,"value":1}`, "null_field"}}
	for _, ts := range []string{"-1", "-62135596800000", "0", "9223372036854775807", "-9223372036854775808", "1e300", "-1e300"} {
		list = append(list, outcome{`{"device":"a","ts":` + ts + `,"value":1}`, "implausible_time"})
	}
	for ts, unit := range map[string]reading.Unit{ // each wraps to a plausible time where 64 bits overflow
		"2305843010917761153": reading.Seconds, "-2305843007509626751": reading.Seconds,
		"18446745777776752": reading.Seconds, "-18446742369642350": reading.Seconds,
		"18446745777776752616": reading.Milliseconds, "1844674577777675261.6e1": reading.Milliseconds,
	} {
		if got, refusal := readTime(t, timeFormat(unit), ts); refusal == nil || refusal.Reason != reading.ImplausibleTime {
			t.Errorf("%s %v: %v (%v), want an implausible time", ts, unit, got, refusal)
		}
	}
	for _, timestamp := range []int64{-1, math.MinInt64, now, math.MaxInt64} {
		r := newReader(t, formats()[0])
		for _, want := range list {
			if _, refusal := r.Read([]byte(want.value), timestamp); refusal == nil || refusal.Reason.String() != want.reason {
				t.Errorf("%s with record timestamp %d: %v, want %s", want.value, timestamp, refusal, want.reason)
			}
			if got, refusal := r.Read([]byte(`{"device":"a","ts":1704067201000,"value":1}`), timestamp); got == nil {
				t.Errorf("a good one with record timestamp %d: %v", timestamp, refusal)
			}
		}
	}
}

// W11: where the record's own timestamp is the event time, one that a producer has not set is implausible, and so is one
// before all others.
func TestW11RecordTimestamps(t *testing.T) {
	format := formats()[0]
	format.Time, format.Clock.Record = "", true
	r := newReader(t, format)
	for timestamp, want := range map[int64]string{-1: "implausible_time", math.MinInt64: "implausible_time", 0: "implausible_time",
		math.MaxInt64: "implausible_time", now: ""} {
		got, refusal := r.Read([]byte(`{"device":"a","value":1}`), timestamp)
		switch {
		case want == "" && (refusal != nil || got.Time != timestamp):
			t.Errorf("%d: %v (%v)", timestamp, got, refusal)
		case want != "" && (refusal == nil || refusal.Reason.String() != want):
			t.Errorf("%d: %v (%v), want %s", timestamp, refusal, got, want)
		}
	}
}
