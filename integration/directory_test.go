package integration_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestD19DirectoryOfAnotherUser starts a job on a state directory in which its user may make no files, one that has been used
// before and one that is to be made: it ends at once, before it asks any broker, and says who it is and whose the directory is.
func TestD19DirectoryOfAnotherUser(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{filepath.Dir(root), root} {
		if err := os.Chmod(dir, 0o755); err != nil { // another user is to come here
			t.Fatal(err)
		}
	}
	program := filepath.Join(root, "tidemark")
	content, err := os.ReadFile(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock() // a child of another test that is just being made would hold the file open for writing
	err = os.WriteFile(program, content, 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	user := os.Geteuid()
	var other *syscall.SysProcAttr
	if user == 0 { // who may write everywhere
		user = 65534
		other = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}}
	}
	used := filepath.Join(root, "used")
	for _, name := range []string{"id", "lock"} {
		if err := errors.Join(os.MkdirAll(used, 0o700), os.WriteFile(filepath.Join(used, name), nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(used, 0o555); err != nil {
		t.Fatal(err)
	}
	for dir, belongs := range map[string]string{used: used, filepath.Join(used, "to", "be", "made"): used} {
		config := filepath.Join(root, "job.yaml")
		text := fmt.Sprintf("job: j\nkafka: {brokers: [\"127.0.0.1:1\"]}\ninput: {topic: in, key: [device], partitioned_by: [device], values: [v], time: {field: ts, unit: ms}}\n"+
			"aggregations: [{name: a, window: {tumbling: 1m}, functions: [count], output: {topic: out}}]\n"+
			"late: {topic: late}\ndead_letter: {topic: dead}\nchangelog: {topic: log}\nstate: {dir: %q}\n", dir)
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		command := exec.CommandContext(t.Context(), program, "run", "-c", config)
		command.Dir, command.Env, command.SysProcAttr, command.Stderr = root, []string{"HOME=" + root}, other, &said
		begun := time.Now()
		err := command.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || strings.Contains(said.String(), "broker") {
			t.Errorf("%s: %v after %v: %s", dir, err, time.Since(begun), &said)
		}
		for _, want := range []string{"state directory " + dir, "permission denied", fmt.Sprintf("this process is user %d, ", user),
			fmt.Sprintf("%s belongs to user %d, group", belongs, os.Geteuid()), "with mode 0555: give it to this user", "fsGroup"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("%s: want %q in: %s", dir, want, &said)
			}
		}
	}
}
