package main

import (
	"context"
	"fmt"
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
	admin     kafka.Admin // asked for who holds back what is waited for
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
			l.env.say("waiting at %s/%d offset %d: %s holds back what follows, until its owner or the broker ends it",
				l.topic, l.partition, fetched.Stable, l.holder(ctx))
			moved = now
		}
		position = fetched.Next
	}
	return nil
}

// holder names the transaction that holds the last stable offset.
func (l *logReader) holder(ctx context.Context) string {
	open, err := l.admin.OpenTransactions(ctx, l.topic, l.partition)
	switch {
	case err != nil:
		return fmt.Sprintf("an open transaction (%v)", err)
	case len(open) == 0:
		return "a transaction that is just ending"
	}
	return fmt.Sprintf("the transaction of producer id %d, epoch %d, open since offset %d,", open[0].ID, open[0].Epoch, open[0].Start)
}
