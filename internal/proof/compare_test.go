package proof

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

const t0 = 1704067200000 // 2024-01-01T00:00:00Z

// expected is the outcome of a small input: device a has a due window of three readings and an open one, device b an open
// window, one reading is late, one record is refused.
func expected() *Expected {
	config := oracle.Defaults()
	config.Key, config.Values, config.Time = []string{"device"}, []string{"value"}, oracle.TimeField{Name: "ts", Unit: "ms"}
	config.Partitions = 1
	config.Aggregations = []oracle.Aggregation{
		{Name: "minute", Size: 60_000, Functions: []string{"count", "sum", "min", "max", "mean"}}}
	return Expect(&config, [][]oracle.Message{inputOfExpected()})
}

func inputOfExpected() []oracle.Message {
	var messages []oracle.Message
	for i, r := range []struct {
		device string
		at     int64
		value  any
	}{{"a", 0, 1e16}, {"a", 1000, 1}, {"a", 2000, -1e16}, {"a", 61_000, 7}, {"b", 60_000, 5}, {"b", 119_000, 6}, {"a", 3000, 9}, {"a", 62_000, "null"}} {
		messages = append(messages, oracle.Message{Record: oracle.Record{Offset: int64(i), Timestamp: t0 + 200_000, Key: []byte(r.device),
			Value: fmt.Appendf(nil, `{"device":%q,"ts":%d,"value":%v}`, r.device, t0+r.at, r.value)}})
	}
	return messages
}

// The values of the two live entries: 7, and 5 + 6 = 11, as M * 2^0, with minimum and maximum.
const (
	entryA    = "\x01\x01\x02\x00\x07\x00\x00\x00\x00\x00\x00\x1c\x40\x00\x00\x00\x00\x00\x00\x1c\x40"
	entryFive = "\x01\x01\x02\x00\x05\x00\x00\x00\x00\x00\x00\x14\x40\x00\x00\x00\x00\x00\x00\x14\x40"
	entryB    = "\x01\x02\x02\x00\x0b\x00\x00\x00\x00\x00\x00\x14\x40\x00\x00\x00\x00\x00\x00\x18\x40"
)

