package oracle

import (
	"reflect"
	"testing"
)

// TestSplit works an example of both parts out by hand (R3): readings handed on under one of two key fields, one of them
// refused, one without a timestamp, and what the other part makes of them.
func TestSplit(t *testing.T) {
	c := Defaults()
	c.Key, c.Values, c.Time, c.Partitions = []string{"site", "device"}, []string{"v"}, TimeField{Name: "ts", Unit: "s"}, 2
	c.Aggregations = []Aggregation{{Name: "a", Size: 10_000, Functions: []string{"count"}}}
	relay, relayed := c.Split([]string{"device"}, 1)
	out := relay.Run(1, []Record{
		{Offset: 4, Timestamp: 1_700_000_001_000, Key: []byte("anything"), Value: []byte(`{"site":"s","device":"d","ts":1700000000.0005,"v":-0}`)},
		{Offset: 5, Timestamp: 1_700_000_001_000, Value: []byte(`{"site":"s","device":"d","ts":1700000000}`)},
		{Offset: 7, Timestamp: -1, Value: []byte(`{"site":"s","device":"e","ts":1700000020,"v":3}`)},
	})
	want := Counters{In: 3, Accepted: 2, DeadLettered: 1, Untimed: 1}
	if out.Counters != want || len(out.Dead) != 1 || out.Dead[0].Offset != 5 || out.StreamTime != Never {
		t.Errorf("the relay: %+v, dead %+v, stream time %d", out.Counters, out.Dead, out.StreamTime)
	}
	values := []string{`{"r":1700000001000,"t":1700000000000.500000,"k":["d"],"v":[-0],"at":[1,4,0]}`, `{"r":-1,"t":1700000020000,"k":["e"],"v":[3],"at":[1,7,0]}`}
	var records []Record
	for i, value := range values {
		h, ok := relay.ParseHanded([]byte(value))
		if !ok || !reflect.DeepEqual(h, out.Handed[i]) || !SameBits(h.Reading.Values[0], out.Handed[i].Reading.Values[0]) {
			t.Errorf("%s is %+v, want %+v", value, h, out.Handed[i])
		}
		records = append(records, Record{Offset: int64(i), Timestamp: 5, Key: h.Reading.Record, Value: []byte(value)})
	}
	got := relayed.Run(0, records)
	if w := got.Windows; len(w) != 2 || w[0].Key[0] != "d" || !w[0].Final || w[1].Final || got.StreamTime != 1_700_000_020_000 {
		t.Errorf("%+v at stream time %d", got.Windows, got.StreamTime)
	}
	if want := (Counters{In: 2, Accepted: 2, Untimed: 1}); got.Counters != want {
		t.Errorf("the job: %+v, want %+v", got.Counters, want)
	}
	for _, other := range []string{`{"r":1,"t":1,"k":["d"],"v":[1],"at":[1,4]}`, `{"t":1,"k":["d"],"v":[1],"at":[1,4,0]}`, `{"r":1,"t":"x","k":[],"v":[],"at":[1,4,0]}`, `x`} {
		if h, ok := relay.ParseHanded([]byte(other)); ok {
			t.Errorf("%s is taken for %+v", other, h)
		}
	}
}
