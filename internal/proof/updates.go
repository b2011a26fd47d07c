package proof

import (
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// updates compares all records of the result topics of aggregations that publish updates, in the order of each partition.
// How many updates there are depends on the commits; but the last record of a window must be how it stands, or its final
// result, no record may hold fewer readings of a window than one before, and what was told of a session that has become a
// part of another one is taken back. Of an aggregation with current values the last record of each key, which is what
// compaction leaves of it, must be about the key's newest window.
func (c *comparison) updates(lines []Line) {
	last, of := map[string]*Line{}, map[string]*oracle.Aggregation{}
	for i := range c.want.Config.Aggregations {
		a := &c.want.Config.Aggregations[i]
		of[a.Name] = a
	}
	most := map[string]int64{}
	for i := range lines {
		l := &lines[i]
		a := of[l.Aggregation]
		if a == nil || !a.Updates {
			continue
		}
		last[toldOf(a, l.Key, l.Start)] = l
		if l.Merged {
			delete(most, l.ID())
			continue
		}
		if n := l.count(); n >= 0 && n < most[l.ID()] {
			c.window(Stale, updates, lineWindow(l), fmt.Sprintf("count %d or more, as was told before", most[l.ID()]), fmt.Sprintf("count %d in %s", n, l.Place))
		} else {
			most[l.ID()] = n
		}
	}
	for id, w := range newest(c.want, of) {
		l := last[id]
		delete(last, id)
		switch {
		case l == nil:
			c.window(MissingWindow, updates, w, "a record", "nothing")
		case l.Start != w.Start || l.Merged:
			c.window(Stale, updates, w, "the last record of it", l.Place)
		case l.Final != w.Final:
			c.window(Stale, updates, w, fmt.Sprintf("final: %v", w.Final), fmt.Sprintf("final: %v in %s", l.Final, l.Place))
		case !l.Final: // final results are compared with all others
			c.values(w, l, updates)
		}
	}
	for _, l := range last {
		if !l.Merged {
			c.window(Unknown, updates, lineWindow(l), "no such window, or merged: true", l.Place)
		}
	}
}

const updates = "updates"

// current compares the order of final results where the last one of a key stands for its current value.
func (c *comparison) current(results []Line) {
	last := map[string]*Line{}
	for i := range c.want.Config.Aggregations {
		a := &c.want.Config.Aggregations[i]
		for n := range results {
			l := &results[n]
			if !a.Current || l.Aggregation != a.Name {
				continue
			}
			id := toldOf(a, l.Key, l.Start)
			if before := last[id]; before != nil && before.Start >= l.Start {
				c.window(Stale, "current value", lineWindow(before), "a later window's result behind it", l.Place)
			}
			last[id] = l
		}
	}
}

// toldOf is what the records of one window have in common or, of an aggregation with current values, those of one key.
func toldOf(a *oracle.Aggregation, key []string, start int64) string {
	if a.Current {
		start = 0
	}
	return oracle.WindowID(a.Name, key, start)
}

// newest are the windows that the last records must be about.
func newest(want *Expected, of map[string]*oracle.Aggregation) map[string]*oracle.Window {
	all := map[string]*oracle.Window{}
	for _, o := range want.Outcomes {
		for _, w := range o.Windows {
			a := of[w.Aggregation]
			if !a.Updates {
				continue
			}
			id := toldOf(a, w.Key, w.Start)
			if before := all[id]; before == nil || before.Start < w.Start {
				all[id] = w
			}
		}
	}
	return all
}

// superseded tells whether a final result of a window need not be there: its key had a newer one already (mode: current).
func (c *comparison) superseded(w *oracle.Window) bool {
	for i := range c.want.Config.Aggregations {
		if a := &c.want.Config.Aggregations[i]; a.Name != w.Aggregation || !a.Current || !a.Updates {
			continue
		}
		if c.newest == nil {
			c.newest = map[string]int64{}
			for _, o := range c.want.Outcomes {
				for _, v := range o.Windows {
					id := oracle.WindowID(v.Aggregation, v.Key, 0)
					if start, there := c.newest[id]; !there || start < v.Start {
						c.newest[id] = v.Start
					}
				}
			}
		}
		return c.newest[oracle.WindowID(w.Aggregation, w.Key, 0)] > w.Start
	}
	return false
}
