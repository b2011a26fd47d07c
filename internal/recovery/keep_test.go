package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// longLived is a task whose whole changelog takes some hundred fetches of longFetch bytes.
func longLived(t testing.TB) *world {
	w := newWorld(t)
	r := w.start()
	for i := range 150 {
		w.commit(r, fmt.Sprintf("k%d=%d", i, i), fmt.Sprintf("hot%d=%d", i%5, i), fmt.Sprintf("gone%d=1", i))
		w.commit(r, fmt.Sprintf("gone%d", i))
	}
	w.crash(r)
	return w
}

const longFetch = 100

// slowly is a recovery that fetches little at a time, keeps a part every few fetches, and is interrupted after so many.
func (w *world) slowly(keep time.Duration, interrupt int) (rec *Recovery, run func() (*Recovered, error), fetches *int) {
	rec = w.recovery()
	rec.Cluster, rec.Keep = &tampered{Cluster: w.Cluster, maxBytes: longFetch}, keep
	fetches = new(int)
	run = func() (*Recovered, error) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		rec.Progress = func(p Progress) {
			if p.Step != StepReplay {
				return
			}
			if *fetches++; *fetches == interrupt {
				cancel()
			}
		}
		return rec.Run(ctx)
	}
	return rec, run, fetches
}

// S53: a replay that is interrupted again and again, long before it could reach its end, comes there all the same, for each
// try goes on where the one before it had kept what it had. Compaction runs between the tries. Without parts it would try
// for ever.
func TestS53InterruptedReplayGoesOn(t *testing.T) {
	const interrupt = 40
	for name, keep := range map[string]time.Duration{"with parts": 20 * time.Millisecond, "without": 0} {
		t.Run(name, func(t *testing.T) {
			w := longLived(t)
			_, whole, fetches := w.slowly(0, -1)
			r, err := whole()
			if err != nil {
				t.Fatal(err)
			}
			w.crash(r)
			most := *fetches/(interrupt/2) + 1 // half of each try is lost at the worst
			if most < 5 {
				t.Fatalf("a whole replay takes %d fetches: nothing is long", *fetches)
			}
			for try := 1; try <= most; try++ {
				rec, run, _ := w.slowly(keep, interrupt)
				r, err := run()
				switch {
				case err == nil:
					w.wantState(r.Store)
					if try < 4 || r.Report.From != "checkpoint" {
						t.Fatalf("try %d reached the end: %+v", try, r.Report)
					}
					w.crash(r)
					return
				case !errors.Is(err, context.Canceled):
					t.Fatal(err)
				case keep > 0 && rec.Report().Kept == 0:
					t.Fatalf("try %d has kept nothing: %+v", try, rec.Report())
				}
				if try == 2 {
					w.Compact(logTopic, w.partition)
				}
			}
			if keep > 0 {
				t.Fatalf("the end was not reached in %d tries", most)
			}
		})
	}
}

// S53, S04: a part is as old as the first record that was read for it. When the tombstones that follow it may be gone it is
// not used, though not a commit was made meanwhile; and one that was made from a checkpoint is as old as that.
func TestS53PartGrowsOld(t *testing.T) {
	limit := time.Duration(ageLimit(7200000)) * time.Millisecond
	for name, c := range map[string]struct {
		checkpoint bool
		before     time.Duration // from the checkpoint to the replay
		after      time.Duration // from there to the next try
		from       string
	}{
		"young":                      {after: limit - time.Minute, from: "checkpoint"},
		"old":                        {after: limit + time.Minute, from: "full replay"},
		"young, of a checkpoint":     {checkpoint: true, before: limit / 2, after: limit/2 - time.Minute, from: "checkpoint"},
		"as old as the checkpoint's": {checkpoint: true, before: limit / 2, after: limit/2 + time.Minute, from: "full replay"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.start()
			w.commit(r, "gone=1", "x=1")
			if c.checkpoint {
				w.checkpoint(r)
			}
			for i := range 60 {
				w.commit(r, fmt.Sprintf("k%d=1", i))
			}
			w.commit(r, "gone") // beyond where the replay is interrupted
			w.commit(r, "x=2")
			w.crash(r)
			w.Advance(c.before)
			rec, run, _ := w.slowly(10*time.Millisecond, 40)
			if _, err := run(); !errors.Is(err, context.Canceled) || rec.Report().Kept == 0 {
				t.Fatalf("error %v, report %+v: it was to be interrupted with a part kept", err, rec.Report())
			}
			w.Advance(c.after)
			if c.after > limit {
				w.Compact(logTopic, w.partition)
			}
			r = w.start()
			if r.Report.From != c.from {
				t.Errorf("report %+v, want from %q", r.Report, c.from)
			}
			if c.from == "full replay" && (len(r.Report.Aside) == 0 || r.Report.Aside[0].Word != "too-old") {
				t.Errorf("set aside: %+v", r.Report.Aside)
			}
			w.crash(r)
		})
	}
}

