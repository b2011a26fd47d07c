package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A trial differs from its job in names and places alone: everything that decides what comes out is as it was.
func TestRename(t *testing.T) {
	const path = "testdata/example.good.yml"
	own, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Rename(path, Names{Job: "n", Input: "n-in", Late: "n-late", DeadLetter: "n-dead", Changelog: "n-changelog",
		Result: func(a string) string { return "n-" + a }, StateDir: "/tmp/n", Brokers: []string{"127.0.0.1:9"},
		Commit: 20 * time.Millisecond, Checkpoint: 150 * time.Millisecond, MaxRecords: 50})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("renamed.yaml", text, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got.Name != "n" || got.Input.Topic != "n-in" || got.Late != "n-late" || got.DeadLetter != "n-dead" || got.Changelog.Topic != "n-changelog" ||
		got.State.Dir != "/tmp/n" || got.Commit.MaxRecords != 50 || got.Commit.Interval != 20*time.Millisecond ||
		got.Checkpoint != 150*time.Millisecond || got.Listen != "" || !cmp.Equal(got.Kafka.Brokers, []string{"127.0.0.1:9"}) {
		t.Errorf("not all is renamed:\n%s", text)
	}
	for i := range got.Aggregations {
		if want := "n-" + got.Aggregations[i].Name; got.Aggregations[i].Output != want {
			t.Errorf("output %s, want %s", got.Aggregations[i].Output, want)
		}
		got.Aggregations[i].Output = own.Aggregations[i].Output
	}
	got.Input.Topic, got.Input.Start = own.Input.Topic, own.Input.Start
	if d := cmp.Diff(own.Aggregations, got.Aggregations); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(own.Input, got.Input); d != "" {
		t.Error(d)
	}
}

// The caller's settings reach a trial, those that it renames and what steers tests do not.
func TestOwnVariables(t *testing.T) {
	got := OwnVariables([]string{"HOME=/", "TIDEMARK_COMMIT_MAX_BYTES=1MiB", "TIDEMARK_JOB=x", "TIDEMARK_CRASH_AT=KILL@commit.end", "TIDEMARK_STATE_DIR=y"})
	if strings.Join(got, " ") != "TIDEMARK_COMMIT_MAX_BYTES=1MiB" {
		t.Errorf("%q", got)
	}
}
