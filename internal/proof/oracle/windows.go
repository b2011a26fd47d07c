package oracle

import (
	"cmp"
	"slices"
	"sync"
	"time"
	_ "time/tzdata" // where the machine has none
)

// span is a window, or a session: then end is its last reading.
type span struct{ start, end int64 }

// spans returns the windows that hold t, in rising order; of a session the one that a reading at t makes alone.
func (a *Aggregation) spans(t int64) []span {
	switch {
	case a.Gap > 0:
		return []span{{t, t}}
	case a.Unit != "":
		return []span{a.calendar(t)}
	}
	step := a.Step
	if step == 0 {
		step = a.Size
	}
	past := (t - a.Offset) % step
	if past < 0 {
		past += step
	}
	var all []span
	for start := t - past; start+a.Size > t; start -= step {
		all = append([]span{{start, start + a.Size}}, all...)
	}
	return all
}

// stored tells that entries hold the length of their windows.
func (a *Aggregation) stored() bool { return a.Gap > 0 || a.Unit != "" }

// calendar is the day, week or month that t lies in: from the first minute at which the zone's clocks show its first date,
// or a later one, to the first of the next. Minutes are tried one after the other: no zone has changed its clocks in the
// middle of one since 1972.
func (a *Aggregation) calendar(t int64) span {
	year, month, day := time.UnixMilli(t).In(a.Zone).Date()
	first := func(n int) time.Time {
		switch a.Unit {
		case "month":
			return time.Date(year, month+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
		case "week":
			date := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
			for date.Weekday() != time.Monday {
				date = date.AddDate(0, 0, -1)
			}
			return date.AddDate(0, 0, 7*n)
		}
		return time.Date(year, month, day+n, 0, 0, 0, 0, time.UTC)
	}
	n := 0
	for shown(first(n+1), a.Zone) <= t {
		n++
	}
	return span{shown(first(n), a.Zone), shown(first(n+1), a.Zone)}
}

// firstShown remembers what shown found: the oracle is asked for few days again and again.
var firstShown sync.Map // of int64

// shown is the first minute at which clocks show a date, or a later one, in ms.
func shown(date time.Time, zone *time.Location) int64 {
	id := zone.String() + date.String()
	if at, ok := firstShown.Load(id); ok {
		return at.(int64)
	}
	at := date.Add(-26 * time.Hour)
	for {
		year, month, day := at.In(zone).Date()
		if !time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Before(date) {
			break
		}
		at = at.Add(time.Minute)
	}
	firstShown.Store(id, at.UnixMilli())
	return at.UnixMilli()
}

// join puts a reading into a session: with all sessions of its key that are not due and have a reading less than the gap
// away it becomes one.
func (m *model) join(a *Aggregation, closed int64, reading Folded, key []string) {
	one := &Window{Aggregation: a.Name, Key: key, Start: reading.Time, End: reading.Time, Stored: true, Readings: []Folded{reading}}
	owner := WindowID(a.Name, key, 0)
	m.sessions[owner] = slices.DeleteFunc(m.sessions[owner], func(w *Window) bool {
		if w.End <= closed || w.Start-reading.Time >= a.Gap || reading.Time-w.End >= a.Gap {
			return false
		}
		one.Start, one.End = min(one.Start, w.Start), max(one.End, w.End)
		one.Readings = append(one.Readings, w.Readings...)
		delete(m.windows, WindowID(a.Name, w.Key, w.Start))
		return true
	})
	slices.SortFunc(one.Readings, func(a, b Folded) int { return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Index, b.Index)) })
	m.sessions[owner] = append(m.sessions[owner], one)
	m.windows[WindowID(a.Name, one.Key, one.Start)] = one
}

// advance moves the stream time: to what as many keys as the quorum says have reached, which is found by sorting them all.
func (m *model) advance(t int64, r Record, reading Reading) {
	if m.config.Quorum > 1 {
		owner := WindowID("", reading.Key, 0)
		if last, ok := m.reached[owner]; !ok || t > last {
			m.reached[owner] = t
		}
		if len(m.reached) < m.config.Quorum {
			return
		}
		var all []int64
		for _, last := range m.reached {
			all = append(all, last)
		}
		slices.Sort(all)
		t = all[len(all)-m.config.Quorum]
	}
	if t > m.out.StreamTime {
		m.out.StreamTime, m.out.SetterOffset = t, r.Offset
	}
}
