package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// verdict is what is read of the last line of verify --json.
type verdict struct {
	Kills     int            `json:"kills"`
	Useful    int            `json:"useful_kills"`
	Points    map[string]int `json:"points"`
	Anomalies *int           `json:"anomalies"`
	Seed      uint64         `json:"seed"`
	Rounds    int            `json:"comparisons"`
}

// verify runs the command and returns what its last line says.
func verify(t *testing.T, args ...string) (v verdict, code int, said string) {
	t.Helper()
	temp := t.TempDir()
	cmd := exec.Command(binary(t), append([]string{"verify", "--json"}, args...)...)
	cmd.Env = append(plain(), "TMPDIR="+temp)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &v); err != nil && len(out.Bytes()) > 0 {
		t.Errorf("%v in the last line, %s", err, lines[len(lines)-1])
	}
	left, err := os.ReadDir(temp)
	if err != nil || cmd.ProcessState.ExitCode() == 0 && len(left) > 0 {
		t.Errorf("%v was left behind, error %v", left, err)
	}
	return v, cmd.ProcessState.ExitCode(), stderr.String()
}

// TestVerify tries a job as a user would: a few kills, nothing found, nothing left behind.
func TestVerify(t *testing.T) {
	t.Parallel()
	n := seed(t) % 1_000_000
	v, code, said := verify(t, "-c", "testdata/kills.yaml", "--kills", "6", "--seed", fmt.Sprint(n+1))
	if code != 0 || v.Useful < 6 || v.Anomalies == nil || *v.Anomalies != 0 || v.Seed != n+1 || v.Rounds == 0 {
		t.Errorf("exit code %d, %+v; it said:\n%s", code, v, said)
	}
}

// TestVerifyAtPoints kills where it is told to, and nowhere else: just after a checkpoint (S11), in a birth, in a reset.
func TestVerifyAtPoints(t *testing.T) {
	t.Parallel()
	points := []string{"checkpoint.renamed", "checkpoint.synced-dir", "checkpoint.removed-old", "recover.birth-commit", "repair.commit", "commit.ended"}
	v, code, said := verify(t, "-c", "testdata/kills.yaml", "--kills", "8", "--seed", fmt.Sprint(1+seed(t)%1_000_000), "--points", strings.Join(points, ","))
	if code != 0 || v.Useful < 8 {
		t.Errorf("exit code %d, %+v; it said:\n%s", code, v, said)
	}
	for _, p := range points[:3] {
		if v.Points[p] == 0 {
			t.Errorf("no kill at %s: %v", p, v.Points)
		}
		delete(v.Points, p)
	}
	for p := range v.Points {
		if !strings.Contains(strings.Join(points, " "), p) {
			t.Errorf("a kill at %s, which was not wanted", p)
		}
	}
}

// TestVerifyRefuses shows what verify does not begin with.
func TestVerifyRefuses(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(broken, []byte("job: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{}, 2, "which job"},
		{[]string{"-c", "testdata/kills.yaml", "--kills", "0"}, 2, "--kills"},
		{[]string{"-c", "testdata/kills.yaml", "--points", "commit.never"}, 1, `"commit.never" is no point`},
		{[]string{"-c", broken}, 1, "kafka"},
	} {
		if _, code, said := verify(t, c.args...); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%q: exit code %d, want %d; it said %q, want %q", c.args, code, c.code, said, c.want)
		}
	}
}

// TestVerifyKinds tries one job with sessions, days of a time zone, percentiles, dedup, a quorum, updates and current values;
// one whose readings go through a relay first, under two keys; and one with several readings in a record, stream time by
// key, and windows that silence closes. The oracle judges all of them.
func TestVerifyKinds(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kinds", "rekey", "shapes", "rows"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, code, said := verify(t, "-c", "testdata/"+name+".yaml", "--kills", "8", "--seed", fmt.Sprint(1+seed(t)%1_000_000))
			if code != 0 || v.Useful < 8 || v.Rounds == 0 {
				t.Errorf("exit code %d, %+v; it said:\n%s", code, v, said)
			}
		})
	}
}

// TestVerifyInterrupted stops a trial as the keys of a terminal do: it ends soon, says so, finds nothing, and leaves nothing
// behind, no process either.
func TestVerifyInterrupted(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := exec.Command(binary(t), "verify", "-c", "testdata/rekey.yaml", "--kills", "1000")
	cmd.Env = append(plain(), "TMPDIR="+temp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // an exit code that is not 0 is an error here
		close(ended)
	}()
	for logs := 0; logs < 9; { // processes of the trial
		select {
		case <-ended:
			t.Fatalf("it ended by itself: %s", &said)
		case <-time.After(20 * time.Millisecond):
		}
		found, err := filepath.Glob(filepath.Join(temp, "*", "chapter-1", "*", "logs", "*.err"))
		if err != nil {
			t.Fatal(err)
		}
		logs = len(found)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil { // the group: as a terminal does
		t.Fatal(err)
	}
	<-ended
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, error %v", left, err)
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said.String(), "interrupted") || !strings.Contains(out.String(), "anomalies            0") {
		t.Errorf("exit code %d; it said:\n%s\n%s", code, &said, &out)
	}
	if running := processesOf(t, temp); running != "" {
		t.Errorf("still there: %s", running)
	}
}

// processesOf are the command lines of processes that name a directory.
func processesOf(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range all {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), dir) { // else it is gone
			found = append(found, strings.ReplaceAll(string(text), "\x00", " "))
		}
	}
	return strings.Join(found, "\n")
}
