package task

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// greedy is a Processor of which one record touches or emits as much as it says: "touch N SIZE", "emit N SIZE",
// "encode N SIZE", or "same N SIZE" for one entry so many times.
type greedy struct {
	counting
	value int // bytes of the values it encodes
}

func (g *greedy) Process(v *View, in *Input) error {
	var what string
	var n, size int
	if _, err := fmt.Sscan(string(in.Value), &what, &n, &size); err != nil {
		return err
	}
	v.Counters().In++
	v.Counters().Filtered++
	for i := range n {
		key := entryKey("a", strings.Repeat("k", size), int64(i))
		switch what {
		case "emit":
			v.Emit(SinkResult, 0, key, nil, nil)
			continue
		case "encode":
			g.value, key = size, entryKey("a", "k", int64(i))
		case "same":
			key = entryKey("a", "k", 0)
		}
		if _, _, err := v.Touch(key, Place{0, int64(i), int64(i) + 10}); err != nil {
			return err
		}
	}
	return nil
}

func (g *greedy) Encode(slot Slot, dst []byte) []byte {
	return append(g.counting.Encode(slot, dst), make([]byte, g.value)...)
}

func newGreedy(t *testing.T, arena uint64) *Task {
	t.Helper()
	task, err := New(newMapBase(), &greedy{}, birth(), Options{Job: "job", MaxRecords: 1000, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	task.view.arena = arena
	return task
}

// TestArenaDoesNotWrap: keys, values and outputs of a batch are found by offsets of 32 bits. What would be beyond them fails
// with the record and sizes, in place of entries written under the keys of others (I13).
func TestArenaDoesNotWrap(t *testing.T) {
	const arena = 10_000
	for text, want := range map[string][]string{
		"touch 11 1000":  {"input offset 7", "keys of one commit", "at most 10000"},
		"emit 11 1000":   {"input offset 7", "outputs of one commit", "at most 10000"},
		"encode 11 1000": {"values of one commit", "at most 10000", "entry a [\"k\"] start "},
	} {
		task := newGreedy(t, arena)
		_, err := task.Fold([]Input{{Offset: 6, Epoch: -1, Value: []byte("touch 1 1000")}, {Offset: 7, Epoch: -1, Value: []byte(text)}})
		if err == nil {
			_, err = task.Begin()
		}
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q in it", text, err, part)
			}
		}
		task.Drop()
		if n, err := task.Fold([]Input{{Offset: 0, Epoch: -1, Value: []byte("touch 9 1000")}, {Offset: 1, Epoch: -1, Value: []byte("emit 9 1000")}}); n != 2 || err != nil {
			t.Errorf("%s: after that %d, %v", text, n, err)
		}
		if _, err := task.Begin(); err != nil {
			t.Errorf("%s: after that %v", text, err)
		}
	}
}

// TestFoldLooksAround: records that touch the same entries again and again fill no batch, and still do not keep Fold for as
// long as there are some (I12).
func TestFoldLooksAround(t *testing.T) {
	task := newGreedy(t, 1<<32)
	var in []Input
	for i := range 20 {
		in = append(in, Input{Offset: int64(i), Epoch: -1, Value: fmt.Appendf(nil, "same %d 1", foldWork/4)})
	}
	for rest, want := in, 4; len(rest) > 0; rest = rest[want:] {
		if n, err := task.Fold(rest); n != want || err != nil || task.Full() {
			t.Fatalf("%d folded, %v, full: %v; want %d and a batch that is not full", n, err, task.Full(), want)
		}
	}
}

// TestTouched counts each entry once for each record, whatever the batch holds (I11).
func TestTouched(t *testing.T) {
	task := newGreedy(t, 1<<32)
	size := len(entryKey("a", "kkkk", 0)) + PerRecord
	for i, text := range []string{"touch 3 4", "touch 5 4", "touch 5 4", "same 9 1"} {
		if _, err := task.Fold([]Input{{Offset: int64(i), Epoch: -1, Value: []byte(text)}}); err != nil {
			t.Fatal(err)
		}
		want := []touched{{3, 3 * size}, {5, 5 * size}, {5, 5 * size}, {1, size - 3}}[i]
		if got := task.view.touched; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

// TestDescribeIsShort: keys may have 64 KiB, and errors that name them are logged and shown again and again.
func TestDescribeIsShort(t *testing.T) {
	for want, key := range map[string][]byte{
		`a ["boiler-1"] start 10`:            entryKey("a", "boiler-1", 10),
		`... of 60014 bytes start -5`:        entryKey("a", strings.Repeat("é", 30_000), -5),
		`... of 60014 bytes start 5`:         entryKey("a", strings.Repeat("\x00", 60_000), 5),
		`0161ff of 3 bytes`:                  {1, 'a', 0xff},
		strings.Repeat("78", 48) + " of 900": []byte(strings.Repeat("x", 900)),
		"... of 1032 bytes start 1":          entryKey(strings.Repeat("n", 1_000), strings.Repeat("x", 20), 1),
	} {
		got := describe(key)
		if !strings.Contains(got, want) || len(got) > shownKey+40 {
			t.Errorf("%d bytes: %s, want %s", len(got), got, want)
		}
		if parsed, err := record.ParseEntryKey(key); err == nil && len(parsed.Fields[0]) < 10 && got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
