package tidemark

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
)

// D04: an input and a changelog whose partitions differ in number are refused with both numbers, and nothing is fenced.
func TestD04CountsThatDiffer(t *testing.T) {
	w := newWorld(t, 5)
	w.cluster.CreateTopic("changelog", 8, map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
	app, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	err = app.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "changelog") || !strings.Contains(err.Error(), "8 partitions") || !strings.Contains(err.Error(), "5") {
		t.Errorf("%v", err)
	}
	if n := w.cluster.Calls(kafkatest.OpFence); n != 0 {
		t.Errorf("%d fences", n)
	}
}

// D08: a stop publishes nothing of the windows that are open, and the next start goes on with them.
func TestD08StopPublishesNothing(t *testing.T) {
	w := newWorld(t, 2)
	for i := range int64(3) {
		w.reading(0, 100*i)
	}
	d := w.start(w.dir, windowed)
	d.until("the commit of all", func(e Event) bool { return e.Kind == EventCommitted && e.Commit.Counters.In == 3 })
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.cluster.Committed("out", 0)); n != 0 {
		t.Fatalf("%d results after the stop", n)
	}
	w.reading(0, 400)
	w.reading(0, 500)
	w.reading(0, 1100)
	o := w.options()
	windowed(&o)
	w.run(o)
	if results := w.cluster.Committed("out", 0); len(results) != 1 || !strings.Contains(string(results[0].Value), `"count":5,"final":true`) {
		t.Errorf("results %+v", results)
	}
}

// counting counts log lines of the usual level.
type counting struct{ lines *atomic.Int64 }

func (c counting) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (c counting) Handle(context.Context, slog.Record) error {
	c.lines.Add(1)
	return nil
}

func (c counting) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c counting) WithGroup(string) slog.Handler      { return c }

