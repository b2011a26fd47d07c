package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/config"
)

// summary is what a run until idle says at its end: what became of what was read. Of dead letters it says why there are any and
// how they are looked at, for a run that has refused everything ends well too.
type summary struct {
	job, input string
	read       int64

	accepted, dead, filtered, skipped, duplicates, late, results int64

	reason string // of most dead letters
	topic  string // where they are
	show   string // the command that prints them
}

// summarize takes the figures of a process that has ended.
func summarize(part *config.Job, path string, s *tidemark.Status) *summary {
	r := &s.Totals.Readings
	sum := &summary{job: part.Name, input: part.Input.Topic, read: r.In, accepted: r.Accepted, dead: r.DeadLettered, filtered: r.Filtered, skipped: r.Skipped,
		duplicates: r.Duplicates, topic: part.DeadLetter}
	for i := range s.Totals.Aggregations {
		a := &s.Totals.Aggregations[i]
		sum.late, sum.results = sum.late+a.Late, sum.results+a.Results
	}
	most := int64(0)
	for _, l := range s.Totals.DeadLetters {
		if l.Letters > most {
			most, sum.reason = l.Letters, l.Reason
		}
	}
	sum.show = fmt.Sprintf("tidemark consume -c %s --topic %s --until-end --meta", path, sum.topic)
	return sum
}

// String is the summary in one line.
func (s *summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s read", s.job, counted(s.read, "reading"))
	if s.read == 0 {
		fmt.Fprintf(&b, " (nothing new in %s)", s.input)
	}
	fmt.Fprintf(&b, ", %d accepted, %d dead-lettered", s.accepted, s.dead)
	if s.dead > 0 {
		fmt.Fprintf(&b, " (most for %s)", s.reason)
	}
	for _, rare := range []struct {
		n    int64
		what string
	}{{s.filtered, "filtered"}, {s.skipped, "skipped"}, {s.duplicates, "repeated"}} {
		if rare.n > 0 {
			fmt.Fprintf(&b, ", %d %s", rare.n, rare.what)
		}
	}
	fmt.Fprintf(&b, ", %d late; %s", s.late, counted(s.results, "result"))
	if s.dead > 0 {
		fmt.Fprintf(&b, "; the dead letters in %s say why: %s", s.topic, s.show)
	}
	return b.String()
}

// log writes the same as an object.
func (s *summary) log(log *slog.Logger) {
	args := []any{"read", s.read, "accepted", s.accepted, "dead_lettered", s.dead, "filtered", s.filtered, "skipped", s.skipped,
		"duplicates", s.duplicates, "late", s.late, "results", s.results}
	if s.dead > 0 {
		args = append(args, "top_reason", s.reason, "dead_letters", s.topic, "show", s.show)
	}
	log.Info("idle", args...)
}
