package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// The fleet of the demo. Its clock starts in the past and is one step later with each reading, so the same seed gives
// the same readings, and the same results, on any day and any machine.
const (
	demoDevices    = 50
	demoPartitions = 4
	demoStart      = 1704067200000 // ms: 2024-01-01T00:00:00Z
	demoStep       = 150           // ms of event time from one reading to the next
	demoJitter     = 20_000        // ms: readings are up to so much out of order
	demoDelay      = 180_000       // ms: the late ones are at least so late, and at most twice
	demoPunctual   = 1000          // the first readings are never late: there is no window yet that they could miss
)

// demoFleet makes the readings. It knows how many of them are late or broken, because it made them so.
type demoFleet struct {
	random *rand.Rand
	left   int64

	sent, late, broken int64
}

func newDemoFleet(seed uint64, readings int) *demoFleet {
	return &demoFleet{random: rand.New(rand.NewPCG(seed, 2)), left: int64(readings)}
}

// next returns the next line, nil after the last one. It is a proof.Feed.
func (f *demoFleet) next() []byte {
	if f.left == 0 {
		return nil
	}
	f.left--
	f.sent++
	number := f.random.IntN(demoDevices) + 1
	device := fmt.Sprintf("boiler-%02d", number)
	at := demoStart + f.sent*demoStep - f.random.Int64N(demoJitter)
	switch n := f.random.IntN(100); {
	case n == 0 && f.sent > demoPunctual:
		f.late++
		at -= demoDelay + f.random.Int64N(demoDelay)
	case n == 1:
		f.broken++
		return fmt.Appendf(nil, demoBroken[f.random.IntN(len(demoBroken))], device, at)
	}
	return fmt.Appendf(nil, `{"device":%q,"ts":%d,"celsius":%s}`, device, at, f.celsius(number))
}

// celsius is what a boiler measures. Number 13 is out of its mind now and then: added up one after the other, such
// numbers swallow all others, and the sum depends on the order.
func (f *demoFleet) celsius(number int) string {
	if number == 13 && f.random.IntN(4) == 0 {
		return []string{"1e16", "-1e16"}[f.random.IntN(2)]
	}
	return fmt.Sprintf("%d.%02d", 40+f.random.IntN(50), f.random.IntN(100))
}

// demoBroken are lines that are no readings, each in its own way.
var demoBroken = []string{
	`{"device":%q,"ts":%d}`,
	`{"device":%q,"ts":%d,"celsius":null}`,
	`{"device":%q,"ts":%d,"celsius":"n/a"}`,
	`{"device":%q,"ts":%d,"celsius":1e999}`,
	`{"device":%q,"ts":"%d","celsius":61.5}`,
	`{"device":%q,"ts":-%d,"celsius":61.5}`,
	`{"device":%q,"ts":%d,"celsius":61.5,"celsius":16.5}`,
	`{"device":%q,"ts":%d,"celsius":6`,
	`{"device":%q,"ts":%d,"celsius":61.5,"note":"` + "\xff" + `"}`,
}

// demoCheckpoint is the job's checkpoint interval: short, so that there is one to recover from within seconds.
const demoCheckpoint = time.Second

// demoYAML is the job's file. What the oracle is told in newDemoJob must say the same: if the two drift apart, the
// demo fails.
const demoYAML = `# The job of "tidemark demo". Keys are explained in docs/reference/config.md.
job: demo
kafka: {embedded: {partitions: %d}}
input:
  topic: demo-in
  key: [device]
  values: [celsius]
  time: {field: ts, unit: ms}
aggregations:
  - {name: minute, window: {tumbling: 1m, grace: 30s}, functions: [count, sum, min, max, mean], output: {topic: demo-minute}}
  - {name: hour, window: {tumbling: 1h, grace: 15m}, functions: [count, sum, min, max, mean], output: {topic: demo-hour}}
late: {topic: demo-late}
dead_letter: {topic: demo-dead}
changelog: {topic: demo-changelog}
state: {dir: %s}
checkpoint: {interval: %s}
`

// newDemoJob writes the job's file into a directory and describes the same job to the oracle.
func newDemoJob(binary, dir string) (*proof.Job, error) {
	c := oracle.Defaults()
	c.Key, c.Values, c.Time = []string{"device"}, []string{"celsius"}, oracle.TimeField{Name: "ts", Unit: "ms"}
	c.Partitions = demoPartitions
	functions := []string{"count", "sum", "min", "max", "mean"}
	c.Aggregations = []oracle.Aggregation{
		{Name: "minute", Size: time.Minute.Milliseconds(), Grace: 30_000, Functions: functions},
		{Name: "hour", Size: time.Hour.Milliseconds(), Grace: 15 * 60_000, Functions: functions},
	}
	job := &proof.Job{Binary: binary, Dir: dir, Name: "demo", Oracle: c, Checkpoint: demoCheckpoint}
	text := fmt.Sprintf(demoYAML, demoPartitions, strconv.Quote(job.StateDir()), demoCheckpoint)
	return job, os.WriteFile(job.Config(), []byte(text), 0o600)
}
