package tidemark

import (
	"context"
	"strings"
	"testing"
	"time"
)

// renamed is a tally that means something else by its aggregation.
type renamed struct{ tally }

// Aggregations gives the aggregation another fingerprint.
func (*renamed) Aggregations() []Aggregation { return []Aggregation{{Name: "tally", Fingerprint: 2}} }

// R8: a configuration with the job's name and another definition, or another changelog, is refused before it has a seat:
// the running job keeps every task and sees no new assignment.
func TestNewcomerIsRefusedWithoutASeat(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"definition": {func(o *Options) {
			o.Processor = func(int32, int32, Limits) (Processor, error) { return &renamed{}, nil }
		}, "fingerprint"},
		"changelog": {func(o *Options) { o.Changelog.Topic = "other" }, "has lived before"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.produce(10)
			w.run(w.options()) // both tasks are born, and the group has their offsets
			running := w.start(t.TempDir(), nil)
			running.until("recovery of 0", recoveredOn(0))
			running.until("recovery of 1", recoveredOn(1))

			o := w.options()
			o.StateDir = t.TempDir()
			c.change(&o)
			app, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := app.Run(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the copy ended with %v, want %q", err, c.want)
			}
			if app.group != nil {
				t.Error("the copy had a seat")
			}
			w.produce(10)
			running.until("a commit", func(e Event) bool { return e.Kind == EventCommitted && e.Inputs > 0 })
			if n := count(running, func(e Event) bool { return e.Kind == EventClosed || e.Kind == EventFailed }); n != 0 {
				t.Errorf("%d tasks of the running job were stopped", n)
			}
			if err := running.end(); err != nil {
				t.Error(err)
			}
		})
	}
}
