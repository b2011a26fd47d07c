package proof

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// CompareHanded holds what a relay has handed on, by partition of the topic between the parts, against what it must: each
// reading once, as it was read, under the record key and in the partition of its key, and those of one input partition in
// the order in which they came (R3).
func CompareHanded(want *Expected, got [][]oracle.Message) []Anomaly {
	const where = "topic between the parts"
	c := comparison{want: want}
	missing := map[string]*oracle.Handed{}
	for _, o := range want.Outcomes {
		for i := range o.Handed {
			missing[handedID(&o.Handed[i])] = &o.Handed[i]
		}
	}
	seen := map[string]bool{}
	for p, messages := range got {
		last := map[int32]oracle.Handed{}
		for _, m := range messages {
			place := fmt.Sprintf("%.200s in %s/%d at offset %d", m.Value, where, p, m.Offset)
			h, ok := want.Config.ParseHanded(m.Value)
			id := handedID(&h)
			w := missing[id]
			switch {
			case !ok:
				c.report(Unknown, where, "a reading", place)
				continue
			case seen[id]:
				c.report(Double, where, id+" once", place)
			case w == nil:
				c.report(Unknown, where, "no such reading", place)
			case !sameReading(w, &h) || !bytes.Equal(m.Key, h.Reading.Record):
				c.report(WrongValue, where, fmt.Sprintf("%+v", *w), place)
			case oracle.PartitionOf("murmur2", m.Key, int32(len(got))) != int32(p):
				c.report(WrongValue, where, fmt.Sprintf("%s in partition %d", id, oracle.PartitionOf("murmur2", m.Key, int32(len(got)))), place)
			}
			if before, ok := last[h.Partition]; ok && (h.Offset < before.Offset || h.Offset == before.Offset && h.Index < before.Index) {
				c.report(WrongValue, where, "the order of the input", place)
			}
			last[h.Partition], seen[id] = h, true
			delete(missing, id)
		}
	}
	for id := range missing {
		c.report(Lost, where, id, "nothing")
	}
	return c.found
}

// handedID names the reading that was handed on.
func handedID(h *oracle.Handed) string {
	return fmt.Sprintf("reading %d of input %d/%d", h.Index, h.Partition, h.Offset)
}

func sameReading(a, b *oracle.Handed) bool {
	x, y := &a.Reading, &b.Reading
	return a.Timestamp == b.Timestamp && x.Time == y.Time && x.Nanos == y.Nanos && slices.Equal(x.Key, y.Key) && slices.Equal(x.Whole, y.Whole) &&
		slices.EqualFunc(x.Values, y.Values, oracle.SameBits)
}
