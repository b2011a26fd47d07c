package tidemark

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

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
