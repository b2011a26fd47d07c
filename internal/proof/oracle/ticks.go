package oracle

import (
	"cmp"
	"fmt"
	"slices"
)

// Tick is a move of the stream time that no reading has made but silence: to Time, before the record at Offset is read.
// How long it was silent no topic tells, so that the oracle takes ticks for given as it does the input, and holds them
// against their rule.
type Tick struct{ Offset, Time int64 }

// tick moves the stream time by those ticks that come before an offset.
func (m *model) tick(offset int64) {
	for len(m.ticks) > 0 && m.ticks[0].Offset <= offset {
		t := m.ticks[0].Time
		m.ticks = m.ticks[1:]
		if t <= m.out.StreamTime {
			continue
		}
		m.out.StreamTime, m.out.SetterOffset = t, -1
		for i := range m.config.Aggregations {
			a := &m.config.Aggregations[i]
			m.out.Aggregations[i].ClosedEnd = max(m.out.Aggregations[i].ClosedEnd, t-m.config.MaxLag-a.Grace-a.Gap)
		}
		if m.known != nil {
			m.dedup().ClosedEnd = max(m.dedup().ClosedEnd, t-m.config.Dedup.Within)
		}
	}
}

// FindTicks finds the ticks of a partition in the commit records of its changelog, none of which may be missing: a commit
// that has consumed nothing and has another stream time than the one before, or whose stream time is beyond that of
// everything it has consumed. Each is a multiple of idle, ms; a move that is not is none. With a quorum, where a commit's records alone do not tell the
// stream time, the first kind alone is found.
func (c *Config) FindTicks(partition int32, records []Record, commits []*Commit, idle int64) ([]Tick, error) {
	without := *c
	without.Aggregations, without.Ticks, without.Dedup = nil, nil, Dedup{}
	var ticks []Tick
	last := &Commit{Number: -1, StreamTime: Never}
	for _, one := range commits {
		if one.Birth != last.Birth {
			last, ticks = &Commit{Number: one.Number - 1, StreamTime: Never}, nil
		}
		if one.Number != last.Number+1 {
			return nil, fmt.Errorf("commit %d follows commit %d: what lies between them is compacted away", one.Number, last.Number)
		}
		from, to := placeOf(records, last.Position), placeOf(records, one.Position)
		moved := one.StreamTime - last.StreamTime
		if last.StreamTime != Never && moved > 0 && (from == to || c.Quorum < 2 && without.Run(partition, records[from:to]).StreamTime < one.StreamTime) {
			if moved%idle == 0 { // what is no tick shows as a wrong stream time
				ticks = append(ticks, Tick{last.Position, one.StreamTime})
			}
		}
		last = one
	}
	return ticks, nil
}

// placeOf is how many records lie before an offset.
func placeOf(records []Record, offset int64) int {
	n, _ := slices.BinarySearchFunc(records, offset, func(r Record, at int64) int { return cmp.Compare(r.Offset, at) })
	return n
}
