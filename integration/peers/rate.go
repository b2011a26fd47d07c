package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// runLimit bounds one run.
const runLimit = 10 * time.Minute

// warmUps is how many runs of tidemark come before the rounds and do not count. The broker has just started, and what
// compiles its code would be charged to whoever runs first: its C2 threads took 5.6 s of the two cores in the first run,
// 1.9, 2.1 and 1.1 s in the next three, less than 1 s after that.
const warmUps = 4

// rates prints readings per second. The time of tidemark is from when the first of its tasks may read to the end of the
// process, with the last checkpoints. A peer has two: both from its first reading, one to its last, with what is read and
// not yet committed, one until all is committed, which is what tidemark's is. tidemark and Flink publish final results,
// Kafka Streams updates; the results of each run are read and counted.
func rates(b *bench, p plan) error {
	b.note("\n## Readings per second: %d readings, %d devices, windows of 1 h with 1 h of grace, everything on, exactly once\n", p.readings, p.devices)
	b.note("| partitions | round | program | to the last reading | tidemark's is | until all is committed | tidemark's is | CPU and memory, CPU of the broker |")
	b.note("|--:|--:|---|--:|--:|--:|--:|--:|")
	for _, partitions := range p.parts {
		in, err := b.load(partitions, p)
		if err != nil {
			return err
		}
		for i := range warmUps {
			b.progress("run %d of %d that do not count", i+1, warmUps)
			if _, _, err := b.rateOfOurs(in); err != nil {
				return err
			}
		}
		for round := range p.rounds {
			own, used, err := b.rateOfOurs(in)
			if err != nil {
				return err
			}
			b.note("| %d | %d | tidemark | | | %.0f k | | %s |", partitions, round+1, own/1000, used)
			for _, peer := range p.peers {
				if !peer.rate {
					continue
				}
				read, committed, used, err := b.rateOfPeer(peer, in)
				if err != nil {
					return fmt.Errorf("%s: %w", peer.name, err)
				}
				b.note("| %d | %d | %s | %.0f k | %.1fx | %.0f k | %.1fx | %s |", partitions, round+1, peer.name, read/1000, own/read,
					committed/1000, own/committed, used)
			}
		}
	}
	return nil
}

func (b *bench) rateOfOurs(in *input) (rate float64, used string, err error) {
	o, err := b.job(in.topic, in.partitions, 30*time.Second)
	if err != nil {
		return 0, "", err
	}
	b.progress("tidemark: %s", o.name)
	before, err := cpuOf(b.broker.PID())
	if err != nil {
		return 0, "", err
	}
	run, err := b.run(o, "--until-idle")
	if err != nil {
		return 0, "", err
	}
	if err := b.wait(run); err != nil {
		return 0, "", err
	}
	ended := time.Now()
	began, err := recovered(run.output())
	if err != nil {
		return 0, "", err
	}
	used, err = b.usedSince(run, before)
	if err != nil {
		return 0, "", err
	}
	return float64(in.sent) / ended.Sub(began).Seconds(), used, b.verify(o.name+"-hourly", in, false)
}

// recovered is when the first task of a run was ready for its input, by the log of the run.
func recovered(log string) (time.Time, error) {
	for text := range strings.Lines(log) {
		var line struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "recovered" {
			return line.Time, nil
		}
	}
	return time.Time{}, fmt.Errorf("no task was recovered; the run said:\n%s", tail(log))
}

func (b *bench) rateOfPeer(p *peer, in *input) (read, committed float64, used string, err error) {
	a, err := b.application(p, in)
	if err != nil {
		return 0, 0, "", err
	}
	before, err := cpuOf(b.broker.PID())
	if err != nil {
		return 0, 0, "", err
	}
	run, err := b.launch(a, []string{"once=yes"})
	if err != nil {
		return 0, 0, "", err
	}
	var text string
	err = b.await(run, "all readings", func() (ok bool, _ error) {
		text, ok = run.line("done ")
		return ok, nil
	})
	if err != nil {
		return 0, 0, "", err
	}
	last := time.Now()
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, 0, "", err
	}
	if err := b.finish(a, run); err != nil {
		return 0, 0, "", err
	}
	all := seconds + time.Since(last).Seconds()
	if err := run.kill(); err != nil {
		return 0, 0, "", err
	}
	used, err = b.usedSince(run, before)
	if err != nil {
		return 0, 0, "", err
	}
	return float64(in.sent) / seconds, float64(in.sent) / all, used, b.verify(a.output, in, p.updates)
}

// usedSince is what a run took that has ended, and the broker in that time.
func (b *bench) usedSince(run *process, before time.Duration) (string, error) {
	now, err := cpuOf(b.broker.PID())
	return fmt.Sprintf("%s, %.1f s", run.used(), (now - before).Seconds()), err
}

// finish waits until a job has committed all of its input: one without an end by its offsets.
func (b *bench) finish(a *application, run *process) error {
	if !a.updates {
		return b.wait(run)
	}
	return b.await(run, "a commit of all readings", func() (bool, error) { return b.readAll(a) })
}

// readAll tells whether the committed offsets of a job are at the end of its input.
func (b *bench) readAll(a *application) (bool, error) {
	offsets, err := b.offsets(a)
	var sum int64
	for _, at := range offsets {
		sum += at
	}
	return sum >= int64(a.input.sent), err
}
