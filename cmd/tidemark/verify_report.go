package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/proof/trial"
)

// errAnomalies ends a trial that has found something.
var errAnomalies = errors.New("not equal: what the job published differs from what an uninterrupted run would have")

// verifyJSON is the summary of a trial, for scripts.
type verifyJSON struct {
	Kills      int            `json:"kills"`
	Useful     int            `json:"useful_kills"`
	Points     map[string]int `json:"points"` // useful kills at each
	Random     int            `json:"random_kills"`
	Anomalies  int            `json:"anomalies"`
	Found      []foundJSON    `json:"found,omitempty"`
	Seed       uint64         `json:"seed"`
	Failures   int            `json:"injected_failures"`
	Wiped      int            `json:"local_state_deleted"`
	Damaged    int            `json:"checkpoints_damaged"`
	Moves      int            `json:"moves"`
	Zombies    int            `json:"zombies"`
	Rounds     int            `json:"comparisons"`
	Readings   int64          `json:"readings"`
	Results    int            `json:"results"`
	Windows    int            `json:"open_windows"`
	Recoveries map[string]int `json:"recoveries"`
	Median     int64          `json:"recovery_median_ms"`
	Slowest    int64          `json:"recovery_slowest_ms"`
	Seconds    float64        `json:"seconds"`
}

// foundJSON is one anomaly.
type foundJSON struct {
	Kind  string   `json:"kind"`
	What  string   `json:"what"`
	Kills int      `json:"after_kills"`
	After []string `json:"after"`
	Again string   `json:"again"` // the command
	Shown bool     `json:"shown"` // with which it was found once more; the shortest one then
	Dir   string   `json:"dir"`
}

// verdict says what a trial has found: exit code 1 when there is anything.
func (e *env) verdict(ctx context.Context, o *verifyOptions, v *verification, s *trial.Summary, failed error) error {
	if failed != nil && s.Kills == 0 {
		return nil // told by its error
	}
	var err error
	if o.json {
		err = json.NewEncoder(e.out).Encode(e.figures(o, s))
	} else {
		err = e.tellVerdict(o, s)
	}
	if o.report != "" {
		err = errors.Join(err, os.WriteFile(o.report, []byte(e.markdown(o, v, s)), 0o644))
	}
	switch {
	case err != nil:
		return fmt.Errorf("write the summary: %w", err)
	case len(s.Anomalies) > 0:
		return errAnomalies
	case ctx.Err() != nil:
		return errInterrupted
	}
	return nil
}

func (e *env) figures(o *verifyOptions, s *trial.Summary) *verifyJSON {
	j := &verifyJSON{Kills: s.Kills, Useful: s.Useful, Points: s.Points, Random: s.Random, Anomalies: len(s.Anomalies), Seed: s.Seed,
		Failures: s.Failures, Wiped: s.Wiped, Damaged: s.Damaged, Moves: s.Moves, Zombies: s.Zombies, Rounds: s.Rounds,
		Readings: s.Readings, Results: s.Results, Windows: s.Windows, Recoveries: s.Recoveries, Median: s.Median.Milliseconds(),
		Slowest: s.Slowest.Milliseconds(), Seconds: s.Took.Seconds()}
	for _, f := range s.Anomalies[:min(len(s.Anomalies), mostFound)] {
		j.Found = append(j.Found, foundJSON{Kind: string(f.Kind), What: f.String(), Kills: f.Kills, After: f.After, Again: again(o, &f), Shown: f.Shown, Dir: f.Dir})
	}
	return j
}

// mostFound is how many anomalies are told one by one.
const mostFound = 20

// again is the shortest command that does once more what came before an anomaly, to as many jobs as it takes.
func again(o *verifyOptions, f *trial.Found) string {
	return fmt.Sprintf("%s verify -c %s --seed %d --strikes %s%s", os.Args[0], o.config, f.Seed-1, trial.StrikesText(f.Strikes), o.more)
}

// shown says what the command is worth.
func shown(f *trial.Found) string {
	if f.Shown {
		return "tried: it shows an anomaly again, and the shortest list found that does"
	}
	return "tried: it did not show an anomaly again in a few jobs; it does so to new ones until --kills is reached"
}

// tellVerdict says it to people.
func (e *env) tellVerdict(o *verifyOptions, s *trial.Summary) error {
	for i, f := range s.Anomalies {
		if i == mostFound {
			fmt.Fprintf(e.out, "... and %d more\n\n", len(s.Anomalies)-i)
			break
		}
		fmt.Fprintf(e.out, "ANOMALY after %d kills: %s\n", f.Kills, f)
		if i == 0 {
			fmt.Fprintf(e.out, "  after       %s\n  once more   %s\n  %-11s %s\n  logs        %s\n", cmp.Or(strings.Join(f.After, "; "), "nothing"), again(o, &f),
				"", shown(&f), f.Dir)
		}
	}
	_, err := fmt.Fprint(e.out, s.Report())
	if err == nil && len(s.Points) > 0 {
		_, err = fmt.Fprintf(e.out, "kills per point\n%s", s.PerPoint())
	}
	return err
}

// markdown is the report of a campaign.
func (e *env) markdown(o *verifyOptions, v *verification, s *trial.Summary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Kills: %d useful ones, %d anomalies\n\n", s.Useful, len(s.Anomalies))
	where := "the job's brokers"
	if v.embedded {
		where = "the embedded broker"
	} else if strings.HasPrefix(v.brokers[0], "127.") {
		where = "a broker on this machine"
	}
	fmt.Fprintf(&b, "`tidemark verify --seed %d --kills %d --parallel %d`, version %s, on %s; %s.\n%s/%s, %d processors%s.\n\n```\n%s```\n\n",
		s.Seed, o.kills, o.parallel, programVersion(), where, v.readings, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor(), s.Report())
	fmt.Fprintf(&b, "## Useful kills per point\n\n```\n%s```\n", s.PerPoint())
	for _, f := range s.Anomalies {
		fmt.Fprintf(&b, "\n- %s\n", f)
	}
	return b.String()
}

// processor names the machine's processor, as far as it says.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return ", " + strings.TrimSpace(model)
		}
	}
	return ""
}
