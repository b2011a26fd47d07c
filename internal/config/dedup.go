package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// dedup asks for what makes a reading a repetition of another, and how long that is remembered.
func (d *decoder) dedup(root *section, j *Job) {
	s := root.section("dedup", "{by: [key, time]}")
	s.off = s.off || !s.present()
	by, at := list(s, "by", "[key, time], or a list of one field", "write  by: [key, time]  or name the field of a sequence number, as  by: [seq]", anyText)
	byTime := len(by) == 2 && slices.Contains(by, "key") && slices.Contains(by, "time")
	switch {
	case s.off || len(by) == 0 || byTime:
	case len(by) > 1 || by[0] == "key" || by[0] == "time":
		d.add(at[0], "dedup.by", wrongf("%q: want [key, time], or a list of one field", by))
	case j.Input.Rekey.On:
		d.add(at[0], "dedup.by", wrongf("%q: rekey hands on no sequence numbers", by).hinted("want [key, time]"))
	default:
		j.Input.Format.Sequence = &reading.Part{Path: by[0]}
		if err := j.Input.Format.Check(); err != nil && len(d.faults) == 0 {
			d.add(at[0], "dedup.by", wrongf("%v", err))
		}
	}
	open := j.longestOpen()
	within, withinAt := get(s, "within", "auto", dedupWithin)
	s.close()
	if s.off {
		return
	}
	j.Dedup = within
	if within == 0 {
		j.Dedup = min(open, window.Graces.Max)
	} else if within < open {
		d.warn(withinAt, "dedup.within", "%s: windows stay open for %s, and a repetition that comes later than %s is folded again", window.Format(within),
			window.Format(open), window.Format(within))
	}
}

// dedupWithin is a duration, or auto.
var dedupWithin = func() spec[int64] {
	sp := duration(window.Sizes)
	timed := sp.parse
	sp.want += ", or auto: as long as a window takes readings"
	sp.parse = func(text string) (int64, *wrong) {
		if text == "auto" {
			return 0, nil
		}
		return timed(text)
	}
	return sp
}()

// longestOpen is how far behind stream time a reading may be that some window still takes.
func (j *Job) longestOpen() (longest int64) {
	for _, a := range j.Aggregations {
		open := a.Grace + j.Input.MaxLag
		switch w := a.Window.(type) {
		case window.Tumbling:
			open += w.Size
		case window.Hopping:
			open += w.Size
		case window.Session:
			open += 2 * w.Gap
		case window.Calendar:
			open += w.Longest()
		}
		longest = max(longest, open)
	}
	return longest
}

// maxBad is a number of readings in a while, or off.
var maxBad = spec[job.MaxBad]{kind: kindText, want: "READINGS/DURATION, as 1000/1m, or off", parse: func(text string) (job.MaxBad, *wrong) {
	if text == "off" {
		return job.MaxBad{}, nil
	}
	count, per, ok := strings.Cut(text, "/")
	n, err := strconv.ParseInt(count, 10, 64)
	if !ok || err != nil || n < 1 || strconv.FormatInt(n, 10) != count {
		return job.MaxBad{}, wrongf("%s: want READINGS/DURATION, as 1000/1m, or off", shown(text))
	}
	ms, w := duration(window.Sizes).parse(per)
	return job.MaxBad{Readings: n, Per: ms}, w
}}