// perfect is what a tidemark without fault shows of the input above.
func perfect(t *testing.T, want *Expected) *Observed {
	t.Helper()
	line := func(text, place string) Line {
		l, err := ParseLine([]byte(text), place)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	o := want.Outcomes[0]
	return &Observed{
		State: []Line{
			line(`{"agg":"minute","key":["a"],"start":1704067260000,"end":1704067320000,"count":1,"sum":7,"min":7,"max":7,"mean":7}`, "line 1"),
			line(`{"agg":"minute","key":["b"],"start":1704067260000,"end":1704067320000,"count":2,"sum":11,"min":5,"max":6,"mean":5.5}`, "line 2"),
		},
		Results: []Line{line(`{"agg":"minute","key":["a"],"start":1704067200000,"end":1704067260000,"count":3,"sum":1,"min":-1e16,"max":1e16,`+
			`"mean":0.3333333333333333,"final":true}`, "minute/0 at 5")},
		Live: []oracle.Entry{{Aggregation: "minute", Key: []string{"a"}, Start: t0 + 60_000, Value: []byte(entryA)},
			{Aggregation: "minute", Key: []string{"b"}, Start: t0 + 60_000, Value: []byte(entryB)}},
		Late: []Output{{Offset: 6, Aggregation: "minute", Start: t0, End: t0 + 60_000, StreamTime: t0 + 119_000,
			Key: o.Late[0].Record.Key, Value: o.Late[0].Record.Value}},
		Dead:     []Output{{Offset: 7, Reason: "null_field", Key: o.Dead[0].Record.Key, Value: o.Dead[0].Record.Value}},
		Counters: []Counters{{Task: o.Counters, Aggregations: slices.Clone(o.Aggregations), StreamTime: o.StreamTime}},
	}
}

func TestNothingIsWrong(t *testing.T) {
	want := expected()
	if found := Compare(want, perfect(t, want)); len(found) != 0 {
		t.Error(Report(found, 10))
	}
	if found := Compare(want, &Observed{}); len(found) != 0 {
		t.Error("parts that were not observed are compared: " + Report(found, 10))
	}
	empty := &Observed{State: []Line{}, Results: []Line{}, Live: []oracle.Entry{}, Late: []Output{}, Dead: []Output{}, Counters: []Counters{}}
	if found := Compare(want, empty); len(found) != 8 {
		t.Error("an empty observation lacks 2+1+2 windows, 1+1 outputs and the counters: " + Report(found, 10))
	}
}

// number sets a number of a line, leaving the original alone.
func number(l *Line, name, text string) {
	numbers := map[string]Number{}
	for k, v := range l.Numbers {
		numbers[k] = v
	}
	numbers[name] = Number{Text: text, Null: text == "null"}
	l.Numbers = numbers
}

// TestAnomaliesAreNamed breaks a perfect observation in one place after another.
func TestAnomaliesAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		want Kind
		bend func(o *Observed)
	}{
		"count too low, no former state": {Lost, func(o *Observed) { number(&o.State[1], "count", "1") }},
		"count too high":                 {Double, func(o *Observed) { number(&o.State[1], "count", "3") }},
		"former state": {Stale, func(o *Observed) {
			for _, n := range []string{"sum", "min", "max", "mean"} {
				number(&o.State[1], n, "5")
			}
			number(&o.State[1], "count", "1")
		}},
		"sum of a plain loop":  {WrongValue, func(o *Observed) { number(&o.Results[0], "sum", "0") }},
		"last bit of the mean": {WrongValue, func(o *Observed) { number(&o.Results[0], "mean", "0.33333333333333337") }},
		"null for a number":    {WrongValue, func(o *Observed) { number(&o.Results[0], "sum", "null") }},
		"number missing": {WrongValue, func(o *Observed) {
			number(&o.Results[0], "x", "0")
			delete(o.Results[0].Numbers, "max")
		}},
		"overflow claimed":    {WrongValue, func(o *Observed) { o.State[0].Overflow = true }},
		"result not final":    {WrongValue, func(o *Observed) { o.Results[0].Final = false }},
		"other end":           {WrongValue, func(o *Observed) { o.State[0].End++ }},
		"result twice":        {WindowTwice, func(o *Observed) { o.Results = append(o.Results, o.Results[0]) }},
		"entry twice":         {WindowTwice, func(o *Observed) { o.State = append(o.State, o.State[1]) }},
		"result missing":      {MissingWindow, func(o *Observed) { o.Results = []Line{} }},
		"entry missing":       {MissingWindow, func(o *Observed) { o.State = o.State[1:] }},
		"alive after result":  {Revived, func(o *Observed) { o.State = append(o.State, o.Results[0]) }},
		"result too early":    {Torn, func(o *Observed) { o.Results = append(o.Results, o.State[0]) }},
		"window of nobody":    {Unknown, func(o *Observed) { o.State[0].Start += 7; o.State = append(o.State, perfect(t, expected()).State[0]) }},
		"changelog lacks key": {MissingWindow, func(o *Observed) { o.Live = o.Live[1:] }},
		"changelog value":     {WrongValue, func(o *Observed) { o.Live[1].Value = []byte(entryA) }},
		"changelog stale":     {Stale, func(o *Observed) { o.Live[1].Value = []byte(entryFive) }},
		"changelog revived": {Revived, func(o *Observed) {
			o.Live = append(o.Live, oracle.Entry{Aggregation: "minute", Key: []string{"a"}, Start: t0})
		}},
		"changelog of nobody":   {Unknown, func(o *Observed) { o.Live = append(o.Live, oracle.Entry{Aggregation: "hour"}) }},
		"two owners of a key":   {WindowTwice, func(o *Observed) { o.Live = append(o.Live, o.Live[0]) }},
		"late lost":             {Lost, func(o *Observed) { o.Late = []Output{} }},
		"late double":           {Double, func(o *Observed) { o.Late = append(o.Late, o.Late[0]) }},
		"late of another time":  {WrongValue, func(o *Observed) { o.Late[0].StreamTime-- }},
		"late with other bytes": {WrongValue, func(o *Observed) { o.Late[0].Key = []byte("b") }},
		"late of nobody":        {Unknown, func(o *Observed) { o.Late = append(o.Late, Output{Offset: 1, Aggregation: "minute"}) }},
		"dead lost":             {Lost, func(o *Observed) { o.Dead = []Output{} }},
		"dead double":           {Double, func(o *Observed) { o.Dead = append(o.Dead, o.Dead[0]) }},
		"dead of nobody":        {Unknown, func(o *Observed) { o.Dead = append(o.Dead, Output{Offset: 1}) }},
		"dead with odd reason":  {WrongValue, func(o *Observed) { o.Dead[0].Reason = "too_deep" }},
		"dead with no reason":   {WrongValue, func(o *Observed) { o.Dead[0].Reason = "" }},
		"dead with other bytes": {WrongValue, func(o *Observed) { o.Dead[0].Value = []byte("{}") }},
		"tombstone as text":     {WrongValue, func(o *Observed) { o.Dead[0].Value = nil }},
		"counter":               {WrongValue, func(o *Observed) { o.Counters[0].Aggregations[0].Late++ }},
		"counter torn":          {Torn, func(o *Observed) { o.Counters[0].Task.Accepted++ }},
		"input forgotten":       {Lost, func(o *Observed) { o.Counters[0].Task.In--; o.Counters[0].Task.Accepted-- }},
		"time went back":        {Lost, func(o *Observed) { o.Counters[0].StreamTime-- }},
	} {
		t.Run(name, func(t *testing.T) {
			want := expected()
			got := perfect(t, want)
			c.bend(got)
			found := Compare(want, got)
			if len(found) == 0 || !slices.ContainsFunc(found, func(a Anomaly) bool { return a.Kind == c.want }) {
				t.Errorf("want %q; %s", c.want, Report(found, 10))
			}
			if c.want != Torn && len(found) > 1 {
				t.Errorf("one fault, reported more than once: %s", Report(found, 10))
			}
		})
	}
}

