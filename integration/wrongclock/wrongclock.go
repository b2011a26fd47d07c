// Package wrongclock builds tidemark with a wall clock that a test sets while the program runs (W20). Nobody's clock is
// changed: the program is the real one, all of it and all that it uses, compiled with one function of the standard library
// replaced, the one that asks for the time. Its monotonic part is left as it is, as a machine's is when somebody sets the clock.
package wrongclock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// variable names the file that holds how wrong the clock is, in ns.
const variable = "TIDEMARK_TEST_WRONG_CLOCK"

// asked is what time.Now begins with, and wrong what stands in its place.
const (
	asked = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	wrong = asked + `	off := Wrong.Load() + int64(nsec)
	sec += off / 1e9
	if off %= 1e9; off < 0 {
		sec, off = sec-1, off+1e9
	}
	nsec = int32(off)
`
	wrongness = `
// Wrong is how wrong the wall clock is, in ns.
var Wrong atomic.Int64
`
)

// follower is a file of the program that reads how wrong the clock is, again and again.
const follower = `package main

import (
	"os"
	"strconv"
	"time"
)

func init() {
	path := os.Getenv("` + variable + `")
	if path == "" {
		return
	}
	read := func() {
		text, err := os.ReadFile(path)
		ns, err2 := strconv.ParseInt(string(text), 10, 64)
		if err != nil || err2 != nil {
			panic("no wrong clock: " + path)
		}
		time.Wrong.Store(ns)
	}
	read()
	go func() {
		for range time.Tick(5 * time.Millisecond) {
			read()
		}
	}()
}
`

// Build builds the program out of the sources at root and returns its path. All of the standard library is compiled
// anew, which takes a minute; after that the build cache has it.
func Build(root string) (program string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "wrongclock")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	source := filepath.Join(string(bytes.TrimSpace(goroot)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	if bytes.Count(text, []byte(asked)) != 1 || bytes.Count(text, []byte("\nimport (\n")) != 1 {
		return "", fmt.Errorf("%s asks for the time in another way than known: mend package wrongclock", source)
	}
	text = bytes.Replace(text, []byte(asked), []byte(wrong), 1)
	text = append(bytes.Replace(text, []byte("\nimport (\n"), []byte("\nimport (\n\t\"sync/atomic\"\n"), 1), wrongness...)
	overlay := map[string]map[string]string{"Replace": {
		source: filepath.Join(dir, "time.go"),
		filepath.Join(root, "cmd", "tidemark", "wrongclock.go"): filepath.Join(dir, "follower.go"),
	}}
	replaced, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	for name, text := range map[string][]byte{"time.go": text, "follower.go": []byte(follower), "overlay.json": replaced} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return "", err
		}
	}
	program = filepath.Join(root, "bin", "tidemark-wrongclock")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/tidemark")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, said)
	}
	return program, nil
}

// Clock is a wall clock that tells the right time until it is set.
type Clock struct {
	Program string // goes by the clock
	path    string
}

// New makes a clock and, in dir, the program that goes by it with the commands named. With others it is on a machine whose
// clock is right.
func New(dir, binary string, commands ...string) (*Clock, error) {
	c := &Clock{Program: filepath.Join(dir, "tidemark"), path: filepath.Join(dir, "wrong")}
	script := fmt.Sprintf("#!/bin/sh\ncase \"$1\" in %s) export %s='%s';; esac\nexec '%s' \"$@\"\n", strings.Join(commands, "|"), variable, c.path, binary)
	syscall.ForkLock.RLock() // a child of another test that is just being made would hold the file open for writing
	err := os.WriteFile(c.Program, []byte(script), 0o700)
	syscall.ForkLock.RUnlock()
	return c, errors.Join(c.Set(0), err)
}

// Set makes the clock wrong by so much. Programs that run notice within some milliseconds.
func (c *Clock) Set(by time.Duration) error {
	next := c.path + ".next"
	if err := os.WriteFile(next, strconv.AppendInt(nil, int64(by), 10), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.path)
}
