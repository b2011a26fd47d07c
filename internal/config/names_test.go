package config

import (
	"os"
	"path/filepath"
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
		Result: func(a string) string { return "n-" + a }, StateDir: "/tmp/n", Brokers: []string{"127.0.0.1:9"}, Embedded: true,
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

// What ends a job on purpose is left out, the topic's name as a key stays, and files are found from another directory.
func TestRenameMore(t *testing.T) {
	t.Chdir(t.TempDir())
	const path = "job.yaml"
	if err := os.WriteFile("secret", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(path, []byte(`job: j
kafka: {brokers: [a:1], sasl: {mechanism: plain, user: u, password_file: secret}}
input:
  topic: of-the-user
  key: [device, {name: topic, record: topic}]
  values: [v]
  time: {field: ts, idle_close: 1m}
aggregations: [{name: a, window: {tumbling: 1h}, functions: [count], output: {topic: out}}]
dead_letter: {max_bad: 10/1m}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Rename(path, Names{Job: "n", Input: "n-in", DeadLetter: "n-dead", Changelog: "n-changelog", Result: func(a string) string { return "n-" + a },
		StateDir: "/tmp/n", Brokers: []string{"b:2"}, Commit: time.Second, Checkpoint: time.Second, IdleClose: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse("renamed.yaml", text, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	here, _ := filepath.Abs("secret")
	if got.Late != "" || got.MaxBad.Readings != 0 || got.IdleClose != 100*time.Millisecond || got.Input.Topic != "n-in" || got.Kafka.Brokers[0] != "b:2" ||
		got.Input.Format.Parts[1].Name != "of-the-user" || !strings.Contains(string(text), "password_file: "+here) {
		t.Errorf("%s", text)
	}
	if got := OwnVariables([]string{"TIDEMARK_KAFKA_TLS_CA=secret"}); got[0] != "TIDEMARK_KAFKA_TLS_CA="+here {
		t.Errorf("%q", got)
	}
}

// The caller's settings reach a trial, those that it renames and what steers tests do not.
func TestOwnVariables(t *testing.T) {
	got := OwnVariables([]string{"HOME=/", "TIDEMARK_COMMIT_MAX_BYTES=1MiB", "TIDEMARK_JOB=x", "TIDEMARK_CRASH_AT=KILL@commit.end", "TIDEMARK_STATE_DIR=y"})
	if strings.Join(got, " ") != "TIDEMARK_COMMIT_MAX_BYTES=1MiB" {
		t.Errorf("%q", got)
	}
}
