package reading_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/reading"
)

// timeFormat has only the time to be wrong about.
func timeFormat(unit reading.Unit) reading.Format {
	f := reading.DefaultFormat()
	f.Key, f.Time, f.Values, f.Unit = []string{"k"}, "t", []string{"v"}, unit
	return f
}

// readTime reads a record with this time, a JSON value, and no record timestamp.
func readTime(t *testing.T, f reading.Format, value string) (*reading.Reading, *reading.Refusal) {
	t.Helper()
	return newReader(t, f).Read(fmt.Appendf(nil, `{"k":"a","v":1,"t":%s}`, value), -1)
}

func TestTimes(t *testing.T) {
	any := timeFormat(0)
	any.Min = -62167219200000 // the year 0
	for _, want := range []struct {
		unit  reading.Unit
		value string
		ms    int64
		nanos int32
	}{
		{reading.Seconds, "1704067201", 1704067201000, 0},
		{reading.Seconds, "1704067201.5", 1704067201500, 0},
		{reading.Seconds, "1704067201.1234567", 1704067201123, 456700},
		{reading.Seconds, "1704067201.123456789987", 1704067201123, 456789}, // cut off below the ns
		{reading.Seconds, "1.704067201e9", 1704067201000, 0},
		{reading.Seconds, "1704067201000E-3", 1704067201000, 0},
		{reading.Seconds, "-0.5", -500, 0},
		{reading.Seconds, "-0.0000000001", -1, 999999}, // towards the past
		{reading.Seconds, "-62167219200", -62167219200000, 0},
		{reading.Seconds, "253402300799.999999999", 253402300799999, 999999},
		{reading.Milliseconds, "1704067201000", 1704067201000, 0},
		{reading.Milliseconds, "1704067201000.000001", 1704067201000, 1},
		{reading.Milliseconds, "-1", -1, 0},
		{reading.Milliseconds, "-0", 0, 0},
		{reading.Milliseconds, "-0.0e77", 0, 0},
		{reading.Milliseconds, "0e99999999999999999999", 0, 0},
		{reading.Milliseconds, "1e-99999999999999999999", 0, 0},
		{reading.Milliseconds, "0.0000000000000000000000000001704067201e40", 1704067201000, 0},
		{reading.Milliseconds, "17040672010000000000000000000000000000e-25", 1704067201000, 0},
		{reading.Milliseconds, "1" + strings.Repeat("0", 200000) + "e-199988", 1000000000000, 0},
		{reading.Microseconds, "1704067201000001", 1704067201000, 1000},
		{reading.Microseconds, "-1", -1, 999000},
		{reading.Microseconds, "1704067201000001.25", 1704067201000, 1250},
		{reading.Nanoseconds, "1704067201000000001", 1704067201000, 1},
		{reading.Nanoseconds, "1704067201000000001.9", 1704067201000, 1},
		{reading.Nanoseconds, "-1", -1, 999999},
		{reading.Nanoseconds, "9223372036854775808", 9223372036854, 775808}, // one more than an int64 holds
		{reading.Nanoseconds, "-18446744073709551617", -18446744073710, 448383},
		{reading.RFC3339, `"2024-01-01T00:00:01Z"`, 1704067201000, 0},
		{reading.RFC3339, `"2024-01-01t00:00:01z"`, 1704067201000, 0},
		{reading.RFC3339, `"2024-01-01T01:30:01.5+01:30"`, 1704067201500, 0},
		{reading.RFC3339, `"2023-12-31T16:00:01.123456789-08:00"`, 1704067201123, 456789},
		{reading.RFC3339, `"2024-01-01T00:00:01-00:00"`, 1704067201000, 0},
		{reading.RFC3339, `"2024-01-01T00:00:01.0\u00300Z"`, 1704067201000, 0},
		{reading.RFC3339, `"2024-02-29T12:00:00Z"`, 1709208000000, 0},
		{reading.RFC3339, `"2016-12-31T23:59:60Z"`, 1483228800000, 0},
		{reading.RFC3339, `"1990-12-31T15:59:60.25-08:00"`, 662688000250, 0},
		{reading.RFC3339, `"0000-01-01T00:00:00Z"`, -62167219200000, 0},
		{reading.RFC3339, `"0000-02-29T00:00:00Z"`, -62162121600000, 0},
		{reading.RFC3339, `"9999-12-31T23:59:59.999999999Z"`, 253402300799999, 999999},
	} {
		any.Unit = want.unit
		got, refusal := readTime(t, any, want.value)
		if refusal != nil || got.Time != want.ms || got.Nanos != want.nanos {
			t.Errorf("%.60s %v: %v (%v), want %d ms + %d ns", want.value, want.unit, got, refusal, want.ms, want.nanos)
		}
	}
}

