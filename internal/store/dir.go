package store

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system that checkpoints are written to: the seam through which crash and fault tests come in.
type FS = vfs.FS

// Disk is the real one.
var Disk FS = vfs.Default

// Names in a task's directory.
const (
	suffix        = ".checkpoint"
	tmpSuffix     = suffix + ".tmp"
	damagedSuffix = ".damaged"
	maxNumber     = 999_999_999_999_999_999
	maxReason     = 99 // bytes of the reason in a name
)

// kept is how many checkpoints are kept: the newest, and one more in case it is damaged.
const kept = 2

// keptAside is how many files that were set aside are kept for somebody to look at. A disk that damages file after file
// must not fill up with them (I13).
const keptAside = 3

// Dir is the directory of one task's checkpoints. One process uses it at a time; the lock on state.dir sees to that. It
// may be used by several goroutines.
type Dir struct {
	fs   vfs.FS
	path string

	mu      sync.Mutex
	next    uint64  // number of the next attempt; never used twice
	writing *Writer // the attempt under way
}

// Entry is a checkpoint in a directory: what it says of itself, or why it cannot be used.
type Entry struct {
	Path   string
	Number uint64 // 0 when the name has none
	Info   *Info  // nil when Err is set
	Err    error  // an *Error: KindDamaged, KindNewer or KindIO
}

// Path returns the directory of a task's checkpoints: <stateDir>/<job>/p<partition>.
func Path(fs vfs.FS, stateDir, job string, partition int32) string {
	return fs.PathJoin(stateDir, job, fmt.Sprintf("p%d", partition))
}

// OpenDir opens the directory of a task, making it and those above it when they are missing (mode 0700). It makes the
// names durable that lead to it, and removes what attempts left behind that did not end: nothing refers to them.
func OpenDir(fs vfs.FS, path string) (*Dir, error) {
	d := &Dir{fs: fs, path: path}
	if err := makeDir(fs, path); err != nil {
		return nil, d.ioError(path, "make the directory", err)
	}
	names, err := fs.List(path)
	if err != nil {
		return nil, d.ioError(path, "list the directory", err)
	}
	for _, name := range names {
		d.next = max(d.next, numberIn(name))
	}
	d.next++
	return d, d.sweep(names)
}

// makeDir makes a directory and syncs the directories that hold the new names. All above are synced in any case: an
// earlier run may have made them and died before it could (S35). Two levels up it must succeed; further up directories are
// mostly somebody else's, who may forbid it or whose file system cannot. When it fails what was made is unmade: a failed
// fsync may have lost the names for good, and only new ones can become durable (S32).
func makeDir(fs vfs.FS, path string) error {
	var made []string
	for p := path; !exists(fs, p) && fs.PathDir(p) != p; p = fs.PathDir(p) {
		made = append(made, p)
	}
	err := fs.MkdirAll(path, 0o700)
	for i, p := 0, path; err == nil && fs.PathDir(p) != p; i++ {
		p = fs.PathDir(p)
		if err = syncDir(fs, p); i >= max(2, len(made)) {
			err = nil
		}
	}
	if err != nil {
		for _, p := range made {
			_ = fs.Remove(p)
		}
	}
	return err
}

func exists(fs vfs.FS, path string) bool {
	_, err := fs.Stat(path)
	return err == nil
}

func syncDir(fs vfs.FS, path string) error {
	dir, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// sweep removes the temporary files among the names. One that is gone meanwhile was given up by its writer, which may outlive the
// recovery that began it (S53).
func (d *Dir) sweep(names []string) error {
	for _, name := range names {
		if !strings.HasSuffix(name, tmpSuffix) {
			continue
		}
		path := d.fs.PathJoin(d.path, name)
		if err := d.fs.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return d.ioError(path, "remove what an earlier attempt left", err)
		}
	}
	return nil
}

// List returns the checkpoints of the directory, newest first, with what their headers and trailers say. The entries
// are not read; Load and Verify do. Temporary files and those set aside are left out.
func (d *Dir) List() ([]Entry, error) { return List(d.fs, d.path) }

// List is Dir.List for readers that must not touch anything.
func List(fs vfs.FS, path string) ([]Entry, error) {
	names, err := fs.List(path)
	if err != nil {
		return nil, &Error{Kind: KindIO, Path: path, Err: fmt.Errorf("list the directory: %w", err)}
	}
	var all []Entry
	for _, name := range names {
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		e := Entry{Path: fs.PathJoin(path, name), Number: numberIn(name)}
		if e.Number == 0 || name != fileName(e.Number) {
			e.Number, e.Err = 0, &Error{Kind: KindDamaged, Path: e.Path, Err: errors.New("the name is not one that tidemark gives")}
		} else if e.Info, e.Err = ReadInfo(fs, e.Path); errors.Is(e.Err, os.ErrNotExist) {
			continue // deleted since: a publication may be under way
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), strings.Compare(a.Path, b.Path))
	})
	return all, nil
}

func fileName(number uint64) string { return fmt.Sprintf("%010d%s", number, suffix) }

// numberIn returns the number that a name begins with, 0 when there is none.
func numberIn(name string) uint64 {
	digits, _, _ := strings.Cut(name, ".")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > maxNumber {
		return 0
	}
	return n
}

