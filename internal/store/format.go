package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// Format is the version of the checkpoint format that this program writes, and the newest it reads. DESIGN.md has it
// byte by byte. All numbers are big-endian; entries have unsigned varints.
const Format = 1

const (
	magic        = "tidemark checkpoint\n"
	formatAt     = len(magic)
	headerLenAt  = formatAt + 4
	headerAt     = headerLenAt + 4 // bytes before the fields of the header
	crcBytes     = 4
	maxHeader    = 1 << 20
	blockMark    = 'B'
	blockHead    = 1 + 4 + 4 + crcBytes // bytes of a block before its entries
	trailerMark  = 'T'
	trailerHash  = 1 + 8 + 8 + 16 + 8 // bytes of the trailer before the whole-file hash
	trailerBytes = trailerHash + 16 + crcBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func crc(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Header is what a checkpoint is of.
type Header struct {
	Begin      record.ChangelogPosition // B: replay goes on from here
	BrokerTime int64                    // broker time at B, ms: what the age rule of section 6 counts from
	Fence      record.Fence             // of the run that wrote the file: job, partition, identity and fence id
	Commit     record.Commit            // the commit record in force at B (R4)
}

// Info is what header and trailer of a checkpoint say.
type Info struct {
	Header
	Path   string
	Number uint64 // the number in its name: newer files have higher ones
	End    record.ChangelogPosition
	Image  Sum // digest and number of the entries in the file; not those of the state at B, nor at End
	Length record.Bytes
}

// Belongs checks that a checkpoint is one of this task on this cluster, and with these topics. Topic ids that are not
// known are never the same (R33). Outputs may differ. An error has KindForeign and names both sides. That the birth
// ids agree is for the caller to check, who has the log's.
func (i *Info) Belongs(job string, partition int32, id *record.Identity) error {
	have, err := &i.Fence, error(nil)
	switch {
	case have.Job != job || have.Partition != partition:
		err = fmt.Errorf("is of job %q partition %d, not of job %q partition %d", have.Job, have.Partition, job, partition)
	case have.Identity.ClusterID != id.ClusterID:
		err = fmt.Errorf("is of cluster %q, not of %q", have.Identity.ClusterID, id.ClusterID)
	case !sameTopic(have.Identity.Input, id.Input):
		err = fmt.Errorf("is of input %s, not of %s", topicText(have.Identity.Input), topicText(id.Input))
	case !sameTopic(have.Identity.Changelog, id.Changelog):
		err = fmt.Errorf("is of changelog %s, not of %s", topicText(have.Identity.Changelog), topicText(id.Changelog))
	}
	if err != nil {
		return &Error{Kind: KindForeign, Path: i.Path, Err: err}
	}
	return nil
}

func sameTopic(a, b record.Topic) bool {
	return a.Name == b.Name && a.ID.Equal(b.ID) && a.Partitions == b.Partitions
}

func topicText(t record.Topic) string {
	return fmt.Sprintf("%s (id %v, %d partitions)", t.Name, t.ID, t.Partitions)
}

// append appends the file's beginning up to and including the header's checksum. It fails when the header could not be
// read back.
func (h *Header) append(dst []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint32(dst, Format)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Begin))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.BrokerTime))
	dst = appendSized(dst, h.Fence.Append)
	dst = appendSized(dst, h.Commit.Append)
	fields := dst[start+headerAt:]
	binary.BigEndian.PutUint32(dst[start+headerLenAt:], uint32(len(fields)))
	if len(fields) > maxHeader {
		return nil, fmt.Errorf("header of %d bytes, limit %d", len(fields), maxHeader)
	}
	if err := new(Header).parse(fields); err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint32(dst, crc(dst[start:])), nil
}

