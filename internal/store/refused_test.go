package store

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// D09: used up inodes are told from used up bytes, which a look at the free bytes does not show.
func TestD09FullSaysOfWhat(t *testing.T) {
	for want, got := range map[string]string{
		"the file system of /state has no inodes left, of 40, and 8192 bytes: remove files (df -i)": full("/state", 8192, 40, 0),
		"the file system of /state has 4096 bytes left: free some, or give it more":                 full("/state", 4096, 40, 3),
		"the file system of /state has 0 bytes left: free some, or give it more":                    full("/state", 0, 0, 0), // one that counts no inodes
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if hint := Hint(t.TempDir(), errors.New("something else")); hint != "" {
		t.Errorf("%q", hint)
	}
	if hint := Hint(t.TempDir()+"/not/there", syscall.ENOSPC); !strings.Contains(hint, "bytes left") {
		t.Errorf("%q", hint)
	}
}
