package job

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
)

// Part is the part that a Job has in what is configured. Input that is not partitioned by the aggregation key goes
// through two: a relay, which has no state, judges the readings and hands each on under its key, by way of a topic between
// the two; the other aggregates what it is handed (R3).
type Part uint8

// The parts.
const (
	Whole   Part = iota // reads the input and aggregates it
	Relay               // reads the input and hands the readings on to the one result topic
	Relayed             // reads what a Relay of the same Format has handed on, and aggregates it
)

// A reading is handed on as one record. Its key is the record key of all its key fields, and its value one JSON object:
//
//	{"r":1764547200123,"t":1764547200000,"k":["boiler-1"],"v":[21.5],"at":[0,1234,0]}
//
// r is the timestamp of the record it came in, which stream time and guards go by, -1 for none; t the event time in ms,
// with a fraction where it has one; k the key fields; v the values, in the order configured; at the partition and offset
// of its record and its place in it, for people. r comes first, so that it is found without a reader.
const relayedHead = `{"r":`

// relayedFormat is how what a relay of a format writes is read. Readings were judged by the relay: no bound is looked at
// again but that of record timestamps.
func relayedFormat(f *reading.Format) reading.Format {
	to := reading.DefaultFormat()
	to.Time, to.Min, to.MaxAhead, to.Whole = "t", f.Min, reading.NoMaxAhead, f.Whole
	names, values := len(f.Key), len(f.Values)
	if f.Series {
		names, values = names+1, 1
	}
	for i := range names {
		to.Key = append(to.Key, "k."+strconv.Itoa(i))
	}
	for i := range values {
		to.Values = append(to.Values, "v."+strconv.Itoa(i))
	}
	return to
}

// relayedTimestamp is the timestamp that a handed on record names, -1 when it names none.
func relayedTimestamp(value []byte) int64 {
	if len(value) < len(relayedHead) || string(value[:len(relayedHead)]) != relayedHead {
		return -1
	}
	const digits = 18 // of more than any time that counts
	n, rest := int64(0), value[len(relayedHead):]
	for i, c := range rest {
		switch {
		case c >= '0' && c <= '9' && i < digits:
			n = 10*n + int64(c-'0')
		case c == ',' && i > 0:
			return n
		default:
			return -1
		}
	}
	return -1
}

// handed are the indexes of the key fields of a reading that a relay hands it on under, nil for all of them.
func (c *Config) handed() (indexes []int) {
	if c.HandOn == nil {
		return nil
	}
	for _, name := range c.HandOn {
		indexes = append(indexes, slices.Index(c.Format.Key, name))
	}
	if c.Format.Series {
		indexes = append(indexes, len(c.Format.Key))
	}
	return indexes
}

// relay hands a reading on.
func (j *Job) relay(v *task.View, in *task.Input, i int, read *reading.Reading) {
	key := read.Key
	if j.handed != nil {
		j.routing.fields = j.routing.fields[:0]
		for _, at := range j.handed {
			j.routing.fields = append(j.routing.fields, read.Key[at])
		}
		key = j.routing.fields
	}
	j.key = AppendRecordKey(j.key[:0], key...)
	j.value = j.appendRelayed(j.value[:0], in, read, key)
	if size := len(j.key) + len(j.value); size > int(j.limits.Result) {
		j.refuseReading(v, in, i, fault{reason: TooLarge, detail: fmt.Sprintf("the reading would have %d bytes by its key, at most %d fit the topic between the parts",
			size, j.limits.Result)})
		return
	}
	if fault, ok := j.hands(len(j.key) + len(j.value) + task.PerRecord); !ok {
		j.refuseReading(v, in, i, fault)
		return
	}
	counters := v.Counters()
	counters.Accepted++
	counters.Inexact += record.Count(read.Inexact)
	v.Emit(task.SinkResult, 0, j.key, j.value, noHeaders)
}

// noHeaders keeps the header of results off what is only handed on.
var noHeaders = []task.Header{}

func (j *Job) appendRelayed(dst []byte, in *task.Input, read *reading.Reading, key [][]byte) []byte {
	dst = strconv.AppendInt(append(dst, relayedHead...), max(in.Timestamp, -1), 10)
	dst = appendTime(append(dst, `,"t":`...), read.Time, read.Nanos)
	dst = append(dst, `,"k":`...)
	for i, field := range key {
		dst = appendString(append(dst, "[,"[min(i, 1)]), field)
	}
	dst = append(dst, `],"v":`...)
	for i, value := range read.Values {
		if dst = append(dst, "[,"[min(i, 1)]); read.Whole != nil {
			dst = strconv.AppendInt(dst, read.Whole[i], 10)
		} else {
			dst = aggregate.AppendFloat(dst, value)
		}
	}
	dst = strconv.AppendInt(append(dst, `],"at":[`...), int64(j.routing.partition), 10)
	dst = strconv.AppendInt(append(dst, ','), in.Offset, 10)
	dst = strconv.AppendInt(append(dst, ','), int64(read.Index), 10)
	return append(dst, "]}"...)
}

// appendTime appends a time in ms with a fraction of six digits where it has one.
func appendTime(dst []byte, ms int64, nanos int32) []byte {
	const whole = 1_000_000
	if nanos == 0 {
		return strconv.AppendInt(dst, ms, 10)
	}
	if ms < 0 { // the fraction counts upwards from ms, a JSON number's downwards from 0
		if ms, nanos = ms+1, whole-nanos; ms == 0 {
			dst = append(dst, '-')
		}
	}
	dst = append(strconv.AppendInt(dst, ms, 10), '.')
	at := len(dst)
	dst = strconv.AppendInt(dst, int64(whole+nanos), 10)
	copy(dst[at:], dst[at+1:]) // without the 1 in front
	return dst[:len(dst)-1]
}