// I6, R15: a part replaces the checkpoints that knew what was committed, and knows it too: a log that ends before the commit
// which the replay was on its way to has lost something, and no start goes on with less.
func TestPartKnowsWhatIsLost(t *testing.T) {
	w := longLived(t)
	rec, run, _ := w.slowly(10*time.Millisecond, 40)
	if _, err := run(); !errors.Is(err, context.Canceled) || rec.Report().Kept == 0 {
		t.Fatalf("error %v, report %+v: it was to be interrupted with a part kept", err, rec.Report())
	}
	w.DeleteGroupOffset(job, w.partition)
	var commits []int64
	for _, r := range w.Committed(logTopic, w.partition) {
		if bytes.Equal(r.Key, record.CommitKey) {
			commits = append(commits, r.Offset)
		}
	}
	w.Truncate(logTopic, w.partition, commits[len(commits)-2]+2) // with its marker
	w.refused(w.recovery(), kafka.ClassLost, ".checkpoint", fmt.Sprintf("commit %d", w.last.Number), fmt.Sprintf("ends with commit %d", w.last.Number-1))
}

// A part that the disk refuses, or does not answer for, is only that: the replay goes on and says so (I6, I8, I12).
func TestPartThatCannotBeKept(t *testing.T) {
	for name, c := range map[string]struct {
		disk func(release chan struct{}) errorfs.InjectorFunc
		want string
	}{
		"refused": {func(chan struct{}) errorfs.InjectorFunc {
			return func(op errorfs.Op) error {
				if op.Kind == errorfs.OpFileWrite {
					return errors.New("the disk is full")
				}
				return nil
			}
		}, "the disk is full"},
		"not answered": {func(release chan struct{}) errorfs.InjectorFunc {
			return func(op errorfs.Op) error {
				if op.Kind == errorfs.OpFileWrite {
					<-release
				}
				return nil
			}
		}, "has not answered for"},
		"slow to be durable": {func(release chan struct{}) errorfs.InjectorFunc {
			return func(op errorfs.Op) error {
				if op.Kind == errorfs.OpFileSync && strings.Contains(op.Path, ".checkpoint") {
					<-release
				}
				return nil
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := longLived(t)
				release := make(chan struct{})
				defer close(release)
				rec, run, _ := w.slowly(20*time.Millisecond, -1)
				dir, err := store.OpenDir(vfsWith(w, c.disk(release)), store.Path(w.fs, "state", job, w.partition))
				if err != nil {
					t.Fatal(err)
				}
				rec.Checkpoints = dir
				r, err := run()
				if err != nil {
					t.Fatal(err)
				}
				w.wantState(r.Store)
				if said := strings.Join(r.Report.Warnings, "\n"); r.Report.Kept != 0 || !strings.Contains(said, c.want) {
					t.Errorf("kept %d, warnings %s", r.Report.Kept, said)
				}
				if n := len(r.Report.Warnings); n > 1 || c.want == "" && n > 0 {
					t.Errorf("it was said again and again, or for nothing: %s", r.Report.Warnings)
				}
				w.crash(r)
			})
		})
	}
}

// A slow disk is no task that hangs: while a part is written the replay says so, every few seconds; and what the parts take
// together is a small part of the time (R24, I12).
func TestPartOnASlowDisk(t *testing.T) {
	const write, fetch, blocks = 1500 * time.Millisecond, 100 * time.Millisecond, 12
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		for i := range blocks { // a block of the scan is 256 KiB, after which its shard ends
			w.commit(r, fmt.Sprintf("large%d=%s", i, strings.Repeat("x", 400_000)))
		}
		for i := range 2000 {
			w.commit(r, fmt.Sprintf("k%d=1", i%7))
		}
		w.crash(r)
		slow := errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, ".checkpoint") {
				<-time.After(write)
			}
			return nil
		})
		dir, err := store.OpenDir(vfsWith(w, slow), store.Path(w.fs, "state", job, w.partition))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		rec := w.recovery()
		rec.Checkpoints, rec.Keep, rec.Now = dir, time.Second, func() time.Duration { return time.Since(began) }
		rec.Cluster = &tampered{Cluster: w.Cluster, maxBytes: longFetch}
		var last Progress
		var moved, longest, writing time.Duration
		rec.Progress = func(p Progress) {
			if p.Step != StepReplay {
				return
			}
			now := time.Since(began)
			switch {
			case p.Kept != last.Kept:
				longest, writing = max(longest, now-moved), writing+now-moved
			case p.Done == last.Done:
				return
			}
			last, moved = p, now
			<-time.After(fetch)
			moved += fetch
		}
		r, err = rec.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.wantState(r.Store)
		all := time.Since(began)
		t.Logf("%d parts, %v of %v for them, never longer than %v without a word", r.Report.Kept, writing, all, longest)
		if r.Report.Kept < 2 || writing < 30*time.Second || longest > write+diskPatience {
			t.Errorf("%d parts, %v for them, and %v without a word", r.Report.Kept, writing, longest)
		}
		if writing > all/3 {
			t.Errorf("%v of %v went to parts", writing, all)
		}
		w.crash(r)
	})
}

func vfsWith(w *world, injector errorfs.InjectorFunc) vfs.FS { return errorfs.Wrap(w.fs, injector) }