func TestBadTimes(t *testing.T) {
	for value, detail := range map[string]string{
		`""`:                                "too short",
		`"2024-01-01"`:                      "too short",
		`"1704067201000000000"`:             "no time of RFC 3339",
		`"2024/01/01T00:00:01Z"`:            "no time of RFC 3339",
		`"2024-01-01 00:00:01Z"`:            "blank where RFC 3339 has T",
		`"2024-01-01T00:00:01"`:             "no zone; want Z or an offset as +01:00",
		`"2024-01-01T00:00:01.5"`:           "no zone",
		`"2024-01-01T00:00:01.Z"`:           "no digit after the second's point",
		`"2024-01-01T00:00:01,5Z"`:          "does not end in Z",
		`"2024-01-01T00:00:01Z "`:           "does not end in Z",
		`"2024-01-01T00:00:01+0100"`:        "does not end in Z",
		`"2024-01-01T00:00:01+01"`:          "does not end in Z",
		`"2024-01-01T00:00:01+1:000"`:       "does not end in Z",
		`"2024-01-01T00:00:01+24:00"`:       "offset beyond 23:59",
		`"2024-01-01T00:00:01+01:60"`:       "offset beyond 23:59",
		`"2024-01-01T24:00:00Z"`:            "time of day",
		`"2024-01-01T00:60:00Z"`:            "time of day",
		`"2024-01-01T23:59:61Z"`:            "time of day",
		`"2024-01-01T12:59:60Z"`:            "second 60",
		`"2016-12-31T23:59:60+01:00"`:       "second 60",
		`"2024-13-01T00:00:00Z"`:            "calendar",
		`"2024-00-01T00:00:00Z"`:            "calendar",
		`"2024-01-00T00:00:00Z"`:            "calendar",
		`"2024-04-31T00:00:00Z"`:            "calendar",
		`"2023-02-29T00:00:00Z"`:            "calendar",
		`"1900-02-29T00:00:00Z"`:            "calendar",
		`"2024-01-01T00:00:01.1234567890Z"`: "more than 9 digits",
	} {
		got, refusal := readTime(t, timeFormat(reading.RFC3339), value)
		if refusal == nil || refusal.Reason != reading.BadTime || !strings.Contains(refusal.Detail, detail) {
			t.Errorf("%s: %v (%v), want a bad time: %s", value, refusal, got, detail)
		}
	}
	if _, refusal := readTime(t, timeFormat(reading.RFC3339), "1704067201"); refusal == nil || refusal.Reason != reading.WrongType {
		t.Errorf("a number as RFC 3339: %v", refusal)
	}
}

// TestRandomTimes compares numbers of every unit and form with the oracle.
func TestRandomTimes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("TIDEMARK_SEED"); s != "" {
		seed = number(t, s)
	}
	t.Logf("replay: TIDEMARK_SEED=%d go test -run TestRandomTimes ./reading", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	outcomes := make(map[string]int)
	for unit := reading.Seconds; unit < reading.RFC3339; unit++ {
		f := timeFormat(unit)
		f.Min = -62167219200000
		reader := newReader(t, f)
		for range 5000 {
			value := fmt.Appendf(nil, `{"k":"a","v":1,"t":%s}`, randomNumber(r))
			outcome, fault := differ(reader, f, value, int64(r.Uint64())>>r.IntN(64))
			if fault != "" {
				t.Fatalf("%v: %s: %s", unit, value, fault)
			}
			outcomes[outcome]++
		}
	}
	for _, outcome := range []string{accepted, "implausible_time", "future_time"} {
		if outcomes[outcome] < 500 {
			t.Errorf("%s: %d times, want 500 at least", outcome, outcomes[outcome])
		}
	}
}

// randomNumber is a JSON number of any length and size.
func randomNumber(r *rand.Rand) string {
	s := fmt.Sprint(int64(r.Uint64()) >> r.IntN(64))
	if r.IntN(3) == 0 {
		s += fmt.Sprintf(".%0*d", 1+r.IntN(25), r.Uint64()>>r.IntN(64))
	}
	if r.IntN(3) == 0 {
		s += fmt.Sprintf("e%+d", r.IntN(41)-20)
	}
	return s
}

