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

// rates prints readings per second. The time of tidemark is from when the first of its tasks may read to the end of the
// process, with the last checkpoints; that of Kafka Streams is from its first to its last reading. tidemark publishes final
// results, Kafka Streams updates. A run of tidemark that does not count comes before the rounds: the broker has just
// started, and what compiles its code would be charged to whoever runs first.
func rates(b *bench, p plan) error {
	b.note("\n## Readings per second: %d readings, %d devices, windows of 1 h with 1 h of grace, everything on, exactly once\n", p.readings, p.devices)
	b.note("| partitions | round | tidemark | Kafka Streams, %s | ratio | Kafka Streams, %s | ratio |", "local store", "memory store")
	b.note("|--:|--:|--:|--:|--:|--:|--:|")
	for _, partitions := range p.parts {
		input, err := b.load(partitions, p.readings, p.devices)
		if err != nil {
			return err
		}
		b.progress("a first run that does not count")
		if _, _, err := b.rateOfOurs(input, partitions, p.readings); err != nil {
			return err
		}
		for round := range p.rounds {
			row := fmt.Sprintf("| %d | %d ", partitions, round+1)
			own, used, err := b.rateOfOurs(input, partitions, p.readings)
			if err != nil {
				return err
			}
			row += fmt.Sprintf("| %.0f k (%s) ", own/1000, used)
			for _, kind := range []string{"local", "memory"} {
				rate, used, err := b.rateOfStreams(kind, input, partitions, p.readings)
				if err != nil {
					return err
				}
				row += fmt.Sprintf("| %.0f k (%s) | %.1f ", rate/1000, used, own/rate)
			}
			b.note("%s|", row)
		}
	}
	return nil
}

func (b *bench) rateOfOurs(input string, partitions int32, readings int) (rate float64, used string, err error) {
	o, err := b.job(input, partitions, 30*time.Second)
	if err != nil {
		return 0, "", err
	}
	b.progress("tidemark: %s", o.name)
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
	took := ended.Sub(began)
	return float64(readings) / took.Seconds(), run.used(), nil
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

func (b *bench) rateOfStreams(kind, input string, partitions int32, readings int) (rate float64, used string, err error) {
	s, err := b.application(kind, input, partitions, readings)
	if err != nil {
		return 0, "", err
	}
	b.progress("Kafka Streams, %s: %s", kind, s.name)
	run, err := b.stream(s)
	if err != nil {
		return 0, "", err
	}
	var seconds string
	err = b.await(run, "all readings", func() (ok bool, _ error) {
		seconds, ok = run.line("done ")
		return ok, nil
	})
	if err != nil {
		return 0, "", err
	}
	if err := run.kill(); err != nil {
		return 0, "", err
	}
	took, err := strconv.ParseFloat(seconds, 64)
	return float64(readings) / took, run.used(), err
}
