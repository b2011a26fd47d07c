package proof

import (
	"context"
	"io"
	"os"
	"syscall"
)

// Instance is one `tidemark run` of a job. Instances of one job are Jobs that differ in Dir alone: they share topics and
// group, and each has a state directory of its own.
type Instance struct{ child *child }

// StartInstance starts the daemon. Its log, JSON lines with a full report of each recovery, goes to a file of that name.
// variables are added to its environment.
func (j *Job) StartInstance(name string, variables ...string) (*Instance, error) {
	c, err := j.startWith(name, nil, variables, "run", "-c", j.Config(), "--json")
	return &Instance{child: c}, err
}

// StartCommand starts any other command of the binary on the job, which is named by -c already; variables are added to its
// environment.
func (j *Job) StartCommand(name string, variables []string, args ...string) (*Instance, error) {
	c, err := j.startWith(name, nil, variables, append(args, "-c", j.Config())...)
	return &Instance{child: c}, err
}

// Done is closed when the process has ended.
func (i *Instance) Done() <-chan struct{} { return i.child.done }

// Failure is nil after exit code 0, else the exit state and the end of the log. It is read after Done.
func (i *Instance) Failure() error { return i.child.failure() }

// Killed tells whether the process has ended by SIGKILL, its own or ours.
func (i *Instance) Killed() bool {
	select {
	case <-i.child.done:
	default:
		return false
	}
	status, ok := i.child.command.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// PID is the process id.
func (i *Instance) PID() int { return i.child.command.Process.Pid }

// LogFrom is what the process has logged so far, from an offset in bytes on.
func (i *Instance) LogFrom(offset int64) (text []byte, err error) {
	file, err := os.Open(i.child.errPath)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// Log is what the process has logged so far.
func (i *Instance) Log() ([]byte, error) { return os.ReadFile(i.child.errPath) }

// Kill ends the process with SIGKILL, also one that is paused, and waits for it. It is an error when the process had ended
// before.
func (i *Instance) Kill() error { return i.child.kill() }

// Stop asks the process for a clean end and waits for it; an exit code that is not 0 is an error.
func (i *Instance) Stop() error { return i.child.stop() }

// Pause stops the process in the middle of whatever it does; Resume lets it go on.
func (i *Instance) Pause() error { return i.child.command.Process.Signal(syscall.SIGSTOP) }

// Resume is described at Pause.
func (i *Instance) Resume() error { return i.child.command.Process.Signal(syscall.SIGCONT) }

// Flow is a feed on its way into the input topic while other things happen.
type Flow struct{ flow *flow }

// StartFlow produces a feed at about rate lines a second until Finish.
func (j *Job) StartFlow(feed Feed, rate int) (*Flow, error) {
	f, err := j.startFlow(feed, rate)
	return &Flow{flow: f}, err
}

// Done is closed when the program that writes the readings has ended: by itself, if Finish was not called.
func (f *Flow) Done() <-chan struct{} { return f.flow.produce.done }

// Failure is why it has ended. It is read after Done.
func (f *Flow) Failure() error { return f.flow.produce.failure() }

// Finish ends the flow and waits until every line is acknowledged. It returns their number. It is called once.
func (f *Flow) Finish(ctx context.Context) (lines int, err error) { return f.flow.finish(ctx, false) }

// FinishWhole lets the rest of the feed through as fast as it goes, and then does what Finish does.
func (f *Flow) FinishWhole(ctx context.Context) (lines int, err error) {
	return f.flow.finish(ctx, true)
}
