package record

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/zeebo/xxh3"
)

// TopicID is the id a broker gives a topic when it is created. The zero id means unknown and equals nothing, not even
// another zero id (R33).
type TopicID [16]byte

// Known tells whether the broker gave an id.
func (id TopicID) Known() bool { return id != TopicID{} }

// Equal tells whether both ids are known and the same.
func (id TopicID) Equal(o TopicID) bool { return id.Known() && id == o }

// String is the id in hexadecimal, or "unknown".
func (id TopicID) String() string {
	if !id.Known() {
		return "unknown"
	}
	return hex.EncodeToString(id[:])
}

// BirthID is the random id of a task's life, made at its birth and repeated in every later record, checkpoint, group
// offset and result. Zero means not known.
type BirthID uint64

// FenceID is the random id of one fence. Commit records name the fence of their writer. Zero means none.
type FenceID uint64

// String is the id as 16 hexadecimal digits.
func (id BirthID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// String is the id as 16 hexadecimal digits.
func (id FenceID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// Topic names one topic for good: its name, the broker's id for it and its partition count.
type Topic struct {
	Name       string
	ID         TopicID
	Partitions int32
}

// Identity is what a task's state belongs to: a cluster and its topics. Input and changelog must stay the same; another
// output is only a warning.
type Identity struct {
	ClusterID string
	Input     Topic
	Changelog Topic
	Outputs   []Topic // in the order of configuration
	Growing   bool    // partitions may be added to the input: its count and the changelog's are not part of what must stay (R34)
}

// SourceHash is the hash over job, cluster, input and changelog that the commit record carries; a difference is a stop.
// The job is in it because its name is the group's: two jobs on one changelog would each be told by their own group that
// a task is theirs, and fence each other for ever (I4).
func (id *Identity) SourceHash(job string) uint64 {
	input, changelog := id.Input, id.Changelog
	if id.Growing {
		input.Partitions, changelog.Partitions = 0, 0
	}
	b := AppendField(AppendField(nil, []byte(job)), []byte(id.ClusterID))
	return xxh3.Hash(appendTopic(appendTopic(b, input), changelog))
}

// OutputHash is the hash over the outputs that the commit record carries; a difference is a loud warning.
func (id *Identity) OutputHash() uint64 {
	var b []byte
	for _, t := range id.Outputs {
		b = appendTopic(b, t)
	}
	return xxh3.Hash(b)
}

func appendTopic(b []byte, t Topic) []byte {
	b = AppendField(b, []byte(t.Name))
	b = append(b, t.ID[:]...)
	return binary.BigEndian.AppendUint32(b, uint32(t.Partitions))
}
