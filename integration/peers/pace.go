package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// pacedRate is how many readings a second all tasks of a paced run get together: few, as from a plant, so that each commit
// has its own costs and little else.
const pacedRate = 20_000

// paces prints how long commits take when an instance has many tasks that all have a little to do.
func paces(b *bench, p plan) error {
	b.note("\n## Commits of many tasks in one process, %d readings/s in all, commit.interval 100 ms, %s\n", pacedRate, p.paced)
	b.note("| tasks | commits/s | p50 | p99 | CPU of tidemark | CPU of the broker | memory of tidemark |")
	b.note("|--:|--:|--:|--:|--:|--:|--:|")
	for _, tasks := range p.tasks {
		if err := b.pace(tasks, p.paced); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) pace(tasks int32, length time.Duration) error {
	input := b.name("paced")
	if err := b.topics(tasks, input); err != nil {
		return err
	}
	o, err := b.job(input, tasks, 30*time.Second)
	if err != nil {
		return err
	}
	b.progress("tidemark, %d tasks: %s", tasks, o.name)
	run, err := b.run(o)
	if err != nil {
		return err
	}
	defer func() { _ = run.kill() }() // it has ended where that matters
	stop, poured := make(chan struct{}), make(chan error, 1)
	go func() { poured <- b.pour(input, pacedRate, int(tasks)*100, stop) }()
	err = b.await(run, "all tasks at work", func() (bool, error) {
		s := b.status(o)
		if s == nil || len(s.Tasks) != int(tasks) {
			return false, nil
		}
		for _, t := range s.Tasks {
			if t.Commit == nil || t.Commit.Number < 5 {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	before, err := b.sample(o, run)
	if err != nil {
		return err
	}
	select {
	case <-time.After(length):
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
	after, err := b.sample(o, run)
	if err != nil {
		return err
	}
	seconds := after.at.Sub(before.at).Seconds()
	commits := difference(after.commits, before.commits)
	memory, err := memoryOf(run.command.Process.Pid)
	if err != nil {
		return err
	}
	b.note("| %d | %.0f | %s | %s | %.0f %% | %.0f %% | %d MB |", tasks, float64(commits.Count)/seconds, quantile(commits, 0.5), quantile(commits, 0.99),
		100*(after.own-before.own).Seconds()/seconds, 100*(after.broker-before.broker).Seconds()/seconds, memory>>20)
	close(stop)
	return <-poured
}

// sample is what a run has done up to a moment.
type sample struct {
	at          time.Time
	commits     status.Distribution
	own, broker time.Duration
}

func (b *bench) sample(o *ours, run *process) (s sample, err error) {
	now, _, err := tidemark.FetchStatus(b.ctx, o.state)
	if err != nil {
		return s, err
	}
	s.at, s.commits = time.Now(), now.Totals.CommitSeconds
	if s.own, err = cpuOf(run.command.Process.Pid); err == nil {
		s.broker, err = cpuOf(b.broker.PID())
	}
	return s, err
}

// difference is what came to a distribution.
func difference(after, before status.Distribution) status.Distribution {
	d := status.Distribution{Bounds: after.Bounds, AtMost: make([]int64, len(after.AtMost)), Count: after.Count - before.Count}
	for i := range d.AtMost {
		d.AtMost[i] = after.AtMost[i] - before.AtMost[i]
	}
	return d
}

// quantile names the bucket that a quantile is in.
func quantile(d status.Distribution, q float64) string {
	low := 0.0
	for i, bound := range d.Bounds {
		if float64(d.AtMost[i]) >= q*float64(d.Count) {
			return fmt.Sprintf("%.3g to %.3g ms", low*1000, bound*1000)
		}
		low = bound
	}
	return fmt.Sprintf("over %.3g ms", low*1000)
}

// memory prints what a process with many keys takes beside the bytes of its keys and values.
func memory(b *bench, p plan) error {
	if p.keys == 0 {
		return nil
	}
	const partitions = 4
	input := b.name("keys")
	if err := b.topics(partitions, input); err != nil {
		return err
	}
	b.progress("producing a reading of each of %d devices", p.keys)
	err := b.produce(input, p.keys, func(i int) (string, int64, float64) {
		return fmt.Sprintf("device-%08d", i), begin + int64(i)%3_600_000, float64(i%1000) / 10
	})
	if err != nil {
		return err
	}
	o, err := b.job(input, partitions, 30*time.Second)
	if err != nil {
		return err
	}
	b.progress("tidemark: %s", o.name)
	run, err := b.run(o)
	if err != nil {
		return err
	}
	defer func() { _ = run.kill() }() // what it held is measured by then
	var s *tidemark.Status
	err = b.await(run, "all keys", func() (bool, error) {
		s = b.status(o)
		at, end := committed(s, partitions)
		return at >= int64(p.keys) && at == end, nil
	})
	if err != nil {
		return err
	}
	resident, err := memoryOf(run.command.Process.Pid)
	if err != nil {
		return err
	}
	raw, entries, err := b.rawBytes(o.name + "-changelog")
	if err != nil {
		return err
	}
	took := time.Since(run.started)
	b.note("\n## Memory with %d open windows of as many keys\n", entries)
	b.note("keys and values %d MB (%.0f bytes an entry), store %d MB used and %d MB mapped (%.2fx), whole process %d MB (%.2fx); read and committed in %.1f s",
		raw>>20, float64(raw)/float64(entries), s.Memory.Used>>20, s.Memory.Mapped>>20, float64(s.Memory.Mapped)/float64(raw), resident>>20,
		float64(resident)/float64(raw), took.Seconds())
	return nil
}

// rawBytes are the bytes of all keys and values of a changelog in which no entry is written twice.
func (b *bench) rawBytes(changelog string) (raw, entries int64, err error) {
	err = b.read(changelog, func(r *kgo.Record) error {
		if isEntry(r.Key) {
			raw += int64(len(r.Key) + len(r.Value))
			entries++
		}
		return nil
	})
	return raw, entries, err
}

func isEntry(key []byte) bool {
	kind, ok := record.KindOf(key)
	return ok && kind == record.KindEntry
}
