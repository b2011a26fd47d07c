package recovery

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// A long replay keeps what it has now and then, as a checkpoint: a part. So an interruption costs it what it did since the
// last one, and a task that is given away, or whose process dies, again and again comes to its end all the same (S53).
//
// A part is an image like any other but for two things. It is no state of any commit, for a compacted log has no value of a
// key but its last; so it is marked, and the ledger of a replay that goes on from it knows nothing. Its commit is the one that
// the replay was on its way to, which it is evidence of: a log that ends earlier has lost it (I6). And its broker time is that
// from which its entries were read: of our fence record, before the first of them, or of the checkpoint it was loaded from.
// Whatever was deleted after a part had read it has its tombstone in the log as long as the part is younger than the age
// limit (S04).

// isPart tells whether an image is a part of a replay.
func (img *image) isPart() bool { return img.Info.Commit.Mark == record.MarkPart }

// keeper keeps the parts of one replay.
type keeper struct {
	s    *sequence
	last time.Duration // when the last one was written, or the replay began
	time int64         // broker time of what it is made from
	wait time.Duration // from then to the next one
	slow chan error    // the end of one that the replay does not wait for any longer; nil when there is none
	told bool          // that one could not be written
	off  bool          // a disk that has not taken a block is not asked again
}

func (s *sequence) newKeeper() *keeper {
	k := &keeper{s: s, last: s.Now(), wait: s.Keep, time: s.end.fenceMS, off: s.Keep <= 0 || s.Checkpoints == nil}
	if s.source != nil {
		k.time = s.source.Info.BrokerTime
		k.off = k.off || s.source.live
	}
	return k
}

// passed keeps a part if it is time to. One that cannot be written is only that (I6, I8). While it is written tell says that
// the replay is at work.
func (k *keeper) passed(ctx context.Context, p *replayer, tell func()) {
	s := k.s
	if k.slow != nil {
		select {
		case err := <-k.slow:
			k.slow = nil
			k.kept(ctx, err)
		default:
			return
		}
	}
	if k.off || p.done || s.Now()-k.last < k.wait {
		return
	}
	begun := s.Now()
	err := k.keep(ctx, p, tell)
	k.last, k.wait = s.Now(), s.Keep
	if took := k.last - begun; took > costly {
		k.wait = max(k.wait, 9*took)
	}
	if k.slow == nil {
		k.kept(ctx, err)
	}
}

// kept counts a part, or says once why there is none.
func (k *keeper) kept(ctx context.Context, err error) {
	switch {
	case err == nil:
		k.s.report.Kept++
	case ctx.Err() == nil && !k.told:
		k.told = true
		k.s.warn("what the replay has come to is not kept, an interruption begins it again: %v", err)
	}
}

// block is what the disk is given at a time.
type block struct {
	bytes []byte
	last  bool
}

// keep writes the store as it is at a position of the replay. A goroutine asks the disk, and neither a stop nor the replay
// waits for one that does not answer: the goroutine has copies, no other attempt begins before it has ended, and what it may
// still publish is a true image. A disk that takes its time to make everything durable is no such disk: the replay goes on
// meanwhile, and looks for the end later.
func (k *keeper) keep(ctx context.Context, p *replayer, tell func()) error {
	s := k.s
	digest, live := s.store.Prove()
	header := store.Header{Begin: record.ChangelogPosition(p.reached), BrokerTime: k.time, Fence: s.written, Commit: *s.end.last.Clone()}
	header.Commit.Mark, header.Commit.Note = record.MarkPart, ""
	end, state := record.ChangelogPosition(s.end.fenceAt+1), store.Sum{Digest: digest, Live: live}
	blocks, ended := make(chan block), make(chan error, 1)
	defer close(blocks)
	go func() { ended <- writePart(s.Checkpoints, &header, blocks, end, state) }()

	scan := s.store.StartScan()
	defer scan.Drop()
	silence := time.NewTimer(diskPatience)
	defer silence.Stop()
	next, told := block{}, s.Now()
	next.bytes, next.last = scan.Next(nil)
	for hand := blocks; ; silence.Reset(diskPatience) {
		select {
		case hand <- next:
			p.kept += record.Bytes(len(next.bytes))
			if now := s.Now(); now-told > tellEvery {
				told = now
				tell()
			}
			if next.last {
				hand = nil // only its end is to be awaited
				continue
			}
			next.bytes, next.last = scan.Next(nil)
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-silence.C:
			if hand == nil {
				k.slow = ended
				return nil
			}
			k.off = true
			return fmt.Errorf("the disk has not answered for %s", diskPatience)
		}
	}
}

const (
	diskPatience = 5 * time.Second // how long a replay waits for the disk to take a block
	tellEvery    = time.Second     // how often it says that it is at work meanwhile
	costly       = time.Second     // a part that takes longer is followed by nine times as much replay
)

// writePart is the life of the goroutine that asks the disk. It ends when blocks are closed before the last one.
func writePart(dir *store.Dir, header *store.Header, blocks <-chan block, end record.ChangelogPosition, state store.Sum) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = kafka.Recovered(cause, "keep a part of a replay", header.Fence.Identity.Changelog.Name, header.Fence.Partition)
		}
	}()
	w, err := dir.Create(header)
	if err != nil {
		return err
	}
	defer w.Abort() // does nothing after Publish
	for b := range blocks {
		if err := w.WriteBlock(b.bytes); err != nil {
			return err
		}
		if b.last {
			_, err := w.Publish(end, state, store.Sum{}) // an older one that is not removed is tried again by the next
			return err
		}
	}
	return nil
}