// D13: one bad situation makes a few lines, not one for each record or try: bad records, late ones, and brokers that are
// away for ten minutes. What there was of each is in the counters.
func TestD13LogIsNoFlood(t *testing.T) {
	records := 50_000 // TIDEMARK_TEST_BAD for more
	if text := os.Getenv("TIDEMARK_TEST_BAD"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	watched(t, func(w *world) {
		var lines atomic.Int64
		d := w.daemonize(func(o *Options) {
			windowed(o)
			o.Log = slog.New(counting{&lines})
			o.Checkpoint = 24 * time.Hour
		})
		w.reading(0, 10_000)
		for range records {
			w.cluster.Append("in", 0, kafka.Record{Key: []byte("a"), Timestamp: silenceStart, Value: []byte("bad")})
			w.reading(0, 100)
		}
		s := d.after(time.Minute)
		task := &s.Tasks[0]
		if n := lines.Load(); n > 100 || task.Readings.DeadLettered != int64(records) || task.Aggregations[0].Late != int64(records) {
			t.Errorf("%d lines of %d bad and %d late records", n, task.Readings.DeadLettered, task.Aggregations[0].Late)
		}
		lines.Store(0)
		w.cluster.Inject(func(kafkatest.Call) kafkatest.Verdict { return kafkatest.Fail(errAway) })
		d.after(10 * time.Minute)
		if n := lines.Load(); n == 0 || n > 200 {
			t.Errorf("%d lines in 10 minutes without brokers", n)
		}
		if w.cluster.Injected(kafkatest.OpFetch) == 0 {
			t.Error("no fetch failed: the fault did not happen")
		}
		w.cluster.Inject(nil)
		d.after(time.Minute)
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// D13: a start that waits says at once for what, and not again for every try: for brokers until it gives up, for a topic that
// nobody makes as long as it takes.
func TestStartSaysForWhatItWaits(t *testing.T) {
	for name, c := range map[string]struct {
		say   string
		until time.Duration
		most  int
		away  bool
	}{
		"brokers": {"waiting for the brokers", firstContact + 10*time.Second, 2, true},
		"topic":   {`waiting for the input topic" topic=nowhere repair="create it, or correct input.topic"`, 10 * time.Minute, 21, false},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(w *world) {
				var log said
				w.cluster.Inject(func(kafkatest.Call) kafkatest.Verdict {
					if c.away {
						return kafkatest.Fail(errAway)
					}
					return kafkatest.Verdict{}
				})
				d := w.daemonize(func(o *Options) {
					o.Log = slog.New(slog.NewTextHandler(&log, nil))
					o.Topics.Create = false
					if !c.away {
						o.Input = "nowhere"
					}
				})
				d.after(time.Second)
				if n := len(log.lines(c.say)); n != 1 {
					t.Errorf("told %d times within a second", n)
				}
				d.after(c.until)
				if n := len(log.lines(c.say)); n < 1 || n > c.most {
					t.Errorf("told %d times, want at most %d", n, c.most)
				}
				if err := d.end(); c.away != errors.Is(err, ErrUnreachable) {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// D05: a certificate or a login that is refused ends a start at once, for waiting opens no door. A job that runs waits, red, says
// why, and goes on when somebody has renewed what had expired.
func TestD05TurnedAway(t *testing.T) {
	refused := kafkatest.Fail(&kafka.Error{Class: kafka.ClassTransient, Op: "connect", Offset: -1, Hint: "renew it", Away: true, Err: errors.New("expired")})
	watched(t, func(w *world) {
		w.cluster.Inject(func(kafkatest.Call) kafkatest.Verdict { return refused })
		begun := time.Now()
		d := w.daemonize(nil)
		<-d.ended
		if took := time.Since(begun); !kafka.TurnedAway(d.err) || errors.Is(d.err, ErrUnreachable) || took > time.Second {
			t.Errorf("the start ended after %v with %v", took, d.err)
		}
	})
	watched(t, func(w *world) {
		w.produce(10)
		d := w.daemonize(nil)
		d.after(time.Second)
		w.cluster.Inject(func(kafkatest.Call) kafkatest.Verdict { return refused })
		w.produce(10)
		s := d.after(10 * time.Minute)
		if s.Health != status.Red || s.Ready || !s.Live || !strings.Contains(s.Tasks[0].Reasons[0].What, "renew it") {
			t.Errorf("health %s, ready %v, live %v: %+v", s.Health, s.Ready, s.Live, s.Tasks[0].Reasons)
		}
		if w.cluster.Injected(kafkatest.OpFetch) == 0 {
			t.Error("no fetch was refused")
		}
		w.cluster.Inject(nil)
		if s = d.after(time.Minute); s.Health != status.Green || s.Tasks[0].Readings.In+s.Tasks[1].Readings.In != 20 {
			t.Errorf("health %s, %+v", s.Health, s.Tasks)
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// D21: a start whose input topic is not there asks back about the topic that has nearly its name, and makes none. So does one
// that does not wait.
func TestD21MisspeltInputIsNamed(t *testing.T) {
	const want = "(did you mean sensor-readings?): create it, or correct input.topic"
	watched(t, func(w *world) {
		for _, name := range []string{"sensors", "sensor-readings", "other"} {
			w.cluster.CreateTopic(name, 2, nil)
		}
		misspelt := func(o *Options) { o.Topics.Create, o.Input = false, "sensor-reading" }
		var log said
		d := w.daemonize(func(o *Options) {
			misspelt(o)
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
		})
		if s := d.after(time.Second); s.Waiting == nil || s.Waiting.What != "topic sensor-reading to be made "+want {
			t.Errorf("it waits for %+v", s.Waiting)
		}
		if len(log.lines(`repair="create it, or correct input.topic" did_you_mean=sensor-readings`)) != 1 {
			t.Errorf("the log says %q", log.lines(""))
		}
		if err := d.end(); err != nil {
			t.Error(err)
		}
		o := w.options()
		misspelt(&o)
		o.UntilIdle = true
		app, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := app.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "input topic sensor-reading does not exist "+want) {
			t.Error(err)
		}
		o.Input, o.Late = "sensor-readings", "sensers"
		if app, err = New(o); err != nil {
			t.Fatal(err)
		}
		if err := app.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "topic sensers does not exist (did you mean sensors?). Repair: kafka-topics.sh") {
			t.Error(err)
		}
		if n := w.cluster.Calls(kafkatest.OpCreate); n != 0 {
			t.Errorf("%d topics were made", n)
		}
	})
}

// S82: a start that has waited long for its topic has brokers that answer. That one is away for a moment then ends nothing.
func TestTopicAwaitedPastABrokersFall(t *testing.T) {
	watched(t, func(w *world) {
		d := w.daemonize(func(o *Options) { o.Topics.Create, o.Input = false, "nowhere" })
		d.after(firstContact + time.Minute)
		w.cluster.Inject(func(kafkatest.Call) kafkatest.Verdict { return kafkatest.Fail(errAway) })
		if s := d.after(firstContact / 2); s.Waiting == nil || s.Waiting.For != status.ForBroker {
			t.Errorf("it waits for %+v, want the brokers", s.Waiting)
		}
		w.cluster.Inject(nil)
		if s := d.after(10 * time.Second); s.Waiting == nil || s.Waiting.For != status.ForInputTopic {
			t.Errorf("it waits for %+v, want the topic", s.Waiting)
		}
		if err := d.end(); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

// S34, D09, D19: what a directory cannot be used for is told with what helps against it.
func TestS34UnusableSaysWhatHelps(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	const anyCase = "must be a directory in which this user may make files"
	for cause, want := range map[syscall.Errno]string{
		syscall.EACCES: fmt.Sprintf("this process is user %d, group %d, and %s belongs to user %[1]d, group %d with mode 0750: give it to this user",
			os.Geteuid(), os.Getegid(), dir, groupOf(t, dir)),
		syscall.ENOTDIR: anyCase,
		syscall.ENOSPC:  "the file system of " + dir + " has ",
		syscall.EDQUOT:  fmt.Sprintf("the quota of user %d on the file system of %s is used up", os.Geteuid(), dir),
		syscall.EROFS:   dir + " is on a file system that is mounted read-only",
		syscall.EIO:     "input/output error",
	} {
		err := unusable(dir, &fs.PathError{Op: "open", Path: filepath.Join(dir, "id.tmp"), Err: cause})
		if !errors.Is(err, ErrDirectory) || !errors.Is(err, cause) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), anyCase) != (want == anyCase) {
			t.Errorf("%v: %v, want %q", cause, err, want)
		}
	}
}

func groupOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Gid
}

// D19: a state directory in memory, or on another machine, is told of; one on a disk is not.
func TestD19Volumes(t *testing.T) {
	if v := volumeOf("/dev/shm"); v.name != "tmpfs" || !strings.Contains(v.note("/dev/shm"), "state directory /dev/shm is on tmpfs and does not outlive this container or boot") {
		t.Errorf("%+v: %s", v, v.note("/dev/shm"))
	}
	if v := volumeOf(filepath.Join(t.TempDir(), "nowhere")); !v.ephemeral || v.note("x") == "" {
		t.Errorf("%+v", v)
	}
	for number, v := range volumes {
		if note := v.note("dir"); v.name == "" || v.network == v.ephemeral || !strings.Contains(note, "state directory dir is on "+v.name) ||
			strings.Contains(note, "network file system") != v.network {
			t.Errorf("%#x: %+v: %q", number, v, note)
		}
	}
	if note := (volume{}).note("dir"); note != "" {
		t.Errorf("a disk of this machine: %q", note)
	}
}

// D09: a file system that lets no file be made, for a quota or for want of inodes, costs checkpoints and nothing else: commits go
// on, status and log say why with one line for each attempt, and with room again the next one succeeds without a restart.
func TestD09NoFileCanBeMade(t *testing.T) {
	for cause, want := range map[syscall.Errno]string{syscall.EDQUOT: "the quota of user", syscall.ENOSPC: "the file system of"} {
		watched(t, func(w *world) {
			var refusing, refused atomic.Int64
			var log said
			d := w.daemonize(func(o *Options) {
				o.Checkpoint, o.Log = time.Minute, slog.New(slog.NewTextHandler(&log, nil))
				o.Files = storetest.Hook(store.Disk, func(op storetest.Op, do func() error) error {
					if refusing.Load() == 0 || op.Kind != "create" {
						return do()
					}
					refused.Add(1)
					return &fs.PathError{Op: "open", Path: op.Path, Err: cause}
				})
			})
			w.produce(50)
			d.after(3 * time.Minute)
			kept, _ := filepath.Glob(filepath.Join(w.dir, "*", "p*", "*.checkpoint"))
			refusing.Store(1)
			for range 10 {
				w.produce(10)
				d.after(time.Minute)
			}
			s := d.app.Status()
			now, _ := filepath.Glob(filepath.Join(w.dir, "*", "p*", "*.checkpoint"))
			if refused.Load() < 10 || len(kept) != 2 || !slices.Equal(kept, now) {
				t.Errorf("%d attempts refused; checkpoints before %q, now %q", refused.Load(), kept, now)
			}
			if s.Health != status.Red || s.Ready || !s.Live || s.Tasks[0].Readings.In+s.Tasks[1].Readings.In != 150 ||
				!strings.Contains(s.Tasks[0].Reasons[0].What, want) || s.Totals.CheckpointFailures < 10 {
				t.Errorf("health %s, ready %v, live %v, totals %+v: %+v", s.Health, s.Ready, s.Live, s.Totals, s.Tasks[0].Reasons)
			}
			if n := len(log.lines("checkpoint not written")); int64(n) != refused.Load() || !strings.Contains(log.lines("checkpoint not written")[0], want) {
				t.Errorf("%d lines of %d attempts: %q", n, refused.Load(), log.lines("checkpoint not written")[0])
			}
			refusing.Store(0)
			w.produce(10)
			if s = d.after(2 * time.Minute); s.Health != status.Green {
				t.Errorf("with room again: %+v", s.Tasks[0].Reasons)
			}
			if err := d.end(); err != nil {
				t.Error(err)
			}
		})
	}
}

// D19: a state directory that cannot be one ends the start at once, before anything is read, and names the path.
func TestD19StateDirectoryThatCannotBe(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(10)
	file := filepath.Join(w.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		o := w.options()
		o.StateDir = dir
		app, err := New(o)
		if err == nil {
			err = app.Run(t.Context())
		}
		if !errors.Is(err, ErrDirectory) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), "state.dir must be a directory in which this user may make files") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if n := w.cluster.Calls(kafkatest.OpFetch); n != 0 {
		t.Errorf("%d fetches", n)
	}
}
