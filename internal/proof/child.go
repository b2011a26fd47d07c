package proof

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// child is one run of the binary. Its output goes to files, never to a pipe of ours that could block it.
type child struct {
	name    string
	command *exec.Cmd
	outPath string
	errPath string
	done    chan struct{} // closed when it has ended and was waited for
	err     error         // of Wait; read it after done
}

// start runs the binary with the arguments. The name tells its log files; input, when not nil, is its standard input.
// Variables that are ours do not reach it: TIDEMARK_ begins the names of settings, and it refuses those it does not know.
func (j *Job) start(name string, input *os.File, args ...string) (*child, error) {
	return j.startWith(name, input, nil, args...)
}

// startWith is start with variables added to the environment.
func (j *Job) startWith(name string, input *os.File, variables []string, args ...string) (*child, error) {
	if err := os.MkdirAll(j.Path("logs"), 0o700); err != nil {
		return nil, err
	}
	c := &child{name: name, outPath: j.Path("logs", name+".out"), errPath: j.Path("logs", name+".err"), done: make(chan struct{})}
	stdout, err := os.Create(c.outPath)
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	stderr, err := os.Create(c.errPath)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	c.command = exec.Command(j.Binary, args...)
	c.command.Dir, c.command.SysProcAttr = j.Dir, ownGroup(j.First)
	c.command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	c.command.Env = slices.Concat(c.command.Env, j.Variables, variables)
	c.command.Stdout, c.command.Stderr = stdout, stderr
	if input != nil {
		c.command.Stdin = input
	}
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		c.err = c.command.Wait()
		close(c.done)
	}()
	return c, nil
}

// kill sends SIGKILL to this process alone and waits for its end. It is an error, which wraps os.ErrProcessDone, when the
// process had ended before.
func (c *child) kill() error {
	err := c.command.Process.Kill()
	<-c.done
	if err == nil && c.command.ProcessState.Exited() { // the signal came too late
		err = os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, errors.Join(err, c.failure()))
	}
	return nil
}

// stop asks for a clean end and waits for it.
func (c *child) stop() error {
	if err := c.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.done
	return c.failure()
}

// wait waits for the process to end by itself with exit code 0.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return c.failure()
	case <-ctx.Done():
		_ = c.command.Process.Kill()
		<-c.done
		return fmt.Errorf("%s was still running: %w; it said:\n%s", c.name, context.Cause(ctx), c.said())
	}
}

// failure is nil after exit code 0, else the exit state with the last lines of the log.
func (c *child) failure() error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("tidemark %s: %w; it said:\n%s", strings.Join(c.command.Args[1:], " "), c.err, c.said())
}

// said is the end of what the process wrote to standard error.
func (c *child) said() string {
	const most = 4000
	text, err := os.ReadFile(c.errPath)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// run runs a command to its end, which must be exit code 0, and returns its standard output.
func (j *Job) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	c, err := j.start(name, nil, args...)
	if err != nil {
		return nil, err
	}
	if err := c.wait(ctx); err != nil {
		return nil, err
	}
	return os.ReadFile(c.outPath)
}

// lookAgain is how often a file of another process is looked at while it is awaited.
const lookAgain = 5 * time.Millisecond

// StartBroker starts the embedded broker of the job's state directory as a process of its own, so that it ends with the
// test and not some time after. It returns its address and a function that stops it.
func (j *Job) StartBroker(ctx context.Context) (addr string, stop func() error, err error) {
	c, err := j.start("broker", nil, "broker", "--dir", j.Path("state", "broker"), "--partitions", fmt.Sprint(j.Oracle.Partitions))
	if err != nil {
		return "", nil, err
	}
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		if said := c.said(); strings.Contains(said, "listens on ") {
			text, err := os.ReadFile(j.Path("state", "broker", "addr"))
			return strings.TrimSpace(string(text)), c.stop, err
		}
		select {
		case <-c.done:
			return "", nil, errors.Join(errors.New("the broker ended"), c.failure())
		case <-ctx.Done():
			return "", nil, errors.Join(context.Cause(ctx), c.kill())
		case <-ticker.C:
		}
	}
}
