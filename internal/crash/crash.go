// Package crash kills, pauses or fails this process at a named point of its work. A crash test switches that on by the
// environment; without it nothing of this package stands in the way of the work: no seam is set, no call is made.
//
// It promises: a kill is SIGKILL, so nothing of the process gets to tidy up; a point is where outcomes differ, and
// Points lists them all; a point that is not one of them is refused at the start, for a crash test whose point is never
// reached would prove nothing. Before it acts it says so in its log, so that a test can tell that its fault has happened.
package crash

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Variable switches it on: faults, separated by commas, each like KILL@commit.end, with /PARTITION for that task alone
// and #N for the Nth time. KILL and STOP are signals that the process sends to itself, and a stopped one goes on only
// after SIGCONT; FAIL makes the step fail, undone or half done. Each acts once.
const Variable = "TIDEMARK_CRASH_AT"

// Reached is the message of the log line that tells that a point was reached; "step" and "partition" say which.
const Reached = "crash point reached"

// ErrInjected is the failure of a step that was told to fail.
var ErrInjected = errors.New("failure injected by " + Variable)

// Plan is what shall happen at which point. The nil Plan lets nothing happen. Safe for concurrent use.
type Plan struct {
	log     *slog.Logger
	faults  []*fault
	resumed chan os.Signal
	send    func(syscall.Signal) error // to this process
}

// fault is one thing to do at one point.
type fault struct {
	signal    syscall.Signal // 0: fail
	step      string
	partition int32 // -1 for any
	left      atomic.Int64
}

// NoPartition stands for a point that is of no task in particular.
const NoPartition int32 = -1

// FromEnv reads the variable. It returns nil when it is not set.
func FromEnv(lookup func(string) string, log *slog.Logger) (*Plan, error) {
	text := lookup(Variable)
	if text == "" {
		return nil, nil
	}
	p := &Plan{log: log, resumed: make(chan os.Signal, 1),
		send: func(s syscall.Signal) error { return syscall.Kill(os.Getpid(), s) }}
	for one := range strings.SplitSeq(text, ",") {
		f, err := parse(one)
		if err != nil {
			return nil, fmt.Errorf("%s=%q: %w: it is for tests, unset it", Variable, text, err)
		}
		p.faults = append(p.faults, f)
	}
	signal.Notify(p.resumed, syscall.SIGCONT)
	log.Warn("crash point set", "variable", Variable, "at", text)
	return p, nil
}

func parse(text string) (*fault, error) {
	f := &fault{partition: NoPartition}
	name, rest, ok := strings.Cut(text, "@")
	signal, known := map[string]syscall.Signal{"KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "FAIL": 0}[name]
	if f.signal = signal; !ok || !known {
		return nil, fmt.Errorf("begins with %q, want KILL@, STOP@ or FAIL@", name)
	}
	count := int64(1)
	var err error
	if step, n, counted := strings.Cut(rest, "#"); counted {
		rest = step
		if count, err = strconv.ParseInt(n, 10, 64); err != nil || count < 1 {
			return nil, fmt.Errorf("%q is no count", n)
		}
	}
	f.left.Store(count)
	step, partition, one := strings.Cut(rest, "/")
	if one {
		p, err := strconv.ParseInt(partition, 10, 32)
		if err != nil || p < 0 {
			return nil, fmt.Errorf("%q is no partition", partition)
		}
		f.partition = int32(p)
	}
	if f.step = step; !slices.Contains(points, step) {
		return nil, fmt.Errorf("%q is no point, tidemark verify --list-points lists them", step)
	}
	return f, nil
}

// At is called when a point is reached. A process that stops itself is past it only when it was told to go on. The error
// is ErrInjected.
func (p *Plan) At(partition int32, point string) (err error) {
	if p == nil {
		return nil
	}
	for _, f := range p.faults {
		if f.step == point && (f.partition < 0 || f.partition == partition) && f.left.Add(-1) == 0 {
			err = errors.Join(err, p.act(partition, f))
		}
	}
	return err
}

func (p *Plan) act(partition int32, f *fault) error {
	if f.signal == 0 {
		p.log.Warn(Reached, "step", f.step, "partition", partition, "signal", "none, the step fails")
		return fmt.Errorf("at point %s: %w", f.step, ErrInjected)
	}
	p.log.Warn(Reached, "step", f.step, "partition", partition, "signal", f.signal.String())
	if err := p.send(f.signal); err != nil {
		return err
	}
	<-p.resumed // never after SIGKILL
	return nil
}

// has tells whether anything is to happen at a point.
func (p *Plan) has(point string) bool {
	return slices.ContainsFunc(p.faults, func(f *fault) bool { return f.step == point })
}
