package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// demoHash is the sha256 of the state after demoArgs: a wrong bit anywhere, or a result that depends on when a kill came
// or on the machine, changes it.
const demoHash = "69fac85bbcae1fbd0e20547e32bec88d9cb240e0cdff43c153a346bba0a2118e"

// TestDemo runs the demo as a stranger would, with a small fleet.
func TestDemo(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := exec.Command("tidemark", "demo", "--json", "--seed", "7", "--readings", "9000", "--rate", "1500")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var out, story bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &story
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v; it said:\n%s", err, &story)
	}
	t.Logf("%s", &story)
	var figures demoJSON
	if err := json.Unmarshal(out.Bytes(), &figures); err != nil {
		t.Fatalf("%v in %s", err, &out)
	}
	if !figures.Equal || figures.Results == 0 || figures.OpenWindows == 0 || figures.Late == 0 || figures.DeadLetters == 0 ||
		figures.Accepted+int64(figures.DeadLetters) != 9000 {
		t.Errorf("the figures prove little: %s", &out)
	}
	if figures.StateHash != demoHash {
		t.Errorf("the state's sha256 is %s, want %s", figures.StateHash, demoHash)
	}
	var useful []string
	for _, k := range figures.Kills {
		for _, task := range k.Tasks {
			if task.Report.Digest == "" || task.FirstCommit <= 0 {
				t.Errorf("the recovery of task %d says digest %q, first commit after %g ms", task.Report.Partition, task.Report.Digest, task.FirstCommit)
			}
		}
		if k.Useful && k.Uncommitted > 0 && k.Open > 0 && len(k.Tasks) == demoPartitions {
			useful = append(useful, k.Tasks[0].Report.From)
		}
	}
	if got := strings.Join(useful, ", "); got != "checkpoint, full replay" {
		t.Errorf("recovered from %q, want one recovery from checkpoints and one by full replay: %s", got, &out)
	}
	for line := range strings.Lines(story.String()) {
		if len(line) > 1+79 || strings.ContainsAny(line, "\r\x1b") {
			t.Errorf("line of %d bytes, or not fit for a pipe: %q", len(line)-1, line)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, error %v", left, err)
	}
}

// TestDemoInterrupted interrupts a demo at work: nothing may stay, neither a file nor a process.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := exec.Command("tidemark", "demo")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	process := regexp.MustCompile(`^[12]  .*\(process (\d+)\)`)
	var processes []int
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if match := process.FindStringSubmatch(lines.Text()); match != nil {
			pid, err := strconv.Atoi(match[1])
			processes = append(processes, pid)
			if len(processes) == 2 {
				err = errors.Join(err, cmd.Process.Signal(os.Interrupt))
			}
			if err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // its code is looked at below
	if code := cmd.ProcessState.ExitCode(); code != refused || said.String() != "tidemark: interrupted\n" || len(processes) != 2 {
		t.Errorf("exit code %d after %d processes, it said:\n%s", code, len(processes), &said)
	}
	for _, pid := range processes {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("%v was left behind, error %v", left, err)
	}
}

// smallDemo runs a demo without kills in this process, with its children from a given program.
func smallDemo(t *testing.T, binary string, tamper func(*proof.Expected)) (story string, err error) {
	t.Helper()
	var out, said bytes.Buffer
	d := &demo{demoOptions: demoOptions{seed: 1, readings: 2000, rate: 2000, keep: t.TempDir()}, binary: binary, tamper: tamper}
	e := newEnv(nil, nil, &out, &said)
	err = e.demo(t.Context(), d)
	return out.String(), err
}

// program is the path of tidemark, as the scripts find it.
func program(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("tidemark")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDemoNoticesADifference changes what is expected in the last bit of one reading: the demo must fail and name it.
func TestDemoNoticesADifference(t *testing.T) {
	t.Parallel()
	var want string
	story, err := smallDemo(t, program(t), func(e *proof.Expected) {
		windows := e.Outcomes[1].Windows
		w := windows[slices.IndexFunc(windows, func(w *oracle.Window) bool { return !w.Final })]
		w.Readings[0].Values[0] = math.Nextafter(w.Readings[0].Values[0], 0)
		want = fmt.Sprintf("wrong value in changelog: %s %q", w.Aggregation, w.Key)
	})
	if codeOf(err) != refused || err == nil || !strings.Contains(err.Error(), errDemoUnequal.Error()) {
		t.Errorf("error %v with exit code %d, want %v with %d", err, codeOf(err), errDemoUnequal, refused)
	}
	if want == "" || !strings.Contains(story, "NOT EQUAL") || !strings.Contains(story, want) || strings.Contains(story, "EQUAL after") {
		t.Errorf("the story does not tell of the difference in %s:\n%s", want, story)
	}
}

// TestDemoShowsWhyAWorkerDied runs a worker that says why it cannot work.
func TestDemoShowsWhyAWorkerDied(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "tidemark")
	text := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = run ]; then echo 'the boiler is on fire' >&2; exit 3; fi\nexec %q \"$@\"\n", program(t))
	syscall.ForkLock.RLock() // a child of another test that is just being made would hold the file open for writing
	err := os.WriteFile(script, []byte(text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	_, err = smallDemo(t, script, nil)
	if err == nil || !strings.Contains(err.Error(), "the boiler is on fire") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v, want the end of the worker's log and its exit code", err)
	}
}

// TestDemoFleet holds the fleet to its promises: the same seed gives the same lines, and all kinds of trouble are in it.
func TestDemoFleet(t *testing.T) {
	all := func(seed uint64) (string, *demoFleet) {
		f := newDemoFleet(seed, 20_000)
		var lines strings.Builder
		for line := f.next(); line != nil; line = f.next() {
			lines.Write(append(line, '\n'))
		}
		return lines.String(), f
	}
	one, f := all(1)
	again, _ := all(1)
	other, _ := all(2)
	if one != again || one == other {
		t.Errorf("the same seed gives the same lines: %v; another seed gives others: %v; want both true", one == again, one != other)
	}
	if f.sent != 20_000 || f.late < 100 || f.broken < 100 || strings.Count(one, "1e16") < 20 {
		t.Errorf("%d readings with %d late, %d broken, %d huge ones", f.sent, f.late, f.broken, strings.Count(one, "1e16"))
	}
}

// TestGrouped shows numbers as people read them.
func TestGrouped(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -999: "-999", -1000: "-1,000"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) is %s, want %s", n, got, want)
		}
	}
	if got := listed([]int{1, 2, 3}); got != "1, 2 and 3" {
		t.Errorf("listed is %q", got)
	}
}
