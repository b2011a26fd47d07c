package tidemarktest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/tidemarktest"
	"github.com/tidemark-streams/tidemark/window"
)

// TestRunUntilIdle runs a job twice over one broker, the second time without its local state: each window is told once, with
// the readings of both runs, and every key is in the partition that its job looks for it in.
func TestRunUntilIdle(t *testing.T) {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time = []string{"device"}, []string{"v"}, "ts"
	windows := tidemark.Windows{Input: "in", Format: format, Aggregations: []tidemark.Table{
		{Name: "hourly", Window: window.Tumbling{Size: window.Hour}, Functions: aggregate.Count},
	}}
	broker := tidemarktest.NewBroker()
	for _, topic := range []string{"in", "out", "dead"} {
		broker.CreateTopic(topic, 3)
	}
	options := tidemark.Options{
		Job: "job", Cluster: broker, Input: "in", Results: []string{"out"}, DeadLetter: "dead",
		Changelog: tidemark.Changelog{Topic: "log"}, Processor: windows.Processor,
	}
	const start, hour, devices = 1767225600000, 3_600_000, 20
	produce := func(at int64) {
		for i := range devices {
			name := fmt.Sprint("d", i)
			broker.Produce("in", tidemarktest.Record{Key: []byte(name), Value: fmt.Appendf(nil, `{"device":%q,"ts":%d,"v":1}`, name, at)})
		}
	}
	produce(start)
	tidemarktest.RunUntilIdle(t, options)
	if got := broker.Committed("out"); len(got) != 0 {
		t.Fatalf("%d results of a window that is open", len(got))
	}
	produce(start + 1)
	produce(start + hour)
	tidemarktest.RunUntilIdle(t, options)
	var got, want []string
	partitions := map[int32]bool{}
	for _, r := range broker.Committed("out") {
		got, partitions[r.Partition] = append(got, string(r.Value)), true
	}
	for i := range devices {
		want = append(want, fmt.Sprintf(`{"agg":"hourly","key":["d%d"],"start":%d,"end":%d,"count":2,"final":true}`, i, start, start+hour))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(partitions) != 3 {
		t.Errorf("results in %d partitions:\n%q\nwant\n%q", len(partitions), got, want)
	}
	if dead := broker.Committed("dead"); len(dead) != 0 {
		t.Errorf("dead letters: %s", dead[0].Value)
	}
}

// TestHeaders: a key that devices send in a header reaches the job, and a test sees why a reading was refused, and whose a
// result is.
func TestHeaders(t *testing.T) {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time = []string{"device"}, []string{"v"}, "ts"
	format.Parts = []reading.Part{{From: reading.FromHeader, Name: "dev"}}
	windows := tidemark.Windows{Input: "in", Format: format, PartitionedBy: []string{"device"}, Aggregations: []tidemark.Table{
		{Name: "hourly", Window: window.Tumbling{Size: window.Hour}, Functions: aggregate.Count},
	}}
	broker := tidemarktest.NewBroker()
	for _, topic := range []string{"in", "out", "dead"} {
		broker.CreateTopic(topic, 1)
	}
	dev := []tidemark.Header{{Key: "dev", Value: []byte("a")}}
	for _, value := range []string{`{"ts":1767225600000,"v":1}`, `{"ts":1767225600001,"w":1}`, `{"ts":1767229200000,"v":1}`} {
		broker.Produce("in", tidemarktest.Record{Key: []byte("a"), Value: []byte(value), Headers: dev})
	}
	tidemarktest.RunUntilIdle(t, tidemark.Options{
		Job: "job", Cluster: broker, Input: "in", Results: []string{"out"}, DeadLetter: "dead",
		Changelog: tidemark.Changelog{Topic: "log"}, Processor: windows.Processor,
	})
	out, dead := broker.Committed("out"), broker.Committed("dead")
	if len(out) != 1 || !strings.Contains(string(out[0].Value), `"key":["a"],`) || out[0].Header("tidemark") == "" {
		t.Errorf("results: %+v", out)
	}
	if len(dead) != 1 || dead[0].Header("tidemark.reason") != "missing_field" || dead[0].Header("tidemark.field") != "v" ||
		dead[0].Header("tidemark.offset") != "1" || dead[0].Header("dev") != "a" || dead[0].Header("none") != "" {
		t.Errorf("dead letters: %+v", dead)
	}
}

// TestBrokerKnowsItsTopics: a topic that a test has misspelt is a fault of the test, and told as such.
func TestBrokerKnowsItsTopics(t *testing.T) {
	broker := tidemarktest.NewBroker()
	for name, use := range map[string]func(){
		"Produce":   func() { broker.Produce("none", tidemarktest.Record{}) },
		"Committed": func() { broker.Committed("none") },
	} {
		func() {
			defer func() {
				if told := recover(); told != "tidemarktest: no topic none" {
					t.Errorf("%s: %v", name, told)
				}
			}()
			use()
		}()
	}
}
