package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// The restore of TestS71ManyPartitionsInLittleMemory: 64 partitions, four of which have a long changelog that no cleaner has
// seen, in a process that may take so much memory and open so many files.
const (
	manyPartitions = 64
	manyKeys       = 200_000 // of all partitions, each written once
	manyLong       = 4       // partitions ...
	manyLongKeys   = 2_500   // ... with so many keys each ...
	manyTimes      = 100     // ... that are written again and again
	manyHeap       = "64MiB" // GOMEMLIMIT: the state is not in the heap
	manyMemory     = 150     // MiB at the peak, all of the process
	manyFiles      = 1024    // ulimit -n
)

// TestS71ManyPartitionsInLittleMemory restores 64 partitions from nothing in one process that is limited: what a replay has
// in memory is bounded, however long a changelog is and however tightly it is packed, and so is the number of open files
// (I13, S71).
func TestS71ManyPartitionsInLittleMemory(t *testing.T) {
	c := newCrewAt(t, broker.Addr, 1, 8*time.Minute, manyPartitions, func(_ int, job *proof.Job) {
		job.Checkpoint, job.MaxRecords = 10*time.Second, 1000 // so that each round is written, and not folded into one commit
		job.Oracle.Aggregations = []oracle.Aggregation{{Name: "hourly", Size: time.Hour.Milliseconds(), Functions: []string{"count", "sum", "min", "max", "mean"}}}
	})
	job := c.jobs[0]
	began := time.Now()
	c.sendsMany()
	t.Logf("produced and folded in %v", time.Since(began).Round(time.Millisecond))
	c.must(os.RemoveAll(job.LocalState()))

	program := job.Binary
	job.Binary = filepath.Join(job.Dir, "limited")
	c.must(os.WriteFile(job.Binary, fmt.Appendf(nil, "#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", manyFiles, program), 0o700))
	began = time.Now()
	i := c.start(job, "GOMEMLIMIT="+manyHeap)
	files := 0
	c.await("every partition to be at work", func() bool {
		files = max(files, openFiles(t, i.PID()))
		return i.stand().settled() && len(i.stand().owned) == manyPartitions
	}, i)
	took := time.Since(began)
	records, bytes, longest := int64(0), int64(0), int64(0)
	for _, l := range i.log() {
		if l.Report == nil {
			continue
		}
		records, bytes, longest = records+l.Report.Records, bytes+l.Report.Bytes, max(longest, l.Report.Records)
		if l.Report.From != "full replay" {
			t.Errorf("partition %d was recovered from %q", l.Report.Partition, l.Report.From)
		}
	}
	peak := peakMemory(t, i.PID())
	t.Logf("%d partitions restored in %v: %d records, %d in the longest, %d MiB on the wire; peak %d MiB, %d open files", manyPartitions,
		took.Round(time.Millisecond), records, longest, bytes>>20, peak>>20, files)
	if longest < manyLongKeys*manyTimes/2 {
		t.Errorf("the longest replay took %d records: it was to be much longer than the state", longest)
	}
	if peak > manyMemory<<20 {
		t.Errorf("the process took %d MiB at its peak, limit %d", peak>>20, manyMemory)
	}
	if files > manyFiles*3/4 {
		t.Errorf("%d files were open, limit %d", files, manyFiles)
	}
	c.must(i.Stop())
	job.Binary = program
	c.must(job.RunUntilIdle(c.ctx, "again"))
	c.says(0, "changelog", "verify")
}

// sendsMany gives every partition its keys, and a few of them theirs many times, and folds them.
func (c *crew) sendsMany() {
	c.t.Helper()
	job := c.jobs[0]
	_, err := job.Produce(c.ctx, proof.Lines(dueLines(manyKeys)))
	c.must(err)
	var again [][]byte
	of := make([]int, manyLong)
	for d, line := range dueLines(manyKeys) {
		p := oracle.PartitionOf("murmur2", fmt.Appendf(nil, "d%07d", d), manyPartitions)
		if p < manyLong && of[p] < manyLongKeys {
			of[p]++
			again = append(again, line)
		}
	}
	for range manyTimes {
		_, err := job.Produce(c.ctx, proof.Lines(again))
		c.must(err)
	}
	c.must(job.RunUntilIdle(c.ctx, "fill"))
}

// peakMemory is the most that a process has had in memory, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			must(t, err)
			return kib << 10
		}
	}
	t.Fatal("the system does not tell the peak of a process's memory")
	return 0
}

// openFiles is how many files and connections a process has open.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must(t, err)
	return len(names)
}