func TestReport(t *testing.T) {
	want := expected()
	got := perfect(t, want)
	number(&got.State[1], "count", "3")
	got.Results = []Line{}
	got.Late = []Output{}
	text := Report(Compare(want, got), 2)
	for _, part := range []string{"3 anomalies: 1 lost; 1 missing window; 1 double;", "... and 1 more",
		`missing window in results: minute ["a"] [2024-01-01T00:00:00Z, 2024-01-01T00:01:00Z): want count 3, found nothing`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

func TestParseLine(t *testing.T) {
	const good = `{"agg":"h","key":["a","b"],"start":-5,"end":5,"t":{"count":2,"sum":null},"final":true}`
	l, err := ParseLine([]byte(good), "x")
	if err != nil || l.Aggregation != "h" || !slices.Equal(l.Key, []string{"a", "b"}) || l.Start != -5 || !l.Final ||
		l.Numbers["t.count"].Text != "2" || !l.Numbers["t.sum"].Null || l.count() != 2 {
		t.Errorf("%+v, error %v", l, err)
	}
	for _, bad := range []string{"", "[]", good + "x", `{"agg":"h"`, `{"agg":"h","agg":"h","key":["a"],"start":1,"end":2}`,
		`{"key":["a"],"start":1,"end":2}`, `{"agg":"h","key":"a","start":1,"end":2}`, `{"agg":"h","key":[1],"start":1,"end":2}`,
		`{"agg":"h","key":["a"],"start":1.5,"end":2}`, `{"agg":"h","key":["a"],"start":"1","end":2}`} {
		if l, err := ParseLine([]byte(bad), "x"); err == nil {
			t.Errorf("%s was taken: %+v", bad, l)
		}
	}
	if lines, err := ParseDump(nil); lines == nil || len(lines) != 0 || err != nil {
		t.Errorf("empty dump: %v, error %v", lines, err)
	}
	if lines, err := ParseDump([]byte(good + "\n" + good + "\n")); len(lines) != 2 || err != nil || lines[1].Place != "state dump, line 2" {
		t.Errorf("dump of two lines: %v, error %v", lines, err)
	}
	if _, err := ParseDump([]byte(good + "\n\n")); err == nil {
		t.Error("an empty line was taken")
	}
}

// Dead letters for bounds that the oracle does not have are no anomalies of the job, and are not passed over either.
func TestUnjudged(t *testing.T) {
	for _, reason := range unjudged {
		got := &Observed{Dead: []Output{{Offset: 3, Reason: "syntax"}, {Offset: 7, Partition: 2, Reason: reason}}}
		if err := Unjudged(got); err == nil || !strings.Contains(err.Error(), "offset 7 of input partition 2 is refused as "+reason) {
			t.Errorf("%s: %v", reason, err)
		}
		if _, known := reasonFaults[reason]; known {
			t.Errorf("%s stands for a fault of the oracle's", reason)
		}
		if err := Unjudged(&Observed{Dead: got.Dead[:1]}); err != nil {
			t.Error(err)
		}
	}
	for _, reason := range job.Reasons() {
		if _, known := reasonFaults[string(reason)]; !known && !slices.Contains(unjudged, string(reason)) {
			t.Errorf("nobody judges %s", reason)
		}
	}
}
