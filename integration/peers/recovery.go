package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// recoveries prints the time from SIGKILL, with a restart at once, to the first commit of new input of the task that is
// last. That of tidemark is read from the broker's append times in its changelog; that of a peer is when the
// committed offset of its last partition was seen to move beyond where it began, looked at every few milliseconds. Flink
// commits offsets with a checkpoint, and its results with them.
func recoveries(b *bench, p plan) error {
	const partitions = 4
	in, err := b.load(partitions, p)
	if err != nil {
		return err
	}
	b.note("\n## From SIGKILL to the first commit of the last of %d tasks, killed at 40 %% of %d readings\n", partitions, p.readings)
	b.note("| program | to running | to the first commit | recovered from |")
	b.note("|---|--:|--:|---|")
	for range p.rounds {
		for _, wipe := range []bool{false, true} {
			if err := b.recoverOurs(in, wipe); err != nil {
				return err
			}
		}
		for _, peer := range p.peers {
			for _, lost := range []bool{false, true} {
				if lost && !peer.lost {
					continue
				}
				if err := b.recoverPeer(peer, in, lost); err != nil {
					return fmt.Errorf("%s: %w", peer.name, err)
				}
			}
		}
	}
	return nil
}

// killAt is the part of the input after which a program is killed.
const killAt = 0.4

