package job

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
)

// Partitioner is the rule by which producers choose the partition of a record key.
type Partitioner uint8

// The partitioners of section 4.
const (
	Murmur2   Partitioner = iota // Java clients, franz-go, produce
	CRC32                        // librdkafka and all that builds on it
	Unchecked                    // whatever the partition, the promise that a key lies in one is the user's (R3)
)

var partitionerNames = [...]string{"murmur2", "crc32", "unchecked"}

// String is the partitioner's name in the configuration.
func (p Partitioner) String() string { return partitionerNames[p] }

// ParsePartitioner returns the partitioner with this name; the error lists the names there are.
func ParsePartitioner(name string) (Partitioner, error) {
	for i, known := range partitionerNames {
		if known == name {
			return Partitioner(i), nil
		}
	}
	return 0, fmt.Errorf("partitioner %q: want murmur2 (Java, franz-go), crc32 (librdkafka) or unchecked", name)
}

// Partition is the partition of a key among count partitions. Unchecked, which has no rule, gives that of Murmur2.
func (p Partitioner) Partition(key []byte, count int32) int32 {
	if p == CRC32 {
		return int32(crc32.ChecksumIEEE(key) % uint32(count))
	}
	return int32(murmur2(key) & 0x7fffffff % uint32(count))
}

// murmur2 is MurmurHash2 in 32 bits with the seed of Kafka's clients.
func murmur2(key []byte) uint32 {
	const seed, m = 0x9747b28c, 0x5bd1e995
	h := seed ^ uint32(len(key))
	for len(key) >= 4 {
		k := binary.LittleEndian.Uint32(key) * m
		h = h*m ^ (k^k>>24)*m
		key = key[4:]
	}
	if len(key) > 0 {
		for i, c := range key {
			h ^= uint32(c) << (8 * i)
		}
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// AppendRecordKey appends the record key of key fields: the text of a single one, else a compact JSON array of strings
// in the order given.
func AppendRecordKey(dst []byte, fields ...[]byte) []byte {
	if len(fields) == 1 {
		return append(dst, fields[0]...)
	}
	for i, field := range fields {
		dst = appendString(append(dst, "[,"[min(i, 1)]), field)
	}
	return append(dst, ']')
}

// routing checks that records lie where all readings of their key lie (R3).
type routing struct {
	by          []int // indexes of the key fields that make the record key
	determined  bool  // they were taken from it, so that it is right
	partitioner Partitioner
	partition   int32
	partitions  int32
	fields      [][]byte // scratch
	want        []byte   // scratch: the record key that the last record should have had
}

// judge returns why the record does not belong here, "" when it does.
func (r *routing) judge(in *task.Input, read *reading.Reading) Reason {
	if r.determined {
		return r.place(in)
	}
	if len(r.by) == 1 {
		r.want = append(r.want[:0], read.Key[r.by[0]]...)
	} else {
		r.fields = r.fields[:0]
		for _, i := range r.by {
			r.fields = append(r.fields, read.Key[i])
		}
		r.want = AppendRecordKey(r.want[:0], r.fields...)
	}
	if !bytes.Equal(in.Key, r.want) {
		return WrongKey
	}
	return r.place(in)
}

// place returns why the record is not where its key belongs, "" when it is.
func (r *routing) place(in *task.Input) Reason {
	if r.partitioner != Unchecked && r.partitioner.Partition(in.Key, r.partitions) != r.partition {
		return WrongPartition
	}
	return ""
}

// shownKey bounds the keys that are shown to people.
const shownKey = 64

// detail says what is wrong with the record that judge has just refused.
func (r *routing) detail(reason Reason, in *task.Input) string {
	if reason == WrongPartition {
		return fmt.Sprintf("%s puts the record key %q into partition %d of %d, not %d",
			r.partitioner, cutText(in.Key, shownKey), r.partitioner.Partition(in.Key, r.partitions), r.partitions, r.partition)
	}
	if in.Key == nil {
		return fmt.Sprintf("the record has no key, want %q", cutText(r.want, shownKey))
	}
	return fmt.Sprintf("the record key is %q, want %q", cutText(in.Key, shownKey), cutText(r.want, shownKey))
}

// misroutedAtBirth is how many records at the beginning of a task's life must be misrouted, all of them, for the task to
// stop (section 4): it is the configuration that is wrong then, not the records.
const misroutedAtBirth = 1000

// MisroutedError says that the first records of a task's life were all refused as wrong_key or wrong_partition.
type MisroutedError struct {
	Records        int
	WrongKey       int
	WrongPartition int
	Setting        string // the change to the configuration that seems to fit
	Example        string // of the last record
}

// Error says how many there were and which setting fits.
func (e *MisroutedError) Error() string {
	return fmt.Sprintf("the first %d records are all refused, %d as %s and %d as %s (the last one: %s): %s",
		e.Records, e.WrongKey, WrongKey, e.WrongPartition, WrongPartition, e.Example, e.Setting)
}

// misrouted counts the misrouted records at the beginning of a task's life, as far as there are only such.
type misrouted struct {
	records        int
	wrongKey       int
	wrongPartition int
	fits           [Unchecked]int // how many each partitioner would have put here
}

// note counts a misrouted record, the n-th of the task's life, and returns an error when the limit is reached. Records
// that come again after a recovery are not counted again, and the last of them fails again.
func (m *misrouted) note(n int64, reason Reason, r *routing, in *task.Input) error {
	if n > misroutedAtBirth {
		return nil
	}
	if n == int64(m.records)+1 {
		m.count(reason, r, in)
	}
	if n < misroutedAtBirth || m.records < misroutedAtBirth {
		return nil
	}
	return &MisroutedError{Records: misroutedAtBirth, WrongKey: m.wrongKey, WrongPartition: m.wrongPartition,
		Setting: m.setting(), Example: r.detail(reason, in)}
}

func (m *misrouted) count(reason Reason, r *routing, in *task.Input) {
	m.records++
	if reason == WrongKey {
		m.wrongKey++
	} else {
		m.wrongPartition++
	}
	for p := range Unchecked {
		if p.Partition(in.Key, r.partitions) == r.partition {
			m.fits[p]++
		}
	}
}

// setting advises what to change.
func (m *misrouted) setting() string {
	if m.wrongKey > 0 {
		return "set input.partitioned_by to the key fields that make the record key, or produce with the key that input.key makes"
	}
	for p := range Unchecked {
		if m.fits[p] == misroutedAtBirth {
			return fmt.Sprintf("input.partitioner: %s explains all of them", p)
		}
	}
	return "no known partitioner explains them; input.partitioner: unchecked takes them, " +
		"and that all readings of a key lie in one partition is then for you to see to"
}

// Unwrap returns task.ErrPermanent: another attempt would meet the same records.
func (e *MisroutedError) Unwrap() error { return task.ErrPermanent }
