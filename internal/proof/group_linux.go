package proof

import (
	"os"
	"syscall"
)

// ownGroup keeps signals of a terminal from a child, which only we end, and has it killed when we die. first makes it number 1
// of a process namespace of its own, for which one has to be root or to be allowed a user namespace too.
func ownGroup(first bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if !first {
		return a
	}
	a.Cloneflags = syscall.CLONE_NEWPID
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return a
}
