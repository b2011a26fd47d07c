package tidemark

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// windows is a job with windows of a second.
func windows() job.Config {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time = []string{"device"}, []string{"value"}, "ts"
	return job.Config{Input: "in", Format: format, Partitioner: job.Unchecked, Aggregations: []job.Aggregation{
		{Name: "second", Window: window.Tumbling{Size: window.Second}, Functions: aggregate.Count}}}
}

// windowed makes the options those of such a job.
func windowed(o *Options) {
	config := windows()
	o.Processor = config.Processor
}

const silenceStart = 1704067200000

func (w *world) reading(partition int32, at int64) {
	w.cluster.Append("in", partition, kafka.Record{Key: []byte("a"), Timestamp: silenceStart + at,
		Value: fmt.Appendf(nil, `{"device":"a","ts":%d,"value":1}`, silenceStart+at)})
}

// W05, W20: silence closes what is open, a restart does not publish it again, a reading behind it is late, and a run
// until idle never ticks. Nothing but the monotonic clock measures it.
func TestIdleClose(t *testing.T) {
	w := newWorld(t, 2)
	w.reading(0, 100)
	w.reading(0, 700)
	idle := func(o *Options) { windowed(o); o.IdleClose = 200 * time.Millisecond }
	o := w.options()
	idle(&o)
	w.run(o)
	if n := len(w.cluster.Committed("out", 0)); n != 0 {
		t.Fatalf("%d results of a run until idle", n)
	}
	d := w.start(w.dir, idle)
	d.until("the tick that closes", func(e Event) bool { return e.Kind == EventCommitted && e.Closed == 1 })
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
	w.reading(0, 800)
	w.reading(1, 100) // the other partition has its own time
	d = w.start(w.dir, idle)
	d.until("the late reading", func(e Event) bool {
		return e.Kind == EventCommitted && e.Partition == 0 && e.Commit.Aggregations[0].Late == 1
	})
	d.until("the other partition's tick", func(e Event) bool { return e.Kind == EventCommitted && e.Partition == 1 && e.Closed == 1 })
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
	for p := range int32(2) {
		results := w.cluster.Committed("out", p)
		if len(results) != 1 {
			t.Errorf("partition %d: %d results", p, len(results))
		}
	}
	if c := w.cluster.Committed("out", 0); len(c) == 1 && string(c[0].Value) != fmt.Sprintf(
		`{"agg":"second","key":["a"],"start":%d,"end":%d,"count":2,"final":true}`, int64(silenceStart), int64(silenceStart+1000)) {
		t.Errorf("%s", c[0].Value)
	}
}

// W03: partitions that never get anything hold nobody back.
func TestW03IdlePartitionsHoldNobodyBack(t *testing.T) {
	w := newWorld(t, 4)
	w.reading(2, 100)
	w.reading(2, 1100)
	o := w.options()
	o.Topics.Partitions = 4
	windowed(&o)
	w.run(o)
	if n := len(w.cluster.Committed("out", 2)); n != 1 {
		t.Errorf("%d results, want 1", n)
	}
}

