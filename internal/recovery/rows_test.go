package recovery

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// fenced is a writer of another producer, for what other owners leave behind.
func (w *world) fenced(transactionalID string) kafka.Writer {
	w.t.Helper()
	other, err := w.Writer(transactionalID)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := other.Fence(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	return other
}

// open sends updates in a transaction that nobody ends.
func (w *world) open(other kafka.Writer, keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		m := kafka.Message{Topic: logTopic, Partition: w.partition, Key: entryKey(key), Value: []byte("never")}
		if _, err := other.Send(context.Background(), []kafka.Message{m}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// The rows that the restores of other systems hand to ours: each is a case that one of them got wrong.
func TestRestoreTable(t *testing.T) {
	// lived is a task with a checkpoint and a little changelog behind it; mid is before, late after the last commit.
	lived := func(w *world) (*Recovered, string) {
		r := w.start()
		w.commit(r, "x=1", "y=2", "z=3")
		path := w.checkpoint(r)
		w.commit(r, "x", "y=4")
		return r, path
	}
	rows := []struct {
		name string
		run  func(w *world)
	}{
		{"1 changelog ends in a commit marker", func(w *world) {
			r, _ := lived(w)
			w.crash(r)
			w.crash(w.start())
		}},
		{"2 changelog ends in an abort marker", func(w *world) {
			r, _ := lived(w)
			w.open(r.Writer, "x", "u")
			w.AbortTransaction(TransactionalID(logTopic, w.partition))
			w.crash(r)
			w.crash(w.start())
		}},
		{"3 aborted values present", func(w *world) {
			r, _ := lived(w)
			w.open(r.Writer, "y", "u")
			w.crash(r)
			r = w.start() // its fence aborts them
			w.commit(r, "v=5")
			w.crash(r)
			w.crash(w.start())
		}},
		{"4 an open transaction holds back the end", (*world).openTransaction},
		{"5 store already up to date, nothing to read", func(w *world) {
			r, _ := lived(w)
			w.checkpoint(r)
			w.crash(r)
			r = w.start()
			if r.Report.From != "checkpoint" || r.Report.Records != 0 {
				w.t.Fatalf("report %+v; want nothing replayed", r.Report)
			}
			w.crash(r)
		}},
		{"6 snapshot ahead of the topic: truncated", func(w *world) {
			r, _ := lived(w)
			w.checkpoint(r)
			w.crash(r)
			w.Truncate(logTopic, w.partition, 9) // the second commit is gone
			w.refused(w.recovery(), kafka.ClassLost, "commit 2", "ends with commit 1")
		}},
		{"6 snapshot ahead of the topic: recreated", func(w *world) {
			r, path := lived(w)
			w.crash(r)
			w.DeleteTopic(logTopic)
			w.createChangelog()
			w.DeleteGroupOffset(job, w.partition)
			w.refused(w.recovery(), kafka.ClassLost, "no commit record", path, "not of "+logTopic)
		}},
		{"7 snapshot older than the first offset", func(w *world) {
			r, path := lived(w)
			w.commit(r, "y", "z") // what is left lives above the new log start
			w.commit(r, "v=6")
			w.crash(r)
			w.DeleteRecords(logTopic, w.partition, int64(r.Position)-2)
			r = w.start()
			w.wantAside(r.Report, path, "log start")
			if r.Report.From != "full replay" {
				w.t.Fatalf("report %+v", r.Report)
			}
		}},
		{"7 snapshot older than the tombstone retention", func(w *world) {
			r, path := lived(w)
			w.crash(r)
			w.Advance(3 * time.Hour)
			r = w.start()
			w.wantAside(r.Report, path, "tombstones")
		}},
		{"8 offset 0 is a valid position", func(w *world) {
			r := w.start()
			if w.Committed(logTopic, w.partition)[0].Offset != 0 || r.Commit.Position != 0 {
				w.t.Fatalf("born at input %d; want 0, behind a fence record at 0", r.Commit.Position)
			}
			w.commit(r, "x=1")
			w.crash(r)
			if r = w.start(); r.Commit.Anchor.Offset != 0 || r.Report.Anchor != "proved" {
				w.t.Fatalf("anchor at %d %s, want 0 proved", r.Commit.Anchor.Offset, r.Report.Anchor)
			}
		}},
		{"9 reader cancelled before the end: not recovered", func(w *world) { cancelled(w, lived) }},
		{"10 end-offset look-up fails: not recovered", func(w *world) {
			r, _ := lived(w)
			w.crash(r)
			for n := 1; n <= 4; n++ { // results, changelog, changelog after the fence, input
				w.Inject(nth(kafkatest.OpOffsets, n, kafkatest.Fail(errCrash)))
				if _, err := w.recovery().Run(context.Background()); !errors.Is(err, errCrash) {
					w.t.Fatalf("look-up %d failed and the recovery says %v", n, err)
				}
			}
			w.Inject(nil)
			w.crash(w.start())
		}},
		{"11 newest snapshot damaged, older one good", func(w *world) {
			r, older := lived(w)
			newest := w.checkpoint(r)
			w.commit(r, "v=7")
			w.crash(r)
			w.damage(newest, 200)
			r = w.start()
			w.wantAside(r.Report, newest, "CRC")
			if r.Report.Checkpoint != older {
				w.t.Fatalf("from %s, want %s", r.Report.Checkpoint, older)
			}
		}},
		{"12 written by a newer version: said, not called damage", func(w *world) {
			r, path := lived(w)
			w.crash(r)
			w.damage(path, 23) // the low byte of the format version
			r = w.start()
			w.wantAside(r.Report, path, "written by format 254, this program reads up to 1")
			if _, err := w.fs.Stat(path); err != nil || !r.Report.Aside[0].Left {
				w.t.Fatalf("the newer file was touched: %v", err)
			}
		}},
		{"13 file cut at any byte", func(w *world) {
			r, path := lived(w)
			w.crash(r)
			whole := w.read(path)
			for n := range whole {
				w.replace(path, whole[:n])
				r := w.start()
				w.wantAside(r.Report, path, "")
				if r.Report.From != "full replay" {
					w.t.Fatalf("cut to %d bytes: report %+v", n, r.Report)
				}
				w.crash(r)
			}
		}},
		{"14 15 power fails around each file operation", powerFails},
		{"16 fsync fails once, then succeeds: still not durable", syncFails},
		{"17 commit answer lost, both ways", func(w *world) {
			for _, verdict := range []kafkatest.Verdict{kafkatest.Fail(errCrash), kafkatest.ApplyThenFail(errCrash)} {
				r := w.start()
				c, state, _, err := w.send(r, "x=9", "y")
				w.Inject(nth(kafkatest.OpCommit, 1, verdict))
				if err != nil || !errors.Is(r.Writer.Commit(context.Background()), errCrash) {
					w.t.Fatal("the commit was to fail", err)
				}
				w.Inject(nil)
				if verdict == kafkatest.ApplyThenFail(errCrash) {
					w.last, w.state = c, state
				}
				w.crash(r)
				w.crash(w.start())
			}
		}},
		{"18 the same after a second crash during recovery", func(w *world) {
			r, _ := lived(w)
			w.open(r.Writer, "x")
			w.crash(r)
			for n := 1; n <= 12; n++ {
				met := w.crashAt(n)
				if _, err := w.recovery().Run(context.Background()); !errors.Is(err, errCrash) || !*met {
					w.t.Fatalf("no crash at step %d: %v", n, err)
				}
				w.at = nil
				r := w.start()
				w.open(r.Writer, "y") // and crash again in the middle of a commit
				w.crash(r)
			}
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t)
			row.run(w)
		})
	}
}

// nth fails the n-th call of an operation from now on.
func nth(op kafkatest.Op, n int, verdict kafkatest.Verdict) func(kafkatest.Call) kafkatest.Verdict {
	return func(c kafkatest.Call) kafkatest.Verdict {
		if c.Op != op {
			return kafkatest.Verdict{}
		}
		if n--; n == 0 {
			return verdict
		}
		return kafkatest.Verdict{}
	}
}

// openTransaction is row 4 and S01: a transaction of a producer that is not ours holds the end back; the recovery says
// so, waits, and has everything when it is ended.
func (w *world) openTransaction() {
	synctest.Test(w.t.(*testing.T), func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		w.open(w.fenced("another-naming-scheme"), "x")
		stable := w.Offsets(logTopic, w.partition).Stable
		for range 100 {
			w.commit(r, "x=2", "y=3")
			w.commit(r, "x=4", "y")
		}
		w.crash(r)
		rec := w.recovery()
		waited := false
		rec.Progress = func(p Progress) {
			if p.Waiting < 0 || waited {
				return
			}
			waited = true
			if p.Waiting != stable {
				t.Errorf("waits for the transaction at %d, want %d", p.Waiting, stable)
			}
			time.AfterFunc(time.Minute, func() { w.AbortTransaction("another-naming-scheme") })
		}
		begin := time.Now()
		w.crash(w.started(rec))
		if !waited || time.Since(begin) < time.Minute {
			t.Errorf("recovered after %v without waiting for the open transaction", time.Since(begin))
		}
	})
}

// cancelled is row 9: an interrupted replay leaves nothing behind, and the next one begins anew.
func cancelled(w *world, lived func(*world) (*Recovered, string)) {
	r, path := lived(w)
	w.crash(r)
	if err := w.fs.Remove(path); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	rec := w.recovery()
	fetches := 0
	w.Inject(func(c kafkatest.Call) kafkatest.Verdict {
		if c.Op == kafkatest.OpFetch && c.Topic == logTopic {
			if fetches++; fetches == 3 { // the first of the replay: two were tail reads
				cancel()
				return kafkatest.Hang()
			}
		}
		return kafkatest.Verdict{}
	})
	_, err := rec.Run(ctx)
	if !errors.Is(err, context.Canceled) {
		w.t.Fatalf("error %v, want context canceled", err)
	}
	w.Inject(nil)
	w.crash(w.start())
}

func (w *world) read(path string) []byte {
	w.t.Helper()
	f, err := w.fs.Open(path)
	if err != nil {
		w.t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		w.t.Fatal(err)
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// replace makes a file of these bytes, whatever became of the old one.
func (w *world) replace(path string, b []byte) {
	w.t.Helper()
	f, err := w.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(b)); err != nil { // the memory file system changes what it is given under the race detector
		w.t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// powerFails is rows 14 and 15: the power fails before each file operation of two checkpoints, and any part of what was
// not synced is lost. Whatever directory is left, the recovery has the state.
func powerFails(w *world) {
	runs := 0
	for op, met := 0, true; met; op++ {
		met = false
		w := newWorld(w.t)
		mem := w.fs
		var left *vfs.MemFS
		n := 0
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(errorfs.Op) error {
			if n++; n == op+1 {
				met = true
				left = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * (op % 3), RNG: rand.New(rand.NewPCG(uint64(op), 0))})
			}
			return nil
		}))
		r := w.start()
		dir, err := store.OpenDir(fs, store.Path(fs, "state", job, w.partition))
		if err != nil {
			w.t.Fatal(err)
		}
		for range 3 {
			w.commit(r, "x=1", "y=2")
			w.write(dir, store.Header{Begin: r.Position, BrokerTime: w.Now(), Fence: r.Fence, Commit: *r.Commit}, r.Store)
			w.commit(r, "x", "z=3")
		}
		w.crash(r)
		if met {
			w.fs = left
			w.crash(w.start())
			runs++
		}
	}
	if runs < 20 {
		w.t.Fatalf("only %d file operations", runs)
	}
}

