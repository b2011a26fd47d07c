package oracle

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// faultsOf judges one record of the default job; "" means that it is a reading.
func faultsOf(value string) string {
	_, faults := job(0).Read([]byte(value))
	return strings.Trim(fmt.Sprint(faults), "[]")
}

// names makes n members with different names.
func names(n int) string {
	var members []string
	for i := range n {
		members = append(members, fmt.Sprintf(`"%d":0`, i))
	}
	return strings.Join(members, ",")
}

func TestFaults(t *testing.T) {
	deep := func(n int) string {
		return `{"device":"a","ts":1704067201000,"value":1,"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	for value, want := range map[string]string{
		"":     "empty",
		"null": "json",
		" ":    "json",
		"[]":   "json",
		`{"device":"a","ts":1704067201000,"value":1}`:                                                            "",
		` {"device":"a","ts":1704067201000,"value":1} ` + "\n":                                                   "",
		`{"device":"a","ts":1704067201000,"value":1} x`:                                                          "json",
		`{"device":"a","ts":1704067201000,"value":1}{}`:                                                          "json",
		"\xEF\xBB\xBF" + `{"device":"a","ts":1,"value":1}`:                                                       "json",
		`{"device":"a","ts":1704067201000,"value":1,}`:                                                           "json",
		`{"device":"a","ts":1704067201000,"value":NaN}`:                                                          "json",
		`{"device":"a","ts":1704067201000,"value":012}`:                                                          "json",
		`{"device":"a","ts":1704067201000,"value":1.}`:                                                           "json",
		`{"device":"a","ts":1704067201000,"value":"NaN"}`:                                                        "value",
		`{"device":"a","ts":1704067201000,"value":"1"}`:                                                          "value",
		`{"device":"a","ts":1704067201000,"value":null}`:                                                         "value",
		`{"device":"a","ts":1704067201000,"value":true}`:                                                         "value",
		`{"device":"a","ts":1704067201000,"value":[1]}`:                                                          "value",
		`{"device":"a","ts":1704067201000}`:                                                                      "value",
		`{"device":"a","ts":1704067201000,"VALUE":1}`:                                                            "value",
		`{"device":"a","ts":1704067201000,"value":1e400}`:                                                        "value",
		`{"device":"a","ts":1704067201000,"value":1,"Value":9}`:                                                  "",
		`{"device":"a","ts":1704067201000,"\u0076alue":8}`:                                                       "",
		`{"device":"a","ts":1704067201000,"value":5e-400}`:                                                       "",
		`{"device":"a","ts":1704067201000,"value":1,"value":2}`:                                                  "duplicate",
		`{"device":"a","ts":1704067201000,"value":1,"x":[{"y":1,"z":[],"\u0079":{}}]}`:                           "duplicate",
		`{"device":"a","ts":1704067201000,"value":1,"x":{"x":{"x":1}},"y":["x","x"]}`:                            "",
		`{"device":null,"ts":1704067201000,"value":1}`:                                                           "key",
		`{"device":"","ts":1704067201000,"value":1}`:                                                             "key",
		`{"device":"a","ts":1,"ts":2`:                                                                            "json duplicate",
		`{"device":"a","ts":1704067201000,"value":1,"x":{` + names(DefaultNames-1) + `}}`:                        "",
		`{"device":"a","ts":1704067201000,"value":1,"x":{` + names(DefaultNames) + `}}`:                          "names",
		`{"device":"a","x":{` + names(9) + `},"y":{` + names(DefaultNames-2) + `},"ts":1704067201000,"value":1}`: "",
		`{"device":["a"],"ts":1704067201000,"value":1}`:                                                          "key",
		`{"device":5,"ts":1704067201000,"value":1}`:                                                              "",
		`{"device":"a","ts":"1704067201000","value":1}`:                                                          "time",
		`{"device":"a","ts":null,"value":null}`:                                                                  "value time",
		"{\"device\":\"s\xff\",\"ts\":1704067201000,\"value\":1}":                                                "utf8",
		`{"device":"s\ud800","ts":1704067201000,"value":1}`:                                                      "utf8",
		`{"device":"s\udc00\ud800","ts":1704067201000,"value":1}`:                                                "utf8",
		`{"device":"s\ud83d\ude00","ts":1704067201000,"value":1}`:                                                "",
		`{"device":"s\\ud800","ts":1704067201000,"value":1}`:                                                     "",
		deep(DefaultDepth - 1):                                                                                   "",
		deep(DefaultDepth):                                                                                       "depth",
		deep(400_000):                                                                                            "depth json",
		strings.Repeat("[", 400_000):                                                                             "depth json",
	} {
		if got := faultsOf(value); got != want {
			t.Errorf("%.80q: faults %q, want %q", value, got, want)
		}
	}
}

func TestNumericKeyIsItsToken(t *testing.T) {
	r, faults := job(0).Read([]byte(`{"device":8838840643388017390,"ts":1704067201000,"value":1}`))
	if faults != nil || r.Key[0] != "8838840643388017390" || string(r.Record) != "8838840643388017390" {
		t.Errorf("key %q, record key %q, faults %v", r.Key, r.Record, faults)
	}
}

func TestTimes(t *testing.T) {
	for _, c := range []struct {
		unit, token string
		want        int64
		ok          bool
	}{
		{"ms", "1704067201000", 1704067201000, true},
		{"s", "1704067201", 1704067201000, true},
		{"us", "1704067201000999", 1704067201000, true},
		{"us", "-1", -1, true},
		{"ns", "1704067201000000001", 1704067201000, true},
		{"ms", "9223372036854775808", yearAfter, true},
		{"s", "-9223372036854775808", yearZero - 1, true},
		{"ms", "-1e400", yearZero - 1, true},
		{"ms", "1E999999999", yearAfter, true},
		{"ms", "-0.0e9", 0, true},
		{"ms", "1.5", 1, true},
		{"ms", "-0.5", -1, true},
		{"ms", "-1e-400", -1, true},
		{"ms", "-1e-40", -1, true},
		{"s", "1.7040672015e9", 1704067201500, true},
		{"ms", `""`, 0, false},
		{"rfc3339", `"2024-01-01T01:00:01+01:00"`, 1704067201000, true},
		{"rfc3339", `"2024-01-01T00:00:01.999999999Z"`, 1704067201999, true},
		{"rfc3339", `"1969-12-31T23:59:59.9999Z"`, -1, true},
		{"rfc3339", `"2024-01-01t00:00:01z"`, 1704067201000, true},
		{"rfc3339", `"2016-12-31T23:59:60Z"`, 1483228800000, true},
		{"rfc3339", `"2017-01-01T00:59:60.5+01:00"`, 1483228800500, true},
		{"rfc3339", `"2016-12-31T22:59:60Z"`, 0, false},
		{"rfc3339", `"2024-01-01T00:00:01.1234567890Z"`, 0, false},
		{"rfc3339", `"2024-01-01T00:00:01+24:00"`, 0, false}, // package time takes it
		{"rfc3339", `"2024-01-01T00:00:01"`, 0, false},
		{"rfc3339", `"2024-02-30T00:00:01Z"`, 0, false},
		{"rfc3339", `"2024-01-01 00:00:01Z"`, 0, false},
		{"rfc3339", `"2024-01-01T00:00:01,5Z"`, 0, false},
		{"rfc3339", `1704067201000`, 0, false},
	} {
		fields, _ := job(0).object([]byte(`{"t":` + c.token + `}`))
		if got, _, ok := instant(fields["t"], c.unit); ok != c.ok || ok && got != c.want {
			t.Errorf("%s %s: %d %v, want %d %v", c.unit, c.token, got, ok, c.want, c.ok)
		}
	}
}

// The part of a time below the ms counts for the order of readings.
func TestInstantNanos(t *testing.T) {
	for _, c := range []struct {
		unit, token string
		ms, nanos   int64
	}{
		{"s", `1704067201.123456789`, 1704067201123, 456789},
		{"s", `1704067201.1234567899`, 1704067201123, 456789},
		{"s", `-0.000000001`, -1, 999999},
		{"us", `1704067201123456`, 1704067201123, 456000},
		{"ms", `1704067201123`, 1704067201123, 0},
		{"rfc3339", `"2024-01-01T00:00:01.123456789Z"`, 1704067201123, 456789},
	} {
		fields, _ := job(0).object([]byte(`{"t":` + c.token + `}`))
		if ms, nanos, ok := instant(fields["t"], c.unit); !ok || ms != c.ms || nanos != c.nanos {
			t.Errorf("%s %s: %d, %d, %v; want %d, %d", c.unit, c.token, ms, nanos, ok, c.ms, c.nanos)
		}
	}
}

func TestGuards(t *testing.T) {
	for event, want := range map[int64]string{
		DefaultMin: "[]", DefaultMin - 1: "[implausible]", t0 + DefaultMaxAhead: "[]", t0 + DefaultMaxAhead + 1: "[future]",
		math.MaxInt64: "[implausible future]", math.MinInt64: "[implausible]", 0: "[implausible]", -1: "[implausible]",
	} {
		r := Record{Timestamp: t0, Key: []byte("a"), Value: fmt.Appendf(nil, `{"device":"a","ts":%d,"value":1}`, event)}
		got := "[]"
		if o := job(0).Run(0, []Record{r}); len(o.Dead) > 0 {
			got = fmt.Sprint(o.Dead[0].Faults)
		}
		if got != want {
			t.Errorf("event time %d: faults %s, want %s", event, got, want)
		}
	}
}
