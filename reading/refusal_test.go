package reading_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/reading"
)

// names are the reasons as they are written to dead letters and metrics: changing one breaks who reads them.
var names = []string{
	"tombstone", "empty", "byte_order_mark", "not_json", "syntax", "truncated", "trailing_data", "invalid_number", "not_finite",
	"control_character", "invalid_utf8", "lone_surrogate", "duplicate_field", "too_deep", "too_many_fields", "not_object",
	"missing_field", "null_field", "wrong_type", "empty_key", "bad_time", "implausible_time", "future_time",
	"too_many_readings", "out_of_range", "no_value", "bad_number", "no_match", "registry_framing",
	"not_whole",
}

func TestReasonNamesAreFixed(t *testing.T) {
	all := reading.Reasons()
	if len(all) != len(names) {
		t.Fatalf("%d reasons, want %d", len(all), len(names))
	}
	for i, reason := range all {
		if reason.String() != names[i] {
			t.Errorf("reason %d is %q, want %q", i, reason, names[i])
		}
	}
	if s := reading.Reason(0).String() + reading.Reason(200).String(); s != "reason(0)reason(200)" {
		t.Errorf("unknown reasons are %q", s)
	}
}

// refusal is one row of the table: a value in which § marks the byte that must be named.
type refusal struct {
	reason reading.Reason
	value  string
	field  string
	detail string // part of it
}

const mark = "§"

