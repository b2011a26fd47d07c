package kafka

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// TestRealDataWhileInstancesAreKilled lets the readings of real sensors flow through two instances that are killed and
// paused as in TestTwoInstancesKilledAndPaused. Every window of one aggregation stays open, and is compared with a truth file
// that other programs made; those of another one close, late readings and results are compared with the oracle's. Without
// the data sets it says so and proves nothing.
func TestRealDataWhileInstancesAreKilled(t *testing.T) {
	dir, found := oracle.DataDir(filepath.Join("..", ".."))
	if !found {
		t.Logf("data sets are not there (%s): not run", dir)
		return
	}
	lines, err := oracle.ReadLines(filepath.Join(dir, "nab.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	truth, err := oracle.ReadTruth(filepath.Join(dir, "nab.truth.csv"))
	if err != nil {
		t.Fatal(err)
	}
	kills, seed := killsWanted(t, 4), randomSeed(t)
	t.Logf("seed %d", seed)
	pauses := max(3, kills*3/8)
	storm := &storm{random: rand.New(rand.NewPCG(seed, 3)),
		crew: newCrew(t, 3*time.Minute+time.Duration(kills)*12*time.Second+time.Duration(pauses)*30*time.Second, 4, realJob(lines[0]))}
	// Slowly enough to last: what is left at the end of the kills follows as fast as it goes.
	flow, err := storm.jobs[0].StartFlow(proof.Lines(lines), max(50, len(lines)/(kills*12+pauses*30)))
	storm.must(err)
	storm.rage(kills, pauses)
	storm.lines, err = flow.FinishWhole(context.WithoutCancel(storm.ctx))
	storm.must(err)
	if storm.lines != len(lines) {
		t.Fatalf("%d of %d readings were produced", storm.lines, len(lines))
	}
	sight := storm.prove(storm.jobs...)
	if err := sight.AgainstTruth("hourly", truth); err != nil {
		t.Error(err)
	}
	storm.onlyOwners()
	if len(sight.Results) == 0 || len(sight.Late) == 0 {
		t.Error("the run proves little: no results, or no late readings")
	}
	t.Logf("%s; %d windows equal to the truth file, %d results and %d late readings equal to the oracle's", &storm.tally, len(truth),
		len(sight.Results), len(sight.Late))
	if storm.torn == 0 || storm.takeovers == 0 || storm.zombies == 0 {
		t.Error("not every fault has happened: there must be kills in open transactions, takeovers and zombies")
	}
}

// realJob makes the job of a data set: windows of one hour that never close, for no reading is late by 1,000,000 hours, and
// the same that close after an hour.
func realJob(first []byte) func(int, *proof.Job) {
	return func(_ int, job *proof.Job) {
		c := oracle.Defaults()
		c.Key, c.Values = []string{"device", "metric"}, []string{"value"}
		c.Time = oracle.TimeField{Name: "ts", Unit: oracle.TimeUnit(first)}
		c.Partitions = job.Oracle.Partitions
		hour, functions := time.Hour.Milliseconds(), []string{"count", "sum", "min", "max", "mean"}
		c.Aggregations = []oracle.Aggregation{
			{Name: "hourly", Size: hour, Grace: 1_000_000 * hour, Functions: functions},
			{Name: "closing", Size: hour, Grace: hour, Functions: functions},
		}
		job.Oracle = c
	}
}
