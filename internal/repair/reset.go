package repair

import (
	"context"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// A reset empties the changelog in slices no larger than a commit (I13): each deletes entries and says, by its mark, that
// a reset is under way, so that nobody takes what is left for a state. The last commit is the birth of the new life.

// birth is the first commit record of the new life.
func (o *Order) birth(ctx context.Context, r *recovery.Recovery, found *recovery.Found, change *Change) (*record.Commit, error) {
	start := o.To
	if start == record.NoInput {
		var err error
		if start, err = r.Start(ctx); err != nil {
			return nil, err
		}
	} else if bounds, err := inputBounds(ctx, r); err != nil {
		return nil, err
	} else if int64(start) < bounds.Start || int64(start) > bounds.HighWatermark {
		return nil, refuse(r, r.Identity.Input.Name, int64(start), "name an offset of the log",
			"the new life would begin at offset %d, the log is [%d, %d]", start, bounds.Start, bounds.HighWatermark)
	}
	next := r.Birth(found.Fence.ID, start)
	next.Mark = record.MarkReset
	switch c := found.Commit; {
	case c == nil:
		change.warn("the changelog holds no commit record: whatever updates are in it are deleted")
	case c.Mark == record.MarkResetting:
		change.warn("a reset was begun and not finished: this one finishes it (%s)", c.Note)
	}
	change.warn("ALL STATE IS DELETED, open windows without a result; windows that were published are published again " +
		"if their readings are read again, by the new life with its new birth id")
	return next, nil
}

// clear deletes all entries.
func (w *writer) clear(ctx context.Context, o Order, found *recovery.Found) error {
	last := found.Commit
	if last == nil { // a life of which nothing is known but that it ends
		last = w.r.Birth(found.Fence.ID, record.NoInput)
		last.Number-- // the first slice is number 0
	}
	for store := found.Store; store.Live() > 0; {
		entries := o.slice(found)
		next := after(last, record.MarkResetting)
		next.Fence, next.MinRetention, next.Note = found.Fence.ID, found.MinRetention, o.Note
		next.Records = record.Count(len(entries))
		next.Digest, next.Live = store.Digest(), store.Live()-next.Records
		messages := make([]kafka.Message, len(entries), len(entries)+1)
		for i := range entries {
			messages[i] = w.message(entries[i].key, nil)
			next.Digest = next.Digest.Sub(entries[i].digest)
		}
		if _, err := w.commit(ctx, next, messages); err != nil {
			return err
		}
		for i := range entries {
			e := &entries[i]
			store.Delete(e.hash, e.key, record.Digest{}.Sub(e.digest))
		}
		last = next
	}
	return nil
}

// doomed is an entry about to be deleted.
type doomed struct {
	hash   uint64
	key    []byte
	digest record.Digest
}

// recordOverhead is what a tombstone costs on the wire beside its key, roughly.
const recordOverhead = 32

// slice takes as many entries as a commit may delete, its commit record counted.
func (o *Order) slice(found *recovery.Found) (entries []doomed) {
	var scratch []byte
	bytes := 0
	found.Store.All(func(hash uint64, key, value []byte) bool {
		scratch = append(append(scratch[:0], key...), value...)
		e := doomed{hash: hash, key: append([]byte(nil), key...), digest: record.EntryDigest(scratch, len(key))}
		entries = append(entries, e)
		bytes += len(key) + recordOverhead
		return len(entries) < o.MaxRecords-1 && bytes < o.MaxBytes
	})
	return entries
}
