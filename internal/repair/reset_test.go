package repair

import (
	"context"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// A reset deletes every entry in slices no larger than a commit, marked so that nobody starts between them, and ends with
// a birth: another id, number 0, an empty state, the input position that was asked for.
func TestReset(t *testing.T) {
	w := lived(t)
	before, was := w.sane()
	end := w.Offsets(logTopic, 0).HighWatermark
	change := w.do(w.order(Reset))
	state, is := w.sane()
	if len(state) != 0 || is.Number != 0 || is.Birth == was.Birth || is.Mark != record.MarkReset {
		t.Fatalf("%d entries, commit record %+v", len(state), is)
	}
	equal(t, "position", is.Position, 2)
	equal(t, "counters", is.Counters, record.Counters{})
	equal(t, "stream time", is.StreamTime, record.NoTime)
	equal(t, "change", change.From.Birth+change.To.Birth, was.Birth.String()+is.Birth.String())
	slices, tombstones := 0, 0
	for _, r := range w.Committed(logTopic, 0) {
		kind, _ := record.KindOf(r.Key)
		switch {
		case r.Offset < end:
		case kind == record.KindEntry && r.Value == nil:
			tombstones++
		case kind == record.KindCommit:
			c, _ := record.ParseCommit(r.Value)
			if c.Mark != record.MarkResetting {
				continue
			}
			slices++
			equal(t, "birth of a slice", c.Birth, was.Birth)
			equal(t, "number of a slice", c.Number, was.Number+uint64(slices))
			if c.Records > 4 || !strings.Contains(c.Note, "anna@plant") {
				t.Errorf("slice %+v", c)
			}
		}
	}
	if slices != 3 || tombstones != len(before) {
		t.Errorf("%d slices with %d tombstones, want 3 with %d", slices, tombstones, len(before))
	}
	// The group, the result and the checkpoint of the former life are foreign, not later (I6), whatever their numbers.
	r := w.start()
	equal(t, "aside", r.Report.Aside[0].Word, "foreign")
	w.commit(r, "a=1")
	w.end(r)
	w.end(w.start())
}

// Whatever the former life has come to, a reset begins a new one: these are the states in which a start names it as the
// way on.
func TestResetOfWhatNobodyStarts(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(w *world)
		start []string
	}{
		"changelog recreated": {func(w *world) { // R5
			w.DeleteTopic(logTopic)
			w.CreateTopic(logTopic, 1, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "7200000"})
		}, []string{"this task has lived before", "tidemark reset"}},
		"commit record lost, updates left": {func(w *world) {
			w.Compact(logTopic, 0)
			for _, e := range w.Entries(logTopic, 0) {
				if string(e.Key) == string(record.CommitKey) {
					w.Remove(logTopic, 0, e.Offset, e.Offset+1)
				}
			}
		}, []string{"an update but no commit record", "tidemark reset"}},
		"log start moved": {func(w *world) {
			w.DeleteRecords(logTopic, 0, w.Offsets(logTopic, 0).HighWatermark)
		}, []string{"no commit record and the log starts at offset", "tidemark reset"}},
		"tail lost": {func(w *world) { w.loseTail() }, []string{"1 commits are gone"}},
		"commits contradict each other": {func(w *world) {
			r := w.start()
			r.Commit = r.Commit.Clone()
			r.Commit.Number += 3
			w.commit(r, "a=2")
			w.end(r)
		}, []string{"commit number 6 follows 2"}},
		"input recreated": {func(w *world) {
			w.DeleteTopic(inTopic)
			w.CreateTopic(inTopic, 1, nil)
			for range 20 {
				w.Append(inTopic, 0, kafka.Record{Value: []byte("new")})
			}
		}, []string{"id of input topic readings was"}},
		"last commit record damaged": {func(w *world) {
			w.damage(record.CommitKey, -1)
		}, []string{"commit record", "tidemark reset begins a new life"}},
		"all commit records damaged": {func(w *world) {
			for n := range 3 {
				w.damage(record.CommitKey, n)
			}
		}, []string{"commit record", "tidemark reset begins a new life"}},
		"fence and commit record damaged": {func(w *world) {
			w.damage(record.FenceKey, -1)
			w.damage(record.CommitKey, -1)
		}, []string{"tidemark reset begins a new life"}},
		"entry damaged": {func(w *world) {
			for _, e := range w.Entries(logTopic, 0) {
				if string(e.Key) == string(entryKey("h")) {
					w.Overwrite(logTopic, 0, e.Offset, []byte("flipped"))
				}
			}
		}, []string{"the state is not that of commit 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := lived(t)
			c.make(w)
			w.refusedStart(c.start...)
			if _, err := Plan(context.Background(), w.recovery(), w.order(Reset)); err != nil {
				t.Fatal(err)
			}
			w.do(w.order(Reset))
			if state, is := w.sane(); len(state) != 0 || is.Number != 0 || is.Mark != record.MarkReset {
				t.Errorf("%d entries, commit record %+v", len(state), is)
			}
			r := w.start()
			w.commit(r, "a=1")
			w.end(r)
			w.end(w.start())
		})
	}
}

