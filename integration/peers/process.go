package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a program under measurement.
type process struct {
	command *exec.Cmd
	started time.Time
	done    chan struct{}
	err     error // read after done

	mu   sync.Mutex
	said bytes.Buffer
}

// start starts a program. What it prints is kept.
func (b *bench) start(name string, args ...string) (*process, error) {
	p := &process{command: exec.Command(name, args...), done: make(chan struct{})}
	p.command.Dir = b.dir
	p.command.Stdout, p.command.Stderr = p, p
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.started = time.Now()
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.command.Wait()
		close(p.done)
	}()
	return p, nil
}

// Write takes what the program prints.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(text)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// look is how often another process is looked at while something of it is awaited.
const look = 5 * time.Millisecond

// await returns when the condition holds, and fails when the program ends before.
func (b *bench) await(p *process, what string, condition func() (bool, error)) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	late := time.NewTimer(runLimit)
	defer late.Stop()
	for {
		if ok, err := condition(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-p.done:
			return fmt.Errorf("%s: the program ended (%w); it said:\n%s", what, p.err, tail(p.output()))
		case <-late.C:
			return fmt.Errorf("%s: not within %s; it said:\n%s", what, runLimit, tail(p.output()))
		case <-b.ctx.Done():
			return b.ctx.Err()
		}
	}
}

// line returns the rest of the first printed line that begins so.
func (p *process) line(beginning string) (rest string, ok bool) {
	for line := range strings.Lines(p.output()) {
		if rest, ok := strings.CutPrefix(line, beginning); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// wait waits for the end, which must be one without error.
func (b *bench) wait(p *process) error {
	select {
	case <-p.done:
	case <-time.After(runLimit):
		return errors.Join(fmt.Errorf("still running after %s; it said:\n%s", runLimit, tail(p.output())), p.kill())
	case <-b.ctx.Done():
		return errors.Join(b.ctx.Err(), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("%w; it said:\n%s", p.err, tail(p.output()))
	}
	return nil
}

// kill ends the program at once and waits for it.
func (p *process) kill() error {
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// used is what the program took, after its end: CPU time and the most memory (RSS).
func (p *process) used() string {
	state := p.command.ProcessState
	text := fmt.Sprintf("%.1f s of CPU", (state.UserTime() + state.SystemTime()).Seconds())
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		text += fmt.Sprintf(", %d MB", usage.Maxrss>>10)
	}
	return text
}

// cpuOf is the CPU time that a running process has used.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const user, system, ticks = 11, 12, 100 // of proc(5), counted from the state; USER_HZ
	if len(fields) <= system {
		return 0, io.ErrUnexpectedEOF
	}
	u, err1 := strconv.ParseInt(fields[user], 10, 64)
	s, err2 := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * time.Second / ticks, errors.Join(err1, err2)
}

// memoryOf is the memory (RSS) of a running process in bytes.
func memoryOf(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, fmt.Errorf("no VmRSS of %d", pid)
}

func tail(text string) string { return text[max(0, len(text)-3000):] }
