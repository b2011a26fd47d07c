package tidemark

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// Dead letters are counted by the reason in their header, which the counters of the commit record do not have. Every
// reason is there from the start, and none of a program's own makes another series (I13).
func TestLettersByReason(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(windowed)
		for i, value := range []string{`{"device":"a","ts":1704067200000,"value":1}`, `{`, `{"device":"a","ts":1704067200000}`, `[`} {
			w.cluster.Append("in", int32(i%2), kafka.Record{Key: []byte("a"), Timestamp: silenceStart, Value: []byte(value)})
		}
		s := d.healthy()
		counts, sum := map[string]int64{}, int64(0)
		for _, l := range s.Totals.DeadLetters {
			counts[l.Reason] = l.Letters
			sum += l.Letters
		}
		if counts["truncated"] != 2 || sum != 3 || s.Totals.Readings.DeadLettered != 3 || len(counts) != len(reasons) {
			t.Errorf("dead letters %v, readings %+v", counts, s.Totals.Readings)
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
	var l letters
	l.add([]task.Message{{Sink: task.SinkDead, Headers: []task.Header{{Key: "tidemark.reason", Value: []byte("one of its own")}}}, {Sink: task.SinkDead}, {}})
	if all := l.told(); all[len(all)-1].Reason != "other" || all[len(all)-1].Letters != 2 {
		t.Errorf("letters without a reason of ours: %+v", all)
	}
}

// Section 7, R11: readings that are later than their records are accepted and hold the stream time back. Above a share of 1 %
// that is said, once.
func TestRecordTimesHoldStreamTimeBack(t *testing.T) {
	for _, ahead := range []int{10, 30} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			watched(t, func(w *world) {
				var said bytes.Buffer
				d := w.daemonize(func(o *Options) { windowed(o); o.Log = slog.New(slog.NewTextHandler(&said, nil)) })
				for i := range 2000 {
					at := int64(silenceStart + i)
					if i < ahead {
						at -= 10
					}
					w.cluster.Append("in", int32(i%2), kafka.Record{Key: []byte("a"), Timestamp: at,
						Value: fmt.Appendf(nil, `{"device":"a","ts":%d,"value":1}`, silenceStart+i)})
				}
				s := d.after(time.Minute)
				if s.Totals.Readings.Ahead != int64(ahead) || s.Totals.Readings.Accepted != 2000 {
					t.Errorf("readings %+v", s.Totals.Readings)
				}
				if err := d.end(); err != nil {
					t.Error(err)
				}
				want := 0
				if ahead*100 > 2000 {
					want = 1
				}
				if n := strings.Count(said.String(), "record timestamps hold stream time back"); n != want {
					t.Errorf("%d of 2000 readings are ahead: told %d times, want %d:\n%s", ahead, n, want, said.String())
				}
			})
		})
	}
}

// TestReadingsAddUp: I9 in the numbers that are shown, of the process and of each task: what was taken in is what became of it, and
// what was accepted is what each aggregation made of it.
func TestReadingsAddUp(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(func(o *Options) {
			config := windows()
			config.Format.Where = "value != 3"
			config.Dedup.Within = 60_000
			o.Processor = config.Processor
		})
		w.reading(0, 100)
		w.reading(0, 100) // again
		w.reading(0, 5000)
		w.reading(0, 200) // late
		for i, value := range []string{`{`, fmt.Sprintf(`{"device":"a","ts":%d,"value":3}`, silenceStart)} {
			w.cluster.Append("in", int32(i%2), kafka.Record{Key: []byte("a"), Timestamp: silenceStart, Value: []byte(value)})
		}
		w.cluster.Append("in", 0, kafka.Record{Key: []byte("a"), Timestamp: silenceStart, // C03; not dedup's, for its time is another
			Value: fmt.Appendf(nil, `{"device":"a","ts":%d,"value":9007199254740993}`, silenceStart+5001)})
		s := d.healthy()
		if s.Totals.Inexact != 1 {
			t.Errorf("%d inexact values, want 1", s.Totals.Inexact)
		}
		if n := s.Totals.Readings; n.Accepted != 4 || n.DeadLettered != 1 || n.Filtered != 1 || n.Duplicates != 1 {
			t.Errorf("%+v", n)
		}
		all := []status.Readings{s.Totals.Readings}
		for i := range s.Tasks {
			all = append(all, s.Tasks[i].Readings)
		}
		for _, n := range all {
			if n.In != n.Accepted+n.DeadLettered+n.Filtered+n.Skipped+n.Duplicates {
				t.Errorf("%+v do not add up", n)
			}
		}
		for _, a := range s.Totals.Aggregations {
			if a.Folded+a.PartlyLate+a.Late != s.Totals.Readings.Accepted {
				t.Errorf("%+v do not add up to %d", a, s.Totals.Readings.Accepted)
			}
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}
