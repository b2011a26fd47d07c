package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// produceAgain writes dead letters into the input again. The headers that the job has added go with them: they say how
// often a record has come back, and which of its readings count (C15).
func (e *env) produceAgain(ctx context.Context, o produceOptions) error {
	connection, admin, release, err := e.open(ctx, o.config)
	if err != nil {
		return err
	}
	defer release()
	defined := connection.job
	dead, err := connection.topic(ctx, admin, defined.DeadLetter, false)
	if err != nil {
		return err
	}
	if o.topic == "" {
		o.topic = defined.Input.Topic
	}
	if o.topic == dead.Name {
		return usage(fmt.Errorf("--topic %s is where the dead letters are", o.topic))
	}
	input, err := connection.topic(ctx, admin, o.topic, true)
	if err != nil {
		return err
	}
	p := &producing{topic: o.topic, partitions: input.Partitions, rate: o.rate, begun: time.Now()}
	if p.to, err = connection.Producer(o.topic, produceBatch); err != nil {
		return err
	}
	defer p.to.Close()
	a := &resending{producing: p, reason: o.reason, partitioner: defined.Input.Partitioner,
		keyed: !defined.Input.Rekey.On && defined.Input.Partitioner != job.Unchecked}
	p.bar = e.progress("produce", -1)
	failure := a.all(ctx, connection, logReader{env: e, topic: dead.Name, admin: admin}, dead.Partitions)
	p.bar.close()
	if a.cut > 0 {
		e.say("dead letters left out, for only a part of them is there: %d", a.cut)
	}
	return p.report(e, failure)
}

// resending is produce --from-dead-letters at work.
type resending struct {
	*producing
	reason      string
	partitioner job.Partitioner
	keyed       bool // the key says the partition
	cut         int64
}

// all sends what is below the high watermarks of this moment.
func (a *resending) all(ctx context.Context, c *connection, from logReader, partitions int32) error {
	for from.partition = range partitions {
		log, err := c.Log(from.topic, from.partition)
		if err != nil {
			return err
		}
		from.log, from.take = log, func(records []kafka.Record) error { return a.take(ctx, records) }
		bounds, err := log.Offsets(ctx)
		if err == nil {
			err = from.read(ctx, bounds.Start, bounds.HighWatermark)
		}
		log.Close()
		if err != nil {
			return err
		}
	}
	return a.to.Flush(context.WithoutCancel(ctx))
}

func (a *resending) take(ctx context.Context, records []kafka.Record) error {
	for i := range records {
		r := &records[i]
		switch {
		case a.reason != "" && string(record.HeaderOf(r.Headers, job.HeaderReason)) != a.reason:
			continue
		case record.HeaderOf(r.Headers, job.HeaderTruncated) != nil:
			a.cut++
			continue
		}
		if err := a.await(ctx); err != nil {
			return err
		}
		a.sent++
		if err := a.to.Send(a.partition(r), r.Key, bytes.Clone(r.Value), r.Headers...); err != nil {
			return err
		}
	}
	a.bar.set(a.sent, "%d dead letters sent again", a.sent)
	return nil
}

// partition is where a record belongs: by its key, else where it came from.
func (a *resending) partition(r *kafka.Record) int32 {
	if a.keyed && r.Key != nil {
		return a.partitioner.Partition(r.Key, a.partitions)
	}
	came, err := strconv.ParseInt(string(record.HeaderOf(r.Headers, job.HeaderPartition)), 10, 32)
	if err != nil || came < 0 {
		return 0
	}
	return int32(came) % a.partitions
}
