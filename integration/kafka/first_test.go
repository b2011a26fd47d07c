package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// TestD08FirstProcessOfAContainer runs a job whose every process is number 1 of a process namespace, as the only program of a
// container is. Its state directory is held against another number 1, and taken after a kill although its lock names the number
// that the next one has too; a first signal stops it cleanly and a second one at once, although the kernel keeps from a number 1
// the signals that it does not handle.
func TestD08FirstProcessOfAContainer(t *testing.T) {
	c := newCrew(t, 2*time.Minute, 2, func(_ int, job *proof.Job) { job.First = true })
	job := c.jobs[0]
	finish := c.flow(83, 500)
	i := c.start(job)
	c.whole(i)
	if pid := fmt.Sprint(c.status()["pid"]); pid != "1" {
		t.Fatalf("the process calls itself %s", pid)
	}
	host, err := os.Hostname()
	c.must(err)
	second := c.start(job)
	c.await("the second number 1 to be refused", func() bool { return ended(second) }, i)
	if err := second.Failure(); err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "it is in use by process 1 on host "+host) {
		t.Errorf("the second number 1: %v", err)
	}
	c.passes(0, i)
	c.must(i.Kill())
	i = c.start(job)
	c.whole(i)
	c.must(i.Stop())

	i = c.start(job)
	c.whole(i)
	c.passes(1, i)
	c.must(broker.Signal(syscall.SIGSTOP))
	defer func() { c.must(broker.Signal(syscall.SIGCONT)) }()
	c.must(syscall.Kill(i.PID(), syscall.SIGTERM))
	c.await("the stop to begin", func() bool {
		text, err := i.Log()
		c.must(err)
		return bytes.Contains(text, []byte("stopping: what is open is committed first"))
	}, i)
	c.must(syscall.Kill(i.PID(), syscall.SIGTERM))
	c.await("the second signal to end it", func() bool { return ended(i) })
	c.must(broker.Signal(syscall.SIGCONT))
	var exit *exec.ExitError
	if err := i.Failure(); !errors.As(err, &exit) || exit.ExitCode() != 2 && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want the end that a signal brings", i.Failure())
	}
	finish()
	c.prove(job)
}

func ended(i *instance) bool {
	select {
	case <-i.Done():
		return true
	default:
		return false
	}
}

// D08: a number 1 takes leave of its own children: an embedded broker that dies stays no zombie.
func TestD08FirstProcessHasNoZombies(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience*time.Minute)
	defer cancel()
	c := &crew{t: t, ctx: ctx}
	program, err := binary()
	c.must(err)
	job := &proof.Job{Binary: program, Dir: t.TempDir(), Name: "first", Oracle: proof.FleetConfig(2), Checkpoint: time.Second, First: true}
	c.must(job.WriteConfig())
	c.jobs, c.partitions = []*proof.Job{job}, 2
	i := c.start(job)
	c.whole(i)
	children := childrenOf(t, i.PID())
	if len(children) != 1 {
		t.Fatalf("children %v, want the embedded broker", children)
	}
	for pid := range children {
		c.must(syscall.Kill(pid, syscall.SIGKILL))
	}
	c.await("the broker to be gone", func() bool { return len(childrenOf(t, i.PID())) == 0 }, i)
}

// childrenOf are the children of a process with their states, as /proc has them.
func childrenOf(t *testing.T, parent int) map[int]string {
	t.Helper()
	found := map[int]string{}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended since
		}
		var pid, of int
		var state string
		if _, err := fmt.Sscanf(string(text[bytes.LastIndexByte(text, ')')+1:]), "%s %d", &state, &of); err != nil || of != parent {
			continue
		}
		_, err = fmt.Sscanf(string(text), "%d", &pid)
		must(t, err)
		found[pid] = state
	}
	return found
}
