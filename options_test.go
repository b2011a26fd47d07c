package tidemark

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// TestNewNamesWhatIsMissing: all required options that are not there are named in one go.
func TestNewNamesWhatIsMissing(t *testing.T) {
	_, err := New(Options{Job: "job", Input: "in"})
	if err == nil || err.Error() != "options without Cluster, DeadLetter, Changelog.Topic, Processor, StateDir" {
		t.Errorf("%v", err)
	}
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
