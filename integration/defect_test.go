package integration_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestDefects is the proof that the proof can fail: a program with one seeded mistake must be caught, by verify or by the
// test that the mistake names. It prints who catches what, after how many kills. Three quick ones are run always, all with
// TIDEMARK_FAULTY=all (make faulty-test).
func TestDefects(t *testing.T) {
	program := faulty(t)
	names := lines(t, program, "verify", "--list-defects")
	byVerify := lines(t, program, "verify", "--list-defects", "--by", "verify")
	if len(names) < 24 || len(byVerify) < 22 || slices.ContainsFunc(names, func(n string) bool { return strings.Trim(n, "abcdefghijklmnopqrstuvwxyz-") != "" }) {
		t.Fatalf("%d mistakes, %d of them for verify: %q", len(names), len(byVerify), names)
	}
	if os.Getenv("TIDEMARK_FAULTY") != "all" {
		byVerify = []string{"tombstones-skipped", "float-sums", "state-first"}
		names = byVerify
	}
	var mu sync.Mutex
	table := map[string]string{}
	t.Run("each", func(t *testing.T) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				by := "verify"
				if !slices.Contains(byVerify, name) {
					by = "TestPowerLoss"
				}
				row := caughtByVerify
				if by != "verify" {
					row = caughtByTest
				}
				text := row(t, program, name)
				mu.Lock()
				table[name] = fmt.Sprintf("%-26s %-14s %s", name, by, text)
				mu.Unlock()
			})
		}
	})
	for _, name := range names {
		t.Log(table[name])
	}
}

// caughtByVerify runs a trial with a mistake: it must find something and exit with 1.
func caughtByVerify(t *testing.T, program, name string) string {
	const tries = 3 // other kills each: a mistake that shows in one interleaving only may slip through one trial
	for try := range tries {
		v, out, code := oneTrial(t, program, "kills", name, uint64(try+1))
		if code == 1 && v.Anomalies > 0 {
			return fmt.Sprintf("after %3d kills, trial %d: %.150s", v.Found[0].Kills, try+1, v.Found[0].What)
		} else if code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
	}
	t.Errorf("not caught by %d trials", tries)
	return "NOT CAUGHT"
}

// TestDefectsOfKinds holds that what judges other kinds of jobs can fail as well: one mistake is caught in each, and the
// command that the report gives to see it once more shows it once more.
func TestDefectsOfKinds(t *testing.T) {
	t.Parallel()
	program := faulty(t)
	for job, mistake := range map[string]string{"kinds": "group-offset-truth", "rekey": "checkpoint-without-commit", "shapes": "stream-time-lost", "rows": "tombstones-skipped"} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(3) {
				v, out, code := oneTrial(t, program, job, mistake, seed+1)
				if code != 1 && code != 0 {
					t.Fatalf("exit code %d: %s", code, out)
				}
				if code == 0 || !v.Found[0].Shown {
					continue
				}
				t.Logf("%s after %d kills: %.200s\n%s", mistake, v.Found[0].Kills, v.Found[0].What, v.Found[0].Again)
				args := append(strings.Fields(v.Found[0].Again)[1:], "--json")
				if again, out, code := trialOf(t, program, args...); code != 1 || again.Anomalies == 0 {
					t.Errorf("%q: exit code %d: %s", args, code, out)
				}
				return
			}
			t.Errorf("%s is not caught by three trials, or not shown again", mistake)
		})
	}
}

// finding is what is read of the summary of a trial.
type finding struct {
	Anomalies int `json:"anomalies"`
	Found     []struct {
		What  string `json:"what"`
		Kills int    `json:"after_kills"`
		Again string `json:"again"`
		Shown bool   `json:"shown"`
	} `json:"found"`
}

func oneTrial(t *testing.T, program, job, name string, seed uint64) (finding, string, int) {
	t.Helper()
	return trialOf(t, program, "verify", "-c", "testdata/"+job+".yaml", "--json", "--defect", name, "--seed", fmt.Sprint(seed))
}

func trialOf(t *testing.T, program string, args ...string) (finding, string, int) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(plain(), "TMPDIR="+t.TempDir())
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	all := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	var v finding
	if err := json.Unmarshal(all[len(all)-1], &v); err != nil {
		t.Fatalf("%v in the last line of %s; it said:\n%s", err, &out, &said)
	}
	return v, said.String(), cmd.ProcessState.ExitCode()
}

// caughtByTest runs the test of the crash file system with a mistake: it must fail, and without the mistake it must not.
func caughtByTest(t *testing.T, _, name string) string {
	for _, mistake := range []string{"", name} {
		cmd := exec.Command("go", "test", "-count=1", "-tags", "faulty", "-run", "^TestPowerLoss$", "./internal/store")
		cmd.Dir = ".."
		cmd.Env = append(plain(), "TIDEMARK_FAKE_DEFECT="+mistake)
		out, err := cmd.CombinedOutput()
		if mistake == "" && err != nil || mistake != "" && (err == nil || !bytes.Contains(out, []byte("--- FAIL: TestPowerLoss"))) {
			t.Errorf("with mistake %q: %v\n%s", mistake, err, out)
			return "NOT CAUGHT"
		}
	}
	return "no process is killed: what was not synced is gone"
}

// TestNoTraceOfDefects holds that the program for users has nothing of the mistakes: no name, no variable, no symbol.
func TestNoTraceOfDefects(t *testing.T) {
	t.Parallel()
	names := lines(t, faulty(t), "verify", "--list-defects")
	plainText, err := os.ReadFile(symbols(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	faultyText, err := os.ReadFile(symbols(t, "faulty"))
	if err != nil {
		t.Fatal(err)
	}
	for _, trace := range append(names, "TIDEMARK_FAKE_DEFECT", "tidemark/internal/defect.", "list-defects") {
		if bytes.Contains(plainText, []byte(trace)) {
			t.Errorf("%q is in the program", trace)
		}
		if !bytes.Contains(faultyText, []byte(trace)) {
			t.Errorf("%q is not even in the faulty one: the test looks for the wrong thing", trace)
		}
	}
}

// symbols builds the program with its symbols.
func symbols(t *testing.T, tag string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidemark"+tag)
	cmd := exec.Command("go", "build", "-tags", tag, "-o", path, "./cmd/tidemark")
	cmd.Dir, cmd.Env = "..", append(plain(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// faulty is the program with the mistakes.
func faulty(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("TIDEMARK_FAULTY_BIN"); path != "" {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	path, err := buildFaulty()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildFaulty = sync.OnceValues(func() (string, error) {
	path, err := filepath.Abs(filepath.Join("..", "bin", "tidemark-faulty"))
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-tags", "faulty", "-trimpath", "-o", path, "./cmd/tidemark")
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return path, err
})

// lines are what a command prints.
func lines(t *testing.T, program string, args ...string) []string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = plain()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// plain is the environment without what steers tests.
func plain() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
}
