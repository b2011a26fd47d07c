package integration_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// TestKillLoop kills the daemon at random times while a simulated fleet sends readings, late ones and bad ones, and
// windows close all the time; then everything must be as the oracle says, and two more starts must change nothing (W29,
// checks 1 to 5 of ../shared/cases/state.md). TIDEMARK_KILLS is the number of kills that must have hit a process at work.
func TestKillLoop(t *testing.T) {
	useful := 4
	if text := os.Getenv("TIDEMARK_KILLS"); text != "" {
		var err error
		if useful, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	killLoop(t, proof.FleetConfig(4), useful, func(seed uint64) *proof.Fleet { return proof.NewFleet(seed, 300) })
}

// TestKillLoopOfKeys kills a job in which each key has a stream time of its own, over a fleet of which some devices lag
// behind, which the others' time would cut off, and some fall silent for ever, which the lag closes (R35).
func TestKillLoopOfKeys(t *testing.T) {
	c := proof.FleetConfig(4)
	c.MaxLag = 15_000
	killLoop(t, c, 2, func(seed uint64) *proof.Fleet { return proof.NewFleet(seed, 60).Behind(10_000) })
}

func killLoop(t *testing.T, config oracle.Config, useful int, fleet func(seed uint64) *proof.Fleet) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Duration(useful)*15*time.Second)
	defer cancel()
	seed := seed(t)
	job := newJob(t, config)
	if seed%2 == 1 { // small commits: windows that fall due together are written in slices
		job.MaxRecords = 50
		if err := job.WriteConfig(); err != nil {
			t.Fatal(err)
		}
	}
	reader := startBroker(ctx, t, job)
	loop := proof.KillLoop{Job: job, Reader: reader, Feed: fleet(seed).Next, Rate: 2000, Seed: seed, Useful: useful, Wipe: true, Log: t.Logf}
	kills, err := loop.Run(ctx)
	if err != nil {
		t.Fatalf("%v: %v", kills, err)
	}
	if err := job.RunUntilIdle(ctx, "until-idle"); err != nil {
		t.Fatal(err)
	}
	want, err := job.Expect(ctx, reader)
	if err != nil {
		t.Fatal(err)
	}
	sight, err := job.Prove(ctx, reader, want)
	if err != nil {
		t.Fatal(err)
	}
	if len(sight.Results) == 0 || len(sight.State) == 0 || len(sight.Late) == 0 || len(sight.Dead) == 0 {
		t.Errorf("the run proves little: %d results, %d open windows, %d late, %d dead letters",
			len(sight.Results), len(sight.State), len(sight.Late), len(sight.Dead))
	}
	clocks := 0
	for _, o := range want.Outcomes {
		clocks += len(o.Remembered)
	}
	if clocks == 0 && config.MaxLag > 0 {
		t.Error("no key has a clock at the end")
	}
	if lag, err := job.Lag(ctx, reader); err != nil || lag != 0 {
		t.Errorf("lag %d of an idle job, error %v", lag, err)
	}
	t.Logf("%v; %d results, %d open windows, %d clocks of keys, %d late, %d dead letters equal to the oracle's",
		kills, len(sight.Results), len(sight.State), clocks, len(sight.Late), len(sight.Dead))
}
