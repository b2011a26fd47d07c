package oracle

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The kinds of changelog keys of format 1, as internal/record documents them: an entry's key is
//
//	0x01, aggregation, field ..., window start
//
// where aggregation and fields are text with its length before it (unsigned varint) and the window start is 8 bytes,
// big-endian, with the sign bit flipped. The commit record and the fence record have a key of one byte.
const (
	kindEntry  = 0x01
	kindCommit = 0xC0
	kindFence  = 0xF0
)

// Entry is one live entry of the changelog.
type Entry struct {
	Aggregation string
	Key         []string
	Start       int64
	Value       []byte // as written; its format is not known here
}

// Fold is the state that one changelog partition holds, with what was met on the way.
type Fold struct {
	Live    map[string]Entry // by WindowID
	Updates int64            // entry records, tombstones included
	Commits int64            // commit records that compaction has left
	Fences  int64            // fence records that compaction has left
}

// FoldChangelog keeps the last value of each key of one changelog partition read from its beginning (I1).
func FoldChangelog(messages []Message) (*Fold, error) {
	f := &Fold{Live: map[string]Entry{}}
	for _, m := range messages {
		if err := f.add(m); err != nil {
			return nil, fmt.Errorf("changelog partition %d, offset %d: %w", m.Partition, m.Offset, err)
		}
	}
	return f, nil
}

func (f *Fold) add(m Message) error {
	switch {
	case len(m.Key) == 1 && m.Key[0] == kindCommit:
		f.Commits++
		return nil
	case len(m.Key) == 1 && m.Key[0] == kindFence:
		f.Fences++
		return nil
	case len(m.Key) == 0 || m.Key[0] != kindEntry:
		return fmt.Errorf("key %x has no known kind", m.Key)
	}
	e, err := parseEntry(m.Key[1:])
	if err != nil {
		return fmt.Errorf("key %x: %w", m.Key, err)
	}
	f.Updates++
	id := WindowID(e.Aggregation, e.Key, e.Start)
	if m.Value == nil {
		delete(f.Live, id)
		return nil
	}
	e.Value = m.Value
	f.Live[id] = e
	return nil
}

var errShort = errors.New("ends early")

func parseEntry(rest []byte) (Entry, error) {
	var e Entry
	text := func() (string, error) {
		n, width := binary.Uvarint(rest)
		if width <= 0 || n > uint64(len(rest)-width) {
			return "", errShort
		}
		s := string(rest[width : width+int(n)])
		rest = rest[width+int(n):]
		return s, nil
	}
	var err error
	if e.Aggregation, err = text(); err != nil {
		return e, err
	}
	for len(rest) > 8 {
		field, err := text()
		if err != nil {
			return e, err
		}
		e.Key = append(e.Key, field)
	}
	if len(rest) != 8 {
		return e, errShort
	}
	e.Start = int64(binary.BigEndian.Uint64(rest) ^ 1<<63)
	return e, nil
}
