package job

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// feedBad feeds records one by one until the task stops, and returns how many were consumed.
func feedBad(t *testing.T, r *run, records []task.Input) (consumed int, stopped *BadError) {
	t.Helper()
	for i := range records {
		if _, err := r.task.Fold(records[i : i+1]); err != nil {
			if !errors.As(err, &stopped) || !errors.Is(err, task.ErrPermanent) {
				t.Fatal(err)
			}
			return i, stopped
		}
		r.commit()
	}
	return len(records), nil
}

// Three bad readings in a minute of record time are taken, the fourth stops the task before it is consumed, and so it does
// after a crash and after the program was started again: a supervisor lets no more of them through. In the next minute
// there may be three again, and a higher limit goes on at the very record.
func TestMaxBad(t *testing.T) {
	c := minutes(0)
	c.MaxBad = MaxBad{Readings: 3, Per: window.Minute}
	r := newRun(t, c)
	var records []task.Input
	for _, at := range []int64{1000, 2000, 3000, 61_000, 62_000, 5000, 63_000} { // 5000 is an older record: of the present minute
		records = append(records, r.record("a", at, "null"), r.record("a", at, "1"))
	}
	untimed := r.record("a", 64_000, "null")
	untimed.Timestamp = -1
	records = append(records, untimed)
	n, stopped := feedBad(t, r, records)
	if n != 12 || stopped == nil || stopped.Record != 12 || stopped.Start != t0+60_000 {
		t.Fatalf("stopped after %d records: %+v", n, stopped)
	}
	if got := r.counters(); got.DeadLettered != 6 || len(r.dead) != 6 || got.RefusedInIt != 3 {
		t.Errorf("%+v, %d dead letters", got, len(r.dead))
	}
	for range 3 { // started again and again
		r.crash()
		if n, stopped = feedBad(t, r, records[12:]); n != 0 || stopped == nil {
			t.Fatalf("after a start %d records are consumed: %v", n, stopped)
		}
	}
	if text := stopped.Error(); !strings.Contains(text, "more than 3 readings") || !strings.Contains(text, "from 2024-01-01T00:01:00Z on, at offset 12") || !strings.Contains(text, "tidemark skip") {
		t.Error(text)
	}
	r.config.MaxBad.Readings = 5
	r.crash()
	if n, stopped = feedBad(t, r, records[12:]); n != 3 || stopped != nil {
		t.Errorf("with a higher limit %d records, %v", n, stopped)
	}
}

// The readings of one record count one by one, and no limit is none.
func TestMaxBadOfArrays(t *testing.T) {
	c := minutes(0)
	c.Format.Each = "readings"
	c.MaxBad = MaxBad{Readings: 3, Per: window.Minute}
	r := newRun(t, c)
	bad := []task.Input{{Epoch: 1, Timestamp: t0, Key: []byte("a"), Value: []byte(`{"readings":[{},{},{}]}`)},
		{Offset: 1, Epoch: 1, Timestamp: t0, Key: []byte("a"), Value: []byte(`{"readings":[{}]}`)}}
	if n, stopped := feedBad(t, r, bad); n != 1 || stopped == nil {
		t.Errorf("%d records, %v", n, stopped)
	}
	c.MaxBad = MaxBad{}
	if n, stopped := feedBad(t, newRun(t, c), bad); n != 2 || stopped != nil {
		t.Errorf("without a limit %d records, %v", n, stopped)
	}
	for _, m := range []MaxBad{{Readings: -1, Per: 1}, {Readings: 1}, {Per: 1}} {
		if c.MaxBad = m; c.Check() == nil {
			t.Errorf("%+v is accepted", m)
		}
	}
}
