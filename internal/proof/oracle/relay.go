package oracle

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// Role is the part of a job that a Config describes, when its input is not partitioned by the keys of its aggregations: the
// readings go through a relay that hands each on under its key, and the other part aggregates what it is handed.
type Role string

// The roles.
const (
	Whole   Role = ""        // reads the input and aggregates
	Relay   Role = "relay"   // reads the input and hands on
	Relayed Role = "relayed" // aggregates what was handed on
)

// Handed is a reading that a relay hands on.
type Handed struct {
	Partition int32 // of the input record
	Offset    int64 // of the input record
	Index     int64 // in it
	Timestamp int64 // of the input record, ms; -1 for none
	Reading   Reading
}

// handOn makes of an accepted reading what a relay hands on of it.
func (m *model) handOn(r Record, reading Reading, index int64) {
	if by := m.config.HandOn; by != nil {
		var key []string
		for _, name := range by {
			key = append(key, reading.Key[slices.Index(m.config.Key, name)])
		}
		reading.Key = append(key, reading.Key[len(m.config.Key):]...) // behind them the name of a value
	}
	reading.Record = RecordKey(reading.Key)
	m.out.Handed = append(m.out.Handed, Handed{Partition: m.partition, Offset: r.Offset, Index: index, Timestamp: max(r.Timestamp, -1), Reading: reading})
}

// Split gives the two parts of the job that a Config describes: readings are handed on under the key named, nil for all of
// its fields, to so many partitions. The windows, and what stream time is, are the second one's alone.
func (c *Config) Split(key []string, partitions int32) (relay, relayed *Config) {
	first, second := *c, *c
	first.Role, first.HandOn, first.PartitionedBy, first.Partitioner = Relay, key, nil, "unchecked"
	first.Aggregations, first.Quorum, first.MaxLag, first.Dedup = nil, 0, 0, Dedup{}
	second.Role, second.PartitionedBy, second.Partitioner, second.Partitions = Relayed, nil, "murmur2", partitions
	second.MaxAhead, second.Shape = 1<<50, nil // the first has judged
	if key != nil {
		second.Key = key
	}
	return &first, &second
}

// handed is what a record that a relay handed on holds, and the timestamp that it goes by.
func (c *Config) handed(r Record) ([]Judged, int64) {
	h, ok := c.ParseHanded(r.Value)
	if !ok {
		return []Judged{{Faults: []Fault{FaultJSON}}}, r.Timestamp
	}
	return []Judged{{Reading: h.Reading}}, h.Timestamp
}

// ParseHanded reads a record that a relay has handed on; ok is false when it is none.
func (c *Config) ParseHanded(value []byte) (h Handed, ok bool) {
	var v struct {
		R  *int64
		T  json.Number
		K  []string
		V  []json.Number
		At []int64
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if d.Decode(&v) != nil || v.R == nil || len(v.At) != 3 || d.More() {
		return h, false
	}
	h = Handed{Partition: int32(v.At[0]), Offset: v.At[1], Index: v.At[2], Timestamp: *v.R}
	h.Reading.Key, h.Reading.Record = v.K, RecordKey(v.K)
	if h.Reading.Time, h.Reading.Nanos, ok = instant(member{raw: json.RawMessage(v.T)}, "ms"); !ok {
		return h, false
	}
	for _, n := range v.V {
		if c.Whole {
			x, err := strconv.ParseInt(n.String(), 10, 64)
			h.Reading.Whole, ok = append(h.Reading.Whole, x), ok && err == nil
			continue
		}
		x, err := strconv.ParseFloat(n.String(), 64)
		h.Reading.Values, ok = append(h.Reading.Values, x), ok && err == nil
	}
	return h, ok
}
