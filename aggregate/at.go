package aggregate

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tidemark-streams/tidemark/internal/defect"
)

// At says where a reading stands among all readings of its input partition: first by event time, then by where it was
// read (W26). No two readings have the same.
type At struct {
	Time   int64 // event time in ms since 1970; its size is below 2^48, which holds the years 0 to 9999
	Offset int64 // of the record, 0 or more
	Nanos  int32 // the part of the event time below the ms, 0 to 999,999 ns
	Index  int32 // of the reading in its record, 0 or more
}

// Compare is negative when a stands before b, positive when it stands behind, and 0 when they are the same.
func (a *At) Compare(b *At) int {
	if defect.LastByArrival {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Index, b.Index))
	}
	if a.Time != b.Time {
		return cmp.Compare(a.Time, b.Time)
	}
	return cmp.Or(cmp.Compare(a.Nanos, b.Nanos), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Index, b.Index))
}

const (
	timeBits    = 48
	nanosInMs   = 1_000_000
	maxAtBytes  = 8 + 3 + 10 + 5 // time, nanos, offset, index
	numberBytes = 8
)

// check panics for a place that no reading has: the caller is broken, and state must not take it up.
func (a *At) check() {
	if !a.valid() {
		panic(fmt.Sprintf("aggregate: no reading stands at %+v", *a))
	}
}

func (a *At) valid() bool {
	return a.Time > -1<<timeBits && a.Time < 1<<timeBits && a.Nanos >= 0 && a.Nanos < nanosInMs && a.Offset >= 0 && a.Index >= 0
}

// mark is a reading that is kept: where it stands, and the bits of its number.
type mark struct {
	at   At
	bits uint64
}

func (m *mark) float() float64 { return math.Float64frombits(m.bits) }

// The bytes of a mark: the time as a zigzag varint, nanos, offset and index as uvarints, then the number's eight bytes,
// least significant first.

func (m *mark) appendBinary(dst []byte) []byte {
	dst = binary.AppendVarint(dst, m.at.Time)
	dst = binary.AppendUvarint(dst, uint64(m.at.Nanos))
	dst = binary.AppendUvarint(dst, uint64(m.at.Offset))
	dst = binary.AppendUvarint(dst, uint64(m.at.Index))
	return binary.LittleEndian.AppendUint64(dst, m.bits)
}

func (m *mark) decode(b []byte, f Functions) (rest []byte, err error) {
	fields, b, err := takeFields(b)
	if err != nil {
		return nil, err
	}
	if fields[2] > math.MaxInt64 {
		return nil, errRange
	}
	return m.take(b, zigzag(fields[0]), fields[1], int64(fields[2]), fields[3], f)
}

// decodeAfter reads a mark whose time and offset are written as differences to those of a mark before.
func (m *mark) decodeAfter(b []byte, prev *At, f Functions) (rest []byte, err error) {
	fields, b, err := takeFields(b)
	if err != nil {
		return nil, err
	}
	if fields[0] >= 2<<timeBits {
		return nil, errRange
	}
	return m.take(b, prev.Time+int64(fields[0]), fields[1], prev.Offset+zigzag(fields[2]), fields[3], f)
}

// takeFields takes the four numbers of a place.
func takeFields(b []byte) (fields [4]uint64, rest []byte, err error) {
	for i := range fields {
		if fields[i], b, err = takeUvarint(b); err != nil {
			return fields, nil, err
		}
	}
	return fields, b, nil
}

func zigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }

// take sets the place of a mark and reads its number.
func (m *mark) take(b []byte, time int64, nanos uint64, offset int64, index uint64, f Functions) (rest []byte, err error) {
	if nanos >= nanosInMs || index > math.MaxInt32 {
		return nil, errRange
	}
	m.at = At{Time: time, Nanos: int32(nanos), Offset: offset, Index: int32(index)}
	if !m.at.valid() {
		return nil, errRange
	}
	m.bits, b, err = takeNumber(b, f)
	return b, err
}
