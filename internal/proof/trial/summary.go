package trial

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// Summary is what a trial has done and found.
type Summary struct {
	Seed      uint64
	Kills     int            // SIGKILLs in all
	Useful    int            // of these, the ones that hit a process in the middle of something, with readings waiting
	Points    map[string]int // useful kills at a named point
	Random    int            // useful kills at a random time
	Early     int            // kills before the first commit of a start, at no point
	Idle      int            // kills when nothing was waiting
	Missed    int            // points that were not reached in time; the process was killed at that moment
	Failures  int            // steps made to fail before a kill
	Wiped     int            // starts without local state
	Damaged   int            // checkpoints damaged
	Aside     int            // of these, the ones that a recovery set aside
	Moves     int            // partitions moved to a second instance
	Zombies   int            // owners that woke in the middle of a commit after another had taken over
	Resets    int
	Silences  int // that moved stream time
	Chapters  int
	Rounds    int // comparisons with the oracle
	Readings  int64
	Results   int
	Windows   int // open ones that were compared
	Late      int
	Dead      int
	Anomalies []Found

	Recoveries map[string]int // by where they began
	times      []time.Duration
	Median     time.Duration // of a recovery
	Slowest    time.Duration
	Took       time.Duration
}

// Found is one anomaly with the way to see it again.
type Found struct {
	proof.Anomaly
	Chapter int
	Seed    uint64   // of the chapter
	After   []string // what was done since the last comparison that found nothing
	Strikes []Strike // the same, to be done again; or fewer, after which it was found once more
	Shown   bool     // it was found once more
	Kills   int      // before it was found, in this trial
	Dir     string   // what the chapter left, with the logs
}

// The anomalies that a comparison with the oracle does not show.
const (
	// Stopped: a process ended by itself, or did not end as it should have.
	Stopped proof.Kind = "stopped"
	// Distrusted: a recovery did not believe a checkpoint that nobody had damaged.
	Distrusted proof.Kind = "checkpoint distrusted"
	// Contradiction: a task found that its own state, or the log, contradicts itself.
	Contradiction proof.Kind = "contradiction"
	// Credulous: something was accepted that must be refused.
	Credulous proof.Kind = "credulous"
)

func (s *Summary) clone() Summary {
	c := *s
	c.Points, c.Recoveries = maps.Clone(s.Points), maps.Clone(s.Recoveries)
	c.Anomalies, c.times = slices.Clone(s.Anomalies), slices.Clone(s.times)
	return c
}

func (s *Summary) finish(took time.Duration) {
	s.Took = took
	slices.Sort(s.times)
	if n := len(s.times); n > 0 {
		s.Median, s.Slowest = s.times[n/2], s.times[n-1]
	}
}

// Report is the summary in lines.
func (s *Summary) Report() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("seed                 %d", s.Seed)
	line("kills                %d, useful %d: %d at %d named points, %d at random times", s.Kills, s.Useful, s.Useful-s.Random, len(s.Points), s.Random)
	line("                     not counted: %d early, %d with nothing waiting", s.Early, s.Idle)
	line("also done            %d steps made to fail, %d starts without local state, %d checkpoints damaged (%d set aside by recoveries),",
		s.Failures, s.Wiped, s.Damaged, s.Aside)
	line("                     %d moves to a second instance, %d owners that woke after a takeover, %d resets", s.Moves, s.Zombies, s.Resets)
	if s.Silences > 0 {
		line("                     %d silences that moved stream time", s.Silences)
	}
	line("compared             %d times: %d readings, %d results, %d open windows, %d late readings, %d dead letters",
		s.Rounds, s.Readings, s.Results, s.Windows, s.Late, s.Dead)
	var paths []string
	for _, from := range slices.Sorted(maps.Keys(s.Recoveries)) {
		paths = append(paths, fmt.Sprintf("%d from %s", s.Recoveries[from], from))
	}
	line("recoveries of tasks  %s", strings.Join(paths, ", "))
	line("                     median %d ms, slowest %d ms", s.Median.Milliseconds(), s.Slowest.Milliseconds())
	line("time                 %s", s.Took.Round(100*time.Millisecond))
	line("anomalies            %d", len(s.Anomalies))
	return b.String()
}

// PerPoint lists the useful kills at each named point, most first.
func (s *Summary) PerPoint() string {
	names := slices.SortedFunc(maps.Keys(s.Points), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Points[b], s.Points[a]), cmp.Compare(a, b))
	})
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%6d %s\n", s.Points[name], name)
	}
	return b.String()
}
