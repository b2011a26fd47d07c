package oracle

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Defaults of the words that a configuration may leave out (design section 9).
const (
	DefaultMaxAhead = 5 * 60 * 1000 // ms
	DefaultMin      = 946684800000  // 2000-01-01T00:00:00Z in ms
	DefaultDepth    = 64            // containers within one another, the outermost counted
	DefaultNames    = 4096          // names of the objects open at one place, configured fields not counted
)

// Config is the part of a job that decides what must come out. All times are ms.
type Config struct {
	Key           []string // names of the key fields, in order
	PartitionedBy []string // names of the fields that make the record key; nil means Key
	Values        []string // names of the value fields, in order
	Whole         bool     // they hold whole numbers of 64 bits
	Time          TimeField
	MaxAhead      int64  // a reading later than its record by more is refused
	Min           int64  // a reading before is refused; a record timestamp before counts as absent
	Depth         int    // deepest nesting of JSON containers that is accepted
	Names         int    // most names of the objects open at one place
	Partitioner   string // murmur2, crc32, or unchecked
	Partitions    int32  // of the input topic
	Aggregations  []Aggregation
	Quorum        int   // stream time is the time that so many keys have reached; 0 and 1: any
	MaxLag        int64 // ms; not 0: each key has a time of its own, so far behind stream time at most
	Dedup         Dedup
	Role          Role     // of a job whose input is not partitioned by the keys
	HandOn        []string // of a Relay: the key fields that readings are handed on under; nil for all
	Ticks         [][]Tick // by partition: moves of the stream time by silence, in the order of their positions
	Shape         *Shape   // what records look like beyond plain fields of one object; nil for nothing
}

// Dedup says which readings are repetitions of others.
type Dedup struct {
	Within   int64  // ms for which a reading is remembered; 0 for no dedup
	Sequence string // the field that tells readings of a key apart; "" for their time
}

// Defaults is a Config with the defaults of design section 9; fields, partitions and aggregations are empty.
func Defaults() Config {
	return Config{MaxAhead: DefaultMaxAhead, Min: DefaultMin, Depth: DefaultDepth, Names: DefaultNames, Partitioner: "murmur2"}
}

// TimeField names the field with the event time and its unit: s, ms, us, ns or rfc3339.
type TimeField struct {
	Name string
	Unit string
}

// Aggregation is one kind of window with its functions. Windows begin at Offset + n*Step, or are sessions, or the
// calendar's.
type Aggregation struct {
	Name      string
	Size      int64  // ms
	Step      int64  // ms; 0 is Size: windows that do not overlap
	Offset    int64  // ms
	Gap       int64  // ms: sessions, and Size, Step and Offset have no meaning
	Unit      string // day, week or month: calendar windows, and Size, Step and Offset have no meaning
	Zone      *time.Location
	Grace     int64 // ms
	Updates   bool  // results that are not final are published too
	Current   bool  // and the last one of a key is about its newest window
	Functions []string
}

// RecordKeyFields are the fields that make the record key.
func (c *Config) RecordKeyFields() []string {
	if c.PartitionedBy == nil {
		return c.Key
	}
	return c.PartitionedBy
}

// WindowValues are the names of the values that a window holds: all, or where each value is a reading of its own, one,
// which has no name there.
func (c *Config) WindowValues() []string {
	if c.Shape != nil && c.Shape.Series {
		return []string{""}
	}
	return c.Values
}

// fromRecordKey tells whether a field that makes the record key was taken from it, so that there is nothing to compare.
func (c *Config) fromRecordKey() bool {
	return c.Shape != nil && slices.ContainsFunc(c.RecordKeyFields(), func(name string) bool { return c.Shape.Parts[name].Key })
}

// Never is the time before all times: stream time and closed ends begin there.
const Never int64 = math.MinInt64

// Record is one record of an input partition, as the broker delivers it to a read_committed reader.
type Record struct {
	Offset    int64
	Timestamp int64  // ms; -1 for none
	Key       []byte // nil for none
	Value     []byte // nil for a tombstone
	Headers   []Header
}

// Header is one record header.
type Header struct {
	Key   string
	Value []byte
}

// WindowID names one window of one key in one string that no other window has.
func WindowID(aggregation string, key []string, start int64) string {
	return fmt.Sprintf("%q %q %d", aggregation, key, start)
}
