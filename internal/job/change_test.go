package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// Several aggregations over one input, each with its own window, grace and functions; one is added, one removed, one
// changed in what may change, with a crash each time, and I9 holds throughout. What may not change is refused.
func TestAggregationsChange(t *testing.T) {
	config := minutes(0)
	config.Aggregations = append(config.Aggregations,
		Aggregation{Name: "visits", Window: window.Session{Gap: 10_000}, Functions: aggregate.Count | aggregate.Total},
		Aggregation{Name: "steps", Window: window.Hopping{Size: 60_000, Step: 20_000}, Grace: 30_000, Functions: aggregate.Count | aggregate.Total})
	r := newRun(t, config)
	r.add("a", 1000, "1")
	r.add("a", 5000, "2")
	r.add("a", 61_000, "4")
	// Minute and visit; of the steps that which began 40 s before and ended at 20 s, which 61 s less the grace has passed.
	r.drain().expectResults("a +-40 2 3", "a +0 2 3", "a +1 2 3")
}

func TestAggregationIsAddedAndRemoved(t *testing.T) {
	both := minutes(0)
	both.Aggregations = append(both.Aggregations, Aggregation{Name: "visits", Window: window.Session{Gap: 10_000}, Functions: aggregate.Count | aggregate.Total})
	r := newRun(t, minutes(0))
	r.add("a", 1000, "1")
	r.drain()

	r.config = both
	r.crash()
	r.add("a", 2000, "2")
	r.drain().expectState("a +0 2 3", "a +2 1 2")
	if a := r.task.Committed().Aggregations[1]; a.Since != 1 || a.Folded != 1 {
		t.Errorf("the added one: %+v", a)
	}

	r.config.Aggregations = both.Aggregations[1:] // minute is removed
	r.crash()
	r.drain().expectState("a +2 1 2")
	if len(r.results) != 0 {
		t.Errorf("%d results of windows that were not closed", len(r.results))
	}

	r.config.Aggregations = slices.Clone(both.Aggregations[1:])
	r.config.Aggregations[0].Grace, r.config.Aggregations[0].Updates = 5000, true // may change
	r.crash()
	r.add("a", 3000, "4")
	r.drain()
	if got := r.told(); !slices.Equal(got, []string{"a +2 2 false"}) {
		t.Errorf("%q", got)
	}

	for name, change := range map[string]func(*Aggregation){
		"gap":       func(a *Aggregation) { a.Window = window.Session{Gap: 20_000} },
		"kind":      func(a *Aggregation) { a.Window = window.Tumbling{Size: 10_000} },
		"functions": func(a *Aggregation) { a.Functions |= aggregate.Max },
	} {
		changed := r.config
		changed.Aggregations = slices.Clone(r.config.Aggregations)
		change(&changed.Aggregations[0])
		j, err := New(changed, 0, 1, roomy)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := task.New(r.base, j, r.task.Committed(), task.Options{Job: "test", MaxRecords: 10, MaxBytes: 1 << 20}); err == nil ||
			!strings.Contains(err.Error(), `aggregation "visits" means something else`) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}
