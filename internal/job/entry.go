package job

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// entryFormat is the version of entry values that this program writes, their first byte.
const entryFormat = 1

// startBytes is the size of the window start at the end of a changelog key.
const startBytes = 8

// ErrNotConfigured is wrapped by errors about entries whose aggregation is not configured: they are being removed.
var ErrNotConfigured = errors.New("the aggregation is not configured")

// layout knows what the bytes of a job's entries mean.
type layout struct {
	values       []string // names of the value fields
	tables       []table  // of the aggregations, then the memory of dedup, then what all clocks of keys follow
	aggregations int
	clock        int // index of the table of clocks; 0 for none
}

// table is one aggregation.
type table struct {
	window    window.Kind
	session   window.Session // when it has sessions
	sessions  bool
	memory    bool        // no windows, but what dedup remembers, or clocks: their entries have a length and no numbers
	stored    bool        // the windows' ends are in the entries' values: a start does not tell them
	last      window.Span // the calendar window that was used last
	functions aggregate.Functions
	members   []member
	prefix    []byte   // of changelog keys
	head      []byte   // of results and dump lines, up to the key fields
	values    [][]byte // JSON names of the value fields

	step, phase int64 // windows end at n*step + phase; step is 0 where nothing is known of that
}

func newLayout(c *Config) layout {
	l := layout{values: c.Format.Values, aggregations: len(c.Aggregations)}
	if c.Format.Series {
		l.values = l.values[:1] // a reading has one
	}
	for i := range c.Aggregations {
		a := &c.Aggregations[i]
		functions := a.Functions
		if c.Format.Whole {
			functions |= aggregate.Whole
		}
		t := table{window: a.Window, functions: functions, members: membersOf(a), prefix: record.EntryPrefix(nil, a.Name)}
		t.session, t.sessions = a.Window.(window.Session)
		_, calendar := a.Window.(window.Calendar)
		t.stored = t.sessions || calendar
		t.setStep()
		t.head = append(appendString([]byte(`{"agg":`), []byte(a.Name)), `,"key":`...)
		for _, name := range l.values {
			t.values = append(t.values, appendString(nil, []byte(name)))
		}
		l.tables = append(l.tables, t)
	}
	if newMemory(c) != nil {
		l.tables = append(l.tables, table{memory: true, stored: true, prefix: record.EntryPrefix(nil, MemoryName)})
	}
	if c.MaxLag > 0 && l.aggregations > 0 {
		l.clock = len(l.tables)
		l.tables = append(l.tables, table{memory: true, stored: true})
	}
	return l
}

// find returns the index of the aggregation that a changelog key belongs to, task.Removed when that is not configured.
// ok is false for what is no entry's key.
func (l *layout) find(key []byte) (aggregation int, ok bool) {
	for i := range l.tables {
		if prefix := l.tables[i].prefix; len(prefix) > 0 && len(key) >= len(prefix)+startBytes && bytes.HasPrefix(key, prefix) {
			return i, true
		}
	}
	_, ok = record.AggregationOf(key)
	return task.Removed, ok
}

func damaged(key []byte) error { return fmt.Errorf("changelog key %.32x is no entry's key", key) }

// place is Processor.Place.
func (l *layout) place(key, value []byte) (task.Place, error) {
	i, ok := l.find(key)
	switch {
	case !ok:
		return task.Place{}, damaged(key)
	case i == task.Removed:
		start := record.Start(key)
		return task.Place{Aggregation: i, Start: start, End: start}, nil
	}
	span, err := l.tables[l.tableOf(i, key)].span(key, value)
	return task.Place{Aggregation: i, Start: span.Start, End: span.End}, err
}

// span is the window of an entry of this aggregation. A start that begins no window is damage, or state of another
// definition that the fingerprint should have kept away.
func (t *table) span(key, value []byte) (window.Span, error) {
	start := record.Start(key)
	if t.stored {
		length, _, err := t.open(value)
		return window.Span{Start: start, End: start + length}, err
	}
	span, ok := t.window.At(start)
	if !ok {
		return span, fmt.Errorf("changelog key %.32x: %d begins no window of %s", key, start, t.window)
	}
	return span, nil
}

