package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// demoChild is one process that the demo started. What it says goes to a file, never to a pipe that could hold it up.
type demoChild struct {
	name string // for messages
	cmd  *exec.Cmd
	log  string        // path of its standard output and error
	done chan struct{} // closed when it has ended and was waited for
	err  error         // of Wait; read it after done
	read int64         // bytes of the log that lines has returned
}

// spawn starts this program with arguments of its own, as a child that does not outlive the demo and that a Ctrl-C in
// the terminal does not reach: the demo ends it in order. Its log is named after what it does.
func (d *demo) spawn(name, does string, in *os.File, args ...string) (*demoChild, error) {
	c := &demoChild{name: name, log: filepath.Join(d.dir, "logs", does+".log"), done: make(chan struct{})}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	c.cmd = exec.Command(d.binary, args...)
	c.cmd.Dir = d.dir
	// Variables that begin with TIDEMARK_ are settings, and those of the caller are not meant for this job.
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	c.cmd.Stdout, c.cmd.Stderr = log, log
	if in != nil {
		c.cmd.Stdin = in
	}
	c.cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	go func() {
		// Where a child dies with its parent, the parent is a thread: it must live until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the %s: %w", name, err)
	}
	return c, nil
}

func (c *demoChild) pid() int { return c.cmd.Process.Pid }

func (c *demoChild) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// kill sends SIGKILL and waits for the end. A process that had ended already was not killed, which is an error.
func (c *demoChild) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		<-c.done
		return errors.Join(fmt.Errorf("the %s ended before it was killed", c.name), c.failure())
	}
	<-c.done
	return nil
}

// demoPatience is how long a child may take to end in order.
const demoPatience = 10 * time.Second

// stop asks for an end in order, which must come with exit code 0.
func (c *demoChild) stop() error {
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = c.cmd.Process.Signal(syscall.SIGCONT) // should it be frozen; it can only fail because it has ended
	timer := time.NewTimer(demoPatience)
	defer timer.Stop()
	select {
	case <-c.done:
		return c.failure()
	case <-timer.C:
		return errors.Join(fmt.Errorf("the %s did not end within %s of being asked to", c.name, demoPatience), c.kill())
	}
}

// wait waits for an end by itself, with exit code 0.
func (c *demoChild) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.failure()
	case <-ctx.Done():
		return errors.Join(errInterrupted, c.kill())
	}
}

// failure is nil after exit code 0, else how the process ended and the last that it said.
func (c *demoChild) failure() error {
	<-c.done
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("the %s (process %d) ended with %w; the end of its log %s:\n%s", c.name, c.pid(), c.err, c.log, c.said())
}

// said is the end of the log.
func (c *demoChild) said() string {
	const most = 2000
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	if len(text) > most {
		text = text[len(text)-most:]
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	return strings.TrimSpace(string(text))
}

// lines returns the whole lines of the log that it has not returned yet.
func (c *demoChild) lines() ([][]byte, error) {
	file, err := os.Open(c.log)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, c.read, 1<<30))
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	c.read += int64(len(text))
	return slices.Collect(bytes.Lines(text)), nil
}
