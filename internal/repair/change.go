package repair

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// Change is what a repair does, or would do, to one task. Its JSON form is stable.
type Change struct {
	Partition int32     `json:"partition"`
	Repair    Kind      `json:"repair"`
	From      *Standing `json:"from"` // null when the changelog holds no commit record
	To        *Standing `json:"to"`
	Warnings  []string  `json:"warnings,omitempty"`
	Nothing   bool      `json:"nothing"` // there is nothing to do
	Done      bool      `json:"done"`
	Note      string    `json:"note,omitempty"` // as written into the commit record

	committed *record.Commit
	forgotten []doomed // clocks of keys
}

// Committed is the commit record that was written; nil until Done.
func (c *Change) Committed() *record.Commit { return c.committed }

// Standing is where a task stands by its commit record.
type Standing struct {
	Birth      string       `json:"birth"` // "" for one that is not made yet
	Commit     uint64       `json:"commit"`
	Input      int64        `json:"input_position"`
	Skipped    record.Count `json:"skipped"`
	StreamTime *int64       `json:"stream_time"` // ms; null before the first reading
	ClosedEnds []ClosedEnd  `json:"closed_ends"`
	Live       record.Count `json:"live_entries"`
	Digest     string       `json:"digest"`
}

// ClosedEnd is up to where the windows of one aggregation are closed.
type ClosedEnd struct {
	Aggregation string `json:"agg"`
	End         *int64 `json:"end"` // ms; null before the first reading
}

func standing(c *record.Commit) *Standing {
	s := &Standing{Birth: c.Birth.String(), Commit: c.Number, Input: int64(c.Position), Skipped: c.Counters.Skipped,
		StreamTime: known(c.StreamTime), ClosedEnds: []ClosedEnd{}, Live: c.Live, Digest: c.Digest.String()}
	for i := range c.Aggregations {
		a := &c.Aggregations[i]
		s.ClosedEnds = append(s.ClosedEnds, ClosedEnd{a.Name, known(a.ClosedEnd)})
	}
	slices.SortFunc(s.ClosedEnds, func(a, b ClosedEnd) int { return cmp.Compare(a.Aggregation, b.Aggregation) })
	return s
}

// known makes a time that may be none.
func known(t int64) *int64 {
	if t == record.NoTime {
		return nil
	}
	return &t
}

// done takes what was committed.
func (c *Change) done(committed *record.Commit) {
	c.Done, c.Note, c.To, c.committed = true, committed.Note, standing(committed), committed
}

func (c *Change) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// Difference is one fact that a repair changes, in words.
type Difference struct{ What, From, To string }

// Differences lists what the repair changes.
func (c *Change) Differences() []Difference {
	var list []Difference
	was, is := c.From.facts(), c.To.facts()
	for _, f := range is {
		from := "none"
		if at := slices.IndexFunc(was, func(o Difference) bool { return o.What == f.What }); at >= 0 {
			from = was[at].To
		}
		if from != f.To {
			list = append(list, Difference{f.What, from, f.To})
		}
	}
	return list
}

// facts are all facts of a standing, each as To.
func (s *Standing) facts() []Difference {
	if s == nil {
		return nil
	}
	list := []Difference{
		{What: "birth", To: cmp.Or(s.Birth, "a new one")},
		{What: "commit", To: strconv.FormatUint(s.Commit, 10)},
		{What: "input position", To: strconv.FormatInt(s.Input, 10)},
		{What: "skipped", To: strconv.FormatInt(int64(s.Skipped), 10)},
		{What: "stream time", To: momentOf(s.StreamTime)},
	}
	for _, end := range s.ClosedEnds {
		list = append(list, Difference{What: "closed end of " + end.Aggregation, To: momentOf(end.End)})
	}
	return append(list, Difference{What: "live entries", To: strconv.FormatInt(int64(s.Live), 10)}, Difference{What: "digest", To: s.Digest})
}

func momentOf(t *int64) string {
	if t == nil {
		return "none"
	}
	return moment(*t)
}

// moment is a time for people, with the number that it is.
func moment(t int64) string {
	if t == record.NoTime {
		return "none"
	}
	return fmt.Sprintf("%s (%d)", time.UnixMilli(t).UTC().Format("2006-01-02T15:04:05.000Z"), t)
}
