package proof

import "syscall"

// ownGroup keeps signals of a terminal from a child, which only we end, and has it killed when we die.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
