package job

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/window"
)

func calendar(t *testing.T, unit window.Unit, zone string, grace int64) Config {
	t.Helper()
	kind, err := window.NewCalendar(unit, zone)
	if err != nil {
		t.Fatal(err)
	}
	c := minutes(grace)
	c.Aggregations[0].Window = kind
	return c
}

func ms(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMilli()
}

// W12: local days of 23 and 25 hours, with start and end as UTC instants, at one go and with a crash after each reading.
func TestW12LocalDays(t *testing.T) {
	feed := []string{"2026-03-08T04:59:59Z", "2026-03-08T05:00:00Z", "2026-03-09T03:59:59Z", "2026-03-09T04:00:00Z",
		"2026-11-01T04:00:00Z", "2026-11-02T04:59:59Z", "2026-11-02T05:00:00Z", "2026-11-04T12:00:00Z"}
	want := []string{"2026-03-07T05:00:00Z 24h 1", "2026-03-08T05:00:00Z 23h 2", "2026-03-09T04:00:00Z 24h 1",
		"2026-11-01T04:00:00Z 25h 2", "2026-11-02T05:00:00Z 24h 1"}
	for name, restart := range map[string]bool{"at one go": false, "with crashes": true} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, calendar(t, window.CalendarDay, "America/New_York", 0))
			for _, at := range feed {
				r.add("a", ms(t, at)-t0, "1")
				if restart {
					r.drain().crash()
				}
			}
			r.drain()
			var got []string
			for _, m := range r.results {
				l := r.parse(m.value)
				got = append(got, fmt.Sprintf("%s %gh %d", time.UnixMilli(l.Start).UTC().Format(time.RFC3339), float64(l.End-l.Start)/float64(window.Hour), l.Count))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got\n%q\nwant\n%q", got, want)
			}
			if len(r.dump(true)) != 1 {
				t.Errorf("open: %q", r.dump(true))
			}
		})
	}
}

// A window keeps the end it was born with: when the rules of its zone have changed since, it closes as it was, a reading
// that the new rules put into it counts in it, and one that comes when it is due is late (R31).
func TestCalendarWindowKeepsItsEnd(t *testing.T) {
	r := newRun(t, calendar(t, window.CalendarDay, "UTC", 0))
	r.add("a", 1000, "1")
	r.drain()
	key := r.onlyKey()
	value := r.base.values[key]
	shorter := binary.AppendUvarint([]byte{value[0]}, uint64(23*window.Hour)) // in place of 24 h, of as many bytes
	r.replace(key, append(shorter, value[5:]...))
	r.crash()
	r.add("a", 2000, "1")
	r.drain()
	if l := r.parse(r.dump(false)[0]); l.End-l.Start != 23*window.Hour || l.Count != 2 {
		t.Errorf("%+v", l)
	}
	r.add("b", 23*window.Hour, "1")
	r.add("a", 23*window.Hour+1, "1")
	r.drain()
	if len(r.results) != 1 || r.parse(r.results[0].value).End != t0+23*window.Hour || len(r.late) != 1 {
		t.Errorf("%d results, %d late", len(r.results), len(r.late))
	}
}
