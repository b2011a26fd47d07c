package storetest

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Strict is a file system in memory that keeps at a crash only what it must keep:
//
//   - a file's bytes as of its last fsync; of later ones any number, and zeros may stand for the rest;
//   - a directory's names as of its last fsync; each later new name and each later removal may have taken effect or
//     not, independently of each other, so that a rename may show both names or none, and a removal may be durable
//     although what was done before it is not.
//
// A failed fsync drops what it was to make durable: the process still reads it, and the next fsync succeeds without it.
//
// Files are written at their ends only. Strict may be used by several goroutines.
type Strict struct {
	mu     sync.Mutex
	root   *node
	syncs  int
	refuse func(n int) bool
}

// node is a file or a directory.
type node struct {
	dir     bool
	data    []byte           // what a reader sees
	durable []byte           // what a crash leaves at least
	lost    int              // bytes below this that are not in durable were dropped by a failed fsync
	names   map[string]*node // what a reader sees
	kept    map[string]*node // what a crash leaves at least
	pending []change         // since the last fsync, in order
}

// change is a name that came (child) or went (nil).
type change struct {
	name  string
	child *node
}

func newDir() *node {
	return &node{dir: true, names: map[string]*node{}, kept: map[string]*node{}}
}

// NewStrict returns an empty file system.
func NewStrict() *Strict { return &Strict{root: newDir()} }

// FailSyncs lets the fsyncs fail, numbered from 1, for which refuse is true.
func (s *Strict) FailSyncs(refuse func(n int) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncs, s.refuse = 0, refuse
}

// Chance decides what a crash does: it returns a number from 0 to n-1. For "add" and "remove", 1 means that the change
// of a name has taken effect; for "bytes" the number is how many unsynced bytes are there; for "zeros", 1 means that
// zeros stand for the rest.
type Chance func(what string, n int) int

// Crash returns a file system as a power loss now may leave it. s stays as it is.
func (s *Strict) Crash(chance Chance) *Strict {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Strict{root: s.root.crash(chance, map[*node]*node{})}
}

func (n *node) crash(chance Chance, done map[*node]*node) *node {
	if left, ok := done[n]; ok {
		return left
	}
	left := &node{dir: n.dir}
	done[n] = left
	if !n.dir {
		left.data = slices.Clone(n.durable)
		rest := n.unsynced()
		some := chance("bytes", len(rest)+1)
		left.data = append(left.data, rest[:some]...)
		if some < len(rest) && chance("zeros", 2) == 1 {
			left.data = append(left.data, make([]byte, len(rest)-some)...)
		}
		left.durable = slices.Clone(left.data)
		return left
	}
	names := maps.Clone(n.kept)
	for _, c := range n.pending {
		if c.child != nil && chance("add", 2) == 1 {
			names[c.name] = c.child
		} else if c.child == nil && chance("remove", 2) == 1 {
			delete(names, c.name)
		}
	}
	left.names = map[string]*node{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		left.names[name] = names[name].crash(chance, done)
	}
	left.kept = maps.Clone(left.names)
	return left
}

// unsynced is what comes after the durable bytes; what a failed fsync dropped is zeros.
func (n *node) unsynced() []byte {
	rest := slices.Clone(n.data[len(n.durable):])
	clear(rest[:max(0, n.lost-len(n.durable))])
	return rest
}

func (s *Strict) sync(n *node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncs++
	if s.refuse != nil && s.refuse(s.syncs) {
		n.lost, n.pending = len(n.data), nil
		return &fs.PathError{Op: "fsync", Err: syscall.EIO}
	}
	if !n.dir {
		n.durable = append(n.durable, n.unsynced()...)
		return nil
	}
	// Not the names as they are seen: a failed fsync may have dropped some for good.
	for _, c := range n.pending {
		if n.kept[c.name] = c.child; c.child == nil {
			delete(n.kept, c.name)
		}
	}
	n.pending = nil
	return nil
}

func (n *node) set(name string, child *node) {
	if n.names[name] = child; child == nil {
		delete(n.names, name)
	}
	n.pending = append(n.pending, change{name, child})
}

func split(name string) []string {
	return strings.FieldsFunc(path.Clean("/"+name), func(r rune) bool { return r == '/' })
}

// find returns a node and nil, or fs.ErrNotExist.
func (s *Strict) find(op, name string) (*node, error) {
	n := s.root
	for _, part := range split(name) {
		if n = n.names[part]; n == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	return n, nil
}

// parent returns the directory of a name and the last part of it.
func (s *Strict) parent(op, name string) (*node, string, error) {
	dir, err := s.find(op, path.Dir(path.Clean("/"+name)))
	if err == nil && !dir.dir {
		err = &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return dir, path.Base(name), err
}

// Create makes an empty file in place of whatever has the name.
func (s *Strict) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, base, err := s.parent("create", name)
	if err != nil {
		return nil, err
	}
	if dir.names[base] != nil {
		dir.set(base, nil)
	}
	n := &node{}
	dir.set(base, n)
	return &strictFile{fs: s, n: n, name: base}, nil
}

// Open opens a file or directory.
func (s *Strict) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find("open", name)
	if err != nil {
		return nil, err
	}
	return &strictFile{fs: s, n: n, name: path.Base(name)}, nil
}

