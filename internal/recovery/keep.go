package recovery

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// A long replay keeps what it has now and then, as a checkpoint: a part. So it loses at most Keep of its work when it is
// interrupted, and a task that is given away, or whose process dies, again and again comes to its end all the same (S53).
//
// A part is an image like any other but for two things. It is no state of any commit, for a compacted log has no value of a
// key but its last; so it is marked, and the ledger of a replay that goes on from it knows nothing. Its commit is the one that
// the replay was on its way to, which it is evidence of: a log that ends earlier has lost it (I6). And its broker time is that from which its entries were read: of our fence record, before
// the first of them, or of the checkpoint it was loaded from. Whatever was deleted after a part had read it has its
// tombstone in the log as long as the part is younger than the age limit (S04).

// isPart tells whether an image is a part of a replay.
func (img *image) isPart() bool { return img.Info.Commit.Mark == record.MarkPart }

// keeper keeps the parts of one replay.
type keeper struct {
	s    *sequence
	last time.Duration // when the last one was written, or the replay began
	time int64         // broker time of what it is made from
	off  bool          // a disk that has not answered is not asked again
}

func (s *sequence) newKeeper() *keeper {
	k := &keeper{s: s, last: s.Now(), time: s.end.fenceMS, off: s.Keep <= 0 || s.Checkpoints == nil}
	if s.source != nil {
		k.time = s.source.Info.BrokerTime
		k.off = k.off || s.source.live
	}
	return k
}

// passed keeps a part if it is time to. One that cannot be written is only that (I6, I8).
func (k *keeper) passed(ctx context.Context, p *replayer) {
	s := k.s
	if k.off || p.done || s.Now()-k.last < s.Keep {
		return
	}
	if err := k.keep(ctx, record.ChangelogPosition(p.reached)); err == nil {
		s.report.Kept++
	} else if ctx.Err() == nil {
		s.warn("what the replay has come to is not kept, an interruption begins it again: %v", err)
	}
	k.last = s.Now()
}

// block is what the disk is given at a time.
type block struct {
	bytes []byte
	last  bool
}

// keep writes the store as it is at a position of the replay. A goroutine asks the disk, and neither a stop nor the replay
// waits for one that does not answer: the goroutine has copies, no other attempt begins before it has ended, and what it may
// still publish is a true image.
func (k *keeper) keep(ctx context.Context, at record.ChangelogPosition) error {
	s := k.s
	digest, live := s.store.Prove()
	header := store.Header{Begin: at, BrokerTime: k.time, Fence: s.written, Commit: *s.end.last.Clone()}
	header.Commit.Mark, header.Commit.Note = record.MarkPart, ""
	end, state := record.ChangelogPosition(s.end.fenceAt+1), store.Sum{Digest: digest, Live: live}
	blocks, ended := make(chan block), make(chan error, 1)
	defer close(blocks)
	go func() { ended <- writePart(s.Checkpoints, &header, blocks, end, state) }()

	scan := s.store.StartScan()
	defer scan.Drop()
	silence := time.NewTimer(diskPatience)
	defer silence.Stop()
	next := block{}
	next.bytes, next.last = scan.Next(nil)
	for hand := blocks; ; silence.Reset(diskPatience) {
		select {
		case hand <- next:
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
			k.off = true
			return fmt.Errorf("the disk has not answered for %s", diskPatience)
		}
	}
}

// diskPatience is how long a replay waits for the disk to take a block.
const diskPatience = 5 * time.Second

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
