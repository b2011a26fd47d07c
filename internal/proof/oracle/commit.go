package oracle

import (
	"encoding/binary"
	"fmt"
)

// Commit is what the oracle reads of a commit record.
type Commit struct {
	Birth        uint64
	Number       int64
	Position     int64 // input offset to read next
	StreamTime   int64 // Never before the first reading
	SetterOffset int64
	Counters     Counters
	Aggregations []AggregationCounters
	Live         int64
	Records      int64 // changelog records of this commit, itself not counted
}

// commitReader takes a commit record of format 1 apart, as internal/record documents it: a version byte, then the
// fields one after the other; fixed numbers are big-endian, counts are unsigned varints, what may be negative is a
// zigzag varint, texts have their length before them.
type commitReader struct {
	rest  []byte
	short bool
}

func (r *commitReader) take(n int) []byte {
	if r.short || n < 0 || n > len(r.rest) {
		r.short = true
		return make([]byte, max(0, min(n, 64)))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *commitReader) fixed() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *commitReader) count() int64 {
	n, width := binary.Uvarint(r.rest)
	r.take(max(width, 1))
	return int64(n)
}

func (r *commitReader) signed() int64 {
	n, width := binary.Varint(r.rest)
	r.take(max(width, 1))
	return n
}

func (r *commitReader) text() string { return string(r.take(int(min(r.count(), 1<<20)))) }

// parseCommit reads a commit record.
func parseCommit(value []byte) (*Commit, error) {
	if len(value) == 0 || value[0] != 1 {
		return nil, fmt.Errorf("commit record %.16x is not of format 1", value)
	}
	r := commitReader{rest: value[1:]}
	c := &Commit{Birth: r.fixed(), Number: r.count()}
	r.take(3 * 8) // fence id, hash of the sources, hash of the outputs
	c.Position = r.signed()
	r.signed() // leader epoch
	r.signed() // anchor: offset and hash
	r.take(16)
	c.StreamTime = r.signed()
	r.text() // setter key
	c.SetterOffset = r.signed()
	n := &c.Counters
	n.In, n.Accepted, n.DeadLettered, n.Filtered, n.Skipped = r.count(), r.count(), r.count(), r.count(), r.count()
	r.count() // records that came again, which depends on the crashes
	n.Ahead, n.Untimed, n.Duplicates = r.count(), r.count(), r.count()
	r.count() // the period of max_bad, and how many were refused in it
	r.count()
	for range min(r.count(), 1000) {
		a := AggregationCounters{Name: r.text()}
		r.fixed() // fingerprint
		a.ClosedEnd = r.signed()
		r.count() // accepted before the aggregation
		a.Folded = r.count()
		a.PartlyLate = r.count()
		a.Late = r.count()
		a.Missed = r.count()
		a.Results = r.count()
		c.Aggregations = append(c.Aggregations, a)
	}
	r.take(16) // digest
	c.Live, c.Records = r.count(), r.count()
	if r.short {
		return nil, fmt.Errorf("commit record of %d bytes ends early", len(value))
	}
	return c, nil
}
