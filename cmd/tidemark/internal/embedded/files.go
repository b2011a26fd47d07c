package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// poll is how often a file that another process writes or locks is looked at.
const poll = 10 * time.Millisecond

// fileLock is a lock on a file. The kernel lets go of it when the process ends, however it ends.
type fileLock struct{ file *os.File }

// tryLock takes the lock or returns nil when another process has it.
func tryLock(path string) (*fileLock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return &fileLock{file}, nil
	}
	file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// waitLock takes the lock as soon as it is free.
func waitLock(ctx context.Context, path string) (*fileLock, error) {
	for {
		if lock, err := tryLock(path); lock != nil || err != nil {
			return lock, err
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("wait for %s, which process %s holds: %w", path, read(path), err)
		}
	}
}

// sign writes this process's pid into the lock file, for people and for messages.
func (l *fileLock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func (l *fileLock) release() { l.file.Close() }

// pause waits for one poll.
func pause(ctx context.Context) error {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// read returns the one line of a small file, "" when there is none.
func read(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// write replaces a small file at once and for good, so that a reader sees the old line or the new one.
func write(path, line string) error {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.WriteString(line + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// clusterID returns the id that the broker of a directory has for good, and makes it at the first start.
func clusterID(dir string) (string, error) {
	path := filepath.Join(dir, "id")
	if id := read(path); id != "" {
		return id, nil
	}
	id := "embedded-" + rand.Text()
	return id, write(path, id)
}

// maxLog bounds the broker's log file; one older file is kept.
const maxLog = 1 << 20

// openLog opens the broker's log for appending and returns its present size.
func openLog(dir string) (*os.File, int64, error) {
	path := filepath.Join(dir, "log")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, 0, err
	case info.Size() > maxLog:
		if err := os.Rename(path, path+".old"); err != nil {
			return nil, 0, err
		}
		info = nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil || info == nil {
		return file, 0, err
	}
	return file, info.Size(), nil
}
