package task

import (
	"errors"
	"testing"
)

// R16: a leader epoch that goes back means that the log was cut and filled again. One that the broker does not say
// proves nothing, and must not make the task forget the one before it.
func TestEpochThatIsNotKnownForgetsNothing(t *testing.T) {
	task, err := New(newMapBase(), &counting{}, birth(), Options{Job: "job", MaxRecords: 100, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	for offset, epoch := range []int32{-1, 4, -1, 4, 5, -1} {
		if _, err := task.Fold([]Input{{Offset: int64(offset), Epoch: epoch, Value: []byte("0 10 k")}}); err != nil {
			t.Fatalf("offset %d: %v", offset, err)
		}
	}
	batch, err := task.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if batch.Commit.Epoch != 5 {
		t.Errorf("epoch %d is committed, want 5", batch.Commit.Epoch)
	}
	var input *InputError
	if n, err := task.Fold([]Input{{Offset: 6, Epoch: 4, Value: []byte("0 10 k")}}); n != 0 || !errors.As(err, &input) || input.Offset != 6 {
		t.Errorf("epoch 4 after 5: %d consumed, %v", n, err)
	}
}

// R13: a smaller retention is a commit of its own, once; after a drop it is due again.
func TestSmallerRetentionIsCommitted(t *testing.T) {
	first := birth()
	first.MinRetention = 7200
	task, err := New(newMapBase(), &counting{}, first, Options{Job: "job", MaxRecords: 100, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	task.Fenced(11, 7200, 3)
	if task.Dirty() {
		t.Error("the same retention is a change")
	}
	task.Retain(9000)
	if task.Dirty() {
		t.Error("a larger retention is a change")
	}
	task.Retain(50)
	task.Retain(60)
	for n := range 2 {
		if !task.Dirty() {
			t.Fatalf("try %d: nothing to commit", n)
		}
		batch, err := task.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if c := batch.Commit; c.MinRetention != 50 || c.OutputHash != 3 || c.Fence != 11 || c.Records != 0 {
			t.Errorf("try %d: commit %+v", n, c)
		}
		if n == 0 { // an unknown outcome
			task.Drop()
			task.Fenced(11, 50, 3)
		}
	}
	for task.Next() != EffectNone {
		if err := task.Did(task.Next()); err != nil {
			t.Fatal(err)
		}
	}
	if task.Dirty() || task.Committed().MinRetention != 50 {
		t.Errorf("after the commit: dirty %v, retention %d", task.Dirty(), task.Committed().MinRetention)
	}
}
