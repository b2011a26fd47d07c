package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// ReadInfo reads header and trailer of a checkpoint: cheap, and enough to choose one. Their own checksums are verified
// and the file's length, the entries are not looked at. The format version is judged before any checksum: a file of a
// newer format may be in order whatever this program computes. Errors have KindDamaged, KindNewer or KindIO.
func ReadInfo(fs vfs.FS, path string) (*Info, error) {
	r, err := openReader(fs, path)
	if err != nil {
		return nil, err
	}
	return &r.info, r.close(nil)
}

// reader reads a checkpoint file from the front. What it returns is not to be trusted before end has agreed.
type reader struct {
	file    vfs.File
	info    Info
	trailer trailer
	size    int64
	hash    fileHash // of the pieces passed, their entries left out
}

// block is a block as read. Its checksums have not been looked at.
type block struct {
	at      int64 // offset of the payload
	head    [blockHead]byte
	payload []byte
}

func openReader(fs vfs.FS, path string) (*reader, error) {
	r := &reader{info: Info{Path: path, Number: numberIn(fs.PathBase(path))}}
	var err error
	if r.file, err = fs.Open(path, vfs.SequentialReadsOption); err != nil {
		return nil, &Error{Kind: KindIO, Path: path, Err: err}
	}
	if err := r.open(); err != nil {
		return nil, r.close(err)
	}
	return r, nil
}

func (r *reader) open() error {
	stat, err := r.file.Stat()
	if err != nil {
		return r.ioError(err)
	}
	if stat.IsDir() {
		return r.damaged(errors.New("is a directory"))
	}
	r.size = stat.Size()
	head, err := r.readHead()
	if err != nil {
		return err
	}
	var tail [trailerBytes]byte
	if r.size < int64(len(head))+trailerBytes {
		return r.damaged(fmt.Errorf("is cut to %d bytes, in its trailer", r.size))
	}
	if err := r.readAt(tail[:], r.size-trailerBytes); err != nil {
		return err
	}
	if err := r.trailer.parse(tail[:]); err != nil {
		return r.damaged(err)
	}
	t := &r.trailer
	if t.length != r.size {
		return r.damaged(fmt.Errorf("has %d bytes, its trailer says %d", r.size, t.length))
	}
	if t.end < r.info.Begin {
		return r.damaged(fmt.Errorf("ends at position %d, before its begin %d", t.end, r.info.Begin))
	}
	r.info.End, r.info.Image, r.info.Length = t.end, t.image, record.Bytes(t.length)
	r.hash.add(head)
	return nil
}

// readHead reads and verifies the file up to and including the header's checksum.
func (r *reader) readHead() ([]byte, error) {
	head := make([]byte, headerAt)
	if r.size < int64(len(head)) {
		return nil, r.damaged(fmt.Errorf("has only %d bytes", r.size))
	}
	if err := r.readAt(head, 0); err != nil {
		return nil, err
	}
	if string(head[:formatAt]) != magic {
		return nil, r.damaged(errors.New("does not begin as a checkpoint does"))
	}
	if format := binary.BigEndian.Uint32(head[formatAt:]); format > Format {
		return nil, r.newer(&record.FormatError{What: "checkpoint", Found: int(format), Known: Format})
	} else if format == 0 {
		return nil, r.damaged(errors.New("format 0 does not exist"))
	}
	n := int(binary.BigEndian.Uint32(head[headerLenAt:]))
	if n > maxHeader || int64(headerAt+n+crcBytes) > r.size {
		return nil, r.damaged(fmt.Errorf("header of %d bytes in a file of %d", n, r.size))
	}
	head = append(head, make([]byte, n+crcBytes)...)
	if err := r.readAt(head[headerAt:], int64(headerAt)); err != nil {
		return nil, err
	}
	body, sum := head[:headerAt+n], binary.BigEndian.Uint32(head[headerAt+n:])
	if got := crc(body); got != sum {
		return nil, r.damaged(fmt.Errorf("header has CRC %08x, computed %08x", sum, got))
	}
	if err := r.info.parse(body[headerAt:]); err != nil {
		if newer := (*record.FormatError)(nil); errors.As(err, &newer) {
			return nil, r.newer(err)
		}
		return nil, r.damaged(err)
	}
	return head, nil
}

