package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// The backlog of TestD15SixtyFourPartitionsInLittleMemory, and the container it is worked off in.
const (
	littleMemory   = 256 << 20
	littleReadings = 200_000
	littleKeys     = 30_000
	littleSize     = 1000 // bytes of a reading; a hundredth of it when packed
)

// TestD15SixtyFourPartitionsInLittleMemory gives one process of 64 partitions a backlog of readings of 1 kB, tightly packed, then
// takes its local state away and gives it another backlog, which it has to restore and to work off: all that in 256 MiB, at full
// speed, as in a container that is limited to so much. Nine tenths of it are never exceeded.
func TestD15SixtyFourPartitionsInLittleMemory(t *testing.T) {
	c := newCrewAt(t, broker.Addr, 1, 8*time.Minute, manyPartitions, func(_ int, job *proof.Job) {
		job.Checkpoint = 10 * time.Second
		job.Oracle.Aggregations = []oracle.Aggregation{{Name: "hourly", Size: time.Hour.Milliseconds(), Functions: []string{"count", "sum", "min", "max", "mean"}}}
	})
	job := c.jobs[0]
	program := job.Binary
	c.limits(job, littleMemory)
	for _, what := range []string{"a first backlog", "a restore and a second backlog"} {
		c.sendsPacked()
		c.must(os.RemoveAll(job.LocalState()))
		began := time.Now()
		i := c.start(job)
		peak := int64(0)
		c.await("the backlog to be worked off", func() bool {
			peak = max(peak, peakMemory(t, i.PID()))
			return i.stand().settled() && len(i.stand().owned) == manyPartitions && c.lag() == 0
		}, i)
		peak = max(peak, peakMemory(t, i.PID()))
		t.Logf("%s: %v, peak %d MiB", what, time.Since(began).Round(time.Millisecond), peak>>20)
		if peak > littleMemory/10*9 {
			t.Errorf("%s: the process took %d MiB at its peak, limit %d", what, peak>>20, littleMemory/10*9>>20)
		}
		c.must(i.Stop())
	}
	job.Binary = program
	c.prove(job)
}

// limits lets a job's processes have so much memory: by a control group where one can be made, else by telling them what they
// would find in one.
func (c *crew) limits(job *proof.Job, bytes int64) {
	c.t.Helper()
	name := fmt.Sprintf("tidemark-test-%d", time.Now().UnixNano())
	join := ""
	for dir, file := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		group := filepath.Join(dir, name)
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err != nil || os.Mkdir(group, 0o755) != nil {
			continue
		}
		c.t.Cleanup(func() { _ = os.Remove(group) })
		if os.WriteFile(filepath.Join(group, file), []byte(fmt.Sprint(bytes)), 0o600) == nil {
			join = "echo $$ > " + filepath.Join(group, "cgroup.procs") + "\n"
			break
		}
	}
	c.t.Logf("limited by %q", join)
	if join == "" {
		state := bytes / 10 * 6
		join = fmt.Sprintf("export GOMEMLIMIT=%d TIDEMARK_STATE_MAX_BYTES=%d\n", bytes/10*9-state, state)
	}
	script := filepath.Join(job.Dir, "limited")
	c.must(os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\n%sexec %s \"$@\"\n", join, job.Binary), 0o700))
	job.Binary = script
}

// lag is how far the group is behind the input.
func (c *crew) lag() int64 {
	c.t.Helper()
	lag, err := c.jobs[0].Lag(c.ctx, c.reader)
	c.must(err)
	return lag
}

// sendsPacked writes the backlog in as few batches as it can: each unpacks to several MiB, and none can be read in part.
func (c *crew) sendsPacked() {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.jobs[0].Brokers...), kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerLinger(5*time.Second), kgo.ProducerBatchMaxBytes(16<<20), kgo.MaxBufferedBytes(2<<30),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(littleReadings))
	c.must(err)
	defer cl.Close()
	pad := strings.Repeat("x", littleSize)
	var failed error
	for n := range littleReadings {
		key := fmt.Appendf(nil, "d%07d", n%littleKeys)
		value := fmt.Appendf(nil, `{"device":%q,"ts":%d,"value":%d,"pad":"%s"}`, key, 1704067200000+n%3_600_000, n, pad)
		r := &kgo.Record{Topic: c.jobs[0].Input(), Partition: oracle.PartitionOf("murmur2", key, c.partitions), Key: key, Value: value}
		cl.Produce(c.ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	c.must(cl.Flush(c.ctx))
	c.must(failed)
}
