package oracle

import (
	"encoding/binary"
	"math/big"
	"slices"
)

// dedupName is the aggregation under which what dedup remembers stands in the changelog and in the counters.
const dedupName = "(dedup)"

// dedupStart stands in its keys in place of a window's start.
const dedupStart = -1 << 48

// dedup are the counters of what dedup remembers, or something without meaning.
func (m *model) dedup() *AggregationCounters {
	if m.known == nil {
		return &AggregationCounters{ClosedEnd: Never}
	}
	return &m.out.Aggregations[len(m.out.Aggregations)-1]
}

// identify returns the name of the entry under which a reading is remembered, the sequence or the time in ms being its last
// key field; and until which closed end, which is the next multiple of a 64th of the time for which readings are
// remembered.
func (m *model) identify(r Reading) (id string, until int64) {
	if m.known == nil {
		return "", 0
	}
	own := r.Sequence
	if m.config.Dedup.Sequence == "" {
		ns := new(big.Int).Add(new(big.Int).Mul(big.NewInt(r.Time), big.NewInt(1e6)), big.NewInt(r.Nanos))
		own = new(big.Rat).SetFrac(ns, big.NewInt(1e6)).FloatString(6)
		if r.Nanos == 0 {
			own = big.NewInt(r.Time).String()
		}
	}
	step := max(1, m.config.Dedup.Within/64)
	steps := new(big.Int).Div(big.NewInt(r.Time), big.NewInt(step)) // rounds down
	return WindowID(dedupName, append(slices.Clone(r.Key), own), dedupStart), (steps.Int64() + 1) * step
}

// knows tells whether a reading is a repetition of one that is not forgotten.
func (m *model) knows(id string, until int64) bool {
	last, there := m.known[id]
	closed := m.dedup().ClosedEnd
	return there && until > closed && last > closed
}

// remember takes up an accepted reading, unless it came too late to be judged.
func (m *model) remember(id string, until int64, judged bool) {
	if m.known == nil {
		return
	}
	a := m.dedup()
	if m.out.StreamTime != Never {
		a.ClosedEnd = max(a.ClosedEnd, m.out.StreamTime-m.config.Dedup.Within)
	}
	if !judged {
		a.Late++
		return
	}
	a.Folded++
	m.known[id] = until
}

// forget says which readings are still remembered when the input has ended. All others are counted as results.
func (m *model) forget() {
	if m.known == nil {
		return
	}
	a := m.dedup()
	m.out.Remembered = map[string]string{}
	for id, until := range m.known {
		if until > a.ClosedEnd {
			value := binary.AppendUvarint([]byte{1}, uint64(until-dedupStart))
			m.out.Remembered[id] = string(value)
		}
	}
	a.Results = a.Folded - int64(len(m.out.Remembered))
}
