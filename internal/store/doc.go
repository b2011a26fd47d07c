// Package store holds a task's committed state and its checkpoint files.
//
// Memory is the default store: entries in arenas outside the Go heap, found through an open-addressing index per shard.
// It is a task.Base. It promises that an entry never leaves its shard, so that a scan which copies whole shards meets
// every entry exactly once while processing goes on (R14, V9), and that digest and live count follow every change, so
// that what a scan copied can be proved against them.
//
// A checkpoint file is one image of a Memory with the changelog position it stands for (section 6, R4). It is written
// by one path: temporary file, fsync, rename, fsync of the directory, and only then are older ones deleted. After a
// crash at any point the newest checkpoint or the one before it is complete, and any flipped bit, cut or appended byte
// is noticed before an entry is used. A checkpoint is never needed (I6): every failure here costs a replay, not data.
//
// DESIGN.md has the layout of the format byte by byte and the argument for each step.
package store