// OpenDir is Open.
func (s *Strict) OpenDir(name string) (vfs.File, error) { return s.Open(name) }

// Remove removes a file or an empty directory.
func (s *Strict) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	dir, base, err := s.parent("remove", name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if len(n.names) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	dir.set(base, nil)
	return nil
}

// Rename renames a file.
func (s *Strict) Rename(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find("rename", from)
	if err != nil {
		return err
	}
	target, base, err := s.parent("rename", to)
	if err != nil {
		return err
	}
	target.set(base, n)
	dir, old, _ := s.parent("rename", from)
	dir.set(old, nil)
	return nil
}

// MkdirAll makes a directory and those above it.
func (s *Strict) MkdirAll(name string, _ fs.FileMode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.root
	for _, part := range split(name) {
		child := n.names[part]
		if child == nil {
			child = newDir()
			n.set(part, child)
		}
		if n = child; !n.dir {
			return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
		}
	}
	return nil
}

// List returns the names in a directory.
func (s *Strict) List(name string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find("list", name)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(n.names)), nil
}

// Stat describes a file or directory.
func (s *Strict) Stat(name string) (vfs.FileInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find("stat", name)
	if err != nil {
		return nil, err
	}
	return &strictInfo{path.Base(name), int64(len(n.data)), n.dir}, nil
}

// PathBase returns the last part of a name.
func (s *Strict) PathBase(name string) string { return path.Base(name) }

// PathJoin joins the parts of a name.
func (s *Strict) PathJoin(parts ...string) string { return path.Join(parts...) }

// PathDir returns a name without its last part.
func (s *Strict) PathDir(name string) string { return path.Dir(name) }

// Unwrap returns nil: there is no file system below.
func (s *Strict) Unwrap() vfs.FS { return nil }

var errUnsupported = errors.New("storetest.Strict cannot do this")

// Link is not supported.
func (s *Strict) Link(_, _ string) error { return errUnsupported }

// OpenReadWrite is not supported: files are written once, from their beginning.
func (s *Strict) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errUnsupported
}

// RemoveAll is not supported.
func (s *Strict) RemoveAll(string) error { return errUnsupported }

// ReuseForWrite is not supported.
func (s *Strict) ReuseForWrite(_, _ string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errUnsupported
}

// Lock is not supported.
func (s *Strict) Lock(string) (io.Closer, error) { return nil, errUnsupported }

// GetDiskUsage is not supported.
func (s *Strict) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{}, errUnsupported }

// strictFile is an open file or directory.
type strictFile struct {
	fs   *Strict
	n    *node
	name string
	at   int
}

// Close does nothing: whether what was written lasts is decided by Sync.
func (f *strictFile) Close() error { return nil }

// Read reads from where the last Read ended.
func (f *strictFile) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, int64(f.at))
	f.at += n
	return n, err
}

// ReadAt reads what was written, synced or not.
func (f *strictFile) ReadAt(b []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.n.dir {
		return 0, syscall.EISDIR
	}
	n := copy(b, f.n.data[min(at, int64(len(f.n.data))):])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Write appends to the file and then spoils its argument, as any vfs.File may.
func (f *strictFile) Write(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.n.data = append(f.n.data, b...)
	for i := range b {
		b[i] = 0xdb //nolint:staticcheck // vfs.File allows what io.Writer forbids, and callers must bear it
	}
	return len(b), nil
}

// Stat describes the file.
func (f *strictFile) Stat() (vfs.FileInfo, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return &strictInfo{f.name, int64(len(f.n.data)), f.n.dir}, nil
}

// Sync makes durable what was written, or which names the directory has.
func (f *strictFile) Sync() error { return f.fs.sync(f.n) }

// SyncData is Sync.
func (f *strictFile) SyncData() error { return f.Sync() }

// SyncTo promises nothing, as vfs allows.
func (f *strictFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }

// WriteAt is not supported.
func (f *strictFile) WriteAt([]byte, int64) (int, error) { return 0, errUnsupported }

// Preallocate does nothing.
func (f *strictFile) Preallocate(_, _ int64) error { return nil }

// Prefetch does nothing.
func (f *strictFile) Prefetch(int64, int64) error { return nil }

// Fd tells that there is no descriptor.
func (f *strictFile) Fd() uintptr { return vfs.InvalidFd }

// strictInfo describes a file. There are no times, owners or devices.
type strictInfo struct {
	name string
	size int64
	dir  bool
}

// Name is the last part of the path.
func (i *strictInfo) Name() string { return i.name }

// Size is the number of bytes.
func (i *strictInfo) Size() int64 { return i.size }

// IsDir tells a directory from a file.
func (i *strictInfo) IsDir() bool { return i.dir }

// ModTime is zero.
func (i *strictInfo) ModTime() time.Time { return time.Time{} }

// Sys is nil.
func (i *strictInfo) Sys() any { return nil }

// DeviceID is zero.
func (i *strictInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

// Mode lets the owner do everything.
func (i *strictInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
