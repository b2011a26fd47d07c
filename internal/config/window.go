package config

import (
	"slices"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/window"
)

const windowHint = "write  window: {tumbling: 1h},  {hopping: 10s, step: 3s},  {session: 30s}  or  {calendar: day, zone: Europe/Brussels}"

// windowKinds are the keys that say which kind of windows; companions are those that only some kinds have.
var (
	windowKinds = []string{"tumbling", "hopping", "session", "calendar"}
	companions  = []struct {
		key   string
		kinds []string
	}{{"step", []string{"hopping"}}, {"zone", []string{"calendar"}}, {"offset", []string{"tumbling", "hopping"}}}
)

func (d *decoder) window(a *section, to *Aggregation) {
	s := a.section("window", "{tumbling: 1h}")
	var w windowWords
	w.tumbling, _ = get(s, "tumbling", "", duration(window.Sizes))
	w.hopping, w.hoppingAt = get(s, "hopping", "", duration(window.Sizes))
	w.step, w.stepAt = get(s, "step", "", duration(window.Sizes))
	w.session, _ = get(s, "session", "", duration(window.Sizes))
	w.unit, w.unitAt = get(s, "calendar", "", calendarUnit)
	w.zone, _ = get(s, "zone", "", zone)
	to.Grace, _ = get(s, "grace", "0s", duration(window.Graces))
	offset := "0s"
	if s.has("session") || s.has("calendar") {
		offset = "" // they have none
	}
	w.offset, w.offsetAt = getShown(s, "offset", offset, "0s", duration(window.Graces))
	s.close()
	if s.off {
		return
	}
	switch kinds := said(s, windowKinds); len(kinds) {
	case 0:
		what := "names no kind of window"
		if !s.written {
			what = "is missing"
		}
		d.add(s.at, s.path, wrongf("%s", what).hinted(windowHint))
	case 1:
		for _, c := range companions {
			if s.has(c.key) && !slices.Contains(c.kinds, kinds[0]) {
				d.add(s.at, s.path+"."+c.key, wrongf("without %s", strings.Join(c.kinds, " or ")).hinted(windowHint))
			}
		}
		to.Window = d.kind(s, kinds[0], &w)
	default:
		d.add(s.at, s.path, wrongf("%s beside %s, and windows are of one kind", kinds[1], kinds[0]).hinted("remove one of the two"))
	}
}

// windowWords are the values of the keys of a window, with the places of those that may be at fault together.
type windowWords struct {
	tumbling, hopping, step, offset, session int64
	unit                                     window.Unit
	zone                                     *time.Location
	hoppingAt, stepAt, offsetAt, unitAt      place
}

// kind makes the windows of one kind; nil when something is wrong with them, which is a fault already.
func (d *decoder) kind(s *section, kind string, w *windowWords) window.Kind {
	switch kind {
	case "tumbling":
		tumbling := window.Tumbling{Size: w.tumbling, Offset: w.offset}
		if w.tumbling > 0 && tumbling.Check() != nil {
			d.add(w.offsetAt, s.path+".offset", wrongf("%v", tumbling.Check()))
		}
		return tumbling
	case "session":
		return window.Session{Gap: w.session}
	case "calendar":
		return d.calendar(s, w)
	}
	hopping := window.Hopping{Size: w.hopping, Step: w.step, Offset: w.offset}
	switch {
	case !s.has("step"):
		d.add(w.hoppingAt, s.path+".step", wrongf("is missing").hinted("write how far apart the windows begin, as  step: 3s"))
	case w.hopping <= 0 || w.step <= 0:
	case hopping.CheckStep() != nil:
		d.add(w.stepAt, s.path+".step", wrongf("%v", hopping.CheckStep()))
	case hopping.Check() != nil:
		d.add(w.offsetAt, s.path+".offset", wrongf("%v", hopping.Check()))
	}
	return hopping
}

func (d *decoder) calendar(s *section, w *windowWords) window.Kind {
	if !s.has("zone") {
		d.add(w.unitAt, s.path+".zone", wrongf("is missing").hinted("name the time zone whose days they are, as  zone: Europe/Brussels, or  zone: UTC"))
	}
	if w.unit == 0 || w.zone == nil {
		return nil
	}
	calendar, err := window.NewCalendar(w.unit, w.zone.String())
	if err != nil {
		d.add(w.unitAt, s.path+".zone", wrongf("%v", err))
		return nil
	}
	return calendar
}

// fewReadings is below how many readings of a record may be refused that it deserves a look.
const fewReadings = 1000

// shortKey is how short a key must be for a reading to fit that it deserves a look.
const shortKey = 1000

// reach refuses aggregations of which one reading alone would change more than a record may (I13), and warns where a record
// of some more could.
func (d *decoder) reach(root *section, j *Job) {
	at := root.at
	if i := slices.IndexFunc(root.pairs, func(p pair) bool { return p.name == "aggregations" }); i >= 0 {
		at = place{d.file, root.pairs[i].line}
	}
	of := job.Config{MaxLag: j.Input.MaxLag, Dedup: job.Dedup{Within: j.Dedup}}
	for i := range j.Aggregations {
		of.Aggregations = append(of.Aggregations, j.Aggregations[i].Aggregation)
	}
	if err := of.CheckReach(); err != nil {
		d.add(at, "aggregations", wrongf("%v", err))
		return
	}
	if n := of.LongestKey(); n < shortKey {
		d.warn(at, "aggregations", "one reading is in so many windows that one whose key has more than about %d bytes, with the name of its aggregation, is refused as %s",
			n, job.TooManyUpdates)
	}
	if n := of.ReadingsOfRecord(); j.Input.Format.Each != "" && !j.Input.Rekey.On && n < fewReadings {
		d.warn(at, "aggregations", "one reading is in so many windows that a record may hold about %d readings of different keys; what is beyond is refused as %s",
			n, job.TooManyUpdates)
	}
}

// said returns those of some keys that the document has, in their order.
func said(s *section, keys []string) (have []string) {
	for _, key := range keys {
		if s.has(key) {
			have = append(have, key)
		}
	}
	return have
}

var calendarUnit = spec[window.Unit]{kind: kindText, want: "day, week or month", parse: func(text string) (window.Unit, *wrong) {
	text, w := word([]string{"day", "week", "month"}).parse(text)
	if w != nil {
		return 0, w
	}
	unit, err := window.ParseUnit(text)
	if err != nil {
		return 0, wrongf("%v", err)
	}
	return unit, nil
}}