// open takes the format off an entry's value, and the length of the window where it is stored.
func (t *table) open(value []byte) (length int64, rest []byte, err error) {
	if len(value) == 0 {
		return 0, nil, errors.New("the entry's value is empty")
	}
	if value[0] != entryFormat {
		return 0, nil, fmt.Errorf("the entry has format %d, this version reads %d: roll forward to the version that wrote it", value[0], entryFormat)
	}
	if !t.stored {
		return 0, value[1:], nil
	}
	n, w := binary.Uvarint(value[1:])
	if w <= 0 || n > math.MaxInt64 || w > 1 && value[w] == 0 {
		return 0, nil, errors.New("the entry's window has no length")
	}
	return int64(n), value[1+w:], nil
}

// fieldsOf are the key fields in an entry's key, which has the table's prefix, for takeField.
func (t *table) fieldsOf(key []byte) []byte { return key[len(t.prefix) : len(key)-startBytes] }

// takeField takes the next key field; of a damaged key it takes all there is.
func takeField(rest []byte) (field, after []byte) {
	n, w := binary.Uvarint(rest)
	if w <= 0 || n > uint64(len(rest)-w) {
		return rest, nil
	}
	return rest[w:][:n], rest[w+int(n):]
}

// decode reads an entry's value into one accumulator for each value field, and returns the length of its window where
// that is stored.
func (l *layout) decode(value []byte, t *table, into []aggregate.Accumulator) (length int64, err error) {
	length, rest, err := t.open(value)
	if err != nil {
		return 0, err
	}
	if t.memory {
		into = nil
	}
	for i := range into {
		if rest, err = into[i].DecodeBinary(rest, t.functions); err != nil {
			return 0, fmt.Errorf("value %q of the entry: %w", l.values[i], err)
		}
		if into[i].Count() == 0 {
			return 0, fmt.Errorf("value %q of the entry: no readings; an entry is born with one", l.values[i])
		}
	}
	if len(rest) > 0 {
		return 0, fmt.Errorf("%d bytes after the end of the entry's value", len(rest))
	}
	return length, nil
}

// encode appends the value of an entry; length is that of its window.
func (t *table) encode(dst []byte, length int64, accumulators []aggregate.Accumulator) []byte {
	dst = append(dst, entryFormat)
	if t.stored {
		dst = binary.AppendUvarint(dst, uint64(length))
	}
	if t.memory {
		return dst
	}
	for i := range accumulators {
		dst = accumulators[i].AppendBinary(dst, t.functions)
	}
	return dst
}

// The largest sizes of the parts of a result, for the check before the fold.
const (
	maxNumbers = 256 // plain functions of one value, without its name
	maxOther   = 48  // any other function
	maxResult  = 512 // everything else but the key fields and names
)

// beyondPlain is how many members of a result are no plain functions.
func (t *table) beyondPlain() (n int) {
	for _, m := range t.members {
		if m.function&aggregate.Plain == 0 {
			n++
		}
	}
	return n
}

// maxKey is the largest changelog key whose entry and result are sure to fit their topics.
func (l *layout) maxKey(limits Limits) int {
	if len(l.tables) == 0 { // a relay, which looks at what it hands on as a whole
		return record.MaxKeyBytes
	}
	names := 0
	for _, name := range l.tables[0].values {
		names += len(name)
	}
	longest := record.MaxKeyBytes
	for i := range l.tables {
		t := &l.tables[i]
		if t.memory {
			longest = min(longest, int(limits.Changelog)-1-binary.MaxVarintLen64)
			continue
		}
		changelog := int(limits.Changelog) - 1 - len(l.values)*t.functions.MaxBytes()
		if t.stored {
			changelog -= binary.MaxVarintLen64
		}
		numbers := maxNumbers + maxOther*t.beyondPlain()
		// The key fields stand in the result's key and in its value, escaped in both.
		result := (int(limits.Result) - maxResult - len(t.head) - names - len(l.values)*numbers) / (2 * maxEscaped)
		longest = min(longest, changelog, result)
	}
	return longest
}
