package sim

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedFlag = flag.Uint64("sim.seed", 0, "seed of the first scenario; 0 is a new one")
	runsFlag = flag.Int("sim.runs", 0, "so many scenarios; 0: as many as there is time for")
	timeFlag = flag.Duration("sim.time", 3*time.Second, "how long scenarios are drawn, without sim.runs")
	fileFlag = flag.String("sim.report", os.Getenv("TIDEMARK_REPORT"), "file that a report of the run is added to")
	logFlag  = flag.Bool("sim.log", false, "print the log of the instances")
)

// play tells one scenario in a bubble of its own.
func play(t *testing.T, s *scenario, p *plant) (tally, error) {
	t.Helper()
	dir, err := scratch(s.Seed)
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	out := io.Discard
	if *logFlag {
		out = os.Stderr
	}
	var w *world
	synctest.Test(t, func(*testing.T) {
		w = newWorld(s, p, dir, slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo})))
		err = w.run()
	})
	return w.tally, err
}

// TestSim tells fresh scenarios. It prints the seed, and of a scenario that fails the smallest one that does, to be kept in
// testdata/kept, and the command that replays it.
func TestSim(t *testing.T) {
	// One at a time, so that the order of goroutines hardly depends on anything but the scenario.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // what a scenario leaves goes with it
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) >> 10 << 10
	}
	all := newCampaign(seed)
	fmt.Fprintf(os.Stderr, "sim: source %s, seed %d; again: make sim SEED=%d RUNS=%d\n", all.source, seed, seed, *runsFlag)
	for *runsFlag > 0 && all.scenarios < *runsFlag || *runsFlag == 0 && time.Since(all.began) < *timeFlag {
		s := draw(seed + uint64(all.scenarios))
		counted, err := play(t, s, &plant{})
		all.add(&counted)
		all.scenarios++
		all.tell()
		if err == nil && *runsFlag == 1 { // a replay
			err = failing(t, s, &plant{}, replays)
		}
		if err != nil {
			t.Errorf("scenario %d: %v\nagain: make sim SEED=%d RUNS=1", s.Seed, err, s.Seed)
			smallest, failure := shrink(t, s, &plant{})
			all.anomalies = append(all.anomalies, fmt.Sprintf("scenario %d: %v\nsmallest:\n%s", s.Seed, err, smallest))
			t.Errorf("smallest: %v\nto keep it: testdata/kept/NAME.json\n%s", failure, smallest)
			break
		}
	}
	t.Logf("%d scenarios from seed %d in %v, %.0f of them and %.0f crashes a minute of one core: %s", all.scenarios, seed,
		time.Since(all.began).Round(time.Millisecond), all.perMinute(all.scenarios), all.perMinute(all.crashes), all)
	if *fileFlag != "" {
		all.report(t, *fileFlag)
	}
	if all.crashes == 0 {
		t.Error("nothing crashed")
	}
	if all.scenarios >= manyScenarios && all.kept == 0 {
		t.Error("no replay has kept a part of what it had (S53)")
	}
	for _, kind := range kinds {
		if all.scenarios >= manyScenarios && all.kinds[kind] == 0 {
			t.Errorf("no scenario with %s", kind)
		}
	}
}

// kinds are all that a scenario may hold, and manyScenarios so many that each is among them.
var kinds = []string{"tumbling", "hopping", "sessions", "calendar", "updates", "current", "quorum", "dedup", "relay", "long replays"}

const manyScenarios = 200

// replays is how often one scenario is tried again when it is the only one asked for.
const replays = 100

// keptTries is how often a scenario that failed once is played.
const keptTries = 5

// TestSimKept plays what has failed before. Each file is a scenario, shrunk; its name says what was wrong.
func TestSimKept(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "kept", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no kept scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := parse(text)
			if err != nil {
				t.Fatal(err)
			}
			if err := failing(t, s, &plant{}, keptTries); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSimShrinks lets a scenario of a planted defect shrink: the smallest one still fails, and is a good deal smaller.
func TestSimShrinks(t *testing.T) {
	p := &plants[slices.IndexFunc(plants, func(p plant) bool { return p.name == "an update left out" })]
	for seed := uint64(1); ; seed++ {
		s := draw(seed)
		if len(s.Waves) < 4 || failing(t, s, p, 1) == nil {
			continue
		}
		smallest, _ := shrink(t, s, p)
		if err := failing(t, smallest, p, 10*shrinkTries); err == nil {
			t.Error("what was left does not fail any more")
		}
		if before, after := len(s.String()), len(smallest.String()); after > before/2 {
			t.Errorf("%d bytes of scenario, still %d after shrinking:\n%s", before, after, smallest)
		}
		return
	}
}

// TestSimDrawsTheSame holds the drawing to its seed, and what is kept to what it was.
func TestSimDrawsTheSame(t *testing.T) {
	for seed := range uint64(50) {
		if a, b := draw(seed), draw(seed).clone(); a.String() != b.String() {
			t.Errorf("seed %d gives %s and %s", seed, a, b)
		}
	}
}

// computed is the processor time that this process has had: on a busy machine the clock says little.
func computed() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// source is the commit under test.
func source() string {
	text, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}

// String is the tally in one line.
func (t *tally) String() string {
	return fmt.Sprintf("%d processes, %d crashes (%d power failures, %d hurts at their point), %d pauses, %d planned stops, %d requests failed, "+
		"%d operations of disks failed, recovered from %v, %d parts kept; scenarios with %v", t.lives, t.crashes, t.powers, t.met, t.pauses, t.stops, t.injected, t.broken, t.recovered, t.kept, t.kinds)
}
