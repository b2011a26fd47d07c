package kafkatest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// rig is a cluster with one changelog-like topic "t".
type rig struct {
	*Cluster
	t *testing.T
}

func newRig(t *testing.T) rig {
	c := New("cluster-a")
	c.CreateTopic("t", 1, map[string]string{"delete.retention.ms": "1000"})
	return rig{c, t}
}

// fenced returns a writer that has just fenced.
func (r rig) fenced(id string) kafka.Writer {
	r.t.Helper()
	w, err := r.Writer(id)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := w.Fence(context.Background()); err != nil {
		r.t.Fatal(err)
	}
	return w
}

// send writes "k=v" texts; "k" alone is a tombstone.
func (r rig) send(w kafka.Writer, texts ...string) {
	r.t.Helper()
	if _, err := w.Send(context.Background(), messages(texts...)); err != nil {
		r.t.Fatal(err)
	}
}

func messages(texts ...string) []kafka.Message {
	var ms []kafka.Message
	for _, text := range texts {
		k, v, has := strings.Cut(text, "=")
		m := kafka.Message{Topic: "t", Key: []byte(k)}
		if has {
			m.Value = []byte(v)
		}
		ms = append(ms, m)
	}
	return ms
}

func (r rig) commit(w kafka.Writer) {
	r.t.Helper()
	if err := w.Commit(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// log draws the partition, one word per entry: "k=v" delivered, "(k=v)" open, "-k=v" aborted, "C" and "A" markers, "_"
// emptied, "." a hole.
func (r rig) log() string {
	var words []string
	next := r.Offsets("t", 0).Start
	for _, e := range r.Entries("t", 0) {
		for ; next < e.Offset; next++ {
			words = append(words, ".")
		}
		next++
		text := string(e.Key)
		if e.Value != nil {
			text += "=" + string(e.Value)
		}
		switch e.State {
		case Open:
			text = "(" + text + ")"
		case Aborted:
			text = "-" + text
		case Emptied:
			text = "_"
		case Marker:
			text = map[bool]string{true: "C", false: "A"}[e.Commit]
		}
		words = append(words, text)
	}
	for ; next < r.Offsets("t", 0).HighWatermark; next++ {
		words = append(words, ".")
	}
	return strings.Join(words, " ")
}

func (r rig) wantLog(want string) {
	r.t.Helper()
	if got := r.log(); got != want {
		r.t.Fatalf("log:\n got %s\nwant %s", got, want)
	}
}

func (r rig) wantOffsets(want kafka.Offsets) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.Offsets("t", 0)); diff != "" {
		r.t.Fatalf("offsets (-want +got):\n%s", diff)
	}
}

func wantClass(t *testing.T, err error, want kafka.Class) {
	t.Helper()
	if err == nil || kafka.ClassOf(err) != want {
		t.Fatalf("error %v of class %v, want class %v", err, kafka.ClassOf(err), want)
	}
}

func TestMarkersOccupyOffsets(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1", "y=2")
	r.wantLog("(x=1) (y=2)")
	r.wantOffsets(kafka.Offsets{Stable: 0, HighWatermark: 2})
	r.commit(w)
	r.wantLog("x=1 y=2 C")
	r.wantOffsets(kafka.Offsets{Stable: 3, HighWatermark: 3})
}

func TestFetchPassesMarkersAndAbortedRecords(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1", "y=2")
	r.AbortTransaction("a")
	r.wantLog("-x=1 -y=2 A")
	l, _ := r.Log("t", 0)
	f, err := l.Fetch(context.Background(), 0, 1<<20, 0)
	if err != nil || len(f.Records) != 0 || f.Next != 3 {
		t.Fatalf("fetch: %d records, next %d, %v; want none, 3", len(f.Records), f.Next, err)
	}
	w = r.fenced("a")
	r.send(w, "x=3")
	r.commit(w)
	if f, _ = l.Fetch(context.Background(), 1, 1<<20, 0); len(f.Records) != 1 || f.Records[0].Offset != 3 || f.Next != 5 {
		t.Fatalf("fetch from 1: %+v; want the record at 3 and next 5", f)
	}
}

func TestAnotherProducerPinsTheStableOffset(t *testing.T) {
	r := newRig(t)
	old, w := r.fenced("old"), r.fenced("new")
	r.send(w, "x=1")
	r.commit(w)
	r.send(old, "x=2")
	r.send(w, "x=3")
	r.commit(w)
	r.wantLog("x=1 C (x=2) x=3 C")
	r.wantOffsets(kafka.Offsets{Stable: 2, HighWatermark: 5})
	l, _ := r.Log("t", 0)
	if f, _ := l.Fetch(context.Background(), 0, 1<<20, 0); len(f.Records) != 1 || f.Next != 2 {
		t.Fatalf("fetch below an open transaction: %+v; want one record and next 2", f)
	}
	r.AbortTransaction("old")
	if f, _ := l.Fetch(context.Background(), 2, 1<<20, 0); len(f.Records) != 1 || f.Next != 6 {
		t.Fatalf("fetch after its end: %+v; want x=3 and next 6", f)
	}
}

func TestFenceAbortsTheOldOwner(t *testing.T) {
	r := newRig(t)
	zombie := r.fenced("a")
	r.send(zombie, "x=1")
	w := r.fenced("a")
	r.wantLog("-x=1 A")
	_, err := zombie.Send(context.Background(), messages("x=2"))
	wantClass(t, err, kafka.ClassFenced)
	r.wantLog("-x=1 A")
	_, err = zombie.Send(context.Background(), messages("x=2"))
	if !errors.Is(err, kafka.ErrAbandoned) { // only Close may follow an error
		t.Fatal(err)
	}
	r.send(w, "x=3")
	r.commit(w)
	r.wantLog("-x=1 A x=3 C")
}

