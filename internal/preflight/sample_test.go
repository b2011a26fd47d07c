package preflight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

func config() job.Config {
	return job.Config{Input: "readings", PartitionedBy: []string{"device"}, Format: reading.Format{Key: []string{"device"}, Values: []string{"v"}, Time: "ts", Unit: reading.Milliseconds},
		Aggregations: []job.Aggregation{{Name: "hourly", Window: window.Tumbling{Size: window.Hour}, Functions: aggregate.Count}}}
}

// sampleOf puts readings of many devices where by says, with record keys made of the device's name.
func sampleOf(t *testing.T, config job.Config, key string, by func(key []byte) int32) *job.Sample {
	t.Helper()
	s := &job.Sample{}
	const plenty = 1 << 20
	for p := range int32(4) {
		j, err := job.New(config, p, 4, job.Limits{Changelog: plenty, Result: plenty, Late: plenty, DeadLetter: plenty})
		if err != nil {
			t.Fatal(err)
		}
		var records []task.Input
		for d := range 100 {
			name := fmt.Sprintf("device-%0*d", 1+d%5, d)
			k := fmt.Appendf(nil, key, name)
			if by(k) == p {
				records = append(records, task.Input{Key: k, Value: fmt.Appendf(nil, `{"device":%q,"ts":1700000000000,"v":1}`, name), Timestamp: 1700000000000})
			}
		}
		j.Sample(records, s)
	}
	if s.Readings != 100 {
		t.Fatalf("%+v", s)
	}
	return s
}

// TestSampleOfMisspeltField: what would all be refused is a fault, with the field, where the last one is and the name that was
// meant; a part of it is a warning.
func TestSampleOfMisspeltField(t *testing.T) {
	plan, _ := clean()
	plan.Config = config()
	plan.Config.Format.Values = []string{"w"}
	s := sampleOf(t, plan.Config, "%s", func(key []byte) int32 { return job.Murmur2.Partition(key, 4) })
	s.Like = "v"
	found := plan.judgeSample(s)
	if len(found) != 1 || !found[0].Fault || !strings.HasPrefix(found[0].Repair, "name v in the job's file") ||
		!strings.Contains(found[0].What, "100 of the newest 100 readings of readings would be refused") ||
		!strings.Contains(found[0].What, `at offset 0: field "w": is absent, want a number (missing_field); did you mean v?`) {
		t.Errorf("%+v", found)
	}
	s.Readings, s.Like = 101, ""
	if found = plan.judgeSample(s); len(found) != 1 || found[0].Fault || strings.Contains(found[0].What, "did you mean") {
		t.Errorf("%+v", found)
	}
}
