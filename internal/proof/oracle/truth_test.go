package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// smallSets are compared in every run.
var smallSets = []string{"fluvius_15min_dst", "meters_dst_hourly", "nyc_weather_dst.tokens", "water_flow"}

// TestRealDataTruth lets the model compute each data set without Kafka and compares every window with the truth file, which
// other programs made. TIDEMARK_REALDATA=all takes every set.
func TestRealDataTruth(t *testing.T) {
	dir, found := DataDir(filepath.Join("..", "..", ".."))
	if !found {
		fmt.Printf("data sets are not there (%s): the model is not compared with the truth of %v\n", dir, smallSets)
		return
	}
	sets, err := Sets(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("TIDEMARK_REALDATA") != "all" { // integration/realdata_test.go runs the large ones through this model too
		sets = slices.DeleteFunc(sets, func(s Set) bool { return !slices.Contains(smallSets, s.Name) })
	}
	for _, set := range sets {
		t.Run(set.Name, func(t *testing.T) { compareTruth(t, set) })
	}
}

func compareTruth(t *testing.T, set Set) {
	t.Parallel()
	lines, err := ReadLines(set.Lines)
	if err != nil {
		t.Fatal(err)
	}
	truth, err := ReadTruth(set.Truth)
	if err != nil {
		t.Fatal(err)
	}
	c := Defaults()
	c.Key, c.Values, c.Time = []string{"device", "metric"}, []string{"value"}, TimeField{Name: "ts", Unit: TimeUnit(lines[0])}
	c.Partitioner, c.Partitions = "unchecked", 1
	c.Aggregations = []Aggregation{{Name: "hourly", Size: time.Hour.Milliseconds(), Grace: 1_000_000 * time.Hour.Milliseconds()}}
	now := time.Now().UnixMilli()
	records := make([]Record, len(lines))
	for i, line := range lines {
		r, _ := c.Read(line)
		records[i] = Record{Offset: int64(i), Timestamp: now, Key: r.Record, Value: line}
	}
	o := c.Run(0, records)
	if len(o.Windows) != len(truth) || len(o.Late) != 0 {
		t.Fatalf("%d windows and %d late, want %d and 0", len(o.Windows), len(o.Late), len(truth))
	}
	for i, want := range truth {
		w := o.Windows[i]
		s := w.Stats(0, len(w.Readings))
		same := slices.Equal(w.Key, want.Key) && w.Start == want.Start && s.Count == want.Count &&
			SameBits(s.Min, want.Min) && SameBits(s.Max, want.Max) && SameBits(s.Sum(), want.Sum) &&
			SameBits(s.Sum()/float64(s.Count), want.SumByCount)
		if !same {
			t.Fatalf("%s +%d: count %d min %v max %v sum %v, want %+v", w.Key, w.Start, s.Count, s.Min, s.Max, s.Sum(), want)
		}
	}
	for _, d := range o.Dead {
		if len(d.Faults) != 1 || d.Faults[0] != FaultValue {
			t.Fatalf("offset %d: faults %v in %s", d.Offset, d.Faults, d.Record.Value)
		}
	}
	t.Logf("%d records, %d windows, %d without a value", len(lines), len(truth), len(o.Dead))
}