// The document's faults. The format is device, ts in ms, value.
var documentRefusals = []refusal{
	{reading.Empty, "", "", "0 bytes"},
	{reading.ByteOrderMark, "§\xef\xbb\xbf" + `{"device":"a","ts":1704067201000,"value":1}`, "", "byte order mark"},
	{reading.NotJSON, "§\x1f\x8b\x08\x00\x00", "", "gzip"},
	{reading.NotJSON, "§\x28\xb5\x2f\xfd\x24", "", "zstd"},
	{reading.RegistryFraming, "§\x00\x00\x00\x00\x2a{}", "", "schema registry framing, schema id 42"},
	{reading.NotJSON, "§\xff\xfe{\x00}\x00", "", "UTF-16"},
	{reading.NotJSON, "§{\x00}\x00", "", "UTF-16"},
	{reading.NotJSON, "§\x00{\x00}", "", "UTF-16"},
	{reading.NotJSON, `§not a line of JSON`, "", "begins with a word that is none of JSON"},
	{reading.NotJSON, ` §this is no JSON`, "", "begins with a word that is none of JSON"},
	{reading.NotJSON, `§forecast,1`, "", "begins with a word that is none of JSON"},
	{reading.NotJSON, `§INFO: started`, "", "begins with a word that is none of JSON"},
	{reading.NotJSON, `§device=a temperature=21`, "", "begins with a word that is none of JSON"},
	{reading.NotJSON, `§True`, "", "begins with a word that is none of JSON"},
	{reading.NotJSON, `§<reading device="a"/>`, "", "XML"},
	{reading.NotFinite, `§NaN`, "", "finite number"},
	{reading.NotFinite, `§Infinity`, "", "finite number"},
	{reading.Truncated, `tru§`, "", "want true"},
	{reading.TrailingData, `null §and more`, "", "after the document"},
	{reading.Syntax, "§\x00\x00\x01", "", "0x00, want a value"},
	{reading.Syntax, `§'device'`, "", `'\'', want a value`},
	{reading.Syntax, `{§'device':1}`, "", `'\'', want a name in double quotes`},
	{reading.Syntax, `{"a":1,§}`, "", "'}', want a name"},
	{reading.Syntax, `{"a":1, §// no`, "", "'/', want a name"},
	{reading.Syntax, `{"a" §1}`, "", "'1', want ':'"},
	{reading.Syntax, `{"a":§}`, "", "'}', want a value"},
	{reading.Syntax, `{"a":1 §"b":2}`, "", `'"', want ',' or '}'`},
	{reading.Syntax, `{"a":[1 §2]}`, "", "'2', want ',' or ']'"},
	{reading.Syntax, `{"a":[1,§]}`, "", "']', want a value"},
	{reading.Syntax, `{"a":tr§Ue}`, "", "'U', want true"},
	{reading.Syntax, `{"a":nul§}`, "", "'}', want null"},
	{reading.Syntax, `{"a":"\§x"}`, "", "'x', want one of"},
	{reading.Syntax, `{"a":"\u00§zz"}`, "", "'z', want four hexadecimal digits"},
	{reading.Syntax, `{"value":1 §1}`, "value", "'1', want ','"},
	{reading.Truncated, ` §`, "", "ends after 1 bytes, want a value"},
	{reading.Truncated, `{"a§`, "", "a closing quote"},
	{reading.Truncated, `{"a":"\§`, "", "an escape"},
	{reading.Truncated, `{"a":"\ud83d\§`, "", "second half"},
	{reading.Truncated, `{"a":"\u12§`, "", "four hexadecimal digits"},
	{reading.Truncated, "{\"a\":\"\xf0\x9f§", "", "rest of a character"},
	{reading.Truncated, `{"a":1§`, "", "',' or '}'"},
	{reading.Truncated, `{"a":[1§`, "", "',' or ']'"},
	{reading.Truncated, `{"a":-§`, "", "a digit"},
	{reading.Truncated, `{"a":fal§`, "", "false"},
	{reading.TrailingData, `{"value":1} §x`, "", "'x' after the document"},
	{reading.TrailingData, "{}\n§{}", "", "one document"},
	{reading.TrailingData, "{}§\x00", "", "0x00"},
	{reading.InvalidNumber, `{"value":0§12}`, "value", "leading 0"},
	{reading.InvalidNumber, `{"value":-0§1}`, "value", "leading 0"},
	{reading.InvalidNumber, `{"value":1.§}`, "value", "want a digit"},
	{reading.InvalidNumber, `{"value":§.5}`, "value", "begins no number"},
	{reading.InvalidNumber, `{"value":§+5}`, "value", "begins no number"},
	{reading.InvalidNumber, `{"value":0§x1F}`, "value", "'x' in a number"},
	{reading.InvalidNumber, `{"value":1§_000}`, "value", "'_' in a number"},
	{reading.InvalidNumber, `{"value":1.23§.45}`, "value", "'.' in a number"},
	{reading.InvalidNumber, `{"value":1e+§}`, "value", "want a digit"},
	{reading.InvalidNumber, `{"a":[-§]}`, "", "want a digit"},
	{reading.NotFinite, `{"value":§NaN}`, "value", "finite number"},
	{reading.NotFinite, `{"value":§nan}`, "value", "finite number"},
	{reading.NotFinite, `{"value":-§Infinity}`, "value", "finite number"},
	{reading.NotFinite, `{"unused":[§Infinity]}`, "", "finite number"},
	{reading.ControlChar, "{\"a\":\"x§\ny\"}", "", "0x0a in a string"},
	{reading.ControlChar, "{\"§\x00\":1}", "", "0x00 in a string"},
	{reading.InvalidUTF8, "{\"device\":\"s§\xff\"}", "device", "0xff is not UTF-8"},
	{reading.InvalidUTF8, "{\"skipped\":\"§\xc0\xaf\"}", "", "0xc0 is not UTF-8"},
	{reading.InvalidUTF8, "{\"skipped\":\"§\xed\xa0\x80\"}", "", "0xed is not UTF-8"},
	{reading.InvalidUTF8, "{\"long enough for a word §\xe9\":1}", "", "0xe9 is not UTF-8"},
	{reading.LoneSurrogate, `{"device":"s§\ud800"}`, "device", "half of a surrogate pair"},
	{reading.LoneSurrogate, `{"a":"§\udc00"}`, "", "half"},
	{reading.LoneSurrogate, `{"a":"§\udc00\udc00"}`, "", "half"},
	{reading.LoneSurrogate, `{"a":"§\udbff\udbff"}`, "", "half"},
	{reading.LoneSurrogate, `{"a":"§\ud83d\u0041"}`, "", "half"},
	{reading.LoneSurrogate, `{"§\ud83d\ud83d":1}`, "", "half"},
	{reading.DuplicateField, `{"device":"a",§"device":"b"}`, "device", `"device" is there twice`},
	{reading.DuplicateField, `{"value":1,§"valu\u0065":2}`, "value", `"value" is there twice`},
	{reading.DuplicateField, `{"x":1,§"x":2}`, "", `"x" is there twice`},
	{reading.DuplicateField, `{"device":{"x":[{"y":1, §"y":2}]}}`, "device", `"y" is there twice`},
	{reading.NotObject, ` §[{"device":"a"}]`, "", "is an array, want an object"},
	{reading.NotObject, `§null`, "", "is null, want an object"},
	{reading.NotObject, `§21.5`, "", "is a number, want an object"},
}

