package recovery

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

// The JSON form of a report is read by scripts.
func TestReportJSON(t *testing.T) {
	r := Report{
		Partition: 3, From: "checkpoint", Checkpoint: "state/job/p3/0000000002.checkpoint", Why: whyUsable,
		Aside:  []Aside{{Name: "state/job/p3/0000000003.checkpoint", Word: "damaged", Reason: "has only 4 bytes"}},
		Phases: Phases{Join: 1, Identify: 2.5, Ask: 0.5, Fence: 4, FenceRecord: 3, Tail: 7, Load: 118, Replay: 12, Prove: 14, Anchor: 2, FirstCommit: 180},
		Loaded: 1000, Records: 20, Bytes: 1234, Commit: 57, Birth: "0000000000000001", Digest: "00000000000000020000000000000003",
		Live: 1001, Input: 99, Anchor: "proved", Warnings: []string{"output topics have changed"},
	}
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const golden = "testdata/report.json"
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(got) != string(want) {
		t.Fatalf("%v: report is\n%s\nwant\n%s", err, got, want)
	}
}

func TestProgress(t *testing.T) {
	p := Progress{Done: 25, Total: 100, Records: 10, Elapsed: 2 * time.Second}
	if left, ok := p.Left(); p.Rate() != 5 || left != 6*time.Second || !ok {
		t.Fatalf("rate %v, left %v %v; want 5, 6s", p.Rate(), left, ok)
	}
	if _, ok := (Progress{Total: 100}).Left(); ok || (Progress{}).Rate() != 0 {
		t.Fatal("an estimate before anything is known")
	}
}

// Progress counts offsets, so that it ends at its total with markers, aborted runs and holes.
func TestProgressReachesItsTotal(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	for range 10 {
		w.commit(r, "x=1", "y=2", "z=3")
	}
	w.open(r.Writer, "u", "v")
	w.crash(r)
	w.Compact(logTopic, w.partition)
	rec := w.recovery()
	rec.Cluster = &tampered{Cluster: w.Cluster, maxBytes: 50}
	var seen []Progress
	rec.Progress = func(p Progress) {
		if p.Step == StepReplay {
			seen = append(seen, p)
		}
	}
	got := w.started(rec)
	last := seen[len(seen)-1]
	if len(seen) < 3 || last.Done != last.Total || last.Records != got.Report.Records || last.Bytes != got.Report.Bytes || last.Bytes == 0 || last.Used == 0 {
		t.Fatalf("%d calls, last %+v, report %+v", len(seen), last, got.Report)
	}
	for i := 1; i < len(seen); i++ {
		if seen[i].Done < seen[i-1].Done {
			t.Fatalf("progress goes back from %+v to %+v", seen[i-1], seen[i])
		}
	}
	w.crash(got)
}
