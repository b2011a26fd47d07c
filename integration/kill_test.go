package integration_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
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
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Duration(useful)*15*time.Second)
	defer cancel()
	seed := seed(t)
	job := newJob(t, proof.FleetConfig(4))
	if seed%2 == 1 { // small commits: windows that fall due together are written in slices
		job.MaxRecords = 50
		if err := job.WriteConfig(); err != nil {
			t.Fatal(err)
		}
	}
	reader := startBroker(ctx, t, job)
	fleet := proof.NewFleet(seed, 300)
	loop := proof.KillLoop{Job: job, Reader: reader, Feed: fleet.Next, Rate: 2000, Seed: seed, Useful: useful, Wipe: true, Log: t.Logf}
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
	if lag, err := job.Lag(ctx, reader); err != nil || lag != 0 {
		t.Errorf("lag %d of an idle job, error %v", lag, err)
	}
	t.Logf("%v; %d results, %d open windows, %d late, %d dead letters equal to the oracle's",
		kills, len(sight.Results), len(sight.State), len(sight.Late), len(sight.Dead))
}