func TestGuard(t *testing.T) {
	const record = 1704067200000
	f := timeFormat(reading.Milliseconds)
	f.MaxAhead = 1500 * time.Millisecond
	open := f
	open.MaxAhead = reading.NoMaxAhead
	for _, c := range []struct {
		format    reading.Format
		value     string
		timestamp int64
		want      string
	}{
		{f, "1704067201500", record, ""},
		{f, "1704067201500.000001", record, "future_time"},
		{f, "1704067201501", record, "future_time"},
		{f, "1704067201501", record + 1, ""},
		{f, "4102444800000", -1, ""}, // no record timestamp, no guard
		{f, "4102444800000", f.Min - 1, ""},
		{f, "4102444800000", f.Min, "future_time"},
		{f, "4102444800000", 1<<63 - 1, ""},
		{f, "946684800000", record, ""},
		{f, "946684799999.999999", record, "implausible_time"},
		{f, "253402300800000", -1, "implausible_time"},
		{f, "253402300799999.999999", -1, ""},
		{open, "4102444800000", record, ""},
		{open, "253402300800000", record, "implausible_time"},
	} {
		_, refusal := newReader(t, c.format).Read(fmt.Appendf(nil, `{"k":"a","v":1,"t":%s}`, c.value), c.timestamp)
		got := ""
		if refusal != nil {
			got = refusal.Reason.String()
		}
		if got != c.want {
			t.Errorf("%s with record timestamp %d: %v, want %q", c.value, c.timestamp, refusal, c.want)
		}
	}
	early := f
	early.Min = -1000
	if f.Timed(f.Min-1) || !f.Timed(f.Min) || early.Timed(-1) || !early.Timed(0) {
		t.Error("record timestamps count from the earliest plausible time on, and never when they are negative")
	}
}