// syncFails is row 16: each sync of a checkpoint fails once; the attempt is over, and the recovery goes on from the
// checkpoint before it.
func syncFails(w *world) {
	for n := 1; ; n++ {
		w := newWorld(w.t)
		r := w.start()
		w.commit(r, "x=1")
		older := w.checkpoint(r)
		w.commit(r, "x=2")
		count, armed := 0, false
		fs := errorfs.Wrap(w.fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if armed && op.Kind == errorfs.OpFileSync {
				if count++; count == n {
					return errCrash
				}
			}
			return nil
		}))
		dir, err := store.OpenDir(fs, store.Path(fs, "state", job, w.partition))
		if err != nil {
			w.t.Fatal(err)
		}
		armed = true
		file, err := dir.Create(&store.Header{Begin: r.Position, BrokerTime: w.Now(), Fence: r.Fence, Commit: *r.Commit})
		if err != nil {
			w.t.Fatal(err)
		}
		scan := r.Store.StartScan()
		slice, _ := scan.Next(nil)
		if err := file.WriteBlock(slice); err != nil {
			w.t.Fatal(err)
		}
		_, err = file.Publish(r.Position, store.Sum{Digest: r.Store.Digest(), Live: r.Store.Live()}, scan.Delta())
		if count < n {
			if err != nil || n < 3 {
				w.t.Fatalf("%d syncs, error %v; want those of file and directory", n-1, err)
			}
			return
		}
		if !errors.Is(err, errCrash) {
			w.t.Fatalf("sync %d failed and the checkpoint says %v", n, err)
		}
		w.crash(r)
		w.fs = w.fs.CrashClone(vfs.CrashCloneCfg{})
		if r = w.start(); r.Report.Checkpoint != older {
			w.t.Fatalf("sync %d failed: from %q, want %q", n, r.Report.Checkpoint, older)
		}
		w.crash(r)
	}
}