// next reads the next block into b and its buffer; false at the trailer. The file hash lacks the payload.
func (r *reader) next(b *block) (bool, error) {
	end := r.size - trailerBytes
	left := end - r.hash.at
	if left == 0 {
		return false, nil
	}
	if left < blockHead {
		return false, r.damaged(fmt.Errorf("has %d bytes between its last block and its trailer", left))
	}
	if err := r.readAt(b.head[:], r.hash.at); err != nil {
		return false, err
	}
	n := int64(binary.BigEndian.Uint32(b.head[1:]))
	if b.head[0] != blockMark || n == 0 || n > left-blockHead {
		return false, r.damaged(fmt.Errorf("block at %d has mark %#02x and %d bytes, %d are left", r.hash.at, b.head[0], n, left))
	}
	r.hash.add(b.head[:])
	b.at = r.hash.at
	if int64(cap(b.payload)) < n {
		b.payload = make([]byte, n)
	}
	b.payload = b.payload[:n]
	if err := r.readAt(b.payload, b.at); err != nil {
		return false, err
	}
	r.hash.at += n
	return true, nil
}

// end compares what was read with what the trailer says. image and payloads are sums over all blocks.
func (r *reader) end(image Sum, payloads record.Digest) error {
	t := &r.trailer
	if image != t.image {
		return r.damaged(fmt.Errorf("holds %d entries with digest %v, its trailer says %d and %v",
			image.Live, image.Digest, t.image.Live, t.image.Digest))
	}
	r.hash.add(t.appendFacts(nil))
	if got := r.hash.sum.Add(payloads); got != t.hash {
		return r.damaged(fmt.Errorf("has whole-file hash %v, computed %v", t.hash, got))
	}
	return nil
}

// verify checks a block's checksum and its entries one by one, calls fn with each, and returns their sum and the
// payload's part of the file hash.
func (b *block) verify(fn func(keyValue []byte, keyLen int) error) (image Sum, piece record.Digest, err error) {
	sum := binary.BigEndian.Uint32(b.head[blockHead-crcBytes:])
	entries := binary.BigEndian.Uint32(b.head[5:])
	var again [blockHead]byte
	appendBlockHead(again[:0], entries, b.payload)
	if got := binary.BigEndian.Uint32(again[blockHead-crcBytes:]); got != sum {
		return Sum{}, record.Digest{}, fmt.Errorf("block at %d has CRC %08x, computed %08x", b.at, sum, got)
	}
	for rest := b.payload; len(rest) > 0; image.Live++ {
		keyValue, keyLen, after, err := takeEntry(rest)
		if err == nil {
			err = fn(keyValue, keyLen)
		}
		if err != nil {
			return Sum{}, record.Digest{}, fmt.Errorf("block at %d, entry %d: %w", b.at, image.Live, err)
		}
		image.Digest = image.Digest.Add(record.EntryDigest(keyValue, keyLen))
		rest = after
	}
	if image.Live != record.Count(entries) {
		return Sum{}, record.Digest{}, fmt.Errorf("block at %d holds %d entries, its head says %d", b.at, image.Live, entries)
	}
	return image, record.PieceDigest(b.payload, uint64(b.at)), nil
}

func (r *reader) readAt(b []byte, at int64) error {
	n, err := r.file.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return r.damaged(fmt.Errorf("ends at %d, within the %d bytes at %d", at+int64(n), len(b), at))
	}
	return r.ioError(err)
}

func (r *reader) damaged(err error) error {
	return &Error{Kind: KindDamaged, Path: r.info.Path, Err: err}
}

func (r *reader) newer(err error) error {
	return &Error{Kind: KindNewer, Path: r.info.Path, Err: err}
}

func (r *reader) ioError(err error) error {
	return &Error{Kind: KindIO, Path: r.info.Path, Err: fmt.Errorf("read: %w", err)}
}

// close closes the file and returns err, or what closing says when err is nil.
func (r *reader) close(err error) error {
	if cerr := r.file.Close(); err == nil && cerr != nil {
		return r.ioError(cerr)
	}
	return err
}