// TestTimeInTwoFields: a date and a time of day that stand apart are one time, escaped or not, as a number or not; what is wrong with
// either is told with its place.
func TestTimeInTwoFields(t *testing.T) {
	f := formats()[0]
	f.Time, f.Unit, f.Min = "date", reading.Layout, 0
	f.Clock = reading.Clock{Layout: "DD/MM/YYYY hhmm", Zone: time.FixedZone("", 3600), Then: []string{"of.day"}}
	r := newReader(t, f)
	for _, c := range []struct {
		members string
		want    int64
		refusal string
	}{
		{`"date":"31/12/2023","of":{"day":"2330"}`, 1704061800000, ""},
		{`"of":{"day":1530},"date":"1\u0032\/06/2024"`, 1718202600000, ""},
		{`"date":"31/12/2023"`, 0, "missing_field of.day"},
		{`"date":"31/12/2023","of":{"day":null}`, 0, "null_field of.day"},
		{`"date":"31/12/2023","of":{"day":true}`, 0, "wrong_type of.day"},
		{`"of":{"day":"2330"}`, 0, "missing_field date"},
		{`"date":"31/12/2023","of":{"day":"2360"}`, 0, "bad_time of.day"},
		{`"date":"31/12/2023","of":{"day":""}`, 0, "bad_time of.day"},
		{`"date":"31/13/2023","of":{"day":"2330"}`, 0, "bad_time date"},
		{`"date":"30/02/2023","of":{"day":"2330"}`, 0, "bad_time date"},
	} {
		got, refusal := r.Read([]byte(`{"device":"a","value":1,`+c.members+`}`), -1)
		told := ""
		if refusal != nil {
			told = refusal.Reason.String() + " " + refusal.Field
		}
		if told != c.refusal || refusal == nil && got.Time != c.want {
			t.Errorf("%s: %v (%v), want %d %s", c.members, got, refusal, c.want, c.refusal)
		}
	}
	value := []byte(`{"device":"a","value":1,"date":"31/12/2023","of":{"day":"2330"}}`)
	if n := testing.AllocsPerRun(100, func() { r.Read(value, -1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTimeInManyFields: year, month, day and hour in fields of their own, as texts or as numbers, with one digit or two, are one
// local time; what is wrong with one of them is told with its name and place, and with what they make together.
func TestTimeInManyFields(t *testing.T) {
	f := formats()[0]
	f.Time, f.Unit, f.Min = "y", reading.Layout, 0
	f.Clock = reading.Clock{Layout: "YYYY M D h", Zone: time.FixedZone("", 8*3600), Then: []string{"m", "d", "h"}}
	r := newReader(t, f)
	for _, c := range []struct {
		members string
		want    int64
		refusal string
	}{
		{`"y":2013,"m":3,"d":1,"h":0`, 1362067200000, ""},
		{`"h":"23","d":"01","m":"\u0033","y":"2013"`, 1362150000000, ""},
		{`"y":2016,"m":2,"d":29,"h":7`, 1456700400000, ""},
		{`"y":2015,"m":2,"d":29,"h":7`, 0, `bad_time "d" at byte 43: is a day that the calendar does not have; the fields of the time make "2015 2 29 7"`},
		{`"y":2015,"m":13,"d":29,"h":7`, 0, `bad_time "m" at byte 37: is a day that the calendar does not have; the fields of the time make "2015 13 29 7"`},
		{`"y":2015,"m":0,"d":29,"h":7`, 0, `bad_time "m" at byte 37`},
		{`"y":2015,"m":1,"d":29,"h":24`, 0, `bad_time "h" at byte 50: is a time of day beyond 23:59:59`},
		{`"y":15,"m":1,"d":29,"h":7`, 0, `bad_time "y" at byte 28: is no time as YYYY M D h`},
		{`"y":20156,"m":1,"d":29,"h":7`, 0, `bad_time "y"`},
		{`"y":2015,"m":1,"d":2.0,"h":7`, 0, `bad_time "d"`},
		{`"y":2015,"m":1,"d":2,"h":-7`, 0, `bad_time "h"`},
		{`"y":2015,"m":1,"d":2,"h":"7x"`, 0, `bad_time "h"`},
		{`"y":2015,"m":"","d":2,"h":7`, 0, `bad_time "m"`},
		{`"y":2015,"m":"1 5","d":2,"h":7`, 0, `bad_time "d"`}, // what is missing is looked for where it should begin
		{`"y":2015,"m":1,"h":7`, 0, `missing_field "d"`},
		{`"y":2015,"m":1,"d":null,"h":7`, 0, `null_field "d"`},
		{`"y":2015,"m":1,"d":2,"h":true`, 0, `wrong_type "h"`},
		{`"y":1969,"m":12,"d":31,"h":23`, 0, `implausible_time "y"`},
	} {
		value := []byte(`{"device":"a","value":1,` + c.members + `}`)
		got, refusal := r.Read(value, -1)
		told := ""
		if refusal != nil {
			told = strings.Replace(refusal.String(), " in field ", " ", 1)
		}
		if !strings.HasPrefix(told, c.refusal) || refusal == nil && (c.refusal != "" || got.Time != c.want) {
			t.Errorf("%s: %v (%v), want %d %s", c.members, got, refusal, c.want, c.refusal)
		}
	}
	value := []byte(`{"device":"a","value":1,"y":2013,"m":3,"d":1,"h":0}`)
	if n := testing.AllocsPerRun(100, func() { r.Read(value, -1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLayouts: what each token of a layout takes, and what it does not.
func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		layout, text, want string
	}{
		{"YYYY-MM-DD hh:mm:ss", "2024-02-29 23:05:09,5", "2024-02-29T23:05:09.5Z"},
		{"YYYY-MM-DD hh:mm:ss", "2024-02-29 23:05:9", ""},
		{"M/D/YYYY h:mm", "3/1/2013 0:00", "2013-03-01T00:00:00Z"},
		{"M/D/YYYY h:mm", "12/31/2013 23:59", "2013-12-31T23:59:00Z"},
		{"M/D/YYYY h:mm", "012/31/2013 23:59", ""},
		{"M/D/YYYY h:mm", "03/01/2013 01:02", "2013-03-01T01:02:00Z"},
		{"M/D/YYYY h:mm", "3/1/2013 0:0", ""},
		{"M/D/YYYY h:mm", "/1/2013 0:00", ""},
		{"D.M.YY h:m:s", "9.8.07 6:5:4.25", "2007-08-09T06:05:04.25Z"},
		{"YYMMDDhhmmss", "240102030405", "2024-01-02T03:04:05Z"},
		{"YYYY-MM-DD hh:mm *Z", "2024-01-02 03:04 CET+0100", "2024-01-02T02:04:00Z"},
		{"YYYY-M-D", "2024-1-31", "2024-01-31T00:00:00Z"},
		{"YYYY-M-D", "2024-1-32", ""},
		{"YYYY-M-D", "2024-1-", ""},
		{"YYYY-M-D", "2024-1-3 ", ""},
		{"YYYY-M-D", "", ""},
	} {
		f := timeFormat(reading.Layout)
		f.Clock, f.Min = reading.Clock{Layout: c.layout, Zone: time.UTC}, 0
		got, refusal := newReader(t, f).Read(fmt.Appendf(nil, `{"k":"a","v":1,"t":%q}`, c.text), -1)
		told := ""
		if refusal == nil {
			told = time.UnixMilli(got.Time).UTC().Format(time.RFC3339Nano)
		} else if refusal.Reason != reading.BadTime {
			t.Errorf("%s by %s: %v", c.text, c.layout, refusal)
		}
		if told != c.want {
			t.Errorf("%s by %s is %q (%v), want %q", c.text, c.layout, told, refusal, c.want)
		}
	}
}
