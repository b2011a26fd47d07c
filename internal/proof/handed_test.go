package proof

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// TestCompareHandedNamesEveryFault plants each fault into what a relay hands on (R3).
func TestCompareHandedNamesEveryFault(t *testing.T) {
	c := oracle.Defaults()
	c.Key, c.Values, c.Time, c.Partitions = []string{"device"}, []string{"v"}, oracle.TimeField{Name: "ts", Unit: "ms"}, 1
	relay, _ := c.Split(nil, 2)
	var input []oracle.Message
	var clean [][]oracle.Message
	fresh := func() [][]oracle.Message {
		all := make([][]oracle.Message, 2)
		input = nil
		for i := range int64(6) {
			device := fmt.Sprintf("d%d", i%3)
			input = append(input, oracle.Message{Record: oracle.Record{Offset: i, Timestamp: 1_700_000_000_000,
				Value: fmt.Appendf(nil, `{"device":%q,"ts":1700000000000,"v":%d}`, device, i)}})
			p := oracle.PartitionOf("murmur2", []byte(device), 2)
			all[p] = append(all[p], oracle.Message{Partition: p, Record: oracle.Record{Offset: i, Key: []byte(device),
				Value: fmt.Appendf(nil, `{"r":1700000000000,"t":1700000000000,"k":[%q],"v":[%d],"at":[0,%d,0]}`, device, i, i)}})
		}
		return all
	}
	clean = fresh()
	want := Expect(relay, [][]oracle.Message{input})
	if found := CompareHanded(want, clean); len(found) > 0 {
		t.Fatal(Report(found, 9))
	}
	full := 0
	if len(clean[0]) < 2 {
		full = 1
	}
	for _, plant := range []struct {
		kind Kind
		do   func(all [][]oracle.Message)
	}{
		{Lost, func(all [][]oracle.Message) { all[full] = all[full][1:] }},
		{Double, func(all [][]oracle.Message) { all[full] = append(all[full], all[full][len(all[full])-1]) }},
		{WrongValue, func(all [][]oracle.Message) { all[full][0], all[full][1] = all[full][1], all[full][0] }},
		{WrongValue, func(all [][]oracle.Message) { all[full][0].Key = []byte("d9") }},
		{WrongValue, func(all [][]oracle.Message) {
			all[full][0].Value = []byte(strings.Replace(string(all[full][0].Value), `"v":[`, `"v":[1`, 1))
		}},
		{WrongValue, func(all [][]oracle.Message) { all[0], all[1] = all[1], all[0] }},
		{Unknown, func(all [][]oracle.Message) { all[full][0].Value = []byte("{}") }},
		{Unknown, func(all [][]oracle.Message) {
			all[full][0].Value = []byte(strings.Replace(string(all[full][0].Value), `"at":[0,`, `"at":[0,7`, 1))
		}},
	} {
		all := fresh()
		plant.do(all)
		found := CompareHanded(want, all)
		if len(found) == 0 || found[0].Kind != plant.kind {
			t.Errorf("planted %s, found %s", plant.kind, Report(found, 9))
		}
	}
}

// TestUpdatesNamesEveryFault plants each fault into what is told of windows before their end.
func TestUpdatesNamesEveryFault(t *testing.T) {
	c := oracle.Defaults()
	c.Key, c.Values, c.Time, c.Partitions = []string{"device"}, []string{"v"}, oracle.TimeField{Name: "ts", Unit: "ms"}, 1
	c.Aggregations = []oracle.Aggregation{{Name: "all", Size: 1000, Updates: true, Functions: []string{"count"}},
		{Name: "now", Size: 1000, Updates: true, Current: true, Functions: []string{"count"}}}
	const start = 1_700_000_000_000
	var input []oracle.Message
	for i, at := range []int64{0, 400, 1200, 1300} {
		input = append(input, oracle.Message{Record: oracle.Record{Offset: int64(i), Timestamp: start + at, Key: []byte("d"),
			Value: fmt.Appendf(nil, `{"device":"d","ts":%d,"v":1}`, start+at)}})
	}
	want := Expect(&c, [][]oracle.Message{input})
	line := func(aggregation string, at int64, count int, more string) Line {
		l, err := ParseLine(fmt.Appendf(nil, `{"agg":%q,"key":["d"],"start":%d,"end":%d,"count":%d%s}`, aggregation, start+at, start+at+1000, count, more), "here")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	update, final := `,"final":false`, `,"final":true`
	all := func() []Line {
		return []Line{line("all", 0, 1, update), line("all", 0, 2, final), line("all", 1000, 1, update), line("all", 1000, 2, update),
			line("now", 0, 2, update), line("now", 0, 2, final), line("now", 1000, 2, update), line("all", 500, 0, `,"merged":true`+update)}
	}
	if found := Compare(want, &Observed{Updates: all()}); len(found) > 0 {
		t.Fatal(Report(found, 9))
	}
	for _, plant := range []struct {
		kind Kind
		do   func(l []Line) []Line
	}{
		{Stale, func(l []Line) []Line { return append(l, line("all", 0, 1, update)) }},
		{Stale, func(l []Line) []Line { l[2], l[3] = l[3], l[2]; return append(l, line("all", 1000, 2, update)) }},
		{Stale, func(l []Line) []Line { return append(l[:3:3], l[4:]...) }},
		{Stale, func(l []Line) []Line { return append(l, line("now", 0, 2, final)) }},
		{Unknown, func(l []Line) []Line { return append(l, line("all", 500, 1, update)) }},
		{MissingWindow, func(l []Line) []Line { return l[:2] }},
		{Double, func(l []Line) []Line { return append(l, line("all", 1000, 3, update)) }},
	} {
		found := Compare(want, &Observed{Updates: plant.do(all())})
		if len(found) == 0 || found[0].Kind != plant.kind {
			t.Errorf("planted %s, found %s", plant.kind, Report(found, 9))
		}
	}
}
