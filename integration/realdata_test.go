package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// TestRealData runs the real binary over data sets of real sensors and compares every window of its state, bit for bit,
// with truth files that other programs made: once undisturbed, once killed again and again while readings flow, with
// checkpoints every second and with local state deleted. TIDEMARK_REALDATA=all takes every set (make realdata).
func TestRealData(t *testing.T) {
	dir, found := oracle.DataDir("..")
	if !found {
		fmt.Printf("data sets are not there (%s): not run are %v, each undisturbed and with kills\n", dir, oracle.RealSets)
		return
	}
	sets, err := oracle.Sets(dir, os.Getenv("TIDEMARK_REALDATA") == "all")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets {
		t.Run(set.Name, func(t *testing.T) { realData(t, set) })
	}
}

// day is a whole set on its way through tidemark.
type day struct {
	set    oracle.Set
	lines  [][]byte
	truth  []oracle.Truth
	job    *proof.Job
	reader *oracle.Reader
}

func realData(t *testing.T, set oracle.Set) {
	lines, err := oracle.ReadLines(set.Lines)
	if err != nil {
		t.Fatal(err)
	}
	truth, err := oracle.ReadTruth(set.Truth)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("undisturbed", func(t *testing.T) {
		t.Parallel()
		ctx, d := newDay(t, set, lines, truth)
		if n, err := d.job.Produce(ctx, proof.Lines(lines)); err != nil || n != len(lines) {
			t.Fatalf("produced %d of %d lines: %v", n, len(lines), err)
		}
		d.settle(ctx, t)
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		ctx, d := newDay(t, set, lines, truth)
		loop := proof.KillLoop{Job: d.job, Reader: d.reader, Feed: proof.Lines(lines), Rate: max(100, len(lines)/30), Seed: seed(t),
			Useful: 3, Whole: true, Wipe: true, Log: t.Logf}
		kills, err := loop.Run(ctx)
		if err != nil {
			t.Fatalf("%v: %v", kills, err)
		}
		t.Log(kills)
		d.settle(ctx, t)
	})
}

// newDay makes a job for a set: windows of one hour that never close, for no reading is late by 1,000,000 hours.
func newDay(t *testing.T, set oracle.Set, lines [][]byte, truth []oracle.Truth) (context.Context, *day) {
	config := oracle.Defaults()
	config.Key, config.Values = []string{"device", "metric"}, []string{"value"}
	config.Time = oracle.TimeField{Name: "ts", Unit: oracle.TimeUnit(lines[0])}
	config.Partitions = 4
	config.Aggregations = []oracle.Aggregation{{Name: "hourly", Size: time.Hour.Milliseconds(), Grace: 1_000_000 * time.Hour.Milliseconds(),
		Functions: []string{"count", "sum", "min", "max", "mean"}}}
	d := &day{set: set, lines: lines, truth: truth, job: newJob(t, config)}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	d.reader = startBroker(ctx, t, d.job)
	return ctx, d
}

// settle lets the job come to rest and compares it with the oracle, then its state with the truth.
func (d *day) settle(ctx context.Context, t *testing.T) {
	if err := d.job.RunUntilIdle(ctx, "until-idle"); err != nil {
		t.Fatal(err)
	}
	want, err := d.job.Expect(ctx, d.reader)
	if err != nil {
		t.Fatal(err)
	}
	sight, err := d.job.Prove(ctx, d.reader, want)
	if err != nil {
		t.Fatal(err)
	}
	d.compare(t, sight)
}

// compare holds the state dump against the truth file without the oracle's model in between. Means of a truth file are
// rounded twice, tidemark's once: they are compared with both, and those that differ are counted.
func (d *day) compare(t *testing.T, sight *proof.Sight) {
	state := map[string]*proof.Line{}
	for i := range sight.State {
		state[sight.State[i].ID()] = &sight.State[i]
	}
	if len(state) != len(d.truth) {
		t.Errorf("%d windows, the truth has %d", len(state), len(d.truth))
	}
	readings, twice, wrong := int64(0), 0, 0
	for _, want := range d.truth {
		readings += want.Count
		got := state[oracle.WindowID("hourly", want.Key, want.Start)]
		switch {
		case got == nil || number(got, "count") != float64(want.Count) || !oracle.SameBits(number(got, "min"), want.Min) ||
			!oracle.SameBits(number(got, "max"), want.Max) || !oracle.SameBits(number(got, "sum"), want.Sum):
			if wrong++; wrong <= 5 {
				t.Errorf("%+v\nis in the state %+v", want, got)
			}
		case !oracle.SameBits(number(got, "mean"), want.SumByCount):
			twice++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d windows are wrong", wrong, len(d.truth))
	}
	if dead := int64(len(d.lines)) - readings; int64(len(sight.Dead)) != dead || len(sight.Late) != 0 {
		t.Errorf("%d dead letters and %d late, want %d and none", len(sight.Dead), len(sight.Late), dead)
	}
	for _, o := range sight.Dead {
		if want := map[bool]string{true: "null_field", false: "wrong_type"}[bytes.Contains(o.Value, []byte(`"value": null`))]; o.Reason != want {
			t.Fatalf("dead letter with reason %q, want %q: %s", o.Reason, want, o.Value)
		}
	}
	t.Logf("%d readings, %d windows equal to the truth, %d dead letters; %d means are nearer to the exact mean than the truth's",
		readings, len(d.truth), len(sight.Dead), twice)
}

// number is a number of a line, NaN when there is none.
func number(l *proof.Line, name string) float64 {
	x, err := strconv.ParseFloat(l.Numbers[name].Text, 64)
	if err != nil {
		x, _ = strconv.ParseFloat("NaN", 64)
	}
	return x
}

// newJob makes a job in a directory of its own, whose logs are shown when the test fails.
func newJob(t *testing.T, config oracle.Config) *proof.Job {
	job := &proof.Job{Binary: binary(t), Dir: t.TempDir(), Name: "job", Oracle: config, Checkpoint: time.Second}
	if err := job.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	return job
}

// startBroker starts the job's embedded broker and returns a reader; both end with the test.
func startBroker(ctx context.Context, t *testing.T, job *proof.Job) *oracle.Reader {
	_, reader := brokerAt(ctx, t, job)
	return reader
}

// brokerAt is startBroker for those who write to it themselves.
func brokerAt(ctx context.Context, t *testing.T, job *proof.Job) (address string, _ *oracle.Reader) {
	address, stop, err := job.StartBroker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	reader, err := oracle.NewReader(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reader.Close)
	return address, reader
}

// binary is the path of tidemark: TIDEMARK_BIN, or bin/tidemark built from this source.
func binary(t *testing.T) string {
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("TIDEMARK_BIN"); path != "" {
		return filepath.Abs(path)
	}
	path, err := filepath.Abs(filepath.Join("..", "bin", "tidemark"))
	if err != nil {
		return "", err
	}
	if said, err := exec.Command("go", "build", "-o", path, "../cmd/tidemark").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, said)
	}
	return path, nil
})

// seed is TIDEMARK_SEED, or a new one; a failure tells how to use it again.
func seed(t *testing.T) uint64 {
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("TIDEMARK_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: TIDEMARK_SEED=%d go test -count=1 -run '^%s$' ./integration", n, t.Name())
		}
	})
	return n
}
