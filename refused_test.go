package tidemark

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// TestC13MostIsRefused: a job whose producer has changed has no lag and looks well, but for a warning within 10 s that
// names the dead letter topic; it ends when what comes is good again, or a minute after the last reading (C13, C20, D27).
func TestC13MostIsRefused(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(windowed)
		send := func(good, bad int) {
			for i := range good + bad {
				if i < good {
					w.reading(0, int64(i%900))
				} else {
					w.cluster.Append("in", 0, kafka.Record{Key: []byte("a"), Timestamp: silenceStart, Value: fmt.Append(nil, "\x00\x00\x00\x00\x2a bad ", i)})
				}
			}
		}
		send(0, 99)
		d.want(d.after(5*time.Second), 0, status.Running, status.Green) // too few to say
		send(0, 1)
		s := d.after(5 * time.Second)
		task := d.want(s, 0, status.Running, status.Amber, "refused: 100 of the last 100 readings", "topic dead")
		d.wantLive(s, true)
		if s.Ready || *task.Lag != 0 || task.Reasons[0].Since.IsZero() || time.Since(task.Reasons[0].Since) > 6*time.Second {
			t.Errorf("ready %v, lag %d, since %v", s.Ready, *task.Lag, task.Reasons[0].Since)
		}
		d.want(s, 1, status.Running, status.Green)
		send(100, 0)
		d.want(d.after(5*time.Second), 0, status.Running, status.Green)
		send(0, 101)
		d.want(d.after(5*time.Second), 0, status.Running, status.Amber, "refused: 201 of the last 301")
		d.want(d.after(time.Minute), 0, status.Running, status.Green)
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestC15DeadLettersCannotBeWritten: while the dead letter topic takes nothing, nothing behind the bad record is committed,
// and the status names the topic; then each bad record is there once, and what is good counts once.
func TestC15DeadLettersCannotBeWritten(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(windowed)
		d.healthy()
		refuse := &kafka.Error{Class: kafka.ClassTransient, Op: "send", Topic: "dead", Partition: 0, Offset: -1, Err: errors.New("NOT_LEADER_OR_FOLLOWER")}
		w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			if c.Op == kafkatest.OpSend && slices.ContainsFunc(c.Messages, func(m kafka.Message) bool { return m.Topic == "dead" }) {
				return kafkatest.Fail(refuse)
			}
			return kafkatest.Verdict{}
		})
		bad := func() {
			w.cluster.Append("in", 0, kafka.Record{Key: []byte("a"), Timestamp: silenceStart, Value: []byte("bad")})
		}
		bad()
		w.reading(0, 100)
		bad()
		s := d.after(20 * time.Second)
		task := d.want(s, 0, status.Waiting, status.Amber, "broker", "dead/0", "NOT_LEADER_OR_FOLLOWER")
		d.wantLive(s, true)
		if s.Ready || *task.Position != 0 || task.Readings.In != 0 {
			t.Errorf("ready %v, position %d, %+v", s.Ready, *task.Position, task.Readings)
		}
		if w.cluster.Injected(kafkatest.OpSend) < 3 {
			t.Error("hardly anything was refused: the fault did not happen")
		}
		d.want(d.after(20*time.Second), 0, status.Waiting, status.Red, "dead/0")
		w.cluster.Inject(nil)
		s = d.healthy()
		if n := len(w.cluster.Committed("dead", 0)); n != 2 || s.Tasks[0].Readings.Accepted != 1 || s.Tasks[0].Readings.In != 3 {
			t.Errorf("%d dead letters, %+v", n, s.Tasks[0].Readings)
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// TestD27StopsBehindWhatIsAllowed: dead_letter.max_bad stops the task at the record with one refused reading too many, and all
// before it is committed, though one fetch brought it all: as many dead letters as are allowed, and the position at that
// record. Starting again changes nothing, and a higher limit goes on there.
func TestD27StopsBehindWhatIsAllowed(t *testing.T) {
	const good, allowed = 5, 3
	w := newWorld(t, 1)
	for range good {
		w.reading(0, 100)
	}
	for range allowed + 2 {
		w.cluster.Append("in", 0, kafka.Record{Key: []byte("a"), Timestamp: silenceStart, Value: []byte("bad")})
	}
	w.reading(0, 200)
	run := func(limit int64) (last Event, err error) {
		o := w.options()
		o.Topics.Partitions = 1
		config := windows()
		config.MaxBad = job.MaxBad{Readings: limit, Per: 60_000}
		o.Processor = config.Processor
		o.Progress = func(e Event) {
			if e.Kind == EventCommitted {
				last = e
			}
		}
		app, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		return last, app.Run(t.Context())
	}
	for n := range 3 {
		last, err := run(allowed)
		var bad *job.BadError
		if !errors.As(err, &bad) || bad.Record != good+allowed {
			t.Fatalf("start %d: %v, want a stop at offset %d", n, err, good+allowed)
		}
		if dead := len(w.cluster.Committed("dead", 0)); dead != allowed {
			t.Fatalf("start %d: %d dead letters, want %d", n, dead, allowed)
		}
		if n == 0 && (last.Commit == nil || last.Commit.Position != good+allowed || last.Commit.Counters.Accepted != good) {
			t.Fatalf("committed %+v", last.Commit)
		}
	}
	if last, err := run(allowed + 2); err != nil || last.Commit.Counters.Accepted != good+1 || len(w.cluster.Committed("dead", 0)) != allowed+2 {
		t.Errorf("with a higher limit: %v, %+v", err, last.Commit)
	}
}

// D13, C20: the first reading that is refused is told in the log, with its place, the field and the one that was perhaps meant;
// after it none for an hour, or ten minutes while most are refused, and then with how many there were.
func TestRefusedIsTold(t *testing.T) {
	watched(t, func(w *world) {
		var log said
		d := w.daemonize(func(o *Options) {
			windowed(o)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		bad := func(n int) {
			for range n {
				w.cluster.Append("in", 0, kafka.Record{Key: []byte("a"), Timestamp: silenceStart, Value: []byte(`{"device":"a","ts":1704067200000,"vlaue":1}`)})
			}
		}
		told := func(want int, after string) string {
			t.Helper()
			lines := log.lines("readings are refused")
			if len(lines) != want {
				t.Fatalf("told %d times, want %d, %s: %q", len(lines), want, after, lines)
			}
			return lines[max(want-1, 0)]
		}
		w.reading(0, 1)
		d.after(time.Second)
		bad(1)
		d.after(time.Second)
		if line := told(1, "after the first"); !strings.Contains(line, `partition=0 dead_letters=dead refused=1 of=2 offset=1 reason=missing_field field=value `+
			`detail="is absent, want a number" did_you_mean=vlaue`) {
			t.Errorf("told as %s", line)
		}
		bad(1)
		d.after(30 * time.Minute)
		bad(1)
		d.after(time.Second)
		told(1, "after a few within the hour")
		bad(300)
		d.after(time.Second)
		// It is told with the commit that makes them the most, and how many it holds depends on the reads.
		var refused, of int
		line := told(2, "when most are refused")
		if _, err := fmt.Sscanf(line[strings.Index(line, "refused="):], "refused=%d of=%d", &refused, &of); err != nil || refused != of || refused < 100 || refused > 302 {
			t.Errorf("told as %s", line)
		}
		bad(300)
		d.after(time.Second)
		told(2, "within ten minutes")
		d.after(time.Hour)
		told(2, "after an hour with none")
		bad(1)
		d.after(time.Second)
		told(3, "after an hour")
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}