func TestFencedCommitChangesNothing(t *testing.T) {
	r := newRig(t)
	zombie := r.fenced("a")
	r.send(zombie, "x=1")
	w := r.fenced("a")
	r.send(w, "x=2")
	wantClass(t, zombie.Commit(context.Background()), kafka.ClassFenced)
	r.wantLog("-x=1 A (x=2)")
}

func TestCommitRaisesTheEpoch(t *testing.T) {
	r := newRig(t)
	w, _ := r.Writer("a")
	first, _ := w.Fence(context.Background())
	r.send(w, "x=1")
	r.commit(w)
	next, _ := r.Writer("a")
	second, _ := next.Fence(context.Background())
	if first.ID != second.ID || second.Epoch != first.Epoch+2 {
		t.Fatalf("fence %+v, commit, fence %+v: want the epoch two higher", first, second)
	}
}

func TestEpochsRunOutIntoANewProducer(t *testing.T) {
	r := newRig(t)
	w, _ := r.Writer("a")
	first, _ := w.Fence(context.Background())
	for range 1 << 15 {
		r.send(w, "x=1")
		r.commit(w)
	}
	w, _ = r.Writer("a")
	if last, _ := w.Fence(context.Background()); last.ID == first.ID {
		t.Fatalf("still producer %d after %d commits", last.ID, 1<<15)
	}
}

func TestHeldMarkers(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.HoldMarkers(true)
	r.send(w, "x=1")
	r.commit(w)
	r.wantLog("(x=1)")
	r.wantOffsets(kafka.Offsets{Stable: 0, HighWatermark: 1})
	r.send(w, "x=2") // the same producer waits for its markers
	r.wantLog("x=1 C (x=2)")
	r.commit(w)
	r.wantLog("x=1 C (x=2)")
	w = r.fenced("a") // the fence completes what was decided
	r.wantLog("x=1 C x=2 C")
	r.send(w, "x=3")
	r.commit(w)
	r.HoldMarkers(false)
	r.wantLog("x=1 C x=2 C (x=3)")
	r.ReleaseMarkers()
	r.wantLog("x=1 C x=2 C x=3 C")
}

func TestFaults(t *testing.T) {
	lost := errors.New("answer lost")
	for name, tc := range map[string]struct {
		verdict Verdict
		log     string
	}{
		"before":     {Fail(lost), ""},
		"after":      {ApplyThenFail(lost), "(x=1) (y=2)"},
		"after part": {ApplyPart(1, lost), "(x=1)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			w := r.fenced("a")
			r.Inject(func(c Call) Verdict {
				if c.Op == OpSend && c.N == 1 {
					return tc.verdict
				}
				return Verdict{}
			})
			_, err := w.Send(context.Background(), messages("x=1", "y=2"))
			if !errors.Is(err, lost) || r.Injected(OpSend) != 1 || r.Injected(OpCommit) != 0 {
				t.Fatalf("error %v, %d sends injected", err, r.Injected(OpSend))
			}
			r.wantLog(tc.log)
		})
	}
}

func TestCommitAppliedAnswerLost(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	r.send(w, "x=1")
	r.Inject(func(c Call) Verdict {
		if c.Op == OpCommit {
			return ApplyThenFail(errors.New("connection reset"))
		}
		return Verdict{}
	})
	wantClass(t, w.Commit(context.Background()), kafka.ClassTransient)
	r.wantLog("x=1 C")
	if r.Injected(OpCommit) != 1 || r.Calls(OpFence) != 1 {
		t.Fatalf("%d commits injected, %d fences counted", r.Injected(OpCommit), r.Calls(OpFence))
	}
}

func TestHangEndsWithTheContext(t *testing.T) {
	r := newRig(t)
	w := r.fenced("a")
	ctx, cancel := context.WithCancel(context.Background())
	r.Inject(func(Call) Verdict { cancel(); return Hang() })
	_, err := w.Send(ctx, messages("x=1"))
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want context canceled", err)
	}
	r.wantLog("")
}

func TestTooLargeMessageIsPermanent(t *testing.T) {
	r := newRig(t)
	r.SetConfig("t", "max.message.bytes", "100")
	_, err := r.fenced("a").Send(context.Background(), messages("x="+strings.Repeat("v", 200)))
	wantClass(t, err, kafka.ClassPermanent)
	if !strings.Contains(err.Error(), "201") || !strings.Contains(err.Error(), "100") {
		t.Fatalf("error %q does not name both sizes", err)
	}
}

func TestWriterKeepsItsOrder(t *testing.T) {
	r := newRig(t)
	w, _ := r.Writer("a")
	_, err := w.Send(context.Background(), messages("x=1"))
	wantClass(t, err, kafka.ClassPermanent)
	w = r.fenced("a")
	wantClass(t, w.Commit(context.Background()), kafka.ClassPermanent)
	_, err = w.Fence(context.Background())
	wantClass(t, err, kafka.ClassPermanent)
	w.Close()
	if _, err = w.Send(context.Background(), messages("x=1")); !errors.Is(err, kafka.ErrClosed) {
		t.Fatal(err)
	}
	r.wantLog("")
}
