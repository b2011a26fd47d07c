package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// busyLog is the changelog of a task that is always in the middle of a commit: whenever its end is asked for, it has
// grown by one commit and the first half of the next.
type busyLog struct {
	kafka.Log
	t       *testing.T
	records []kafka.Record
	base    *store.Memory
	number  uint64
	atRest  bool
}

const updatesOfACommit = 4

func (l *busyLog) put(key, value []byte) {
	l.records = append(l.records, kafka.Record{Offset: int64(len(l.records)), Key: key, Value: value})
}

// update writes one update of the commit under way.
func (l *busyLog) update(i int) {
	key := record.AppendStart(record.AppendField(record.EntryPrefix(nil, "hourly"), fmt.Append(nil, "d", i)), 0)
	value := fmt.Append(nil, "value ", l.number, i)
	l.base.Set(record.Hash(key), key, value)
	l.put(key, value)
}

// end writes the commit record.
func (l *busyLog) end() {
	digest, live := l.base.Prove()
	c := record.Commit{Birth: 7, Number: l.number, Fence: 9, Epoch: -1, Anchor: record.Anchor{Offset: -1}, StreamTime: record.NoTime,
		SetterOffset: -1, MinRetention: 1, Digest: digest, Live: live, Records: updatesOfACommit}
	l.put(record.CommitKey, c.Append(nil))
	l.number++
}

func (l *busyLog) grow() {
	for i := updatesOfACommit / 2; i < updatesOfACommit && len(l.records) > 0; i++ {
		l.update(i)
	}
	l.end()
	for i := range updatesOfACommit / 2 {
		l.update(i)
	}
}

func (l *busyLog) Offsets(context.Context) (kafka.Offsets, error) {
	if !l.atRest {
		l.grow()
	}
	end := int64(len(l.records))
	return kafka.Offsets{Stable: end, HighWatermark: end}, nil
}

// Fetch delivers what is below the end, a few records at a time, as a fetch that ends within a batch does.
func (l *busyLog) Fetch(_ context.Context, position int64, _ int, _ time.Duration) (kafka.Fetched, error) {
	end := min(position+3, int64(len(l.records)))
	return kafka.Fetched{Records: l.records[position:end], Next: end, Offsets: kafka.Offsets{Stable: end, HighWatermark: end}}, nil
}

func newBusyLog(t *testing.T) *busyLog {
	l := &busyLog{t: t, base: store.NewMemory(0)}
	t.Cleanup(func() { _ = l.base.Close() })
	return l
}

func foldOf(t *testing.T) *changelogFold {
	f := &changelogFold{env: newEnv(nil, nil, nil, nil), topic: "cl", base: store.NewMemory(0)}
	t.Cleanup(func() { _ = f.base.Close() })
	return f
}

// TestDumpOfABusyTask ends although every end of the changelog that it takes lies within a commit: it reads on to the end
// of that commit, and shows no part of one.
func TestDumpOfABusyTask(t *testing.T) {
	for settled := range 4 { // commits before the dump begins
		l := newBusyLog(t)
		for range settled {
			l.grow()
		}
		f := foldOf(t)
		if err := f.run(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		commit, err := record.ParseCommit(f.last)
		if err != nil {
			t.Fatal(err)
		}
		if digest, live := f.base.Prove(); digest != commit.Digest || live != commit.Live || commit.Number > l.number {
			t.Errorf("%d entries with digest %s, commit %d recorded %d with %s", live, digest, commit.Number, commit.Live, commit.Digest)
		}
		if f.within || commit.Number+1 < uint64(settled) {
			t.Errorf("the fold ended within a commit (%v), after commit %d", f.within, commit.Number)
		}
	}
}

// TestDumpOfADamagedBusyTask gives up on a changelog that never folds to what its commits recorded, though it grows and
// grows, and on one at rest that ends within a commit.
func TestDumpOfADamagedBusyTask(t *testing.T) {
	l := newBusyLog(t)
	l.grow()
	stranger := record.AppendStart(record.AppendField(record.EntryPrefix(nil, "hourly"), []byte("nobody's")), 0)
	l.put(stranger, []byte("x"))
	if err := foldOf(t).run(t.Context(), l); err == nil || !strings.Contains(err.Error(), "cl/0 is damaged") || !strings.Contains(err.Error(), "written to all the while") {
		t.Errorf("%v", err)
	}
	l = newBusyLog(t)
	l.grow()
	l.atRest = true
	if err := foldOf(t).run(t.Context(), l); err == nil || !strings.Contains(err.Error(), "cl/0 is damaged") {
		t.Errorf("%v", err)
	}
}
