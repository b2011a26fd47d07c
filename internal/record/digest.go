package record

import (
	"fmt"

	"github.com/zeebo/xxh3"
)

// Digest is the order-independent 128-bit hash over a task's live entries: the lane-wise wrapping sum of the hash of
// each entry. Adding an entry and subtracting it again, in any order, leaves no trace. It proves what was recovered
// (I7). It cannot see a wrong fold, or anything that happened before the hash was taken.
type Digest struct{ Hi, Lo uint64 }

// EntryDigest is the digest of one entry: xxh3-128 of key and value one after the other, seeded with the key's length
// so that no other split of the same bytes has the same hash. The key begins with its kind.
//
// The buffer keyValue holds key and value adjacent, as the store's arena does; keyLen tells where the value begins.
func EntryDigest(keyValue []byte, keyLen int) Digest {
	h := xxh3.Hash128Seed(keyValue, uint64(keyLen))
	return Digest{Hi: h.Hi, Lo: h.Lo}
}

// PieceDigest is the digest of one piece of a file that begins at an offset: xxh3-128 seeded with the offset, so that a
// piece in another place counts as another piece. The sum over all pieces is the hash of the file, and they can be
// hashed in any order.
func PieceDigest(piece []byte, offset uint64) Digest {
	h := xxh3.Hash128Seed(piece, offset)
	return Digest{Hi: h.Hi, Lo: h.Lo}
}

// Add returns d + o.
func (d Digest) Add(o Digest) Digest { return Digest{d.Hi + o.Hi, d.Lo + o.Lo} }

// Sub returns d - o.
func (d Digest) Sub(o Digest) Digest { return Digest{d.Hi - o.Hi, d.Lo - o.Lo} }

// String is the digest as 32 hexadecimal digits.
func (d Digest) String() string { return fmt.Sprintf("%016x%016x", d.Hi, d.Lo) }

// AnchorHash is the hash an Anchor holds: of key and value, not of timestamp and headers, which mirrors change (V24).
// The scratch buffer is grown as needed and returned for the next call.
func AnchorHash(scratch, key, value []byte) (Digest, []byte) {
	scratch = append(append(scratch[:0], key...), value...)
	return EntryDigest(scratch, len(key)), scratch
}
