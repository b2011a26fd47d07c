package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

const commitWhat = "commit record"

// Append appends the commit record in format CommitFormat and returns the extended buffer. It does not allocate when
// dst has room. The record must pass Check: one that does not is refused by every reader.
//
// Format 1: version byte; fixed-width numbers are big-endian, counts are unsigned varints, whatever may be negative is
// a zigzag varint, texts have their length before them. The fields follow each other as in the types; an empty Quorum is
// left out.
func (c *Commit) Append(dst []byte) []byte {
	dst = append(dst, CommitFormat)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Birth))
	dst = binary.AppendUvarint(dst, c.Number)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Fence))
	dst = binary.BigEndian.AppendUint64(dst, c.SourceHash)
	dst = binary.BigEndian.AppendUint64(dst, c.OutputHash)
	dst = binary.AppendVarint(dst, int64(c.Position))
	dst = binary.AppendVarint(dst, int64(c.Epoch))
	dst = binary.AppendVarint(dst, c.Anchor.Offset)
	dst = appendDigest(dst, c.Anchor.Hash)
	dst = binary.AppendVarint(dst, c.StreamTime)
	dst = AppendField(dst, c.SetterKey)
	dst = binary.AppendVarint(dst, c.SetterOffset)
	for _, n := range c.Counters.list() {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Aggregations)))
	for i := range c.Aggregations {
		dst = c.Aggregations[i].append(dst)
	}
	dst = appendDigest(dst, c.Digest)
	dst = binary.AppendUvarint(dst, uint64(c.Live))
	dst = binary.AppendUvarint(dst, uint64(c.Records))
	dst = binary.AppendUvarint(dst, uint64(c.MinRetention))
	dst = appendText(dst, c.TZData)
	dst = append(dst, byte(c.Mark))
	dst = appendText(dst, c.Note)
	if len(c.Quorum) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Quorum)))
	for i := range c.Quorum {
		dst = binary.AppendVarint(appendDigest(dst, c.Quorum[i].Device), c.Quorum[i].Time)
	}
	return dst
}

// list is the counters in the order of format 1.
func (n *Counters) list() [11]Count {
	return [...]Count{n.In, n.Accepted, n.DeadLettered, n.Filtered, n.Skipped, n.Repeated, n.Ahead, n.Untimed, n.Duplicates,
		n.RefusedPeriod, n.RefusedInIt}
}

