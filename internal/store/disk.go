package store

import "github.com/cockroachdb/pebble/v2/vfs"

// FS is the file system that checkpoints are written to: the seam through which crash and fault tests come in.
type FS = vfs.FS

// Disk is the real one.
var Disk FS = vfs.Default
