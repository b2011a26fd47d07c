package storetest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func write(t *testing.T, s vfs.FS, name, text string, sync bool) {
	t.Helper()
	f, err := s.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func syncDir(t *testing.T, s vfs.FS, name string) {
	t.Helper()
	f, err := s.OpenDir(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// all returns every state that a crash may leave, as "name=content ..." of one directory, without repetitions.
func all(t *testing.T, s *Strict, dir string) []string {
	t.Helper()
	seen := map[string]bool{}
	for choices := []int{}; ; {
		at := 0
		var limits []int
		left := s.Crash(func(_ string, n int) int {
			if at == len(choices) {
				choices = append(choices, 0)
			}
			limits = append(limits, n)
			at++
			return choices[at-1]
		})
		seen[describe(t, left, dir)] = true
		// The next combination: the last choice that can still grow does.
		for at--; at >= 0 && choices[at] == limits[at]-1; at-- {
		}
		if at < 0 {
			break
		}
		choices = choices[:at+1]
		choices[at]++
	}
	var states []string
	for state := range seen {
		states = append(states, state)
	}
	slices.Sort(states)
	return states
}

func describe(t *testing.T, s *Strict, dir string) string {
	t.Helper()
	names, err := s.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "gone"
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		file, err := s.Open(s.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		stat, _ := file.Stat()
		text := make([]byte, stat.Size())
		_, _ = file.Read(text)
		names[i] = fmt.Sprintf("%s=%s", name, strings.ReplaceAll(string(text), "\x00", "0"))
	}
	return strings.Join(names, " ")
}

// TestStrictCrash holds the file system to its promises: everything it may lose is lost in some state, and nothing else.
func TestStrictCrash(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, s *Strict)
		want []string
	}{
		"directory not synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "x", true)
		}, []string{"", "a=x"}},
		"file not synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "xy", false)
			syncDir(t, s, "d")
		}, []string{"a=", "a=00", "a=x", "a=x0", "a=xy"}},
		"both synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "xy", true)
			syncDir(t, s, "d")
		}, []string{"a=xy"}},
		"rename not synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "x", true)
			syncDir(t, s, "d")
			if err := s.Rename("d/a", "d/b"); err != nil {
				t.Fatal(err)
			}
		}, []string{"", "a=x", "a=x b=x", "b=x"}},
		"removal before a synced rename": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "x", true)
			syncDir(t, s, "d")
			if err := s.Rename("d/a", "d/b"); err != nil {
				t.Fatal(err)
			}
			syncDir(t, s, "d")
			if err := s.Remove("d/b"); err != nil {
				t.Fatal(err)
			}
		}, []string{"", "b=x"}},
		"directory not reached": {func(t *testing.T, s *Strict) {
			if err := s.Remove("d"); err != nil {
				t.Fatal(err)
			}
			if err := s.MkdirAll("d", 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, s, "d/a", "x", true)
			syncDir(t, s, "d")
		}, []string{"", "a=x", "gone"}},
		"failed fsync of a file": {func(t *testing.T, s *Strict) {
			f, _ := s.Create("d/a", vfs.WriteCategoryUnspecified)
			_, _ = f.Write([]byte("xy"))
			s.FailSyncs(func(n int) bool { return n == 1 })
			if err := f.Sync(); err == nil {
				t.Error("first fsync succeeds")
			}
			_, _ = f.Write([]byte("z"))
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
			if got := describe(t, s, "d"); got != "a=xyz" {
				t.Errorf("reader sees %q", got)
			}
			syncDir(t, s, "d")
		}, []string{"a=00z"}},
		"failed fsync of a directory": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "x", true)
			s.FailSyncs(func(n int) bool { return n == 1 })
			f, _ := s.OpenDir("d")
			if err := f.Sync(); err == nil {
				t.Error("first fsync succeeds")
			}
			write(t, s, "d/b", "y", true)
			syncDir(t, s, "d")
			if got := describe(t, s, "d"); got != "a=x b=y" {
				t.Errorf("reader sees %q", got)
			}
		}, []string{"b=y"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStrict()
			if err := s.MkdirAll("d", 0o700); err != nil {
				t.Fatal(err)
			}
			syncDir(t, s, "/")
			c.do(t, s)
			if got := all(t, s, "d"); !slices.Equal(got, c.want) {
				t.Errorf("a crash may leave %q, want %q", got, c.want)
			}
		})
	}
}

// TestHook sees each operation, and can refuse it before or after.
func TestHook(t *testing.T) {
	s := NewStrict()
	var seen []string
	refuse, after := "", false
	h := Hook(s, func(op Op, do func() error) error {
		seen = append(seen, op.String())
		if op.Kind != refuse {
			return do()
		}
		if after {
			if err := do(); err != nil {
				return err
			}
		}
		return fs.ErrPermission
	})
	write(t, h, "a", "x", true)
	if _, err := h.Open("a"); err != nil {
		t.Fatal(err)
	}
	refuse = "rename"
	if err := h.Rename("a", "b"); !errors.Is(err, fs.ErrPermission) || describe(t, s, "/") != "a=x" {
		t.Errorf("rename: %v, %s", err, describe(t, s, "/"))
	}
	refuse, after = "remove", true
	if err := h.Remove("a"); !errors.Is(err, fs.ErrPermission) || describe(t, s, "/") != "" {
		t.Errorf("remove: %v, %s", err, describe(t, s, "/"))
	}
	want := []string{"create a", "write a 1", "sync a", "close a", "open a", "rename a b", "remove a"}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}
