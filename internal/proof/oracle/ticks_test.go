package oracle

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Ticks are found where a commit moves stream time without a reading that does, by multiples of their length; and they close
// windows as readings do.
func TestTicks(t *testing.T) {
	const start = 1_700_000_000_000
	c := Defaults()
	c.Key, c.Values, c.Time, c.Partitions = []string{"device"}, []string{"v"}, TimeField{Name: "ts", Unit: "ms"}, 1
	c.Aggregations = []Aggregation{{Name: "a", Size: 1000, Functions: []string{"count"}}}
	var records []Record
	for i, at := range []int64{0, 300, 800, 2000} {
		records = append(records, Record{Offset: int64(10 * i), Timestamp: start + 5000, Key: []byte("d"),
			Value: fmt.Appendf(nil, `{"device":"d","ts":%d,"v":1}`, start+at)})
	}
	commit := func(number, position, at int64) *Commit {
		return &Commit{Birth: 7, Number: number, Position: position, StreamTime: at}
	}
	commits := []*Commit{commit(0, 0, Never), commit(1, 11, start+300), commit(2, 11, start+1100), commit(3, 21, start+1100), commit(4, 31, start+2000), commit(5, 31, start+2250)}
	ticks, err := c.FindTicks(0, records, commits, 400)
	if err != nil || !reflect.DeepEqual(ticks, []Tick{{11, start + 1100}}) {
		t.Fatalf("%v, error %v", ticks, err)
	}
	c.Ticks = [][]Tick{ticks}
	o := c.Run(0, records)
	if len(o.Late) != 1 || o.Late[0].Offset != 20 || o.Late[0].StreamTime != start+1100 || o.StreamTime != start+2000 {
		t.Errorf("%+v", o)
	}
	late, err := c.FindTicks(0, records, append(commits[:4:4], commit(4, 31, start+2400)), 400)
	if err != nil || len(late) != 1 {
		t.Errorf("a move of 1300 ms is taken for ticks of 400 ms: %v, %v", late, err)
	}
	if _, err := c.FindTicks(0, records, []*Commit{commits[0], commits[2]}, 400); err == nil || !strings.Contains(err.Error(), "compacted") {
		t.Errorf("a missing commit is not noticed: %v", err)
	}
}

// Rows are read as objects of their columns.
func TestRow(t *testing.T) {
	c := Defaults()
	c.Key, c.Values, c.Whole, c.Time = []string{"d"}, []string{"v"}, true, TimeField{Name: "t", Unit: "s"}
	c.Shape = &Shape{Columns: []string{"t", "d", "v"}, Separator: ';'}
	for row, want := range map[string]string{
		"1700000000;a;12.0\r\n":         "a 12",
		`1700000000;"a;""b";-0`:         `a;"b 0`,
		"1700000000;7;9007199254740993": "7 9007199254740993",
		"1700000000;a;1.5":              "[value]",
		"1700000000;a;":                 "[value]",
		"1700000000;;1":                 "[key]",
		`1700000000;a;"1"`:              "[value]",
		"1700000000;a":                  "json",
		"1700000000;a;1;2":              "json",
		`1700000000;"a;1`:               "json",
		`1700000000;"a"b;1`:             "json",
		`1700000000;a"b;1`:              "json",
		"1700000000;a\x01;1":            "json",
		"\ufeff1700000000;a;1":          "json",
		"1700000000;\xff;1":             "utf8",
		"":                              "empty",
	} {
		var got string
		all, faults := c.Readings(Record{Value: []byte(row), Timestamp: 1_700_000_000_000})
		switch {
		case faults != nil:
			got = string(faults[0])
		case len(all[0].Faults) > 0:
			got = fmt.Sprint(all[0].Faults)
		default:
			got = fmt.Sprint(all[0].Reading.Key[0], " ", all[0].Reading.Whole[0])
		}
		if got != want {
			t.Errorf("%q: %s, want %s", row, got, want)
		}
	}
}
