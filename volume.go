package tidemark

import (
	"fmt"
	"syscall"
)

// volume is what a directory lies on, as far as it matters to a state directory.
type volume struct {
	name      string // "" for a disk of this machine, as far as is known
	ephemeral bool   // does not outlive a container or a boot
	network   bool   // is on another machine
}

// volumes are file systems that need a word, by the numbers of statfs(2).
var volumes = map[uint32]volume{
	0x01021994: {name: "tmpfs", ephemeral: true},
	0x858458f6: {name: "ramfs", ephemeral: true},
	0x794c7630: {name: "overlay", ephemeral: true},
	0x00006969: {name: "NFS", network: true},
	0xff534d42: {name: "CIFS", network: true},
	0xfe534d42: {name: "SMB", network: true},
	0x0000517b: {name: "SMB", network: true},
	0x01021997: {name: "9p", network: true},
	0x00c36400: {name: "Ceph", network: true},
	0x5346414f: {name: "AFS", network: true},
	0x0bd00bd0: {name: "Lustre", network: true},
	0x47504653: {name: "GPFS", network: true},
	0x65735546: {name: "FUSE", network: true}, // or something on this machine: statfs does not tell
}

// volumeOf looks a directory up. What cannot be looked at is not trusted to be there tomorrow.
func volumeOf(path string) volume {
	var found syscall.Statfs_t
	if err := syscall.Statfs(path, &found); err != nil {
		return volume{name: "a file system that does not tell its kind", ephemeral: true}
	}
	return volumes[uint32(found.Type)]
}

// note is what to tell about a state directory on such a volume; "" for nothing (D19).
func (v volume) note(path string) string {
	switch {
	case v.ephemeral:
		return fmt.Sprintf("state directory %s is on %s and does not outlive this container or boot: nothing is lost, but a start after that replays the whole changelog; mount a volume there", path, v.name)
	case v.network:
		return fmt.Sprintf("state directory %s is on %s, which may be a network file system: checkpoints are as slow as its server, and the lock may not keep processes of other machines out; a disk of this machine is better", path, v.name)
	}
	return ""
}
