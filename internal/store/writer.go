package store

import (
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// Writer is one attempt to write a checkpoint. It is used by one goroutine, which need not be the task's. Nothing it
// does touches another checkpoint before its own is published; after the first error the attempt is over, its file is
// removed, and every call returns that error.
type Writer struct {
	dir    *Dir
	target string
	begin  record.ChangelogPosition
	file   vfs.File // nil when closed
	hash   fileHash
	image  Sum
	head   []byte // to build small pieces in
	named  bool   // the rename was tried: the target may be there
	over   error  // why the attempt is over
}

var (
	errAborted   = errors.New("the attempt was given up")
	errPublished = errors.New("the checkpoint is published already")
)

func (w *Writer) tmp() string { return w.target + ".tmp" }

func (w *Writer) create(head []byte) error {
	file, err := w.dir.fs.Create(w.tmp(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return w.fail("create", err)
	}
	w.file = file
	if fd := file.Fd(); fd != vfs.InvalidFd {
		if err := unix.Fchmod(int(fd), 0o600); err != nil {
			return w.fail("set the mode of", err)
		}
	}
	return w.write(head)
}

// write adds one piece to the file. The piece may be changed.
func (w *Writer) write(piece []byte) error {
	w.hash.add(piece)
	if n, err := w.file.Write(piece); err != nil {
		return w.fail(fmt.Sprintf("write %d bytes at %d of", len(piece), w.hash.at-int64(len(piece))), err)
	} else if n != len(piece) {
		return w.fail("write", fmt.Errorf("%d of %d bytes written", n, len(piece)))
	}
	return nil
}

// WriteBlock writes one slice of a scan. The slice may be changed, and can be used again afterwards. An empty one is
// nothing.
func (w *Writer) WriteBlock(slice []byte) error {
	if w.over != nil || len(slice) == 0 {
		return w.over
	}
	if uint64(len(slice)) > math.MaxUint32 {
		return w.end(KindCorrupt, fmt.Errorf("slice of %d bytes, a block holds %d: one task holds too much, use more partitions", len(slice), uint32(math.MaxUint32)))
	}
	entries := uint32(0)
	for rest := slice; len(rest) > 0; entries++ {
		keyValue, keyLen, after, err := takeEntry(rest)
		if err != nil {
			return w.end(KindCorrupt, fmt.Errorf("slice of %d bytes from the store's memory, entry %d: %w", len(slice), entries, err))
		}
		w.image.Digest = w.image.Digest.Add(record.EntryDigest(keyValue, keyLen))
		rest = after
	}
	w.image.Live += record.Count(entries)
	w.head = appendBlockHead(w.head[:0], entries, slice)
	if err := w.write(w.head); err != nil {
		return err
	}
	return w.write(slice)
}

// Bytes is how much has been written, for whoever limits the rate.
func (w *Writer) Bytes() record.Bytes { return record.Bytes(w.hash.at) }

// Published is what a published checkpoint is.
type Published struct {
	Path    string
	Length  record.Bytes
	Image   Sum
	Removed int   // older checkpoints deleted
	Kept    error // why an older one could not be deleted; the next publication tries again
}

// Publish ends the file and makes it a checkpoint: this is the one way to do so, and its order is what survives a
// crash. end is the position P at the scan's end, state what the task says of itself there, delta what the scan says.
// When the image with the delta is not the state, the task's memory is wrong: KindCorrupt, nothing is published (V9).
// After an error nothing is published either, and no older checkpoint was touched.
func (w *Writer) Publish(end record.ChangelogPosition, state, delta Sum) (Published, error) {
	if w.over != nil {
		return Published{}, w.over
	}
	if got := w.image.Add(delta); got != state {
		return Published{}, w.end(KindCorrupt, fmt.Errorf("image with the changes since has digest %v and %d entries, the task says %v and %d: its memory cannot be trusted",
			got.Digest, got.Live, state.Digest, state.Live))
	}
	if end < w.begin {
		return Published{}, w.end(KindCorrupt, fmt.Errorf("scan ends at position %d, before its begin %d", end, w.begin))
	}
	t := trailer{end: end, image: w.image, length: w.hash.at + trailerBytes}
	if err := w.write(t.append(nil, w.hash)); err != nil {
		return Published{}, err
	}
	// A failed fsync is final for its file: the next one may succeed although the data is gone (S32).
	if !defect.NoFsync {
		if err := w.file.Sync(); err != nil {
			return Published{}, w.fail("fsync", err)
		}
	}
	file := w.file
	w.file = nil
	if err := file.Close(); err != nil {
		return Published{}, w.fail("close", err)
	}
	w.named = true
	if err := w.dir.fs.Rename(w.tmp(), w.target); err != nil {
		return Published{}, w.fail("rename", err)
	}
	if !defect.NoDirFsync {
		if err := syncDir(w.dir.fs, w.dir.path); err != nil {
			return Published{}, w.fail("fsync the directory of", err)
		}
	}
	w.finish(&Error{Kind: KindIO, Path: w.target, Err: errPublished})
	p := Published{Path: w.target, Length: w.Bytes(), Image: w.image}
	p.Removed, p.Kept = w.dir.removeOld(w.target)
	return p, nil
}

// Abort gives the attempt up and removes its file. It does nothing when the attempt is over.
func (w *Writer) Abort() {
	if w.over == nil {
		_ = w.end(KindIO, errAborted)
	}
}

// fail ends the attempt because the file system refused something.
func (w *Writer) fail(op string, err error) error {
	return w.end(KindIO, fmt.Errorf("%s the checkpoint under way: %w%s: the attempt is over, older checkpoints are untouched", op, err, hinted(w.target, err)))
}

// end ends the attempt: nothing under its two names may stay, or come to be taken for a checkpoint whose fsync failed.
// What cannot be removed now is swept before the next attempt. The target goes too, for a rename that failed may have
// been done; its name was never another file's.
func (w *Writer) end(kind Kind, err error) error {
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
	_ = w.dir.fs.Remove(w.tmp())
	if w.named {
		_ = w.dir.fs.Remove(w.target)
	}
	w.finish(&Error{Kind: kind, Path: w.target, Err: err})
	return w.over
}

func (w *Writer) finish(over error) {
	w.over = over
	w.dir.mu.Lock()
	w.dir.writing = nil
	w.dir.mu.Unlock()
}
