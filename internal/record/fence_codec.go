package record

import (
	"encoding/binary"
	"math"
)

const fenceWhat = "fence record"

// Append appends the fence record in format FenceFormat and returns the extended buffer. The texts for people (host,
// version) are cut to MaxText bytes; names must be within MaxName and no number but the producer's may be negative.
func (f *Fence) Append(dst []byte) []byte {
	dst = append(dst, FenceFormat)
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.ID))
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.Birth))
	dst = appendText(dst, f.Job)
	dst = binary.AppendUvarint(dst, uint64(f.Partition))
	dst = appendText(dst, f.Host[:min(len(f.Host), MaxText)])
	dst = binary.AppendUvarint(dst, uint64(f.PID))
	dst = appendText(dst, f.Version[:min(len(f.Version), MaxText)])
	dst = binary.AppendVarint(dst, f.ProducerID)
	dst = binary.AppendVarint(dst, int64(f.ProducerEpoch))
	dst = appendText(dst, f.Identity.ClusterID)
	dst = f.Identity.Input.append(dst)
	dst = f.Identity.Changelog.append(dst)
	dst = binary.AppendUvarint(dst, uint64(len(f.Identity.Outputs)))
	for _, t := range f.Identity.Outputs {
		dst = t.append(dst)
	}
	return dst
}

// ParseFence reads a fence record. A *FormatError means that a newer program wrote it; any other error is damage. The
// result shares no memory with b.
func ParseFence(b []byte) (*Fence, error) {
	if err := checkFormat(fenceWhat, b, FenceFormat); err != nil {
		return nil, err
	}
	r := reader{what: fenceWhat, all: b, at: 1}
	f := &Fence{
		ID:            FenceID(r.fixed64("fence id")),
		Birth:         BirthID(r.fixed64("birth id")),
		Job:           r.text("job", MaxName, ""),
		Partition:     int32(r.uvarint("partition", math.MaxInt32)),
		Host:          r.text("host", MaxText, ""),
		PID:           int64(r.uvarint("process id", math.MaxInt64)),
		Version:       r.text("version", MaxText, ""),
		ProducerID:    r.varint("producer id", -1, math.MaxInt64),
		ProducerEpoch: int16(r.varint("producer epoch", -1, math.MaxInt16)),
	}
	f.Identity.ClusterID = r.text("cluster id", MaxText, "")
	f.Identity.Input = r.topic("input topic")
	f.Identity.Changelog = r.topic("changelog topic")
	for n := r.uvarint("number of outputs", MaxOutputs); n > 0 && r.err == nil; n-- {
		f.Identity.Outputs = append(f.Identity.Outputs, r.topic("output topic"))
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return f, nil
}

func (t Topic) append(dst []byte) []byte {
	dst = appendText(dst, t.Name)
	dst = append(dst, t.ID[:]...)
	return binary.AppendUvarint(dst, uint64(t.Partitions))
}

func (r *reader) topic(field string) (t Topic) {
	t.Name = r.text(field, MaxName, "")
	copy(t.ID[:], r.take(field, len(t.ID)))
	t.Partitions = int32(r.uvarint(field, math.MaxInt32))
	return t
}
