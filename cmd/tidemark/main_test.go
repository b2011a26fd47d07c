package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"tidemark": main})
}

// TestScript runs the scripts of testdata/script: the commands as scripts and people use them. Those whose name begins
// with broker start an embedded broker, which ends with the script.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Defer(func() { endBroker(t, filepath.Join(env.WorkDir, "state", "broker", "lock")) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
		},
	})
}

// exits runs a command that must end with the given exit code: exits CODE COMMAND ARGUMENT...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if err != nil || neg {
		ts.Fatalf("usage: exits CODE COMMAND ARGUMENT...")
	}
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d; it said:\n%s", got, want, ts.ReadFile("stderr"))
	}
}

// endBroker ends the broker of a state directory, if one runs there.
func endBroker(t *testing.T, lock string) {
	file, err := os.Open(lock)
	if err != nil {
		return // there never was one
	}
	defer file.Close()
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return // it has ended
	}
	text, err := os.ReadFile(lock)
	if err != nil {
		t.Error(err)
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX) // it is free when the broker is gone
	}
	if err != nil {
		t.Error(err)
	}
}
