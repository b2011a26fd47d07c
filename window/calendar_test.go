package window

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var seed = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")

func calendar(t testing.TB, unit Unit, zone string) Calendar {
	t.Helper()
	w, err := NewCalendar(unit, zone)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func moment(t testing.TB, text string) int64 {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return when.UnixMilli()
}

// W12: days of 23, 24 and 25 hours, zones whose clocks are set at midnight, a date that was skipped, one that began
// twice. Start and end are worked out by hand.
func TestW12CalendarWindows(t *testing.T) {
	for _, c := range []struct {
		unit             Unit
		zone             string
		time, start, end string
		hours            float64
	}{
		{CalendarDay, "America/New_York", "2026-03-08T04:59:59Z", "2026-03-07T05:00:00Z", "2026-03-08T05:00:00Z", 24},
		{CalendarDay, "America/New_York", "2026-03-08T05:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", 23},
		{CalendarDay, "America/New_York", "2026-03-09T03:59:59.999Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z", 23},
		{CalendarDay, "America/New_York", "2026-11-02T04:59:59Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z", 25},
		{CalendarDay, "Europe/Brussels", "2023-10-29T01:30:00Z", "2023-10-28T22:00:00Z", "2023-10-29T23:00:00Z", 25},
		{CalendarWeek, "Europe/Brussels", "2024-03-31T12:00:00Z", "2024-03-24T23:00:00Z", "2024-03-31T22:00:00Z", 167},
		{CalendarMonth, "Europe/Brussels", "2024-02-29T12:00:00Z", "2024-01-31T23:00:00Z", "2024-02-29T23:00:00Z", 29 * 24},
		{CalendarMonth, "Europe/Brussels", "2024-10-31T22:59:59Z", "2024-09-30T22:00:00Z", "2024-10-31T23:00:00Z", 31*24 + 1},
		{CalendarDay, "UTC", "1969-12-31T23:59:59.999Z", "1969-12-31T00:00:00Z", "1970-01-01T00:00:00Z", 24},
		// Midnight does not happen: the clocks go from 23:59:59 to 01:00.
		{CalendarDay, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", 23},
		{CalendarDay, "Africa/Cairo", "2024-04-26T12:00:00Z", "2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z", 23},
		// Midnight is 23:00 of the day that was ending.
		{CalendarDay, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z", 25},
		// The clocks go back from 00:01 to 23:01: the new day has begun, once.
		{CalendarDay, "America/St_Johns", "2010-11-07T02:30:30Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z", 25},
		{CalendarDay, "America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z", 25},
		{CalendarDay, "America/St_Johns", "2010-11-07T02:29:59Z", "2010-11-06T02:30:00Z", "2010-11-07T02:30:00Z", 24},
		// Samoa had no 30 December 2011.
		{CalendarDay, "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", 24},
		{CalendarDay, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z", 24},
		{CalendarWeek, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-26T10:00:00Z", "2012-01-01T10:00:00Z", 144},
		// The last day of a leap year far beyond the tables, for which Time.ZoneBounds gives an end in the past.
		{CalendarDay, "Europe/Brussels", "2096-12-31T12:00:00Z", "2096-12-30T23:00:00Z", "2096-12-31T23:00:00Z", 24},
		// Half an hour.
		{CalendarDay, "Australia/Lord_Howe", "2024-04-07T00:00:00Z", "2024-04-06T13:00:00Z", "2024-04-07T13:30:00Z", 24.5},
	} {
		w := calendar(t, c.unit, c.zone)
		want := Span{moment(t, c.start), moment(t, c.end)}
		if hours := float64(want.End-want.Start) / float64(Hour); hours != c.hours {
			t.Errorf("%s: the example has %v h, want %v", c.time, hours, c.hours)
		}
		got := w.Assign(nil, moment(t, c.time))
		if len(got) != 1 || got[0] != want {
			t.Errorf("%v at %s: %v, want [%s, %s)", w, c.time, show(got), c.start, c.end)
		}
		if s, ok := w.At(want.Start); !ok || s != want {
			t.Errorf("%v: the window at %s is %v", w, c.start, s)
		}
		if _, ok := w.At(want.Start + 1); ok {
			t.Errorf("%v: a window begins 1 ms after %s", w, c.start)
		}
	}
}

func show(spans []Span) (texts []string) {
	for _, s := range spans {
		texts = append(texts, fmt.Sprintf("[%s, %s)", time.UnixMilli(s.Start).UTC().Format(time.RFC3339), time.UnixMilli(s.End).UTC().Format(time.RFC3339)))
	}
	return texts
}

// Around random changes of the clocks in random zones, minute by minute, the windows are those of a plain rule: a
// moment belongs to the latest date that the clocks have shown up to then.
func TestCalendarProperties(t *testing.T) {
	from := *seed
	if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	t.Logf("replay: go test ./window -run %s -seed %d", t.Name(), from)
	random := rand.New(rand.NewPCG(from, 1))
	names, short, long := Zones(), 0, 0
	for range 150 {
		w := calendar(t, Unit(1+random.IntN(3)), names[random.IntN(len(names))])
		change := time.Date(1975+random.IntN(80), time.Month(1+random.IntN(12)), 1, 0, 0, 0, 0, time.UTC).In(w.zone)
		if _, next := change.ZoneBounds(); !next.IsZero() {
			change = next
		}
		latest, begun := date{}, int64(0)
		for minute := -72 * 60; minute < 60*60; minute++ {
			instant := change.Add(time.Duration(minute) * time.Minute).UnixMilli()
			if d := normal(w.dateOf(instant)); later(d, latest) {
				latest, begun = d, instant
				if minute == -72*60 {
					begun = math.MinInt64 // before what is looked at
				}
			}
			got := w.Assign(nil, instant)
			if len(got) != 1 || !got[0].Contains(instant) || begun != math.MinInt64 && got[0].Start != begun {
				t.Fatalf("%v at %v: %v, want one that begins at %v", w, time.UnixMilli(instant).UTC(), show(got), time.UnixMilli(begun).UTC())
			}
			if w.unit == CalendarDay && got[0].End-got[0].Start < Day {
				short++
			} else if w.unit == CalendarDay && got[0].End-got[0].Start > Day {
				long++
			}
		}
	}
	if short == 0 || long == 0 {
		t.Errorf("%d minutes of short and %d of long days: the test has not tested", short, long)
	}
}

func normal(d date) date {
	year, month, day := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Date()
	return date{year, month, day}
}

func later(a, b date) bool {
	return a.year > b.year || a.year == b.year && (a.month > b.month || a.month == b.month && a.day > b.day)
}

// W11: no time has a wrong window, and those far from any year have none.
func TestCalendarExtremes(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Brussels", "Pacific/Apia", "Asia/Kathmandu"} {
		for _, unit := range []Unit{CalendarDay, CalendarWeek, CalendarMonth} {
			w := calendar(t, unit, zone)
			for _, moment := range []int64{math.MinInt64, math.MaxInt64, firstDay - 1, lastDay} {
				if got := w.Assign(nil, moment); len(got) != 0 {
					t.Errorf("%v at %d: %v", w, moment, got)
				}
			}
			for _, moment := range []int64{firstDay, lastDay - 1, -62135596800000, 0, -1, 4e12} {
				got := w.Assign(nil, moment)
				if len(got) != 1 || !got[0].Contains(moment) || got[0].End-got[0].Start > 32*Day {
					t.Errorf("%v at %d: %v", w, moment, got)
				}
			}
		}
	}
}

// W12: neither the machine's zone nor its data plays a part, and only names of the data base are taken.
func TestCalendarZones(t *testing.T) {
	t.Setenv("TZ", "Asia/Tokyo")
	t.Setenv("ZONEINFO", t.TempDir())
	want := Span{moment(t, "2026-03-08T05:00:00Z"), moment(t, "2026-03-09T04:00:00Z")}
	if got := calendar(t, CalendarDay, "America/New_York").Assign(nil, want.Start); got[0] != want {
		t.Errorf("%v", show(got))
	}
	for _, zone := range []string{"", "Local", "europe/brussels", "Europe/Brusels", "Europe", "../etc/localtime", "+02:00"} {
		if _, err := NewCalendar(CalendarDay, zone); err == nil || !strings.Contains(err.Error(), TZData()) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
	if _, err := NewCalendar(0, "UTC"); err == nil || (Calendar{}).Check() == nil {
		t.Error("a calendar without unit or zone passes")
	}
	for _, unit := range []string{"day", "week", "month"} {
		if u, err := ParseUnit(unit); err != nil || u.String() != unit {
			t.Errorf("%s: %v, %v", unit, u, err)
		}
	}
	if _, err := ParseUnit("year"); err == nil {
		t.Error("a year is taken")
	}
	if len(Zones()) < 500 {
		t.Errorf("%d zones", len(Zones()))
	}
}
