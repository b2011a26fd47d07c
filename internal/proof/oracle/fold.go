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
	Last    *Commit          // the last commit record; nil for none

	Backwards []string // commits whose stream time or input position is below that of the one before

	since int64 // updates since the last commit record
}

// FoldChangelog keeps the last value of each key of one changelog partition read from its beginning (I1). It fails on
// commit numbers that do not rise, and on a commit that follows its predecessor with another number of records than it
// says: a part of it is missing.
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
		return f.commit(m.Value)
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
	f.since++
	id := WindowID(e.Aggregation, e.Key, e.Start)
	if m.Value == nil {
		delete(f.Live, id)
		return nil
	}
	e.Value = m.Value
	f.Live[id] = e
	return nil
}

// Commits are the commit records among the records of one changelog partition, in their order.
func Commits(messages []Message) ([]*Commit, error) {
	var all []*Commit
	for _, m := range messages {
		if len(m.Key) != 1 || m.Key[0] != kindCommit {
			continue
		}
		c, err := parseCommit(m.Value)
		if err != nil {
			return nil, fmt.Errorf("changelog partition %d, offset %d: %w", m.Partition, m.Offset, err)
		}
		all = append(all, c)
	}
	return all, nil
}

func (f *Fold) commit(value []byte) error {
	c, err := parseCommit(value)
	if err != nil {
		return err
	}
	if last := f.Last; last != nil && last.Birth == c.Birth {
		if c.Number <= last.Number {
			return fmt.Errorf("commit number %d after %d", c.Number, last.Number)
		}
		if c.StreamTime < last.StreamTime || c.Position < last.Position {
			f.Backwards = append(f.Backwards, fmt.Sprintf("commit %d at stream time %d and input offset %d, after commit %d at %d and %d", c.Number, c.StreamTime,
				c.Position, last.Number, last.StreamTime, last.Position))
		}
		if c.Number == last.Number+1 && c.Records != f.since {
			return fmt.Errorf("commit %d of %d updates delivers %d", c.Number, c.Records, f.since)
		}
	}
	f.Commits++
	f.Last, f.since = c, 0
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