// damage cuts the nth record with a key, -1 for the last one, short.
func (w *world) damage(key []byte, n int) {
	w.t.Helper()
	var at []int64
	for _, e := range w.Entries(logTopic, 0) {
		if string(e.Key) == string(key) {
			at = append(at, e.Offset)
		}
	}
	if n < 0 {
		n += len(at)
	}
	for _, e := range w.Entries(logTopic, 0) {
		if e.Offset == at[n] {
			w.Overwrite(logTopic, 0, e.Offset, e.Value[:len(e.Value)-1])
			return
		}
	}
}

// A damaged commit record is history only behind a reset: one in the life that counts, or one of a program that is newer,
// stays a stop, for a start and for a reset alike where it is newer.
func TestDamageThatNoResetHasEnded(t *testing.T) {
	w := lived(t)
	w.do(w.order(Reset))
	r := w.start()
	w.commit(r, "a=1")
	w.commit(r, "a=2")
	w.end(r)
	commits := 0
	for _, e := range w.Entries(logTopic, 0) {
		if string(e.Key) == string(record.CommitKey) {
			commits++
		}
	}
	w.damage(record.CommitKey, commits-2)
	w.refusedStart("commit record", "tidemark reset begins a new life")

	w = lived(t)
	for _, e := range w.Entries(logTopic, 0) {
		if string(e.Key) == string(record.CommitKey) {
			w.Overwrite(logTopic, 0, e.Offset, append([]byte{record.CommitFormat + 1}, e.Value[1:]...))
		}
	}
	w.refusedStart("use the newer tidemark that wrote it")
	if _, err := Plan(context.Background(), w.recovery(), w.order(Reset)); err == nil || !strings.Contains(err.Error(), "use the newer tidemark") {
		t.Errorf("a reset of what a newer program wrote: %v", err)
	}
}

// A reset may name where the new life begins.
func TestResetTo(t *testing.T) {
	w := lived(t)
	o := w.order(Reset)
	o.To = 33
	w.do(o)
	_, is := w.sane()
	equal(t, "position", is.Position, 33)
	w.end(w.start())
}

// loseTail cuts the changelog behind its first commit with entries, as an unclean election does. The group still knows
// the second one.
func (w *world) loseTail() {
	w.t.Helper()
	for _, e := range w.Entries(logTopic, 0) {
		if string(e.Key) != string(record.CommitKey) {
			continue
		}
		if c, _ := record.ParseCommit(e.Value); c.Number == 1 {
			w.Truncate(logTopic, 0, e.Offset+2) // behind its marker
			return
		}
	}
	w.t.Fatal("no commit 1")
}
