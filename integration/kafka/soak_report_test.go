package kafka

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
)

// summary is the soak in one line.
func (s *soak) summary() string {
	faults := 0
	for _, n := range s.faults {
		faults += n
	}
	recoveries := 0
	for _, n := range s.recovered {
		recoveries += n
	}
	slices.Sort(s.back)
	return fmt.Sprintf("%v, %d faults (%d in an open transaction), %d recoveries, %d readings; %d results, %d open windows, %d late, %d dead "+
		"letters equal to the oracle's; at work again after %v (median), %v (longest)", s.took.Round(time.Second), faults, s.torn, recoveries,
		s.lines, len(s.sight.Results), len(s.sight.State), len(s.sight.Late), len(s.sight.Dead), s.back[len(s.back)/2].Round(time.Millisecond),
		s.back[len(s.back)-1].Round(time.Millisecond))
}

// write writes the report to TIDEMARK_SOAK_REPORT, or to docs/reports.
func (s *soak) write(seed uint64) {
	name := cmp.Or(os.Getenv("TIDEMARK_SOAK_REPORT"),
		filepath.Join("..", "..", "docs", "reports", fmt.Sprintf("soak-%s-%dm.md", s.began.Format("2006-01-02"), int(s.took.Minutes()))))
	s.must(os.MkdirAll(filepath.Dir(name), 0o755))
	s.must(os.WriteFile(name, s.report(seed), 0o644))
	s.t.Log("report: ", name)
}

func (s *soak) report(seed uint64) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	verdict := "0 anomalies"
	if s.t.Failed() {
		verdict = "FAILED: see the output of the run"
	}
	line("# Soak of %v on Apache Kafka %s: %s\n", s.took.Round(time.Minute), kafkarun.Version, verdict)
	line("%s, begun %s UTC. `make soak MINUTES=%d SEED=%d RATE=%d`, source %s.\n", machine(), s.began.UTC().Format("2006-01-02 15:04"),
		int(s.took.Minutes()), seed, s.rate, source())
	line("%d instances of one job with %d partitions, one broker; %d readings/s. The faults follow each other after 2 to 10 s; after each, every", soakInstances,
		soakPartitions, s.rate)
	line("partition was at work again and the input caught up with. The changelog was compacted all the time (segments of 30 s), its")
	line("tombstones removed after 5 minutes.\n")
	line("%s. The changelog was verified from its start.\n", s.summary())
	line("| fault | times |\n|---|--:|")
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		line("| %s | %d |", name, s.faults[name])
	}
	line("\n| recovered from | times |\n|---|--:|")
	for _, name := range slices.Sorted(maps.Keys(s.recovered)) {
		line("| %s | %d |", name, s.recovered[name])
	}
	line("\n%d checkpoints were set aside. The first instance was paused and fenced like the others, but never killed. Medians of what it", s.aside)
	line("took, by quarters of the run:\n")
	line("| quarter | samples | resident memory | open files | goroutines | state directory |\n|---|--:|--:|--:|--:|--:|")
	for q := range 4 {
		m, n := s.samples.part(float64(q)/4, float64(q+1)/4)
		line("| %d | %d | %.1f MiB | %d | %d | %.1f KiB |", q+1, n, float64(m.memory)/(1<<20), m.files, m.goroutines, float64(m.disk)/(1<<10))
	}
	return b.Bytes()
}

// machine says what the run was on.
func machine() string {
	model := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte(runtime.GOOS)
	}
	return fmt.Sprintf("%d x %s, Linux %s, %s", runtime.NumCPU(), model, strings.TrimSpace(string(kernel)), runtime.Version())
}

// source is the commit that was tested.
func source() string {
	text, err := exec.Command("git", "describe", "--tags", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
}
