package record

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/zeebo/xxh3"
)

// Kind is the first byte of every changelog key.
type Kind byte

// The kinds of changelog keys of format 1.
const (
	KindEntry  Kind = 0x01 // one live entry: aggregation, key fields, window start
	KindCommit Kind = 0xC0 // the commit record; the key is this byte alone
	KindFence  Kind = 0xF0 // the fence record; the key is this byte alone
)

// CommitKey and FenceKey are the reserved keys of the commit record and of the fence record. Callers must not modify
// them.
var (
	CommitKey = []byte{byte(KindCommit)}
	FenceKey  = []byte{byte(KindFence)}
)

// MaxKeyBytes bounds a changelog key. Longer keys are refused before the fold.
const MaxKeyBytes = math.MaxUint16

// KindOf returns the kind of a changelog key; ok is false for an empty key or a kind that this version does not know.
func KindOf(key []byte) (kind Kind, ok bool) {
	if len(key) == 0 {
		return 0, false
	}
	switch k := Kind(key[0]); k {
	case KindEntry:
		return k, true
	case KindCommit, KindFence:
		return k, len(key) == 1
	}
	return 0, false
}

// EntryPrefix appends the part of an entry's key that is the same for all keys of one aggregation: kind, then the
// aggregation's name with its length. The aggregation is named, never numbered: an index into the configuration would
// mix states when a line is inserted above it (V19).
func EntryPrefix(dst []byte, aggregation string) []byte {
	dst = append(dst, byte(KindEntry))
	dst = binary.AppendUvarint(dst, uint64(len(aggregation)))
	return append(dst, aggregation...)
}

// AppendField appends one key field with its length. A field is text: decoded UTF-8, and a number is its JSON token, so
// 5 and "5" are one key, exactly as they are one record key.
func AppendField(dst []byte, field []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(field)))
	return append(dst, field...)
}

// AppendStart appends the window start in ms since the epoch, sign bit flipped and big-endian, so that byte order is
// time order. It ends an entry's key.
func AppendStart(dst []byte, start int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(start)^(1<<63))
}

// startBytes is the size of the window start at the end of an entry's key.
const startBytes = 8

// Start returns the window start of an entry's key, which must be a valid one.
func Start(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[len(key)-startBytes:]) ^ (1 << 63))
}

// Hash is the 64-bit hash by which entries are found and by which due windows are ordered: xxh3-64 of the whole key.
func Hash(key []byte) uint64 { return xxh3.Hash(key) }

// EntryKey is a parsed entry key. Its slices point into the key it was parsed from.
type EntryKey struct {
	Aggregation string
	Fields      []string
	Start       int64 // ms since the epoch
}

// ParseEntryKey takes an entry's key apart. It fails on any other kind of key and on a damaged one.
func ParseEntryKey(key []byte) (EntryKey, error) {
	if kind, ok := KindOf(key); !ok || kind != KindEntry {
		return EntryKey{}, fmt.Errorf("changelog key %.32x is no entry's key", key)
	}
	if len(key) > MaxKeyBytes {
		return EntryKey{}, fmt.Errorf("changelog key %.32x of %d bytes, limit %d", key, len(key), MaxKeyBytes)
	}
	name, rest, err := takeText(key[1:])
	if err != nil {
		return EntryKey{}, fmt.Errorf("changelog key %.32x: aggregation: %w", key, err)
	}
	parsed := EntryKey{Aggregation: name}
	for len(rest) > startBytes {
		var field string
		if field, rest, err = takeText(rest); err != nil {
			return EntryKey{}, fmt.Errorf("changelog key %.32x: field %d: %w", key, len(parsed.Fields), err)
		}
		parsed.Fields = append(parsed.Fields, field)
	}
	if len(rest) != startBytes {
		return EntryKey{}, fmt.Errorf("changelog key %.32x: window start: %w", key, errEndsEarly)
	}
	parsed.Start = Start(rest)
	return parsed, nil
}

// AggregationOf returns the aggregation's name in an entry's key as bytes that point into key; ok is false when the key
// is damaged or of another kind. It does not allocate.
func AggregationOf(key []byte) (name []byte, ok bool) {
	if len(key) == 0 || Kind(key[0]) != KindEntry {
		return nil, false
	}
	n, w := binary.Uvarint(key[1:])
	if w <= 0 || n > MaxKeyBytes || uint64(len(key)-1-w) < n+startBytes {
		return nil, false
	}
	return key[1+w : 1+w+int(n)], true
}

func takeText(b []byte) (text string, rest []byte, err error) {
	n, w, err := uvarint(b)
	if err != nil {
		return "", nil, err
	}
	if n > uint64(len(b)-w) {
		return "", nil, errEndsEarly
	}
	return string(b[w : w+int(n)]), b[w+int(n):], nil
}
