package kafka

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
)

// smallDisk puts a file system of its own under a job's state directory. fill takes all that is free on it, but for what is
// asked to be left; free gives it back.
func (c *crew) smallDisk(job *proof.Job, bytes int64) (fill func(left int64), free func()) {
	c.t.Helper()
	c.must(os.MkdirAll(job.StateDir(), 0o700))
	if err := syscall.Mount("tidemark-test", job.StateDir(), "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes)); err != nil {
		c.t.Fatalf("mount a small file system, for which this test must be root: %v", err)
	}
	c.t.Cleanup(func() {
		if err := syscall.Unmount(job.StateDir(), syscall.MNT_DETACH); err != nil {
			c.t.Error(err)
		}
	})
	ballast := filepath.Join(job.StateDir(), "ballast")
	return func(left int64) {
		var s syscall.Statfs_t
		c.must(syscall.Statfs(job.StateDir(), &s))
		file, err := os.OpenFile(ballast, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		c.must(err)
		defer file.Close()
		_, err = file.Write(make([]byte, max(0, int64(s.Bavail)*s.Bsize-left)))
		if !errors.Is(err, syscall.ENOSPC) {
			c.must(err)
		}
	}, func() { c.must(os.Remove(ballast)) }
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

// TestS34FullDiskOnKafka fills the file system under the state directory of a running job, down to nothing and to a few
// bytes: commits go on, the checkpoint that cannot be written is told with its path and why, and the ones that are there
// stay as they are. A restart on the full disk works from them; with room again everything is as it should be.
func TestS34FullDiskOnKafka(t *testing.T) {
	for _, left := range []int64{0, 8192} {
		t.Run(fmt.Sprintf("%d bytes left", left), func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, 4*time.Minute, 2, nil)
			job := c.jobs[0]
			fill, free := c.smallDisk(job, 4<<20)
			finish := c.flow(71, 1000)
			i := c.start(job)
			c.whole(i)
			c.await("two checkpoints of each task", func() bool { return len(c.checkpoints(job)) == 4 }, i)
			fill(left)
			c.fullyTold(i)
			kept := c.sums(job)
			c.passes(0, i)
			c.passes(1, i)
			c.same(kept)
			c.must(i.Kill())
			i = c.start(job)
			c.whole(i)
			c.passes(0, i)
			c.toldInLog(i)
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

// fullyTold waits until the status and the log say that a checkpoint could not be written, where, and why.
func (c *crew) fullyTold(i *instance) {
	c.t.Helper()
	c.await("the full disk to be told", func() bool {
		said := c.waits()
		return c.health() == "red" && strings.Contains(said, "the last checkpoint was not written") &&
			strings.Contains(said, i.job.LocalState()) && strings.Contains(said, "no space left on device")
	}, i)
	c.toldInLog(i)
}

// toldInLog waits until the log says it: what the status says has no place to be asked for when a start found the disk full.
func (c *crew) toldInLog(i *instance) {
	c.t.Helper()
	c.await("the log to name the full disk", func() bool {
		text, err := i.Log()
		c.must(err)
		return bytes.Contains(text, []byte("no space left on device"))
	}, i)
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