func (a *AggregationState) append(dst []byte) []byte {
	dst = appendText(dst, a.Name)
	dst = binary.BigEndian.AppendUint64(dst, a.Fingerprint)
	dst = binary.AppendVarint(dst, a.ClosedEnd)
	for _, n := range a.list() {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return dst
}

// list is the counters of an aggregation in the order of format 1.
func (a *AggregationState) list() [6]Count {
	return [...]Count{a.Since, a.Folded, a.PartlyLate, a.Late, a.Missed, a.Results}
}

// ParseCommit reads a commit record. A *FormatError means that a newer program wrote it; any other error is damage. The
// result shares no memory with b.
func ParseCommit(b []byte) (*Commit, error) {
	c := new(Commit)
	if err := c.Decode(b); err != nil {
		return nil, err
	}
	return c, nil
}

// Decode is ParseCommit into a used record: it allocates nothing when the texts are those that c holds already. After
// an error c holds nothing of use.
func (c *Commit) Decode(b []byte) error {
	if err := checkFormat(commitWhat, b, CommitFormat); err != nil {
		return err
	}
	r := reader{what: commitWhat, all: b, at: 1}
	c.Birth = BirthID(r.fixed64("birth id"))
	c.Number = r.uvarint("commit number", math.MaxUint64)
	c.Fence = FenceID(r.fixed64("fence id"))
	c.SourceHash = r.fixed64("source hash")
	c.OutputHash = r.fixed64("output hash")
	c.Position = InputPosition(r.varint("input position", int64(NoInput), math.MaxInt64))
	c.Epoch = int32(r.varint("leader epoch", -1, math.MaxInt32))
	c.Anchor.Offset = r.varint("anchor offset", -1, math.MaxInt64)
	c.Anchor.Hash = r.digest("anchor hash")
	c.StreamTime = r.varint("stream time", math.MinInt64, math.MaxInt64)
	c.SetterKey = append(c.SetterKey[:0], r.bytes("setter key", MaxSetterKey)...)
	c.SetterOffset = r.varint("setter offset", -1, math.MaxInt64)
	c.Counters = r.counters()
	n := int(r.uvarint("number of aggregations", MaxAggregations))
	c.Aggregations = c.Aggregations[:min(n, len(c.Aggregations))]
	for i := 0; i < n && r.err == nil; i++ {
		if i == len(c.Aggregations) {
			c.Aggregations = append(c.Aggregations, AggregationState{})
		}
		r.aggregation(&c.Aggregations[i])
	}
	c.Digest = r.digest("digest")
	c.Live = r.count("live entries")
	c.Records = r.count("changelog records")
	c.MinRetention = int64(r.uvarint("smallest retention", math.MaxInt64))
	c.TZData = r.text("tz data", MaxText, c.TZData)
	if m := r.take("mark", 1); m != nil {
		c.Mark = Mark(m[0])
	}
	c.Note = r.text("note", MaxText, c.Note)
	c.Quorum = r.quorum(c.Quorum[:0])
	if err := r.end(); err != nil {
		return err
	}
	return c.checkFields()
}

func (r *reader) quorum(into []Vouch) []Vouch {
	if r.err != nil || r.at == len(r.all) {
		return into
	}
	n := r.uvarint("devices of the quorum", MaxQuorum)
	if n == 0 && r.err == nil {
		r.fail("devices of the quorum", errors.New("none, which is not written"))
	}
	for range n {
		if r.err == nil {
			into = append(into, Vouch{Device: r.digest("device"), Time: r.varint("time of a device", math.MinInt64, math.MaxInt64)})
		}
	}
	return into
}

func (r *reader) counters() (c Counters) {
	c.In = r.count("readings in")
	c.Accepted = r.count("readings accepted")
	c.DeadLettered = r.count("readings dead-lettered")
	c.Filtered = r.count("readings filtered")
	c.Skipped = r.count("readings skipped")
	c.Repeated = r.count("records repeated")
	c.Ahead = r.count("readings ahead of their record")
	c.Untimed = r.count("records without a time")
	c.Duplicates = r.count("readings known already")
	c.RefusedPeriod = r.count("period of refused readings")
	c.RefusedInIt = r.count("readings refused in a period")
	return c
}

func (r *reader) aggregation(a *AggregationState) {
	a.Name = r.text("aggregation name", MaxName, a.Name)
	a.Fingerprint = r.fixed64("aggregation fingerprint")
	a.ClosedEnd = r.varint("closed end", math.MinInt64, math.MaxInt64)
	a.Since = r.count("accepted before the aggregation")
	a.Folded = r.count("readings folded")
	a.PartlyLate = r.count("readings partly late")
	a.Late = r.count("readings late")
	a.Missed = r.count("windows missed")
	a.Results = r.count("results")
}

// Clone returns a copy that shares no memory with c.
func (c *Commit) Clone() *Commit {
	copied := *c
	copied.SetterKey = slices.Clone(c.SetterKey)
	copied.Aggregations = slices.Clone(c.Aggregations)
	copied.Quorum = slices.Clone(c.Quorum)
	return &copied
}

// Check asserts what must hold in every commit record before it is written and after it was read: the ranges and limits
// of each field, the equations of I9 for the task and for each aggregation, that no entries means no digest (I7), and
// that the anchor lies below the position. An error names both sides.
func (c *Commit) Check() error {
	if err := c.checkFields(); err != nil {
		return err
	}
	n := &c.Counters
	if sum := n.Accepted + n.DeadLettered + n.Filtered + n.Skipped + n.Duplicates; n.In != sum {
		return c.broken("%d readings in, but accepted %d + dead-lettered %d + filtered %d + skipped %d + duplicates %d = %d (I9)",
			n.In, n.Accepted, n.DeadLettered, n.Filtered, n.Skipped, n.Duplicates, sum)
	}
	for i := range c.Aggregations {
		a := &c.Aggregations[i]
		if sum := a.Folded + a.PartlyLate + a.Late; n.Accepted-a.Since != sum {
			return c.broken("aggregation %q: %d readings accepted - %d before it = %d, but folded %d + partly late %d + late %d = %d (I9)",
				a.Name, n.Accepted, a.Since, n.Accepted-a.Since, a.Folded, a.PartlyLate, a.Late, sum)
		}
	}
	if c.Live == 0 && c.Digest != (Digest{}) {
		return c.broken("no live entries, but the digest is %v and not zero (I7)", c.Digest)
	}
	if c.Anchor.Offset >= 0 && c.Anchor.Offset >= int64(c.Position) {
		return c.broken("anchor at offset %d, not below the input position %d", c.Anchor.Offset, c.Position)
	}
	return nil
}

// checkFields asserts what holds for each field alone.
func (c *Commit) checkFields() error {
	switch {
	case c.Position < NoInput || c.Epoch < -1 || c.Anchor.Offset < -1 || c.SetterOffset < -1:
		return c.broken("a negative number other than -1: position %d, leader epoch %d, anchor offset %d, setter offset %d",
			c.Position, c.Epoch, c.Anchor.Offset, c.SetterOffset)
	case len(c.SetterKey) > MaxSetterKey:
		return c.broken("setter key of %d bytes, limit %d", len(c.SetterKey), MaxSetterKey)
	case len(c.TZData) > MaxText || len(c.Note) > MaxText:
		return c.broken("tz data of %d and note of %d bytes, limit %d", len(c.TZData), len(c.Note), MaxText)
	case c.Mark > MarkPart:
		return c.broken("mark %d is not known", c.Mark)
	case len(c.Quorum) > MaxQuorum:
		return c.broken("%d devices of a quorum, limit %d", len(c.Quorum), MaxQuorum)
	case c.MinRetention < 0:
		return c.broken("smallest retention %d ms is negative", c.MinRetention)
	case !inRange(c.Live) || !inRange(c.Records):
		return c.broken("live entries %d or changelog records %d outside 0 to %d", c.Live, c.Records, int64(MaxCount))
	case len(c.Aggregations) > MaxAggregations:
		return c.broken("%d aggregations, limit %d", len(c.Aggregations), MaxAggregations)
	}
	for _, n := range c.Counters.list() {
		if !inRange(n) {
			return c.broken("counter %d outside 0 to %d in %+v", n, int64(MaxCount), c.Counters)
		}
	}
	return c.checkAggregations()
}

func (c *Commit) checkAggregations() error {
	for i := range c.Aggregations {
		a := &c.Aggregations[i]
		if len(a.Name) == 0 || len(a.Name) > MaxName {
			return c.broken("aggregation name %.32q of %d bytes, want 1 to %d", a.Name, len(a.Name), MaxName)
		}
		for _, n := range a.list() {
			if !inRange(n) {
				return c.broken("aggregation %q: counter %d outside 0 to %d", a.Name, n, int64(MaxCount))
			}
		}
		for j := range i {
			if c.Aggregations[j].Name == a.Name {
				return c.broken("aggregation %q is there twice", a.Name)
			}
		}
	}
	return nil
}

func inRange(n Count) bool { return n >= 0 && n <= MaxCount }

func (c *Commit) broken(format string, args ...any) error {
	return fmt.Errorf("commit record %d of birth %v: %s", c.Number, c.Birth, fmt.Sprintf(format, args...))
}
