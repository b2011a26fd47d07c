package kafka

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// smallDisk puts a file system of its own, of 4 MiB, under a job's state directory. fill takes all bytes that are free on it but
// for what is asked to be left, or all inodes; free gives it back.
func (c *crew) smallDisk(job *proof.Job, left int64) (fill, free func()) {
	c.t.Helper()
	c.must(os.MkdirAll(job.StateDir(), 0o700))
	if err := syscall.Mount("tidemark-test", job.StateDir(), "tmpfs", 0, "size=4194304,nr_inodes=200,mode=0700"); err != nil {
		c.t.Fatalf("mount a small file system, for which this test must be root: %v", err)
	}
	c.t.Cleanup(func() {
		if err := syscall.Unmount(job.StateDir(), syscall.MNT_DETACH); err != nil {
			c.t.Error(err)
		}
	})
	ballast := filepath.Join(job.StateDir(), "ballast")
	c.must(os.Mkdir(ballast, 0o700))
	fill = func() { c.fillBytes(ballast, left) }
	if left == allInodes {
		fill = func() { c.fillInodes(ballast) }
	}
	return fill, func() { c.must(os.RemoveAll(ballast)) }
}

// allInodes asks smallDisk for a file system on which nothing but inodes is used up.
const allInodes = -1

func (c *crew) fillBytes(ballast string, left int64) {
	c.t.Helper()
	var s syscall.Statfs_t
	c.must(syscall.Statfs(ballast, &s))
	file, err := os.OpenFile(filepath.Join(ballast, "bytes"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	c.must(err)
	defer file.Close()
	if _, err = file.Write(make([]byte, max(0, int64(s.Bavail)*s.Bsize-left))); !errors.Is(err, syscall.ENOSPC) {
		c.must(err)
	}
}

func (c *crew) fillInodes(ballast string) {
	c.t.Helper()
	for {
		file, err := os.CreateTemp(ballast, "inode-")
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		c.must(err)
		c.must(file.Close())
	}
}

// sums are the checkpoints of a job with the hashes of their contents.
func (c *crew) sums(job *proof.Job) map[string]string {
	c.t.Helper()
	sums := map[string]string{}
	for _, file := range c.checkpoints(job) {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // a newer one has replaced it since
		}
		c.must(err)
		sums[file] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	return sums
}

// TestS34FullDiskOnKafka fills the file system under the state directory of a running job, down to nothing, to a few bytes, and
// until no file can be made any more (D09): commits go on, the checkpoint that cannot be written is told with its path and why, and the ones that are there
// stay as they are. A restart on the full disk works from them; with room again everything is as it should be.
func TestS34FullDiskOnKafka(t *testing.T) {
	for name, left := range map[string]int64{"0 bytes left": 0, "8192 bytes left": 8192, "0 inodes left": allInodes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, 4*time.Minute, 2, nil)
			job := c.jobs[0]
			words := []string{"no space left on device", map[bool]string{true: "has no inodes left, of 200", false: "bytes left: free some"}[left == allInodes]}
			fill, free := c.smallDisk(job, left)
			finish := c.flow(71, 1000)
			i := c.start(job)
			c.whole(i)
			c.await("two checkpoints of each task", func() bool { return len(c.checkpoints(job)) == 4 }, i)
			c.fullyTold(i, fill, words)
			kept := c.sums(job)
			c.passes(0, i)
			c.passes(1, i)
			c.same(kept)
			c.must(i.Kill())
			i = c.start(job)
			c.whole(i)
			c.passes(0, i)
			c.toldInLog(i, words)
			c.same(kept)
			free()
			c.await("a new checkpoint of each task", func() bool {
				fresh := 0
				for file := range c.sums(job) {
					if _, old := kept[file]; !old {
						fresh++
					}
				}
				return fresh >= 2
			}, i)
			c.await("health to be green again", func() bool { return c.health() == "green" }, i)
			finish()
			c.must(i.Stop())
			c.prove(job)
		})
	}
}

// fullyTold fills the disk, again when something was deleted since, until the status and the log say that a checkpoint could not
// be written, where, and why.
func (c *crew) fullyTold(i *instance, fill func(), words []string) {
	c.t.Helper()
	c.await("the full disk to be told", func() bool {
		fill()
		said := c.waits()
		return c.health() == "red" && strings.Contains(said, "the last checkpoint was not written") &&
			strings.Contains(said, i.job.LocalState()) && holds([]byte(said), words)
	}, i)
	c.toldInLog(i, words)
}

// toldInLog waits until the log says it: what the status says has no place to be asked for when a start found the disk full.
func (c *crew) toldInLog(i *instance, words []string) {
	c.t.Helper()
	c.await("the log to name the full disk", func() bool {
		text, err := i.Log()
		c.must(err)
		return holds(text, words)
	}, i)
}

func holds(text []byte, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !bytes.Contains(text, []byte(word)) })
}

// same holds that checkpoints are still there, bit for bit.
func (c *crew) same(kept map[string]string) {
	c.t.Helper()
	now := c.sums(c.jobs[0])
	for file, sum := range kept {
		if now[file] != sum {
			c.t.Errorf("%s was %s and is %q", file, sum, now[file])
		}
	}
}
