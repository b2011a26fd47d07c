package main

import "syscall"

// ownGroup puts a child of the demo into a process group of its own, and has it killed when the demo dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
