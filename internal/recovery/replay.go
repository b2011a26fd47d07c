package recovery

import (
	"cmp"
	"context"
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// replayBytes is the size of one fetch of a replay where nothing else is said. Three are in memory at a time (kafka.ReadAhead).
const replayBytes = 8 << 20

// deletedError says that the log start has moved past where a replay stood: what it has built may hold keys whose
// tombstones are gone (S24).
type deletedError struct{ position, start int64 }

func (e *deletedError) Error() string {
	return fmt.Sprintf("log start %d > position %d of the replay: what lies between was deleted", e.start, e.position)
}

// applier puts replayed updates into a store.
type applier interface {
	touch(hashes []uint64) uint64 // of updates about to come
	put(hash uint64, key, value []byte) error
	remove(hash uint64, key []byte) error
}

// bulk fills a store that is proved from its entries afterwards.
type bulk struct{ *store.Memory }

func (b bulk) touch(hashes []uint64) uint64             { return b.Touch(hashes) }
func (b bulk) put(hash uint64, key, value []byte) error { b.Set(hash, key, value); return nil }
func (b bulk) remove(hash uint64, key []byte) error     { b.Unset(hash, key); return nil }

// onto changes a live base and carries its running digest along, so that the proof costs nothing (I7, R25).
type onto struct {
	*Live
	scratch []byte
}

func (o *onto) digest(key, value []byte) record.Digest {
	o.scratch = append(append(o.scratch[:0], key...), value...)
	return record.EntryDigest(o.scratch, len(key))
}

// change tells who keeps an index, and returns the digest of the old entry.
func (o *onto) change(hash uint64, key, value []byte) (old record.Digest, existed bool, err error) {
	was, existed := o.Store.Get(hash, key)
	if existed {
		old = o.digest(key, was)
		was = notNil(was)
	}
	if o.Changed != nil {
		err = o.Changed(hash, key, was, value)
	}
	return old, existed, err
}

func (o *onto) touch(hashes []uint64) uint64 { return o.Store.Touch(hashes) }

func (o *onto) put(hash uint64, key, value []byte) error {
	old, _, err := o.change(hash, key, notNil(value))
	if err == nil {
		o.Store.Put(hash, key, value, o.digest(key, value).Sub(old))
	}
	return err
}

func (o *onto) remove(hash uint64, key []byte) error {
	old, existed, err := o.change(hash, key, nil)
	if err == nil && existed {
		o.Store.Delete(hash, key, record.Digest{}.Sub(old))
	}
	return err
}

// notNil keeps an entry with an empty value apart from no entry.
func notNil(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

// replayer is one replay from a position to the last commit record. What lies between that and our fence record has been
// walked by the tail read already: aborted runs, markers and fence records, nothing that belongs to the state.
type replayer struct {
	*ledger
	to      applier
	end     int64 // offset of the last commit record
	reached int64 // every record below it has been applied
	size    int   // of one fetch
	done    bool  // the record at end was delivered, or there is nothing to read
	blind   bool  // only updates count: what the commits say of them is of no interest
	records record.Count
	bytes   record.Bytes
	kept    record.Bytes       // of parts, that the disk has taken
	hashes  [touchAhead]uint64 // of the next records
	touched uint64
}

// touchAhead is how many records are hashed and touched together before they are applied: the cache misses of an update
// are most of its cost, and those of different records can wait side by side.
const touchAhead = 32

// run reads until the last commit record is delivered; each is called after every fetch.
func (p *replayer) run(ctx context.Context, each func(kafka.Offsets)) error {
	if p.done = p.reached > p.end; p.done {
		return nil
	}
	size := cmp.Or(p.size, replayBytes)
	if defect.EmptyPollIsEnd {
		size = 1 // a batch a poll
	}
	ahead := kafka.NewReadAhead(p.c.log, p.reached, kafka.Pace{MaxBytes: func() int { return size }, Wait: fetchWait})
	defer ahead.Stop()
	for !p.done {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case read := <-ahead.Reads():
			if read.Err != nil {
				ahead.Stop()
				return p.explain(ctx, read.Err)
			}
			if err := p.take(read.Fetched); err != nil {
				return err
			}
			read.Served()
			each(read.Offsets)
		}
	}
	return nil
}

// explain tells a log start that has moved from any other loss.
func (p *replayer) explain(ctx context.Context, err error) error {
	if kafka.ClassOf(err) != kafka.ClassLost {
		return err
	}
	if o, failed := p.c.log.Offsets(ctx); failed == nil && o.Start > p.reached {
		return &deletedError{position: p.reached, start: o.Start}
	}
	return err
}

// take applies one fetch.
func (p *replayer) take(f kafka.Fetched) error {
	p.bytes += record.Bytes(f.Bytes)
	if defect.EmptyPollIsEnd && len(f.Records) == 0 {
		p.done = true
		return nil
	}
	for records := f.Records; len(records) > 0; {
		chunk := records[:min(len(records), touchAhead)]
		records = records[len(chunk):]
		for i := range chunk {
			p.hashes[i] = record.Hash(chunk[i].Key)
		}
		p.touched += p.to.touch(p.hashes[:len(chunk)])
		for i := range chunk {
			r := &chunk[i]
			if err := p.c.inOrder(r, p.reached, f.Stable); err != nil {
				return err
			}
			if r.Offset > p.end {
				return p.superseded(r.Offset)
			}
			if err := p.apply(r, p.hashes[i]); err != nil {
				return err
			}
			p.reached = r.Offset + 1
			if p.done = r.Offset == p.end; p.done {
				return nil
			}
		}
	}
	if f.Next > p.end {
		return p.superseded(f.Next)
	}
	p.reached = f.Next
	return nil
}

// superseded says that the last commit record is not where the tail read found it: it was compacted away under that of a
// newer owner.
func (p *replayer) superseded(at int64) error {
	return p.c.fail(kafka.ClassFenced, "replay", at, "",
		"the last commit record, delivered at offset %d before, is not there: a newer owner's has replaced it", p.end)
}

// apply takes one record: updates overwrite, tombstones delete, commit and fence records are checked.
func (p *replayer) apply(r *kafka.Record, hash uint64) error {
	p.records++
	kind, ok := record.KindOf(r.Key)
	switch {
	case ok && kind == record.KindEntry:
		p.passed(r.Offset)
		p.updates++
		return p.update(r, hash)
	case ok && p.blind:
		return nil
	case ok && kind == record.KindCommit:
		return p.passCommit(r)
	case ok && kind == record.KindFence:
		return p.passFence(r)
	}
	return p.c.unknownKind(r)
}

func (p *replayer) update(r *kafka.Record, hash uint64) error {
	if len(r.Key) > record.MaxKeyBytes || len(r.Value) > store.MaxValueBytes {
		return p.c.fail(kafka.ClassPermanent, "replay", r.Offset, "", "key of %d and value of %d bytes, limits %d and %d",
			len(r.Key), len(r.Value), record.MaxKeyBytes, store.MaxValueBytes)
	}
	var err error
	if r.Value == nil && defect.TombstonesSkipped {
		return nil
	} else if r.Value == nil {
		err = p.to.remove(hash, r.Key)
	} else {
		err = p.to.put(hash, r.Key, r.Value)
	}
	if err != nil {
		return p.c.fail(kafka.ClassCorrupt, "replay", r.Offset, "", "%w", err)
	}
	return nil
}
