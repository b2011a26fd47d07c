//go:build !linux

package proof

import "syscall"

// ownGroup keeps signals of a terminal from a child, which only we end.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