// The configured fields' faults.
var fieldRefusals = []refusal{
	{reading.MissingField, `{"ts":1704067201000,"value":1§}`, "device", "is absent, want a text or a number"},
	{reading.MissingField, `{"device":"a","Ts":1,"value":1§} `, "ts", "is absent, want a number of milliseconds"},
	{reading.MissingField, `{"device":"a","ts":1704067201000§}`, "value", "is absent, want a number"},
	{reading.NullField, `{"device":§null,"ts":1704067201000,"value":1}`, "device", "is null"},
	{reading.NullField, `{"device":"a","ts":§null,"value":1}`, "ts", "is null"},
	{reading.NullField, `{"device":"a","ts":1704067201000,"value": §null}`, "value", "is null"},
	{reading.WrongType, `{"device":§true,"ts":1704067201000,"value":1}`, "device", "is a boolean, want a text or a number"},
	{reading.WrongType, `{"device":§["a"],"ts":1704067201000,"value":1}`, "device", "is an array"},
	{reading.WrongType, `{"device":"a","ts":§"1704067201000","value":1}`, "ts", "is a text, want a number of milliseconds"},
	{reading.WrongType, `{"device":"a","ts":1704067201000,"value":§"12.5"}`, "value", "is a text, want a number"},
	{reading.WrongType, `{"device":"a","ts":1704067201000,"value":§{"c":21.5}}`, "value", "is an object, want a number"},
	{reading.EmptyKey, `{"device":§"","ts":1704067201000,"value":1}`, "device", "is empty"},
	{reading.NotFinite, `{"device":"a","ts":1704067201000,"value":§1e400}`, "value", "beyond the range of a double"},
	{reading.NotFinite, `{"device":"a","ts":1704067201000,"value":§-1.7976931348623159e308}`, "value", "finite"},
	{reading.ImplausibleTime, `{"device":"a","ts":§0,"value":1}`, "ts", "0 ms (1970-01-01T00:00:00Z) is before 2000-01-01T00:00:00Z; looks like a clock that was never set"},
	{reading.FutureTime, `{"device":"a","ts":§1704067500124,"value":1}`, "ts",
		"1704067500124 ms (2024-01-01T00:05:00.124Z) is more than 5m0s after the record's timestamp 1704067200123 ms (2024-01-01T00:00:00.123Z)"},
}

// elsewhere are the reasons that this format cannot have; they have tables of their own.
var elsewhere = []reading.Reason{reading.BadTime, reading.TooManyReadings, reading.OutOfRange, reading.NoValue, reading.BadNumber, reading.NoMatch,
	reading.NotWhole}

func TestRefusals(t *testing.T) {
	r := newReader(t, formats()[0])
	seen := map[reading.Reason]bool{}
	for _, reason := range elsewhere {
		seen[reason] = true
	}
	for _, want := range slices.Concat(documentRefusals, fieldRefusals, limitRefusals()) {
		want.check(t, r)
		seen[want.reason] = true
	}
	if _, got := r.Read(nil, now); got == nil || got.Reason != reading.Tombstone {
		t.Errorf("no value: %v, want a tombstone", got)
	}
	seen[reading.Tombstone] = true
	for _, reason := range reading.Reasons() {
		if !seen[reason] {
			t.Errorf("no case for %v", reason)
		}
	}
}

func (want refusal) check(t *testing.T, r *reading.Reader) {
	t.Helper()
	pos := max(strings.Index(want.value, mark), 0)
	value := strings.Replace(want.value, mark, "", 1)
	_, got := r.Read([]byte(value), now)
	switch {
	case got == nil:
		t.Errorf("%.80q: accepted, want %v", value, want.reason)
	case got.Reason != want.reason || got.Pos != pos || got.Field != want.field || !strings.Contains(got.Detail, want.detail):
		t.Errorf("%.80q:\n got %v\nwant %v, byte %d, field %q, %q", value, got, want.reason, pos, want.field, want.detail)
	}
	if got != nil && (want.field != "") != strings.Contains(got.String(), `in field "`+want.field+`"`) {
		t.Errorf("%.80q: shown as %q", value, got)
	}
}

// limitRefusals are the documents that are one step too large.
func limitRefusals() []refusal {
	deep := func(n int) string { return `{"x":` + strings.Repeat("[", n-2) + mark + strings.Repeat("[", 400_000) }
	return []refusal{
		{reading.TooDeep, deep(reading.MaxDepth + 1), "", "deeper than 64"},
		{reading.TooDeep, strings.Repeat(`{"a":`, reading.MaxDepth) + mark + "{}", "", "deeper than 64"},
		{reading.TooDeep, strings.Repeat(`[{"a":`, reading.MaxDepth/2) + mark + "[]", "", "deeper than 64"},
		{reading.TooManyFields, "{" + manyNames(reading.MaxNames) + "," + mark + `"one more":1}`, "", "more than 4096 names"},
		{reading.TooManyFields, "{" + manyNames(4000) + `,"x":[{` + manyNames(95) + "," + mark + `"one more":1}]}`, "", "more than 4096 names"},
		{reading.DuplicateField, "{" + manyNames(4000) + "," + mark + `"n0":1}`, "", `"n0" is there twice`},
		{reading.DuplicateField, "{" + manyNames(17) + "," + mark + `"n16":1}`, "", `"n16" is there twice`},
		{reading.DuplicateField, "{" + manyNames(16) + "," + mark + `"n15":1}`, "", `"n15" is there twice`},
		{reading.DuplicateField, `{"` + strings.Repeat("x", 5000) + `":1,` + mark + `"` + strings.Repeat("x", 5000) + `":1}`, "", strings.Repeat("x", 64) + `" is`},
	}
}
