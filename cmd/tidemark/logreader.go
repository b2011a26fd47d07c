package main

import (
	"context"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

const (
	fetchBytes = 4 << 20                // of one fetch
	fetchWait  = 500 * time.Millisecond // for something to come
	fetchStuck = 5 * time.Second        // without a step: say what is waited for
)

// endless is an end that no log reaches.
const endless = int64(1) << 62

// logReader reads one partition for a command that must not fence anybody.
type logReader struct {
	env       *env
	topic     string
	partition int32
	log       kafka.Log
	take      func([]kafka.Record) error
}

// read hands on what lies between two positions. The end is a position, reached past markers, aborted records and
// holes, and never an empty fetch (I5); it is told when an open transaction holds it back.
func (l *logReader) read(ctx context.Context, from, end int64) error {
	moved := time.Now()
	for position := from; position < end; {
		fetched, err := l.log.Fetch(ctx, position, fetchBytes, fetchWait)
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case err != nil:
			return err
		}
		records := fetched.Records
		for len(records) > 0 && records[len(records)-1].Offset >= end {
			records = records[:len(records)-1]
		}
		if len(records) > 0 {
			if err := l.take(records); err != nil {
				return err
			}
		}
		if now := time.Now(); fetched.Next > position {
			moved = now
		} else if fetched.Stable < min(end, fetched.HighWatermark) && now.Sub(moved) > fetchStuck {
			l.env.say("waiting at %s/%d offset %d: an open transaction holds back what follows, until its owner or the broker ends it",
				l.topic, l.partition, fetched.Stable)
			moved = now
		}
		position = fetched.Next
	}
	return nil
}
