package kafkatest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

func TestCompactKeepsTheLastValueAndItsOffset(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1", "y=1")
	r.commit(w)
	r.send(w, "x=2", "z=1")
	r.AbortTransaction("a")
	w = r.fenced("a")
	r.send(w, "x=3", "y")
	r.commit(w)
	r.wantLog("x=1 y=1 C -x=2 -z=1 A x=3 y C")
	r.Compact("t", 0)
	r.wantLog(". . C . . A x=3 y C") // bare markers and the tombstone have only met their first cleaning
	r.Advance(999 * time.Millisecond)
	r.Compact("t", 0)
	r.wantLog(". . C . . A x=3 y C")
	r.Advance(2 * time.Millisecond)
	r.Compact("t", 0)
	r.wantLog(". . . . . . x=3 . C") // the marker outlives every record of its transaction
}

func TestCompactStopsAtTheStableOffset(t *testing.T) {
	r := newRig(t)
	old, w := r.fenced("old"), r.fenced("new")
	r.send(w, "x=1")
	r.commit(w)
	r.send(old, "x=2")
	r.send(w, "x=3")
	r.commit(w)
	r.Compact("t", 0)
	r.wantLog("x=1 C (x=2) x=3 C") // neither the open nor the later value shadows x=1
	r.AbortTransaction("old")
	r.Compact("t", 0)
	r.wantLog(". C . x=3 C A")
}

func TestCompactKeepsTheLastBatch(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1")
	r.AbortTransaction("a")
	r.Compact("t", 0)
	r.Advance(2 * time.Second)
	r.Compact("t", 0)
	r.wantLog(". _")
	l, _ := r.Log("t", 0)
	if f, _ := l.Fetch(context.Background(), 0, 1<<20, 0); f.Next != 2 {
		t.Fatalf("next %d behind an emptied batch, want 2", f.Next)
	}
}

func TestNothingMovesThePositionPastAHoleAtTheEnd(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1")
	r.commit(w)
	r.Remove("t", 0, 1, 2)
	r.wantLog("x=1 .")
	l, _ := r.Log("t", 0)
	f, _ := l.Fetch(context.Background(), 0, 1<<20, 0)
	if f, _ = l.Fetch(context.Background(), f.Next, 1<<20, 0); f.Next != 1 || f.HighWatermark != 2 {
		t.Fatalf("next %d, high watermark %d, want 1 and 2", f.Next, f.HighWatermark)
	}
}

func TestFetchIsBounded(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1", "y=2", "z=3")
	r.commit(w)
	l, _ := r.Log("t", 0)
	var offsets []int64
	for next := int64(0); next < 4; {
		f, err := l.Fetch(context.Background(), next, 1, 0)
		if err != nil || f.Next != next+1 {
			t.Fatalf("fetch at %d: next %d, %v", next, f.Next, err)
		}
		next = f.Next
		for _, rec := range f.Records {
			offsets = append(offsets, rec.Offset)
		}
	}
	if diff := cmp.Diff([]int64{0, 1, 2}, offsets); diff != "" {
		t.Fatal(diff)
	}
}

func TestOutOfRangeIsLost(t *testing.T) {
	r := newRig(t)
	r.Append("t", 0, kafka.Record{}, kafka.Record{}, kafka.Record{})
	r.DeleteRecords("t", 0, 2)
	r.wantOffsets(kafka.Offsets{Start: 2, Stable: 3, HighWatermark: 3})
	l, _ := r.Log("t", 0)
	for _, position := range []int64{1, 4} {
		_, err := l.Fetch(context.Background(), position, 1<<20, 0)
		wantClass(t, err, kafka.ClassLost)
	}
	if f, err := l.Fetch(context.Background(), 3, 1<<20, 0); err != nil || f.Next != 3 {
		t.Fatalf("fetch at the end: %+v, %v", f, err)
	}
}

func TestTruncateReopensWhatLostItsMarker(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1")
	r.commit(w)
	r.send(w, "x=2")
	r.commit(w)
	r.Truncate("t", 0, 3)
	r.wantLog("x=1 C (x=2)")
	r.wantOffsets(kafka.Offsets{Stable: 2, HighWatermark: 3})
	r.Truncate("t", 0, 2)
	r.wantLog("x=1 C")
	r.Append("t", 0, kafka.Record{Key: []byte("y")})
	if got := r.Committed("t", 0)[1].Epoch; got != 2 {
		t.Fatalf("leader epoch %d after two truncations, want 2", got)
	}
}

