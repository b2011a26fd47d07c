package repair

import (
	"context"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// Where keys have stream times of their own (R35), one that is ahead of the stream time which is set would keep the key's
// windows closed, so it is forgotten: the key begins at the bound that holds for all.

// forget finds the clocks that are ahead, and takes them out of the state that next stands for. They go in slices no larger
// than a commit (I13), of which next is the last.
func (o *Order) forget(found *recovery.Found, next *record.Commit, change *Change) (err error) {
	if o.Ahead == nil {
		return nil
	}
	var scratch []byte
	found.Store.All(func(_ uint64, key, value []byte) bool {
		var ahead bool
		if ahead, err = o.Ahead(key, value, o.StreamTime); ahead && err == nil {
			scratch = append(append(scratch[:0], key...), value...)
			e := doomed{key: append([]byte(nil), key...), digest: record.EntryDigest(scratch, len(key))}
			change.forgotten = append(change.forgotten, e)
			next.Digest = next.Digest.Sub(e.digest)
		}
		return err == nil
	})
	n := len(change.forgotten)
	if n == 0 || err != nil {
		return err
	}
	next.Live -= record.Count(n)
	next.Number += uint64((n - 1) / o.perSlice())
	change.Nothing = false
	change.warn("%d clocks of keys are ahead of it and are forgotten: windows of these keys that were published may be published again", n)
	return nil
}

// perSlice is how many entries a commit may delete.
func (o *Order) perSlice() int {
	const perEntry = record.MaxKeyBytes + recordOverhead
	return max(1, min(o.MaxRecords-1, o.MaxBytes/perEntry))
}

// finish commits last, after slices of entries to be deleted; each of them says all that last says but what the later
// ones delete. The time is set by the first already, so that whoever goes on from the middle has lost nothing of a key
// whose time was right: what is missing then is done by the same order once more.
func (w *writer) finish(ctx context.Context, o *Order, last *record.Commit, entries []doomed) error {
	for {
		n := min(len(entries), o.perSlice())
		var messages []kafka.Message
		for i := range entries[:n] {
			messages = append(messages, w.message(entries[i].key, nil))
		}
		entries = entries[n:]
		c := last.Clone()
		c.Records = record.Count(n)
		c.Number -= uint64((len(entries) + o.perSlice() - 1) / o.perSlice())
		c.Live += record.Count(len(entries))
		for i := range entries {
			c.Digest = c.Digest.Add(entries[i].digest)
		}
		if _, err := w.commit(ctx, c, messages); err != nil || len(entries) == 0 {
			last.Records = c.Records
			return err
		}
	}
}
