package sim

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// campaign is what a run of many scenarios has come to so far.
type campaign struct {
	tally
	seed      uint64
	source    string // the commit under test, when the run began
	scenarios int
	began     time.Time
	computing time.Duration // processor time at the beginning
	told      time.Time
	anomalies []string
}

const tellEvery = 30 * time.Second

func newCampaign(seed uint64) *campaign {
	return &campaign{tally: newTally(), seed: seed, source: source(), began: time.Now(), computing: computed(), told: time.Now()}
}

// tell says now and then how far a long run is.
func (c *campaign) tell() {
	if time.Since(c.told) < tellEvery {
		return
	}
	c.told = time.Now()
	fmt.Fprintf(os.Stderr, "sim: %v: %d scenarios, %d crashes, %.0f a minute of one core\n", time.Since(c.began).Round(time.Second), c.scenarios,
		c.crashes, c.perMinute(c.crashes))
}

// perMinute is a number by the minutes of one core that it has taken.
func (c *campaign) perMinute(n int) float64 { return float64(n) / (computed() - c.computing).Minutes() }

// report adds the run to a file for people, which it begins when there is none.
func (c *campaign) report(t *testing.T, path string) {
	t.Helper()
	var b strings.Builder
	if _, err := os.Stat(path); err != nil {
		b.WriteString("# Simulated crashes\n\nWhole instances on virtual time, hurt as a seed says, and compared with the oracle (`make sim`, internal/proof/sim).\n")
	}
	fmt.Fprintf(&b, "\n## %s: %d crashes, %d anomalies\n\n", c.began.UTC().Format("2006-01-02 15:04 UTC"), c.crashes, len(c.anomalies))
	fmt.Fprintf(&b, "Source %s; seeds %d to %d (`make sim SEED=%d RUNS=1` plays the first one); %d x %s, %s/%s, %s.\n\n```\n", c.source, c.seed,
		c.seed+uint64(c.scenarios)-1, c.seed, runtime.NumCPU(), model(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-20s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("scenarios", "%d in %v, %.0f a minute of one core", c.scenarios, time.Since(c.began).Round(time.Second), c.perMinute(c.scenarios))
	row("crashes", "%d, %d of them power failures, %.0f a minute of one core", c.crashes, c.powers, c.perMinute(c.crashes))
	row("processes", "%d, %d paused, %d stopped as planned; %d hurt at a named point", c.lives, c.pauses, c.stops, c.met)
	row("also failed", "%d requests, %d operations of disks", c.injected, c.broken)
	row("recoveries", "%s; %d parts of replays kept", counts(c.recovered), c.kept)
	row("scenarios with", "%s", counts(c.kinds))
	row("anomalies", "%d", len(c.anomalies))
	fmt.Fprintf(&b, "```\n")
	for _, a := range c.anomalies {
		fmt.Fprintf(&b, "\n- %s\n", strings.ReplaceAll(a, "\n", "\n  "))
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(b.String()); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// counts are numbers by name, the largest first.
func counts(by map[string]int) string {
	names := slices.Sorted(maps.Keys(by))
	slices.SortStableFunc(names, func(a, b string) int { return by[b] - by[a] })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", by[name], name)
	}
	return strings.Join(names, ", ")
}

// model is the name of the machine's processor, as far as it says.
func model() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "processor"
}

// TestSimReports: a report names seeds, crashes, recoveries and anomalies, and a second run is added to it.
func TestSimReports(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sim.md")
	c := newCampaign(4711)
	for n := range uint64(3) {
		counted, err := play(t, draw(c.seed+n), &plant{})
		if err != nil {
			t.Fatal(err)
		}
		c.add(&counted)
		c.scenarios++
	}
	c.report(t, path)
	c.anomalies = []string{"scenario 4713: one\nof two lines"}
	c.report(t, path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Simulated crashes\n", fmt.Sprintf(": %d crashes, 0 anomalies\n", c.crashes), "seeds 4711 to 4713", counts(c.recovered),
		"- scenario 4713: one\n", fmt.Sprintf("%d crashes, 1 anomalies", c.crashes)} {
		if !strings.Contains(strings.ReplaceAll(string(text), "  ", " "), strings.ReplaceAll(want, "  ", " ")) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(string(text), "# Simulated"); n != 1 {
		t.Errorf("%d titles", n)
	}
}
