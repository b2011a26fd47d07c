package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Hint says in a few words what it means that the file system refused something at a path, and what helps; "" when the error
// says it all. It looks at the disk: whose the directory is, and what the file system has left (D09, D19).
func Hint(path string, err error) string {
	dir, info := nearest(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return owner(dir, info)
	case errors.Is(err, syscall.EROFS):
		return fmt.Sprintf("%s is on a file system that is mounted read-only: mount a volume there", dir)
	case errors.Is(err, syscall.EDQUOT):
		return fmt.Sprintf("the quota of user %d on the file system of %s is used up: raise it, or remove files", os.Geteuid(), dir)
	case errors.Is(err, syscall.ENOSPC):
		var left unix.Statfs_t
		if unix.Statfs(dir, &left) == nil {
			return full(dir, uint64(left.Bsize)*left.Bavail, left.Files, left.Ffree)
		}
	}
	return ""
}

// nearest is the directory that a path is in, or the closest one above it that there is.
func nearest(path string) (dir string, info fs.FileInfo) {
	for dir = path; ; dir = filepath.Dir(dir) {
		var err error
		if info, err = os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir, info
		}
	}
}

// owner says who we are, and whose a directory is.
func owner(dir string, info fs.FileInfo) string {
	who := fmt.Sprintf("this process is user %d, group %d", os.Geteuid(), os.Getegid())
	stat, ok := (*syscall.Stat_t)(nil), false
	if info != nil {
		stat, ok = info.Sys().(*syscall.Stat_t)
	}
	if !ok {
		return who
	}
	return fmt.Sprintf("%s, and %s belongs to user %d, group %d with mode %04o: give it to this user (in Kubernetes by securityContext.fsGroup: %d)",
		who, dir, stat.Uid, stat.Gid, info.Mode().Perm(), os.Getegid())
}

// full tells used up bytes from used up inodes, which leave bytes free.
func full(dir string, bytes, files, freeFiles uint64) string {
	if files > 0 && freeFiles == 0 {
		return fmt.Sprintf("the file system of %s has no inodes left, of %d, and %d bytes: remove files (df -i)", dir, files, bytes)
	}
	return fmt.Sprintf("the file system of %s has %d bytes left: free some, or give it more", dir, bytes)
}