// Create begins an attempt to write a checkpoint, in a temporary file with a new name. One is under way at a time.
func (d *Dir) Create(h *Header) (*Writer, error) {
	w, head, err := d.begin(h)
	if err != nil {
		return nil, err
	}
	if err := w.create(head); err != nil {
		return nil, err
	}
	return w, nil
}

// begin takes the next number and returns the Writer for it, with the bytes its file begins with.
func (d *Dir) begin(h *Header) (w *Writer, head []byte, err error) {
	if w, err = d.reserve(h); err != nil {
		return nil, nil, err
	}
	if head, err = h.append(nil); err != nil {
		err = &Error{Kind: KindCorrupt, Path: w.target, Err: fmt.Errorf("header cannot be written: %w", err)}
	} else {
		err = d.tidy()
	}
	if err != nil {
		w.finish(err)
		return nil, nil, err
	}
	return w, head, nil
}

// reserve makes an attempt the one under way. Nothing of the disk is asked meanwhile: an attempt that a slow disk holds up
// is refused company, and does not hold up whoever asks.
func (d *Dir) reserve(h *Header) (*Writer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &Writer{dir: d, begin: h.Begin, target: d.fs.PathJoin(d.path, fileName(d.next))}
	if d.writing != nil {
		return nil, d.ioError(w.target, "begin", fmt.Errorf("%s is still being written", d.writing.target))
	}
	if d.next > maxNumber {
		return nil, d.ioError(w.target, "begin", errors.New("numbers are used up: remove the file with the highest one"))
	}
	d.next++
	d.writing = w
	return w, nil
}

// tidy removes what earlier attempts left.
func (d *Dir) tidy() error {
	names, err := d.fs.List(d.path)
	if err != nil {
		return d.ioError(d.path, "list the directory", err)
	}
	if err := d.sweep(names); err != nil {
		return err
	}
	// A process that dies again and again after it published must not leave one more each time (I13).
	_, _ = d.removeOld("")
	return nil
}

// SetAside renames a checkpoint that cannot be used and returns its new name: its own, the reason in letters, digits
// and hyphens, and ".damaged". It is not looked at again (I6). Of those the ones with the three highest numbers are kept,
// older ones are deleted.
func (d *Dir) SetAside(path, reason string) (string, error) {
	words := strings.FieldsFunc(strings.ToLower(reason), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	reason = cmp.Or(strings.Join(words, "-"), "unusable")
	reason = reason[:min(len(reason), maxReason)]
	aside := path + "." + reason + damagedSuffix
	for n := 2; exists(d.fs, aside); n++ {
		aside = fmt.Sprintf("%s.%s-%d%s", path, reason, n, damagedSuffix)
	}
	err := d.fs.Rename(path, aside)
	if err == nil {
		err = syncDir(d.fs, d.path)
	}
	if err != nil {
		return "", d.ioError(path, "set it aside as "+d.fs.PathBase(aside), err)
	}
	return aside, d.removeAside(d.fs.PathBase(aside))
}

// removeAside deletes the oldest of what was set aside. What was set aside just now stays, whatever its number, and so
// does what is no file of ours.
func (d *Dir) removeAside(fresh string) (stay error) {
	names, err := d.fs.List(d.path)
	if err != nil {
		return d.ioError(d.path, "list the directory", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return name == fresh || !strings.HasSuffix(name, damagedSuffix) || !strings.Contains(name, suffix+".")
	})
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(numberIn(b), numberIn(a)), strings.Compare(a, b)) })
	for _, name := range names[min(len(names), keptAside-1):] {
		path := d.fs.PathJoin(d.path, name)
		if err := d.fs.Remove(path); err != nil {
			stay = errors.Join(stay, d.ioError(path, "remove what was set aside long ago", err))
		}
	}
	return stay
}

// removeOld deletes all checkpoints but two: the one just published, if any, and the newest others. What is damaged,
// misnamed or of a newer format counts for nothing and stays. It returns how many went, and why others could not be
// looked at or deleted.
func (d *Dir) removeOld(published string) (removed int, stay error) {
	all, err := d.List()
	if err != nil {
		return 0, err
	}
	keep := kept
	if published != "" {
		keep--
	}
	for _, e := range all {
		switch {
		case e.Path == published:
		case e.Err != nil:
			if KindOf(e.Err) == KindIO {
				stay = errors.Join(stay, e.Err)
			}
		case keep > 0:
			keep--
		default:
			if err := d.fs.Remove(e.Path); err != nil {
				stay = errors.Join(stay, d.ioError(e.Path, "remove an older checkpoint", err))
				continue
			}
			removed++
		}
	}
	return removed, stay
}

// ioError names what could not be done. A missing file is still os.ErrNotExist to errors.Is.
func (d *Dir) ioError(path, op string, err error) error {
	return &Error{Kind: KindIO, Path: path, Err: fmt.Errorf("%s: %w%s", op, err, hinted(path, err))}
}

// hinted is a hint as the end of a message.
func hinted(path string, err error) string {
	if hint := Hint(path, err); hint != "" {
		return ": " + hint
	}
	return ""
}