// S28: a reader notices that what it has read was cut off, however far the log was filled again; one that has read less reads on.
func TestCutLogIsLost(t *testing.T) {
	r := newRig(t)
	for range 10 {
		r.Append("t", 0, kafka.Record{Key: []byte("k")})
	}
	far, _ := r.Log("t", 0)
	near, _ := r.Log("t", 0)
	idle, _ := r.Log("t", 0)
	read := func(l kafka.Log, from int64) error {
		_, err := l.Fetch(context.Background(), from, 1, 0)
		return err
	}
	if err := errors.Join(read(far, 8), read(near, 3), read(idle, 10)); err != nil {
		t.Fatal(err)
	}
	r.Truncate("t", 0, 5)
	for range 10 {
		r.Append("t", 0, kafka.Record{Key: []byte("k")})
	}
	wantClass(t, read(far, 9), kafka.ClassLost)
	wantClass(t, read(idle, 10), kafka.ClassLost)
	if err := read(near, 4); err != nil {
		t.Fatal(err)
	}
	if err := read(near, 12); err != nil {
		t.Fatal(err)
	}
	r.DeleteRecords("t", 0, 13)
	r.Truncate("t", 0, 14) // what was read is deleted: nothing of it can be missed
	if err := read(near, 14); err != nil {
		t.Fatal(err)
	}
}

func TestRecreatedTopicIsAnotherOne(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1")
	l, _ := r.Log("t", 0)
	if _, err := l.Offsets(context.Background()); err != nil {
		t.Fatal(err)
	}
	before, _ := admin{r.Cluster}.Topics(context.Background(), "t")
	r.DeleteTopic("t")
	_, err := l.Offsets(context.Background())
	wantClass(t, err, kafka.ClassTransient)
	after := r.CreateTopic("t", 1, nil)
	if after.ID.Equal(before["t"].ID) {
		t.Fatal("the new topic has the old id")
	}
	_, err = l.Fetch(context.Background(), 0, 1, 0)
	wantClass(t, err, kafka.ClassLost)
	_, err = w.Send(context.Background(), messages("x=2"))
	wantClass(t, err, kafka.ClassLost)
}

func TestFetchWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		l, _ := r.Log("t", 0)
		begin := time.Now()
		if f, err := l.Fetch(context.Background(), 0, 1, time.Second); err != nil || f.Next != 0 || time.Since(begin) != time.Second {
			t.Fatalf("empty fetch: %+v, %v after %v", f, err, time.Since(begin))
		}
		time.AfterFunc(time.Second, func() { r.Append("t", 0, kafka.Record{}) })
		if f, err := l.Fetch(context.Background(), 0, 1, time.Minute); err != nil || f.Next != 1 {
			t.Fatalf("woken fetch: %+v, %v", f, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := l.Fetch(ctx, 1, 1, time.Minute)
		wantClass(t, err, kafka.ClassTransient)
	})
}

func TestLeakHandsOutOpenRecords(t *testing.T) {
	r := newRig(t)
	r.send(r.fenced("a"), "x=1")
	r.Leak("t", 0)
	l, _ := r.Log("t", 0)
	if f, _ := l.Fetch(context.Background(), 0, 1<<20, 0); len(f.Records) != 1 || f.Stable != 0 {
		t.Fatalf("%+v; want one record at the stable offset 0", f)
	}
}

func TestAppendTimesAscendAndFollowTheClock(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1")
	r.Advance(time.Hour)
	r.send(w, "x=2")
	r.commit(w)
	got := r.Committed("t", 0)
	if d := got[1].Timestamp - got[0].Timestamp; d != time.Hour.Milliseconds()+1 {
		t.Fatalf("append times %d ms apart, want an hour and a tick", d)
	}
	r.Overwrite("t", 0, 0, []byte("damage"))
	if v := string(r.Committed("t", 0)[0].Value); v != "damage" {
		t.Fatalf("value %q after Overwrite", v)
	}
}