// W03: who looks is told that such partitions are idle, not that they lag or wait, and what the others wait for (W05).
func TestW03StatusShowsIdlePartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		d := w.daemonize(func(o *Options) { windowed(o); o.Topics.Partitions = 4 })
		w.reading(2, 100)
		w.reading(2, 1100)
		s := d.after(time.Hour)
		if s.Health != status.Green || s.Lag == nil || *s.Lag != 0 {
			t.Fatalf("health %s, lag %v: %+v", s.Health, s.Lag, s.Reasons)
		}
		for i := range s.Tasks {
			lag, open, streamTime := s.Tasks[i].Lag, s.Tasks[i].OpenWindows, s.Tasks[i].StreamTime
			if lag == nil || *lag != 0 || (open == 1) != (i == 2) || (streamTime != nil) != (i == 2) {
				t.Errorf("partition %d: lag %v, %d open windows, stream time %v", i, lag, open, streamTime)
			}
		}
		var table strings.Builder
		if err := s.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(table.String(), "running, idle"); n != 4 {
			t.Errorf("%d partitions are idle, want 4:\n%s", n, table.String())
		}
		if want := "partition 2, second: the next window closes when event time reaches 2024-01-01T00:00:02.000Z"; strings.Count(table.String(), "the next window") != 1 || !strings.Contains(table.String(), want) {
			t.Errorf("want %q:\n%s", want, table.String())
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// What has come breaks the silence, even in the moment in which it has lasted; and who does not measure it waits for none.
func TestSilenceIsBroken(t *testing.T) {
	s := newSilence(&Options{IdleClose: time.Hour})
	if !s.timer.Stop() {
		t.Fatal("an hour has passed at once")
	}
	s.timer.Reset(0)
	s.broken()
	select {
	case <-s.lasts():
		t.Error("a silence that was broken lasts")
	default:
	}
	if newSilence(&Options{}).lasts() != nil || newSilence(&Options{IdleClose: time.Second, UntilIdle: true}).lasts() != nil {
		t.Error("silence is measured where it should not")
	}
}

// A task that is held up, like a process that gets no CPU, finds what has come meanwhile and the end of the silence at the
// same moment. Input every 50 ms is no silence of 300 ms whichever it looks at first: a tick would make readings late that
// have been there for long (I11). Which comes first is chance, so there are many tries.
func TestHeldUpIsNotSilent(t *testing.T) {
	for range 30 {
		watched(t, func(w *world) {
			w.reading(0, 100)
			release, held := make(chan struct{}), make(chan struct{})
			once := false
			d := w.daemonize(func(o *Options) {
				windowed(o)
				o.IdleClose, o.Commit.Interval = 300*time.Millisecond, time.Millisecond
				o.Progress = func(e Event) {
					if e.Kind == EventCommitted && e.Partition == 0 && e.Inputs > 0 && !once {
						once = true
						close(held)
						<-release
					}
				}
			})
			<-held
			for i := range int64(16) {
				w.reading(0, 150+10*i)
				<-time.After(50 * time.Millisecond)
				if i == 11 {
					close(release)
				}
			}
			if s := d.after(0).Tasks[0]; s.StreamTime == nil || *s.StreamTime != silenceStart+300 {
				t.Errorf("stream time %v, want %d, that of the latest reading", s.StreamTime, silenceStart+300)
			}
			if err := d.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPoisonRecordOfManyWindows: a record of 400 KB that names 14 million windows is refused where it goes beyond what one
// record may change; the task commits, keeps its seat, and reads on (I13).
func TestPoisonRecordOfManyWindows(t *testing.T) {
	w := newWorld(t, 1)
	config := windows()
	config.Format.Each, config.Format.Key, config.PartitionedBy = "r", []string{"$.g", "d"}, []string{"$.g"}
	config.Aggregations[0].Window = window.Hopping{Size: 24 * window.Hour, Step: window.Minute}
	value := fmt.Appendf(nil, `{"g":"a","r":[{"d":"0","ts":%d,"value":1}`, silenceStart)
	for i := 1; i < reading.MaxReadings; i++ {
		value = fmt.Appendf(value, `,{"d":"%d","ts":%d,"value":1}`, i, silenceStart)
	}
	w.cluster.Append("in", 0, kafka.Record{Key: []byte("a"), Timestamp: silenceStart, Value: append(value, "]}"...)})
	w.cluster.Append("in", 0, kafka.Record{Key: []byte("a"), Timestamp: silenceStart,
		Value: fmt.Appendf(nil, `{"g":"a","r":[{"d":"after","ts":%d,"value":1}]}`, silenceStart)})
	o := w.options()
	o.Processor = config.Processor
	var last *record.Commit
	o.Progress = func(e Event) {
		if e.Kind == EventFailed {
			t.Error(e.Err)
		}
		if e.Kind == EventCommitted {
			last = e.Commit
			if e.Commit.Records > job.MaxUpdates+2*1440 {
				t.Errorf("a commit of %d records", e.Commit.Records)
			}
		}
	}
	w.run(o)
	const fit = job.MaxUpdates / 1440
	if last == nil || last.Counters.Accepted != fit+1 || last.Counters.DeadLettered != reading.MaxReadings-fit {
		t.Errorf("%+v", last)
	}
}
