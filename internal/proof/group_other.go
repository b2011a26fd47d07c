//go:build !linux

package proof

import "syscall"

// ownGroup keeps signals of a terminal from a child, which only we end. There are no process namespaces to be first in.
func ownGroup(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
