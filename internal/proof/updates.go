package proof

import (
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// CompareUpdates holds all records of the result topics of aggregations that publish updates, in the order of each
// partition, against the oracle. How many updates there are depends on the commits; but the last record of a window must
// be how it stands, or its final result, and what was told of a session that has become a part of another one is taken
// back. Of an aggregation with current values that holds for the newest window of each key, and the last record of the
// key is about it.
func CompareUpdates(want *Expected, lines []Line) []Anomaly {
	c := comparison{want: want}
	last, of := map[string]*Line{}, map[string]*oracle.Aggregation{}
	for i := range want.Config.Aggregations {
		a := &want.Config.Aggregations[i]
		of[a.Name] = a
	}
	for i := range lines {
		l := &lines[i]
		if a := of[l.Aggregation]; a != nil && a.Updates {
			last[toldOf(a, l.Key, l.Start)] = l
		}
	}
	for id, w := range newest(want, of) {
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
	return c.found
}

const updates = "updates"

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
