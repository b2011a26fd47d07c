package crash

import (
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/store/storetest"
)

// What steers a crash test is refused when it cannot be understood: a point that is never reached proves nothing.
func TestCrashPointIsParsed(t *testing.T) {
	for text, want := range map[string]struct {
		signal    syscall.Signal
		step      string
		partition int32
		count     int64
		fault     string
	}{
		"STOP@commit.end":         {signal: syscall.SIGSTOP, step: "commit.end", partition: -1, count: 1},
		"KILL@recover.load/3":     {signal: syscall.SIGKILL, step: "recover.load", partition: 3, count: 1},
		"KILL@commit.send/0#17":   {signal: syscall.SIGKILL, step: "commit.send", count: 17},
		"STOP@checkpoint.slice#2": {signal: syscall.SIGSTOP, step: "checkpoint.slice", partition: -1, count: 2},
		"TERM@commit.end":         {fault: "KILL@"},
		"commit.end":              {fault: "KILL@"},
		"STOP@":                   {fault: "no point"},
		"STOP@commit.ende":        {fault: "no point"},
		"FAIL@commit.end":         {step: "commit.end", partition: -1, count: 1},
		"STOP@commit.end/b":       {fault: "no partition"},
		"STOP@commit.end/-1":      {fault: "no partition"},
		"STOP@commit.end#0":       {fault: "no count"},
		"STOP@commit.end#x":       {fault: "no count"},
	} {
		c, err := parse(text)
		if want.fault != "" {
			if err == nil || !strings.Contains(err.Error(), want.fault) {
				t.Errorf("%s: %v, want %q", text, err, want.fault)
			}
			continue
		}
		if err != nil || c.signal != want.signal || c.step != want.step || c.partition != want.partition || c.left.Load() != want.count {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
}

// The signal comes at the counted time of the step on the partition, once, and the step goes on after SIGCONT only.
func TestCrashPointIsHitOnce(t *testing.T) {
	p, err := FromEnv(func(string) string { return "STOP@commit.end/1#2" }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.send = func(syscall.Signal) error { return nil }
	passed := make(chan string)
	go func() {
		for _, step := range []struct {
			name      string
			partition int32
		}{{"commit.end", 0}, {"commit.end", 1}, {"commit.send", 1}, {"commit.end", 1}, {"commit.end", 1}} {
			_ = p.At(step.partition, step.name)
			passed <- step.name
		}
		close(passed)
	}()
	for range 3 {
		<-passed
	}
	select {
	case <-passed:
		t.Error("the step was passed before the process was told to go on")
	case <-time.After(20 * time.Millisecond): // an early pass would show; a busy machine only hides it
	}
	p.resumed <- syscall.SIGCONT
	n := 0
	for range passed {
		n++
	}
	if n != 2 {
		t.Errorf("%d steps after it, want 2", n)
	}
}

// A step that is told to fail fails once, and no other does.
func TestFailure(t *testing.T) {
	p, err := FromEnv(func(string) string { return "FAIL@commit.end,KILL@commit.send/7" }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.At(0, "commit.send"); err != nil {
		t.Error(err)
	}
	if err := p.At(0, "commit.end"); !errors.Is(err, ErrInjected) {
		t.Errorf("%v, want %v", err, ErrInjected)
	}
	if err := p.At(0, "commit.end"); err != nil {
		t.Error(err)
	}
}

// Points are listed once each, and each operation on a checkpoint file goes through points that are listed.
func TestPointsAreListed(t *testing.T) {
	all := Points()
	if len(slices.Compact(slices.Clone(all))) != len(all) || len(all) < 40 {
		t.Errorf("%d points, some twice: %q", len(all), all)
	}
	const dir = "s/job/p3"
	seen := map[string]bool{}
	for _, op := range []storetest.Op{
		{Kind: "mkdir", Path: dir}, {Kind: "create", Path: dir + "/1.checkpoint.tmp"}, {Kind: "write", Path: dir + "/1.checkpoint.tmp"},
		{Kind: "sync", Path: dir + "/1.checkpoint.tmp"}, {Kind: "rename", Path: dir + "/1.checkpoint.tmp"}, {Kind: "sync", Path: dir},
		{Kind: "sync", Path: "s/job"}, {Kind: "rename", Path: dir + "/1.checkpoint"}, {Kind: "remove", Path: dir + "/1.checkpoint.tmp"},
		{Kind: "remove", Path: dir + "/1.checkpoint"}, {Kind: "read", Path: dir + "/1.checkpoint"},
	} {
		before, after := filePoint(op)
		seen[before], seen[after] = true, true
		if p := partitionOf(op.Path); p != 3 && op.Path != "s/job" {
			t.Errorf("%v is of partition %d", op, p)
		}
	}
	for _, name := range filePoints {
		if !seen[name] {
			t.Errorf("%s is not reached", name)
		}
		delete(seen, name)
	}
	delete(seen, "")
	if len(seen) != 0 {
		t.Errorf("not listed: %v", seen)
	}
	for request, point := range requests {
		if !slices.Contains(wirePoints, point) {
			t.Errorf("%s of %s is not listed", point, request)
		}
	}
}

// The reference page says of every point what is done there, and of no other.
func TestReferenceListsPoints(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/verify.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z-]+)` \\| .+ \\|$").FindAllSubmatch(page, -1) {
		listed = append(listed, string(row[1]))
	}
	slices.Sort(listed)
	if !slices.Equal(listed, Points()) {
		t.Errorf("the page lists %q, there are %q", listed, Points())
	}
}
