package preflight

import (
	"fmt"
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
