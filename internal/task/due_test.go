package task

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestHashSetAscends takes what was put in, in ascending order, through bursts of leaves, duplicates, equal prefixes and
// additions after a part was taken.
func TestHashSetAscends(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var set hashSet
	var want []uint64
	add := func(hash uint64) {
		set.add(hash, 0)
		want = append(want, hash)
	}
	for range 50_000 {
		add(rng.Uint64())
	}
	for i := range uint64(10_000) { // one leaf deep down, burst seven times
		add(0x0102030405060700 | i%200)
	}
	for range 3 {
		slices.Sort(want)
		for range 20_000 {
			hash, ok := set.take()
			if !ok || hash != want[0] {
				t.Fatalf("took %x, %v; want %x", hash, ok, want[0])
			}
			want = want[1:]
		}
		for range 5_000 {
			add(rng.Uint64())
		}
	}
	if set.len() != len(want) {
		t.Fatalf("%d left, want %d", set.len(), len(want))
	}
	slices.Sort(want)
	for _, w := range want {
		if hash, ok := set.take(); !ok || hash != w {
			t.Fatalf("took %x, %v; want %x", hash, ok, w)
		}
	}
	if hash, ok := set.take(); ok {
		t.Fatalf("took %x from an empty set", hash)
	}
}

// TestBacklogGetsCommitsOfItsOwn holds the slicing rules of section 4: no commit above its limit, input takes at most
// half while windows wait, and a commit after which more wait is followed by one without input.
func TestBacklogGetsCommitsOfItsOwn(t *testing.T) {
	const limit = 100
	base := newMapBase()
	proc := &counting{}
	task, err := New(base, proc, birth(), Options{Job: "job", MaxRecords: limit, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	offset := int64(0)
	fold := func(text string) bool {
		n, err := task.Fold([]Input{{Offset: offset, Epoch: -1, Value: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		offset += int64(n)
		return n == 1
	}
	commit := func() *Batch {
		batch, err := task.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Messages) > limit+2 {
			t.Fatalf("commit of %d records, limit %d", len(batch.Messages), limit)
		}
		done := *batch
		for task.Next() != EffectNone {
			if err := task.Did(task.Next()); err != nil {
				t.Fatal(err)
			}
		}
		return &done
	}
	keys := []string{}
	for i := range 2_000 {
		keys = append(keys, string(rune('A'+i%26))+string(rune('a'+i/26%26))+string(rune('0'+i/676)))
	}
	for _, k := range keys {
		for !fold("0 10 " + k) {
			commit()
		}
	}
	for !fold("0 10 close") {
		commit()
	}
	withoutInput, most := 0, 0
	for task.Waiting() > 0 {
		inputs := 0
		for inputs < limit && fold("1 10 later") { // keeps one entry dirty: its cost is records, not readings
			inputs++
		}
		before := task.Waiting()
		batch := commit()
		if batch.Inputs == 0 {
			withoutInput++
		}
		if batch.Closed < (limit-2)/2/2 && task.Waiting() > 0 {
			t.Fatalf("%d windows closed while %d wait: less than half a commit", batch.Closed, before)
		}
		most = max(most, task.Waiting())
	}
	if withoutInput == 0 {
		t.Fatal("the backlog grew, yet no commit went without input")
	}
	if got := len(base.entries); got != 1 {
		t.Fatalf("%d entries left, want the one that is not due", got)
	}
}

// TestDropAfterAMove deletes an entry and brings its key back at another place in one batch, as a session does that
// grows, and drops the batch: the index must stand where the base does.
func TestDropAfterAMove(t *testing.T) {
	base := newMapBase()
	task, err := New(base, &counting{}, birth(), Options{Job: "job", MaxRecords: 100, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	key, before, after := entryKey("a", "k", 0), Place{0, 0, 10}, Place{0, 0, 20}
	if _, err := task.Fold([]Input{{Offset: 0, Epoch: -1, Value: []byte("0 10 k")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := task.Begin(); err != nil {
		t.Fatal(err)
	}
	for task.Next() != EffectNone {
		if err := task.Did(task.Next()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time finds what the first drop left
		slot, fresh, err := task.view.Touch(key, before)
		if err != nil || fresh {
			t.Fatalf("fresh %v, %v", fresh, err)
		}
		task.view.Delete(slot)
		if _, fresh, err = task.view.Touch(key, after); err != nil || !fresh {
			t.Fatalf("fresh %v, %v", fresh, err)
		}
		task.Drop()
		for place, want := range map[Place]int{before: 1, after: 0} {
			live := 0
			if b := task.view.due.buckets[place]; b != nil {
				live = b.live()
			}
			if live != want {
				t.Fatalf("%d elements stand for an entry at %+v, want %d", live, place, want)
			}
		}
	}
	task.view.RaiseClosedEnd(0, 10)
	if !task.Dirty() || task.Waiting() != 1 {
		t.Fatalf("dirty %v with %d due windows, want the one of the base", task.Dirty(), task.Waiting())
	}
}
