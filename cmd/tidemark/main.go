// Command tidemark runs, inspects and tries out jobs. Its commands, their exit codes and what they print are a contract
// that scripts rely on; each command has a file of its own.
//
// Standard output carries what was asked for and nothing else. Everything else goes to standard error, errors as lines
// that begin with "tidemark: ".
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/tidemark-streams/tidemark/internal/crash"
)

func main() {
	// A reader that has had enough ends a command by a failed write, not by a signal: a worker must not die because
	// whoever read its log went away.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(newEnv(os.Args[1:], os.Stdin, os.Stdout, os.Stderr).run(ctx))
}

// env is what a command sees of the world.
type env struct {
	args    []string
	in      io.Reader
	pipe    io.Writer     // standard output itself
	out     *bufio.Writer // the same, flushed at the end; a command that streams checks every write
	err     io.Writer
	contact time.Duration // how long the first answer of any broker is waited for
	part    string        // of a job with input.rekey, "" for the job proper
	started bool          // arguments and flags were understood
	crash   *crash.Plan   // what a crash test wants to happen; nil is nothing
}

// firstContact is how long commands wait for the first answer of any broker.
const firstContact = 30 * time.Second

func newEnv(args []string, in io.Reader, out, err io.Writer) *env {
	return &env{args: args, in: in, pipe: out, out: bufio.NewWriterSize(output{out}, 64<<10), err: err, contact: firstContact}
}

// run carries out the command line and returns the exit code.
func (e *env) run(ctx context.Context) int {
	root := e.root()
	failure := root.ExecuteContext(ctx)
	if flushed := e.out.Flush(); failure == nil {
		failure = flushed
	}
	if ctx.Err() != nil && errors.Is(failure, context.Cause(ctx)) {
		failure = errInterrupted
	}
	if failure != nil && !e.started {
		failure = usage(failure)
	}
	if errors.Is(failure, errAbandoned) {
		return done
	}
	if failure != nil {
		e.say("%s", failure)
	}
	return codeOf(failure)
}

// say writes to standard error, each line with the program's name in front.
func (e *env) say(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		fmt.Fprintf(e.err, "tidemark: %s\n", strings.TrimSuffix(line, "\n"))
	}
}

// errAbandoned says that whoever read standard output has had enough. It ends a command without a word.
var errAbandoned = errors.New("nobody reads standard output")

// output says of its failures what could not be written to, and tells a reader that went away from the others: a broker's
// connection may break with the same error.
type output struct{ to io.Writer }

// Write writes.
func (o output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	switch {
	case errors.Is(err, syscall.EPIPE):
		err = errAbandoned
	case err != nil:
		err = fmt.Errorf("write to standard output: %w", err)
	}
	return n, err
}

// abandoned returns true when nobody reads standard output any more, and false when that cannot be known. A command that
// waits for something to write would otherwise never learn it.
func (e *env) abandoned() bool {
	file, ok := e.pipe.(*os.File)
	if !ok {
		return false
	}
	for fds := []unix.PollFd{{Fd: int32(file.Fd())}}; ; {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			return err == nil && fds[0].Revents&unix.POLLERR != 0
		}
	}
}

// root is the whole command tree.
func (e *env) root() *cobra.Command {
	root := e.group(&cobra.Command{
		Use:   "tidemark",
		Short: "Stateful stream processing of sensor readings on Kafka that survives any crash exactly",
		Long: `tidemark keeps per-key, per-window aggregates of sensor readings in Kafka. Its state survives any crash exactly,
and it proves so at every start. Begin with: tidemark demo

Exit codes: 0 done; 1 refused (configuration, data, damage); 2 usage; 3 fenced, or stopped by policy; 4 no broker
reached at first contact.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			e.started = true
		},
	},
		e.demoCommand(), e.runCommand(), e.verifyCommand(), e.checkCommand(), e.produceCommand(), e.consumeCommand(), e.stateCommand(),
		e.changelogCommand(), e.checkpointCommand(), e.statusCommand(), e.resetCommand(), e.skipCommand(), e.resealCommand(), e.leaveCommand(),
		e.brokerCommand(), e.versionCommand())
	root.AddCommand(e.laterCommands()...)
	root.InitDefaultCompletionCmd(e.args...)
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			e.group(cmd)
		}
	}
	root.SetOut(e.out)
	root.SetErr(e.err)
	root.SetArgs(e.args)
	root.SetFlagErrorFunc(e.flagError)
	return root
}

// group makes a command that only has commands below it.
func (e *env) group(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(below...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return unknownCommand(cmd, args[0])
		case cmd.HasParent():
			return usage(fmt.Errorf("%sa command is missing: see %s --help", title(cmd), cmd.CommandPath()))
		}
		return cmd.Help()
	}
	return cmd
}

// unknownCommand names what may have been meant.
func unknownCommand(cmd *cobra.Command, name string) error {
	cmd.SuggestionsMinimumDistance = 2
	return usage(fmt.Errorf("%sunknown command %q%s", title(cmd), name, hint(cmd, cmd.SuggestionsFor(name), "")))
}

// flagError explains a flag that cannot be understood. An unknown command before it is the fault to tell.
func (e *env) flagError(cmd *cobra.Command, err error) error {
	if !cmd.HasParent() {
		for _, arg := range e.args {
			if !strings.HasPrefix(arg, "-") {
				return unknownCommand(cmd, arg)
			}
		}
	}
	if depth := len(strings.Fields(cmd.CommandPath())) - 1; cmd.HasParent() && cmd.HasSubCommands() && depth < len(e.args) && !strings.HasPrefix(e.args[depth], "-") {
		return unknownCommand(cmd, e.args[depth])
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		return usage(fmt.Errorf("%s--%s is %q: %s; see %s --help", title(cmd), value.GetFlag().Name, value.GetValue(), wantedOf(value.GetFlag()), cmd.CommandPath()))
	}
	return usage(fmt.Errorf("%s%w%s", title(cmd), err, hint(cmd, similarFlags(cmd, err), "--")))
}

// title names the command in front of a message; the program's own name stands there already.
func title(cmd *cobra.Command) string {
	_, below, _ := strings.Cut(cmd.CommandPath(), " ")
	if below == "" {
		return ""
	}
	return below + ": "
}

func hint(cmd *cobra.Command, similar []string, prefix string) string {
	if len(similar) == 0 {
		return fmt.Sprintf(": see %s --help", cmd.CommandPath())
	}
	return ": did you mean " + prefix + strings.Join(similar, " or "+prefix) + "?"
}
