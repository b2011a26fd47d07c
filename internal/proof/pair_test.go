package proof

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// TestComparePairs plants a fault into each part of a job whose readings go through a relay.
func TestComparePairs(t *testing.T) {
	c := oracle.Defaults()
	c.Key, c.Values, c.Time, c.Partitions = []string{"device"}, []string{"v"}, oracle.TimeField{Name: "ts", Unit: "ms"}, 1
	c.Aggregations = []oracle.Aggregation{{Name: "all", Size: 1000, Functions: []string{"count"}}}
	relay, relayed := c.Split(nil, 1)
	input := []oracle.Message{
		{Record: oracle.Record{Timestamp: 1_700_000_000_000, Value: []byte(`{"device":"d","ts":1700000000000,"v":1}`)}},
		{Record: oracle.Record{Offset: 1, Timestamp: 1_700_000_000_000, Value: []byte(`{}`)}}}
	handed := [][]oracle.Message{{{Record: oracle.Record{Key: []byte("d"), Value: []byte(`{"r":1700000000000,"t":1700000000000,"k":["d"],"v":[1],"at":[0,0,0]}`)}}}}
	want := &Expected{Pairs: []ExpectedPair{{Relay: Expect(relay, [][]oracle.Message{input}), Relayed: Expect(relayed, handed)}}}
	clean := func() *Observed {
		var o ObservedPair
		o.Handed = slices.Clone(handed)
		first, second := want.Pairs[0].Relay.Outcomes[0], want.Pairs[0].Relayed.Outcomes[0]
		o.Relay.Counters = []Counters{{Task: first.Counters, StreamTime: first.StreamTime}}
		o.Relay.Dead = []Output{{Offset: 1, Value: []byte(`{}`), Reason: "missing_field"}}
		line, err := ParseLine([]byte(`{"agg":"all","key":["d"],"start":1700000000000,"end":1700000001000,"count":1}`), "here")
		if err != nil {
			t.Fatal(err)
		}
		o.Relayed.State = []Line{line}
		o.Relayed.Counters = []Counters{{Task: second.Counters, Aggregations: second.Aggregations, StreamTime: second.StreamTime}}
		return &Observed{Pairs: []ObservedPair{o}}
	}
	if found := Compare(want, clean()); len(found) > 0 {
		t.Fatal(Report(found, 5))
	}
	for name, plant := range map[string]func(o *ObservedPair){
		"counters of the relay of key [\"device\"]":          func(o *ObservedPair) { o.Relay.Counters[0].Task.Accepted++ },
		"dead letter topic of the relay of key [\"device\"]": func(o *ObservedPair) { o.Relay.Dead = []Output{} },
		"topic between the parts, key [\"device\"]":          func(o *ObservedPair) { o.Handed = [][]oracle.Message{nil} },
		"state of key [\"device\"]":                          func(o *ObservedPair) { o.Relayed.State = []Line{} },
		"counters of key [\"device\"]":                       func(o *ObservedPair) { o.Relayed.Counters[0].StreamTime-- },
	} {
		o := clean()
		plant(&o.Pairs[0])
		found := Compare(want, o)
		if len(found) == 0 || found[0].Where != name {
			t.Errorf("planted into %s, found %s", name, fmt.Sprint(found))
		}
	}
}
