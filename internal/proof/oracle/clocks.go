package oracle

import "encoding/binary"

// clockStart stands in the key of a clock in place of a window's start.
const clockStart = -1 << 48

// clock is how far windows of one key are closed by the key's own time.
type clock struct {
	aggregation string
	closed      int64
}

// closedFor moves the closed end of one aggregation by a reading whose time counts as advance, and returns up to where
// windows of the reading's key are due. With MaxLag each key goes by the latest of its own times, none of which counts
// for more than the stream time at that moment, and no key is further behind the stream time than MaxLag.
func (m *model) closedFor(i int, key []string, advance int64) int64 {
	a, counters := &m.config.Aggregations[i], &m.out.Aggregations[i]
	wait := a.Grace + a.Gap
	if m.out.StreamTime != Never {
		counters.ClosedEnd = max(counters.ClosedEnd, m.out.StreamTime-m.config.MaxLag-wait)
		if m.config.MaxLag > 0 {
			id := WindowID(a.Name, key, clockStart)
			last, there := m.clocks[id]
			if own := min(advance, m.out.StreamTime) - wait; !there || own > last.closed {
				m.clocks[id] = clock{a.Name, own}
			}
		}
	}
	return m.closed(counters, key)
}

// closed is up to where windows of a key are due.
func (m *model) closed(a *AggregationCounters, key []string) int64 {
	if own, there := m.clocks[WindowID(a.Name, key, clockStart)]; there {
		return max(a.ClosedEnd, own.closed)
	}
	return a.ClosedEnd
}

// lateTime is the stream time that a late reading is told: that of the partition, or what has closed the windows of its
// key.
func (m *model) lateTime(a *Aggregation, closed int64) int64 {
	if m.config.MaxLag == 0 || closed == Never {
		return m.out.StreamTime
	}
	return closed + a.Grace + a.Gap
}

// keepClocks says which clocks still say something that the closed end of their aggregation does not.
func (m *model) keepClocks(closed map[string]*AggregationCounters) {
	for id, own := range m.clocks {
		if own.closed <= closed[own.aggregation].ClosedEnd {
			continue
		}
		if m.out.Remembered == nil {
			m.out.Remembered = map[string]string{}
		}
		m.out.Remembered[id] = string(binary.AppendUvarint([]byte{1}, uint64(own.closed-clockStart)))
	}
}
