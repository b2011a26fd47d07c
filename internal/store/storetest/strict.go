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
//   - a file's bytes as of its last fsync. What was written since reached the disk or not sector by sector, in any subset:
//     each shows its old bytes, all of the new ones, some of them up to any byte, or zeros. The size is a matter of its own:
//     a file may have grown, to its end or less, and hold zeros where nothing came;
//   - a directory's names as of its last fsync; each later new name and each later removal may have taken effect or
//     not, independently of each other, so that a rename may show both names or none, and a removal may be durable
//     although what was done before it is not.
//
// A failed fsync drops what it was to make durable: the process still reads it, and the next fsync succeeds without it.
//
// Strict may be used by several goroutines.
type Strict struct {
	mu     sync.Mutex
	root   *node
	syncs  int
	refuse func(n int) bool
}

// node is a file or a directory.
type node struct {
	dir      bool
	data     []byte           // what a reader sees
	durable  []byte           // what the last fsync left on disk
	unsynced []piece          // since the last fsync, in order
	names    map[string]*node // what a reader sees
	kept     map[string]*node // what a crash leaves at least
	pending  []change         // since the last fsync, in order
}

// Sector is the number of bytes that a disk writes at once.
const Sector = 512

// piece is bytes that were written and not synced.
type piece struct {
	at int
	b  []byte
}

// put copies what of the bytes lies within part, which begins at from in its file.
func (w piece) put(part []byte, from int) {
	if to := w.at - from; to < len(part) {
		copy(part[to:], w.b)
	}
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

// Chance decides what a crash does: it returns a number from 0 to n-1, where 0 keeps nothing that was not synced and n-1
// all of it.
//
//   - "add", "remove": with 1 the change of a name has taken effect;
//   - "size": a file that grew has its old size, one in between, its new one; "bytes": by how many bytes it grew;
//   - "sector": a sector that was written to shows what it held before, zeros, the first of the bytes written to it, all of
//     them; "torn": how many of them.
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
		left.data = n.torn(chance)
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

// torn is what a crash leaves of a file.
func (n *node) torn(chance Chance) []byte {
	size := len(n.durable)
	if grown := len(n.data) - size; grown > 0 {
		switch chance("size", 3) {
		case 1:
			size += chance("bytes", grown+1)
		case 2:
			size += grown
		}
	}
	left := make([]byte, size)
	copy(left, n.durable)
	sectors := map[int][]piece{}
	for _, w := range n.unsynced {
		for len(w.b) > 0 {
			sector := w.at / Sector
			some := min(len(w.b), (sector+1)*Sector-w.at)
			sectors[sector] = append(sectors[sector], piece{w.at, w.b[:some]})
			w = piece{w.at + some, w.b[some:]}
		}
	}
	for _, sector := range slices.Sorted(maps.Keys(sectors)) {
		if from := sector * Sector; from < size {
			tear(left[from:min(size, from+Sector)], from, sectors[sector], chance)
		}
	}
	return left
}

// tear is what a crash leaves of a sector, which begins at from in its file.
func tear(sector []byte, from int, writes []piece, chance Chance) {
	total := 0
	for _, w := range writes {
		total += len(w.b)
	}
	switch chance("sector", 4) {
	case 0:
		return
	case 1:
		for _, w := range writes {
			piece{w.at, make([]byte, len(w.b))}.put(sector, from)
		}
		return
	case 2:
		total = chance("torn", total+1)
	}
	for _, w := range writes {
		some := min(total, len(w.b))
		piece{w.at, w.b[:some]}.put(sector, from)
		total -= some
	}
}

func (s *Strict) sync(n *node) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.syncs++
	if s.refuse != nil && s.refuse(s.syncs) {
		n.unsynced, n.pending = nil, nil
		return &fs.PathError{Op: "fsync", Err: syscall.EIO}
	}
	if !n.dir {
		n.durable = append(n.durable, make([]byte, len(n.data)-len(n.durable))...) // zeros where a failed fsync dropped something
		for _, w := range n.unsynced {
			w.put(n.durable, 0)
		}
		n.unsynced = nil
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

// OpenReadWrite opens a file, to be written from its beginning or anywhere; it makes an empty one when there is none.
func (s *Strict) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := s.Open(name, opts...)
	if errors.Is(err, fs.ErrNotExist) {
		return s.Create(name, category)
	}
	return file, err
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

// Write writes where the last Write ended and then spoils its argument, as any vfs.File may.
func (f *strictFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, int64(f.at))
	f.at += n
	for i := range b {
		b[i] = 0xdb //nolint:staticcheck // vfs.File allows what io.Writer forbids, and callers must bear it
	}
	return n, err
}

// WriteAt writes over what is there, and lets the file grow.
func (f *strictFile) WriteAt(b []byte, at int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.n.dir {
		return 0, syscall.EISDIR
	}
	w := piece{int(at), slices.Clone(b)}
	f.n.data = append(f.n.data, make([]byte, max(0, w.at+len(b)-len(f.n.data)))...)
	w.put(f.n.data, 0)
	f.n.unsynced = append(f.n.unsynced, w)
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
