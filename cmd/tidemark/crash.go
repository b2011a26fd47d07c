package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// crashVariable makes `tidemark run` send a signal to itself at one named step of a task, for tests that have to know
// where it was hit: SIGNAL@STEP, SIGNAL@STEP/PARTITION, either with #N for the Nth time. SIGNAL is KILL or STOP.
const crashVariable = "TIDEMARK_CRASH_AT"

// crashPoint is one such step.
type crashPoint struct {
	log       *slog.Logger
	signal    syscall.Signal
	step      string
	partition int32 // -1 for any
	left      atomic.Int64
	resumed   chan os.Signal
}

// crashFromEnvironment is what Options.At is to be: nil when the variable is not set.
func crashFromEnvironment(log *slog.Logger) (func(context.Context, int32, string) error, error) {
	text := os.Getenv(crashVariable)
	if text == "" {
		return nil, nil
	}
	c, err := parseCrash(text)
	if err != nil {
		return nil, usage(fmt.Errorf("%s=%q: %w: it is for tests, unset it", crashVariable, text, err))
	}
	c.log = log
	signal.Notify(c.resumed, syscall.SIGCONT)
	log.Warn("crash point set", "variable", crashVariable, "at", text)
	return c.at, nil
}

func parseCrash(text string) (*crashPoint, error) {
	c := &crashPoint{partition: -1, resumed: make(chan os.Signal, 1)}
	name, rest, ok := strings.Cut(text, "@")
	if c.signal = map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP}[name]; !ok || c.signal == 0 {
		return nil, fmt.Errorf("begins with %q, want KILL@ or STOP@", name)
	}
	count := int64(1)
	var err error
	if step, n, counted := strings.Cut(rest, "#"); counted {
		rest = step
		if count, err = strconv.ParseInt(n, 10, 64); err != nil || count < 1 {
			return nil, fmt.Errorf("%q is no count", n)
		}
	}
	c.left.Store(count)
	step, partition, one := strings.Cut(rest, "/")
	if one {
		p, err := strconv.ParseInt(partition, 10, 32)
		if err != nil || p < 0 {
			return nil, fmt.Errorf("%q is no partition", partition)
		}
		c.partition = int32(p)
	}
	if c.step = step; step == "" {
		return nil, fmt.Errorf("no step is named")
	}
	return c, nil
}

// at sends the signal and returns when the process has been told to go on: the caller does not get past its step before.
func (c *crashPoint) at(_ context.Context, partition int32, step string) error {
	if step != c.step || c.partition >= 0 && c.partition != partition || c.left.Add(-1) != 0 {
		return nil
	}
	c.log.Warn("crash point reached", "step", step, "partition", partition, "signal", c.signal.String())
	if err := syscall.Kill(os.Getpid(), c.signal); err != nil {
		return err
	}
	<-c.resumed // never after SIGKILL
	return nil
}
