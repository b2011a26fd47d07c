package proof

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"
)

// The loop must tell kills that prove something from those that do not, and must not mistake an end for a kill.
func TestKillLoop(t *testing.T) {
	for part, want := range map[string]string{
		"works":             "",
		"has nothing to do": "0 useful kills",
		"starts slowly":     "0 useful kills",
		"ends":              "no disk",
		"is done":           "ended by itself with exit code 0",
	} {
		t.Run(part, func(t *testing.T) {
			job, reader, _ := stage(t, part)
			lines := 40 // of a feed that ends while a daemon that does nothing useful is killed again and again
			if part == "works" || part == "is done" {
				lines = 1 << 20
			}
			loop := KillLoop{Job: job, Reader: reader, Rate: 50, Seed: 1, Useful: 2, Log: t.Logf, Wipe: true,
				Feed: func() []byte {
					if lines--; lines < 0 {
						return nil
					}
					return []byte("{}")
				}}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			kills, err := loop.Run(ctx)
			if want == "" && (err != nil || kills.Useful != 2 || kills.Lines == 0) {
				t.Errorf("%v, error %v", kills, err)
			}
			if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%v, error %v; want %q", kills, err, want)
			}
			if part == "has nothing to do" && kills.Idle == 0 || part == "starts slowly" && kills.Early == 0 {
				t.Errorf("kills are not told apart: %v", kills)
			}
		})
	}
}

// Prove must pass a perfect job and must notice a restart that publishes a result again, one that forgets an entry, and
// state that is gone with the local files.
func TestProve(t *testing.T) {
	for part, want := range map[string]string{
		"is right":        "",
		"publishes again": "after the second-restart: results changed: 1, then 2",
		"forgets":         "after the second-restart: live entries changed: 2, then 1",
		"shrinks":         "after the restart-without-local-state: state dump changed: 2 lines, then 1",
	} {
		t.Run(part, func(t *testing.T) {
			job, reader, client := stage(t, part)
			show(t, client)
			if err := os.MkdirAll(job.LocalState(), 0o700); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			_, err := job.Prove(ctx, reader, expected())
			if (want == "") != (err == nil) || err != nil && err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// Whatever the first look finds is reported before anything is started again.
func TestProveComparesFirst(t *testing.T) {
	job, reader, client := stage(t, "publishes again")
	show(t, client)
	if err := job.RunUntilIdle(context.Background(), "run"); err != nil {
		t.Fatal(err)
	}
	_, err := job.Prove(context.Background(), reader, expected())
	if err == nil || !strings.Contains(err.Error(), "1 anomalies: 1 window twice") {
		t.Errorf("error %v", err)
	}
}

func TestConfigNamesEverything(t *testing.T) {
	job, _, _ := stage(t, "is right")
	job.Oracle = FleetConfig(4)
	job.Checkpoint, job.MaxRecords = time.Second, 500
	if err := job.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(job.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"kafka: {embedded: {partitions: 4}}", `key: ["device"]`, "tumbling: 3600000ms, offset: 60000ms, grace: 0ms",
		"checkpoint: {interval: 1000ms}", "commit: {max_records: 500}", "output: {topic: job-short, emit: final}"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	job.Brokers, job.Leave = []string{"127.0.0.1:9092"}, true
	if err := job.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(job.Config()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`kafka: {brokers: ["127.0.0.1:9092"]}`, "shutdown: leave"} {
		if !strings.Contains(string(text), part) || strings.Contains(string(text), "embedded") {
			t.Errorf("no %q, or an embedded broker, in\n%s", part, text)
		}
	}
}