func (b *bench) recoverOurs(in *input, wipe bool) error {
	o, err := b.job(in.topic, in.partitions, 500*time.Millisecond)
	if err != nil {
		return err
	}
	b.progress("tidemark: %s", o.name)
	first, err := b.run(o)
	if err != nil {
		return err
	}
	err = b.await(first, "40 % of the input", func() (bool, error) {
		at, end := committed(b.status(o), int(in.partitions))
		return at >= int64(killAt*float64(end)) && at > 0, nil
	})
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := first.kill(); err != nil {
		return err
	}
	kind := "checkpoints every 0.5 s"
	if wipe {
		kind = "checkpoints deleted"
		if err := os.RemoveAll(filepath.Join(o.state, o.name)); err != nil {
			return err
		}
	}
	second, err := b.run(o)
	if err != nil {
		return err
	}
	var loaded, replayed int64
	err = b.await(second, "a first commit of each task", func() (bool, error) {
		s := b.status(o)
		if s == nil || len(s.Tasks) != int(in.partitions) {
			return false, nil
		}
		loaded, replayed = 0, 0
		for _, t := range s.Tasks {
			if t.Recovered == nil || t.Commit == nil || t.Commit.At == nil {
				return false, nil
			}
			loaded, replayed = loaded+t.Recovered.Loaded, replayed+t.Recovered.Replayed
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	last, err := b.firstCommits(o.name+"-changelog", in.partitions, killed)
	for waited := time.Now(); err != nil; { // a task's first commit may have closed windows only
		if time.Since(waited) > 20*time.Second {
			return err
		}
		last, err = b.firstCommits(o.name+"-changelog", in.partitions, killed)
	}
	b.note("| tidemark, %s | %.2f s | %.2f s | %d entries loaded, %d records replayed |", kind, lastRecovered(second.output()).Sub(killed).Seconds(),
		last.Sub(killed).Seconds(), loaded, replayed)
	return second.kill()
}

// lastRecovered reads in a log when the last task was recovered.
func lastRecovered(log string) (at time.Time) {
	for line := range strings.Lines(log) {
		var l struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "recovered" && l.Time.After(at) {
			at = l.Time
		}
	}
	return at
}

// firstCommits reads the changelog: for each partition the append time of the first commit after the newest fence record
// that moved the input position. It returns the last of them.
func (b *bench) firstCommits(topic string, partitions int32, killed time.Time) (last time.Time, err error) {
	type state struct {
		position record.InputPosition
		fenced   bool
		first    time.Time
	}
	states := make([]state, partitions)
	err = b.read(topic, func(r *kgo.Record) error {
		s := &states[r.Partition]
		switch kind, _ := record.KindOf(r.Key); kind {
		case record.KindFence:
			s.fenced, s.first = r.Timestamp.After(killed), time.Time{}
		case record.KindCommit:
			c, err := record.ParseCommit(r.Value)
			if err != nil {
				return err
			}
			if s.fenced && s.first.IsZero() && c.Position > s.position {
				s.first = r.Timestamp
			}
			s.position = c.Position
		}
		return nil
	})
	for p, s := range states {
		if s.first.IsZero() && err == nil {
			err = fmt.Errorf("%s/%d: no commit of new input after the kill", topic, p)
		}
		if s.first.After(last) {
			last = s.first
		}
	}
	return last, err
}

// read delivers every committed record of a topic up to its present high watermarks.
func (b *bench) read(topic string, each func(*kgo.Record) error) error {
	ends, err := b.admin.ListEndOffsets(b.ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.broker.Addr), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := client.PollFetches(b.ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		var failed error
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
			if failed == nil && !r.Attrs.IsControl() {
				failed = each(r)
			}
		})
		if failed != nil {
			return failed
		}
	}
	return nil
}

// recoverPeer measures a peer; lost is without what it had on disk.
func (b *bench) recoverPeer(p *peer, in *input, lost bool) error {
	a, err := b.application(p, in)
	if err != nil {
		return err
	}
	first, err := b.launch(a, nil)
	if err != nil {
		return err
	}
	mark := fmt.Sprintf("read %d\n", in.sent/100*int(killAt*100))
	err = b.await(first, "40 % of the input", func() (bool, error) { return strings.Contains(first.output(), mark), nil })
	if err != nil {
		return err
	}
	killed := time.Now()
	if err := first.kill(); err != nil {
		return err
	}
	from, more := a.recovers, []string(nil)
	switch {
	case lost:
		from, err = "local state deleted", os.RemoveAll(a.state)
	case a.resume != nil:
		more, err = a.resume(a)
	}
	if err != nil {
		return err
	}
	second, err := b.launch(a, more)
	if err != nil {
		return err
	}
	running, err := b.firstOffsets(a, second)
	if err != nil {
		return err
	}
	b.note("| %s | %.2f s | %.2f s | %s |", a.peer.name, running.Sub(killed).Seconds(), time.Since(killed).Seconds(), from)
	if a.updates {
		return second.kill()
	}
	if err := b.await(second, "the rest of the results", b.complete(a)); err != nil { // which proves that it was restored
		return err
	}
	return second.kill()
}

// complete tells whether the results of a job are: those of the last readings come with a checkpoint after that of their
// offsets.
func (b *bench) complete(a *application) func() (bool, error) {
	var since time.Time
	return func() (bool, error) {
		if since.IsZero() {
			read, err := b.readAll(a)
			if !read || err != nil {
				return false, err
			}
			since = time.Now()
		}
		err := b.verify(a.output, a.input, a.updates)
		if err != nil && time.Since(since) < time.Minute {
			return false, nil
		}
		return err == nil, err
	}
}

// firstOffsets waits until a restarted job has committed further input of each partition, and says when it was running.
func (b *bench) firstOffsets(a *application, run *process) (running time.Time, err error) {
	before, err := b.offsets(a)
	if err != nil {
		return running, err
	}
	return running, b.await(run, "a first commit of each partition", func() (bool, error) {
		if _, ok := run.line("running"); ok && running.IsZero() {
			running = time.Now()
		}
		now, err := b.offsets(a)
		for p := range a.input.partitions {
			from := run.from(p)
			if now[p] <= max(before[p], from) || a.resume != nil && from == 0 {
				return false, err
			}
		}
		return !running.IsZero(), err
	})
}

// from is the offset at which a job says that it began to read a partition, 0 while it does not say.
func (p *process) from(partition int32) int64 {
	text, _ := p.line(fmt.Sprintf("from %d ", partition))
	offset, _ := strconv.ParseInt(text, 10, 64) // "" is none
	return offset
}
