package client

import "time"

// clock is the broker's, as far as a writer knows it: when the broker last appended a record of ours to a topic that
// takes its time, and what has passed since on the monotonic clock. Records for topics that take the producer's time bear
// it, so that on a machine whose clock is wrong results are neither refused as of another time nor deleted as old (W20,
// W25). The first record of a writer is its fence record, for a changelog, which takes the broker's time.
type clock struct {
	ms    int64
	heard time.Time // when; zero before
}

// hear takes down the broker's time, in ms.
func (c *clock) hear(ms int64) { c.ms, c.heard = ms, time.Now() }

// now is the broker's time in ms. Before anything was heard it is this machine's: the one place where a task asks for that.
func (c *clock) now() int64 {
	if c.heard.IsZero() {
		return time.Now().UnixMilli()
	}
	return c.ms + time.Since(c.heard).Milliseconds()
}
