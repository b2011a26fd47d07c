package main

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"
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
		"STOP@":                   {fault: "no step"},
		"STOP@a/b":                {fault: "no partition"},
		"STOP@a/-1":               {fault: "no partition"},
		"STOP@a#0":                {fault: "no count"},
		"STOP@a#x":                {fault: "no count"},
	} {
		c, err := parseCrash(text)
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
	c, err := parseCrash("STOP@commit.end/1#2")
	if err != nil {
		t.Fatal(err)
	}
	c.log, c.signal = slog.New(slog.NewTextHandler(io.Discard, nil)), 0 // signal 0 asks whether the process is there
	passed := make(chan string)
	go func() {
		for _, step := range []struct {
			name      string
			partition int32
		}{{"commit.end", 0}, {"commit.end", 1}, {"commit.send", 1}, {"commit.end", 1}, {"commit.end", 1}} {
			_ = c.at(context.Background(), step.partition, step.name)
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
	c.resumed <- syscall.SIGCONT
	n := 0
	for range passed {
		n++
	}
	if n != 2 {
		t.Errorf("%d steps after it, want 2", n)
	}
}
