package proof

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// A crash test over a fleet proves little unless the fleet holds everything that can go wrong.
func TestFleetHoldsEverything(t *testing.T) {
	config := FleetConfig(1)
	fleet, twin := NewFleet(7, 20), NewFleet(7, 20)
	records := make([]oracle.Record, 6_000)
	for i := range records {
		line := fleet.Next()
		if !bytes.Equal(line, twin.Next()) {
			t.Fatal("the same seed gives other lines")
		}
		r, _ := config.Read(line)
		records[i] = oracle.Record{Offset: int64(i), Timestamp: fleetStart + 1_000_000_000, Key: r.Record, Value: line}
	}
	o := config.Run(0, records)
	seen := map[string]int{"late": len(o.Late)}
	for _, d := range o.Dead {
		for _, f := range d.Faults {
			seen[string(f)]++
		}
	}
	for _, w := range o.Windows {
		seen[fmt.Sprintf("%s final %v", w.Aggregation, w.Final)]++
		plain := 0.0
		for _, r := range w.Readings {
			plain += r.Values[0]
		}
		s := w.Stats(0, len(w.Readings))
		if s.Sum() != plain {
			seen["a plain loop is wrong"]++
		}
		if s.Unordered() {
			seen["unordered"]++
		} else if delta, _ := s.Function("delta"); delta > 0 && len(w.Readings) > 32 {
			seen["more readings than are kept one by one, in order"]++
		}
	}
	for _, what := range []string{"late", "value", "time", "implausible", "duplicate", "json", "utf8", "short final true", "short final false",
		"long final false", "a plain loop is wrong", "unordered", "more readings than are kept one by one, in order"} {
		if seen[what] == 0 {
			t.Errorf("no %q in %d lines: %v", what, len(records), seen)
		}
	}
}