func appendSized(dst []byte, text func([]byte) []byte) []byte {
	at := len(dst)
	dst = text(append(dst, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

var errHeaderShort = errors.New("header ends early")

// parse reads the fields of the header. It returns a *record.FormatError when a record in it is of a newer format.
func (h *Header) parse(b []byte) error {
	if len(b) < 16 {
		return errHeaderShort
	}
	h.Begin = record.ChangelogPosition(binary.BigEndian.Uint64(b))
	h.BrokerTime = int64(binary.BigEndian.Uint64(b[8:]))
	if h.Begin < 0 || h.BrokerTime < 0 {
		return fmt.Errorf("header has position %d and broker time %d; neither may be negative", h.Begin, h.BrokerTime)
	}
	fence, b, err := takeSized(b[16:])
	if err != nil {
		return err
	}
	commit, b, err := takeSized(b)
	if err != nil {
		return err
	}
	if len(b) != 0 {
		return fmt.Errorf("header has %d bytes too many", len(b))
	}
	f, err := record.ParseFence(fence)
	if err != nil {
		return err
	}
	h.Fence = *f
	return h.Commit.Decode(commit)
}

func takeSized(b []byte) (text, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, errHeaderShort
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(n) > uint64(len(b)-4) {
		return nil, nil, errHeaderShort
	}
	return b[4 : 4+n], b[4+n:], nil
}

// appendBlockHead appends what goes before the entries of a block.
func appendBlockHead(dst []byte, entries uint32, payload []byte) []byte {
	start := len(dst)
	dst = append(dst, blockMark)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.BigEndian.AppendUint32(dst, entries)
	return binary.BigEndian.AppendUint32(dst, crc32.Update(crc(dst[start:]), castagnoli, payload))
}

// trailer ends a file.
type trailer struct {
	end    record.ChangelogPosition
	image  Sum
	length int64
	hash   record.Digest // of all that comes before it in the file
}

// appendFacts appends the part of the trailer that the whole-file hash covers.
func (t *trailer) appendFacts(dst []byte) []byte {
	dst = append(dst, trailerMark)
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.end))
	dst = binary.BigEndian.AppendUint64(dst, uint64(t.image.Live))
	dst = appendDigest(dst, t.image.Digest)
	return binary.BigEndian.AppendUint64(dst, uint64(t.length))
}

// append appends the trailer of a file; hash is that of the file up to here.
func (t *trailer) append(dst []byte, hash fileHash) []byte {
	start := len(dst)
	dst = t.appendFacts(dst)
	hash.add(dst[start:])
	dst = appendDigest(dst, hash.sum)
	return binary.BigEndian.AppendUint32(dst, crc(dst[start:]))
}

func appendDigest(dst []byte, d record.Digest) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, d.Hi), d.Lo)
}

func takeDigest(b []byte) record.Digest {
	return record.Digest{Hi: binary.BigEndian.Uint64(b), Lo: binary.BigEndian.Uint64(b[8:])}
}

// parse reads a trailer of trailerBytes bytes.
func (t *trailer) parse(b []byte) error {
	body, sum := b[:trailerBytes-crcBytes], binary.BigEndian.Uint32(b[trailerBytes-crcBytes:])
	if b[0] != trailerMark {
		return fmt.Errorf("does not end with a trailer: it was cut, or bytes were appended")
	}
	if got := crc(body); got != sum {
		return fmt.Errorf("trailer has CRC %08x, computed %08x", sum, got)
	}
	t.end = record.ChangelogPosition(binary.BigEndian.Uint64(b[1:]))
	t.image = Sum{Live: record.Count(binary.BigEndian.Uint64(b[9:])), Digest: takeDigest(b[17:])}
	t.length = int64(binary.BigEndian.Uint64(b[33:]))
	t.hash = takeDigest(b[trailerHash:])
	if t.end < 0 || t.image.Live < 0 || t.length < 0 {
		return fmt.Errorf("trailer has position %d, %d entries and length %d; none may be negative", t.end, t.image.Live, t.length)
	}
	return nil
}

// fileHash is the whole-file hash: the sum of the digests of its pieces. These are the file up to the header's
// checksum, each block's head, each block's entries, and the trailer up to the hash.
type fileHash struct {
	sum record.Digest
	at  int64 // offset of the next piece
}

func (h *fileHash) add(piece []byte) {
	h.sum = h.sum.Add(record.PieceDigest(piece, uint64(h.at)))
	h.at += int64(len(piece))
}

// takeEntry reads one entry of a block. keyValue is key and value adjacent.
func takeEntry(b []byte) (keyValue []byte, keyLen int, rest []byte, err error) {
	k, w := binary.Uvarint(b)
	if w <= 0 {
		return nil, 0, nil, errEntryShort
	}
	v, x := binary.Uvarint(b[w:])
	if x <= 0 {
		return nil, 0, nil, errEntryShort
	}
	if k == 0 || k > record.MaxKeyBytes || v > MaxValueBytes {
		return nil, 0, nil, fmt.Errorf("entry with a key of %d and a value of %d bytes", k, v)
	}
	b = b[w+x:]
	if k+v > uint64(len(b)) {
		return nil, 0, nil, errEntryShort
	}
	return b[:k+v], int(k), b[k+v:], nil
}

var errEntryShort = errors.New("entry ends early")
