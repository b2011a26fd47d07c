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

// all returns every state that a crash may leave, as "name=content ..." of one directory, without repetitions. Where only
// names some of the answers to a question, no others are given.
func all(t *testing.T, s *Strict, dir string, only map[string][]int) []string {
	t.Helper()
	seen := map[string]bool{}
	for choices := []int{}; ; {
		at := 0
		var limits []int
		left := s.Crash(func(what string, n int) int {
			if at == len(choices) {
				choices = append(choices, 0)
			}
			some := only[what]
			if some != nil {
				n = len(some)
			}
			limits = append(limits, n)
			at++
			if some != nil {
				return some[choices[at-1]]
			}
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
		names[i] = name + "=" + squeezed(strings.ReplaceAll(string(text), "\x00", "0"))
	}
	return strings.Join(names, " ")
}

// squeezed is text with a letter and a number for what stands there more than nine times in a row.
func squeezed(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		run := len(text) - len(strings.TrimLeft(text, text[:1]))
		if run > 9 {
			fmt.Fprintf(&b, "(%s*%d)", text[:1], run)
		} else {
			b.WriteString(text[:run])
		}
		text = text[run:]
	}
	return b.String()
}

// overwrite writes into a file that is there.
func overwrite(t *testing.T, s *Strict, name string, at int64, text string) {
	t.Helper()
	f, err := s.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(text), at); err != nil {
		t.Fatal(err)
	}
}

// sectors are whole ones, each with its letter.
func sectors(letters string) string {
	var b strings.Builder
	for _, letter := range letters {
		b.WriteString(strings.Repeat(string(letter), Sector))
	}
	return b.String()
}

// TestStrictCrash holds the file system to its promises: everything it may lose is lost in some state, and nothing else.
func TestStrictCrash(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(t *testing.T, s *Strict)
		only map[string][]int
		want []string
	}{
		"directory not synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "x", true)
		}, nil, []string{"", "a=x"}},
		"file not synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "xy", false)
			syncDir(t, s, "d")
		}, nil, []string{"a=", "a=0", "a=00", "a=x", "a=x0", "a=xy"}},
		"sectors": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", sectors("xyz"), false)
			syncDir(t, s, "d")
		}, map[string][]int{"size": {2}, "sector": {0, 3}}, []string{
			"a=(0*1024)(z*512)", "a=(0*1536)", "a=(0*512)(y*512)(z*512)", "a=(0*512)(y*512)(0*512)",
			"a=(x*512)(0*1024)", "a=(x*512)(0*512)(z*512)", "a=(x*512)(y*512)(0*512)", "a=(x*512)(y*512)(z*512)",
		}},
		"grown by two sectors": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", sectors("x"), true)
			syncDir(t, s, "d")
			overwrite(t, s, "d/a", Sector, sectors("yz"))
		}, map[string][]int{"size": {0, 2}, "sector": {0, 1, 3}}, []string{
			"a=(x*512)", "a=(x*512)(0*1024)", "a=(x*512)(0*512)(z*512)", "a=(x*512)(y*512)(0*512)", "a=(x*512)(y*512)(z*512)",
		}},
		"overwritten across a boundary": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", sectors("xx"), true)
			syncDir(t, s, "d")
			overwrite(t, s, "d/a", Sector-1, "yz")
		}, nil, []string{
			"a=(x*511)00(x*511)", "a=(x*511)0(x*512)", "a=(x*511)0z(x*511)",
			"a=(x*511)y0(x*511)", "a=(x*511)y(x*512)", "a=(x*511)yz(x*511)",
			"a=(x*1024)", "a=(x*512)0(x*511)", "a=(x*512)z(x*511)",
		}},
		"overwritten twice": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "xxx", true)
			syncDir(t, s, "d")
			overwrite(t, s, "d/a", 0, "yy")
			overwrite(t, s, "d/a", 1, "zz")
		}, nil, []string{"a=000", "a=xxx", "a=yxx", "a=yyx", "a=yzx", "a=yzz"}},
		"grown over a gap": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "x", true)
			syncDir(t, s, "d")
			overwrite(t, s, "d/a", 2, "y")
		}, nil, []string{"a=x", "a=x0", "a=x00", "a=x0y"}},
		"both synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "xy", true)
			syncDir(t, s, "d")
		}, nil, []string{"a=xy"}},
		"rename not synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "x", true)
			syncDir(t, s, "d")
			if err := s.Rename("d/a", "d/b"); err != nil {
				t.Fatal(err)
			}
		}, nil, []string{"", "a=x", "a=x b=x", "b=x"}},
		"replaced, directory not synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "x", true)
			syncDir(t, s, "d")
			write(t, s, "d/a", "y", true)
		}, nil, []string{"", "a=x", "a=y"}},
		"created and removed, not synced": {func(t *testing.T, s *Strict) {
			write(t, s, "d/a", "x", true)
			syncDir(t, s, "d")
			write(t, s, "d/b", "y", true)
			if err := s.Remove("d/a"); err != nil {
				t.Fatal(err)
			}
		}, nil, []string{"", "a=x", "a=x b=y", "b=y"}},
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
		}, nil, []string{"", "b=x"}},
		"directory not reached": {func(t *testing.T, s *Strict) {
			if err := s.Remove("d"); err != nil {
				t.Fatal(err)
			}
			if err := s.MkdirAll("d", 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, s, "d/a", "x", true)
			syncDir(t, s, "d")
		}, nil, []string{"", "a=x", "gone"}},
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
		}, nil, []string{"a=00z"}},
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
		}, nil, []string{"b=y"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStrict()
			if err := s.MkdirAll("d", 0o700); err != nil {
				t.Fatal(err)
			}
			syncDir(t, s, "/")
			c.do(t, s)
			slices.Sort(c.want)
			if got := all(t, s, "d", c.only); !slices.Equal(got, c.want) {
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
