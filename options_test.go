package tidemark

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
)

// TestNewNamesAllFaults: what is missing, and what cannot be, is named in one go.
func TestNewNamesAllFaults(t *testing.T) {
	_, err := New(Options{Job: "job", Input: "in"})
	if err == nil || err.Error() != "options without Cluster, DeadLetter, Changelog.Topic, Processor, StateDir" {
		t.Errorf("%v", err)
	}
	_, err = New(Options{Job: "job", Input: "in", Commit: Commit{Interval: -time.Second, MaxRecords: 3, MaxBytes: 1 << 20, MaxPerSecond: -1},
		IdleClose: -500 * time.Microsecond, Checkpoint: -time.Minute, MaxBytes: -1, Relay: &Relay{}})
	wants(t, err, "options without Cluster, ", "MaxRecords 3", "at least 4", "Commit.Interval is -1s", "Commit.MaxPerSecond is -1", "IdleClose is -500µs, which is below 0",
		"IdleClose is -500µs: stream time moves by whole milliseconds", "Checkpoint is -1m0s", "MaxBytes is -1", "0 Results: a Relay has one")
}

// TestIdleCloseIsWholeMilliseconds: half a millisecond of silence would move stream time by nothing, and commit that for
// ever.
func TestIdleCloseIsWholeMilliseconds(t *testing.T) {
	o := newWorld(t, 1).options()
	for idle, ok := range map[time.Duration]bool{0: true, time.Millisecond: true, time.Hour: true, time.Microsecond: false,
		1500 * time.Microsecond: false, time.Second + 1: false, -time.Second: false} {
		o.IdleClose = idle
		if _, err := New(o); (err == nil) != ok {
			t.Errorf("%s: %v", idle, err)
		}
	}
}

// TestResultsForEachAggregation: a Processor with more aggregations than there are result topics, or fewer, is refused
// with both numbers before anything is fenced, by a birth and by a newcomer to a job that lives, and so is none.
func TestResultsForEachAggregation(t *testing.T) {
	w := newWorld(t, 2)
	refused := func(want string, change func(*Options)) {
		t.Helper()
		o := w.options()
		change(&o)
		app, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		fences, seats := w.cluster.Calls(kafkatest.OpFence), w.cluster.Calls(kafkatest.OpJoin)
		err = app.Run(t.Context())
		wants(t, err, "make the processor of in/", want)
		if kafka.ClassOf(err) != kafka.ClassPermanent {
			t.Errorf("class %s", kafka.ClassOf(err))
		}
		if n := w.cluster.Calls(kafkatest.OpFence) - fences; n != 0 {
			t.Errorf("%d fences", n)
		}
		if n := w.cluster.Calls(kafkatest.OpJoin) - seats; seats > 0 && n != 0 {
			t.Errorf("a newcomer has taken a seat %d times", n)
		}
	}
	none := func(o *Options) { o.Results = nil }
	more := func(o *Options) { o.Results = []string{"out", "out"} }
	refused("1 aggregations, and Options.Results names 0 topics", none)
	w.produce(100)
	w.run(w.options())
	refused("1 aggregations, and Options.Results names 0 topics", none)
	refused("1 aggregations, and Options.Results names 2 topics", more)
	refused("has returned none", func(o *Options) {
		o.Processor = func(int32, int32, Limits) (Processor, error) { return nil, nil }
	})
	w.cluster.Evict("job", "job-member-1")
	o := w.options()
	o.Results = nil
	app, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, app.Repair(t.Context(), Repair{Kind: RepairReseal, Partition: 1, Who: "anna@plant", Told: func(RepairChange) {}}), "in/1", "names 0 topics")
}

// TestDefaultOptions: commits and checkpoints need not be configured, and what is configured wins.
func TestDefaultOptions(t *testing.T) {
	o := newWorld(t, 1).options()
	o.Commit, o.Checkpoint = Commit{}, 0
	app, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if app.options.Commit != DefaultCommit || app.options.Checkpoint != DefaultCheckpoint {
		t.Errorf("%+v, checkpoints every %s", app.options.Commit, app.options.Checkpoint)
	}
	o.Commit = Commit{MaxRecords: 3, MaxBytes: 1 << 20}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "too small") {
		t.Errorf("%v", err)
	}
}

// TestConnectRefuses: what cannot be an address is refused at once, as an Error.
func TestConnectRefuses(t *testing.T) {
	_, err := Connect(Brokers{})
	var told *Error
	if !errors.As(err, &told) || told.Class != kafka.ClassPermanent {
		t.Errorf("%v", err)
	}
}
