package tidemark

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-streams/tidemark/internal/store"
)

// stateDir is the directory of one process: its identity, its lock, its checkpoints. While it is held no other process
// can hold it (S77); the lock is the kernel's, so a crash leaves nothing to clean up (S78).
type stateDir struct {
	path     string
	lock     *os.File
	identity identity
	// Instance is the static instance id for the group; "" where the directory is not known to outlive the process.
	instance string
}

// identity is what the file id holds. A directory that was copied has another inode than the one written down and gets
// a new uuid: two processes must never share an instance id (R22).
type identity struct {
	UUID    string `json:"uuid"`
	Machine string `json:"machine"`
	Inode   uint64 `json:"inode"`
	Member  string `json:"member,omitempty"` // member id of a dynamic member, evicted at the next start
}

const (
	idFile   = "id"
	lockFile = "lock"
)

// openStateDir makes or takes the state directory. What it decided about the identity is told in the notes.
func openStateDir(path string) (dir *stateDir, notes []string, err error) {
	err = os.MkdirAll(path, 0o700)
	if err == nil {
		err = writable(path)
	}
	if err != nil {
		return nil, nil, unusable(path, err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, nil, unusable(path, err)
	}
	dir = &stateDir{path: path, lock: lock}
	if notes, err = dir.identify(); err != nil {
		return nil, nil, errors.Join(unusable(path, err), lock.Close())
	}
	if note := volumeOf(path).note(dir.absolute()); note != "" {
		notes = append(notes, note)
	}
	return dir, notes, nil
}

// writable asks whether files can be made in a directory, which a start on a full disk must not do (S34): what was there at the
// last start is not made again, so that the first checkpoint would find out (D19).
func writable(path string) error {
	if err := unix.Access(path, unix.W_OK|unix.X_OK); err != nil {
		return &fs.PathError{Op: "make files in", Path: path, Err: err}
	}
	return nil
}

// unusable says that a directory cannot be used, and what one that can must be like.
func unusable(path string, err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		hint := store.Hint(at.Path, at.Err)
		switch {
		case hint != "":
			err = fmt.Errorf("%w: %s", err, hint)
		case !errors.Is(err, syscall.EIO):
			err = fmt.Errorf("%w: state.dir must be a directory in which this user may make files", err)
		}
	}
	return fmt.Errorf("%w %s: %w", ErrDirectory, path, err)
}

func lockDir(path string) (*os.File, error) {
	name := filepath.Join(path, lockFile)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = flock(f)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := os.ReadFile(name)
		line, _, _ := strings.Cut(string(holder), "\n")
		pid, host, _ := strings.Cut(strings.TrimSpace(line), " ")
		return nil, errors.Join(fmt.Errorf("it is in use by process %s on host %s: stop it, or give this one a state.dir of its own",
			pid, cmp.Or(strings.TrimSpace(host), "unknown")), f.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w: the file system must support flock", name, err), f.Close())
	}
	// The content is for people; the kernel's lock is what counts, for in containers everybody is process 1 (D08). It has one
	// length, so that a start on a full disk finds room for it where the last one wrote it (S34).
	if _, err := f.WriteAt(fmt.Appendf(nil, "%-10d %-64.64s\n", os.Getpid(), hostname()), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", name, err), f.Close())
	}
	return f, nil
}

// dying is how long a process that was killed may take to let go of its lock: the kernel frees its memory first, and a
// restart at once must not be refused for it.
const dying = time.Second

// flock takes the lock, or gives up on a living holder after a moment.
func flock(f *os.File) error {
	for begun := time.Now(); ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Since(begun) > dying {
			return err
		}
		wait(context.Background(), 10*time.Millisecond)
	}
}

func (d *stateDir) identify() (notes []string, err error) {
	info, err := os.Stat(d.path)
	if err != nil {
		return nil, err
	}
	now := identity{Machine: machineID(), Inode: info.Sys().(*syscall.Stat_t).Ino}
	old, err := readIdentity(d.path)
	madeNow := errors.Is(err, os.ErrNotExist)
	if err != nil && !madeNow {
		return nil, err
	}
	now.UUID, now.Member = old.UUID, old.Member
	switch {
	case madeNow:
		now.UUID = newUUID()
	case old.Machine != now.Machine || old.Inode != now.Inode:
		now.UUID, now.Member = newUUID(), ""
		notes = append(notes, fmt.Sprintf("state directory %s was copied or moved here: it gets the new id %s", d.path, now.UUID))
	}
	d.identity = now
	if !madeNow && !volumeOf(d.path).ephemeral {
		d.instance = now.instance()
	}
	if now == old {
		return notes, nil // a start on a full disk must not need room for what is there already (S34)
	}
	return notes, d.save()
}

// instance is the static instance id of a directory.
func (id *identity) instance() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", id.UUID, id.Machine, id.Inode))
	return "tidemark-" + hex.EncodeToString(sum[:12])
}

// readIdentity reads the file id of a directory; the error is os.ErrNotExist when there is none.
func readIdentity(path string) (id identity, err error) {
	name := filepath.Join(path, idFile)
	raw, err := os.ReadFile(name)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(raw, &id); err != nil {
		return id, fmt.Errorf("%s is damaged: %w: remove it to give the directory a new identity", name, err)
	}
	return id, nil
}

// setMember writes the member id down, so that the next start can evict it, a static member too: one that takes its seat back is
// given the old assignment without a rebalance, and partitions that were added meanwhile would be nobody's.
func (d *stateDir) setMember(id string) error {
	d.identity.Member = id
	return d.save()
}

func (d *stateDir) save() error {
	raw, err := json.Marshal(d.identity)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(d.path, idFile), append(raw, '\n'))
}

// writeFile replaces a small file of the state directory as a whole: whoever reads it finds the old content or the new,
// after a power failure too.
func writeFile(name string, content []byte) error {
	err := writeWhole(name+".tmp", content)
	if err == nil {
		err = os.Rename(name+".tmp", name)
	}
	if err == nil {
		err = syncDir(filepath.Dir(name))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(name+".tmp"))
	}
	return nil
}

func writeWhole(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// absolute is the path of the directory from the root on, for people.
func (d *stateDir) absolute() string {
	path, err := filepath.Abs(d.path)
	if err != nil {
		return d.path
	}
	return path
}

func (d *stateDir) close() error { return d.lock.Close() }

func machineID() string {
	for _, name := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if raw, err := os.ReadFile(name); err == nil {
			if id := strings.TrimSpace(string(raw)); id != "" {
				return id
			}
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it would end the program
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
