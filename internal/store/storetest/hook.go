// Package storetest has file systems that fail and crash, for tests of everything that writes files: Hook watches or
// refuses single operations of any file system, Strict is one in memory that forgets at a crash all that it may forget.
package storetest

import (
	"errors"
	"fmt"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Op is one operation on a file system.
type Op struct {
	Kind string // create, open, opendir, read, write, sync, close, rename, remove, mkdir, list, stat
	Path string
	To   string // of a rename
	Size int    // bytes of a read or write
}

// String is the operation as one line.
func (o Op) String() string {
	switch o.Kind {
	case "rename":
		return fmt.Sprintf("%s %s %s", o.Kind, o.Path, o.To)
	case "read", "write":
		return fmt.Sprintf("%s %s %d", o.Kind, o.Path, o.Size)
	}
	return o.Kind + " " + o.Path
}

// Changes tells whether the operation may change what is on disk.
func (o Op) Changes() bool {
	switch o.Kind {
	case "create", "write", "sync", "rename", "remove", "mkdir":
		return true
	}
	return false
}

// Short is what the function of a Hook returns, instead of carrying a write out, to let so many bytes be written and no
// more. With a nil Err the caller is told nothing but their number, as write(2) does.
type Short struct {
	Bytes int
	Err   error
}

// Error names the bytes.
func (s *Short) Error() string { return fmt.Sprintf("only %d bytes written: %v", s.Bytes, s.Err) }

// Unwrap returns the cause.
func (s *Short) Unwrap() error { return s.Err }

// Hook returns a file system that hands each operation of fs to fn, which calls do to carry it out, or does not. What
// fn returns is what the caller sees: an error after do is an operation that was done and not acknowledged. Operations
// that are not listed at Op are not hooked. fn must bear to be called from several goroutines when fs is used so.
func Hook(fs vfs.FS, fn func(op Op, do func() error) error) vfs.FS { return &hooked{fs, fn} }

type hooked struct {
	vfs.FS
	fn func(Op, func() error) error
}

func (h *hooked) file(op Op, open func() (vfs.File, error)) (file vfs.File, err error) {
	err = h.fn(op, func() (err error) {
		file, err = open()
		return err
	})
	if err != nil {
		if file != nil {
			_ = file.Close()
		}
		return nil, err
	}
	return &hookedFile{file, op.Path, h.fn}, nil
}

// Create is hooked.
func (h *hooked) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return h.file(Op{Kind: "create", Path: name}, func() (vfs.File, error) { return h.FS.Create(name, category) })
}

// Open is hooked.
func (h *hooked) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	return h.file(Op{Kind: "open", Path: name}, func() (vfs.File, error) { return h.FS.Open(name, opts...) })
}

// OpenDir is hooked.
func (h *hooked) OpenDir(name string) (vfs.File, error) {
	return h.file(Op{Kind: "opendir", Path: name}, func() (vfs.File, error) { return h.FS.OpenDir(name) })
}

// Remove is hooked.
func (h *hooked) Remove(name string) error {
	return h.fn(Op{Kind: "remove", Path: name}, func() error { return h.FS.Remove(name) })
}

// Rename is hooked.
func (h *hooked) Rename(from, to string) error {
	return h.fn(Op{Kind: "rename", Path: from, To: to}, func() error { return h.FS.Rename(from, to) })
}

// MkdirAll is hooked.
func (h *hooked) MkdirAll(name string, perm os.FileMode) error {
	return h.fn(Op{Kind: "mkdir", Path: name}, func() error { return h.FS.MkdirAll(name, perm) })
}

// List is hooked.
func (h *hooked) List(name string) (names []string, err error) {
	err = h.fn(Op{Kind: "list", Path: name}, func() (err error) {
		names, err = h.FS.List(name)
		return err
	})
	return names, err
}

// Stat is hooked.
func (h *hooked) Stat(name string) (info vfs.FileInfo, err error) {
	err = h.fn(Op{Kind: "stat", Path: name}, func() (err error) {
		info, err = h.FS.Stat(name)
		return err
	})
	return info, err
}

// Unwrap returns the file system below.
func (h *hooked) Unwrap() vfs.FS { return h.FS }

type hookedFile struct {
	vfs.File
	path string
	fn   func(Op, func() error) error
}

// ReadAt is hooked.
func (f *hookedFile) ReadAt(b []byte, at int64) (n int, err error) {
	err = f.fn(Op{Kind: "read", Path: f.path, Size: len(b)}, func() (err error) {
		n, err = f.File.ReadAt(b, at)
		return err
	})
	return n, err
}

// Write is hooked.
func (f *hookedFile) Write(b []byte) (n int, err error) {
	err = f.fn(Op{Kind: "write", Path: f.path, Size: len(b)}, func() (err error) {
		n, err = f.File.Write(b)
		return err
	})
	var short *Short
	if errors.As(err, &short) {
		if n, err = f.File.Write(b[:min(short.Bytes, len(b))]); err == nil {
			err = short.Err
		}
	}
	return n, err
}

// Sync is hooked.
func (f *hookedFile) Sync() error {
	return f.fn(Op{Kind: "sync", Path: f.path}, f.File.Sync)
}

// Close is hooked.
func (f *hookedFile) Close() error {
	return f.fn(Op{Kind: "close", Path: f.path}, f.File.Close)
}
