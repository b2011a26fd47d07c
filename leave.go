package tidemark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// Seat is a seat in the job's group.
//
//	type Seat struct {
//		ID       string
//		Instance string // static instance id, "" for none
//		Host     string // as the coordinator names it, for people
//	}
type Seat = kafka.GroupMember

// Leave gives up the seats that the process of this state directory has left in the group, which has ended: those of its
// instance id, and of the member id that it has written down. Without do it only tells them. It is used in place of Run.
func (a *App) Leave(ctx context.Context, do bool) (seats []Seat, err error) {
	lock, err := a.lockExisting()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	id, err := ownIdentity(a.options.StateDir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDirectory, err)
	}
	admin, err := a.options.Cluster.Admin()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	members, err := admin.Members(ctx, a.options.Job)
	if err != nil {
		return nil, err
	}
	for _, m := range members {
		if m.Instance != id.instance() && (id.Member == "" || m.ID != id.Member) {
			continue
		}
		seats = append(seats, m)
		if !do {
			continue
		}
		if err := admin.Remove(ctx, a.options.Job, m); err != nil {
			return seats, err
		}
		a.log.Info("left", "group", a.options.Job, "member", m.ID, "instance", m.Instance)
	}
	return seats, nil
}

// lockExisting locks the state directory, which must be there: no process has it then.
func (a *App) lockExisting() (*os.File, error) {
	if _, err := os.Stat(a.options.StateDir); err != nil {
		return nil, fmt.Errorf("%w: %w: a directory that no process ever used has no seat", ErrDirectory, err)
	}
	lock, err := lockDir(a.options.StateDir)
	if err != nil {
		return nil, unusable(a.options.StateDir, err)
	}
	return lock, nil
}

// ownIdentity reads the identity of a directory that is where it was when it was written.
func ownIdentity(path string) (identity, error) {
	id, err := readIdentity(path)
	if err != nil {
		return id, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return id, err
	}
	if inode := info.Sys().(*syscall.Stat_t).Ino; id.Inode != inode || id.Machine != machineID() {
		return id, fmt.Errorf("%s was copied or moved here (inode %d on machine %s, was %d on %s): a seat it names is that of the place it came from",
			path, inode, machineID(), id.Inode, id.Machine)
	}
	return id, nil
}
