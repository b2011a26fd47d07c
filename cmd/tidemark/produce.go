package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
	"github.com/tidemark-streams/tidemark/reading"
)

// produceOptions are what the command line says.
type produceOptions struct {
	config string
	topic  string
	rate   int
	csv    bool
	path   string

	fromDead bool   // the source is the dead letter topic
	reason   string // of dead letters; "" for all
}

func (e *env) produceCommand() *cobra.Command {
	var o produceOptions
	cmd := &cobra.Command{
		Use:   "produce -c FILE [flags] SOURCE|-",
		Short: "Write JSON lines or CSV into the job's input topic",
		Long: `Write JSON lines or CSV into the job's input topic, for trying out and for tests.

Each line's own bytes are a record's value; empty lines are left out. The record key is made of the fields
input.partitioned_by: the text of one field, or a compact JSON array of strings for several, numbers as they are
written. input.partitioner gives the partition. A line without a usable key is sent without one, to partition 0, where
the job dead-letters it.

SOURCE is a file of JSON lines, or CSV with a header when it ends in .csv or --csv is given; - is standard input. A file
that ends in .gz is unpacked. A row of CSV becomes an object: a cell that is a JSON number becomes that number, an empty
one null, any other a string.

With --from-dead-letters there is no SOURCE: what the job's dead letter topic holds now is written into the input again, each
record with its own key, value and headers, to the partition that its key has, or without a key to the one it came from.
Those that were cut to fit are left out and counted. Nothing remembers what was sent: a second time sends it all again, and
only what was refused is no harm then.

The exit code is 0 only if every line was sent and acknowledged by all replicas in sync.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.fromDead {
				return arguments()(cmd, args)
			}
			return arguments("SOURCE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.rate < 0:
				return usage(fmt.Errorf("--rate is %d, it must not be negative", o.rate))
			case o.reason != "" && (!o.fromDead || !slices.Contains(job.Reasons(), job.Reason(o.reason))):
				return usage(fmt.Errorf("--reason %s: want --from-dead-letters with one of %v", o.reason, job.Reasons()))
			case o.fromDead:
				return e.produceAgain(cmd.Context(), o)
			}
			o.path = args[0]
			return e.produce(cmd.Context(), o)
		},
	}
	configFlag(cmd, &o.config)
	cmd.Flags().StringVar(&o.topic, "topic", "", "another topic than the job's input")
	cmd.Flags().IntVar(&o.rate, "rate", 0, "lines per second at most; 0: as fast as possible")
	cmd.Flags().BoolVar(&o.fromDead, "from-dead-letters", false, "the source is the job's dead letter topic")
	cmd.Flags().StringVar(&o.reason, "reason", "", "only dead letters with this reason")
	cmd.Flags().BoolVar(&o.csv, "csv", false, "the source is CSV whatever its name")
	return cmd
}

func (e *env) produce(ctx context.Context, o produceOptions) (err error) {
	defined, err := e.load(o.config)
	if err != nil {
		return err
	}
	file, err := openSource(o.path, e.in)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	var lines source = &lineReader{from: file}
	if name := strings.TrimSuffix(o.path, ".gz"); o.csv || strings.HasSuffix(name, ".csv") {
		if lines, err = newCSVReader(file); err != nil {
			return fmt.Errorf("%s: %w", o.path, err)
		}
	}
	connection, err := e.connect(ctx, defined)
	if err != nil {
		return err
	}
	defer connection.close()
	if o.topic == "" {
		o.topic = defined.Input.Topic
	}
	p, err := e.newProducing(ctx, connection, o)
	if err != nil {
		return err
	}
	defer p.to.Close()
	p.bar = e.progress("produce", file.size)
	p.read = file.read
	err = p.all(ctx, lines)
	p.bar.close()
	return p.report(e, err)
}

// newProducing finds the topic and what it takes.
func (e *env) newProducing(ctx context.Context, c *connection, o produceOptions) (*producing, error) {
	admin, err := c.reach(ctx, e)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	topic, err := c.topic(ctx, admin, o.topic, true)
	if err != nil {
		return nil, err
	}
	p := &producing{topic: o.topic, partitions: topic.Partitions, most: produceBatch, rate: o.rate, begun: time.Now()}
	if n, err := strconv.Atoi(topic.Configs["max.message.bytes"]); err == nil && n > 0 {
		p.most = min(p.most, n)
	}
	if p.keys, err = newKeyMaker(&c.job.Input); err != nil {
		return nil, err
	}
	p.to, err = c.Producer(o.topic, p.most)
	return p, err
}

// produceBatch bounds a batch, and with it a record, where the topic allows more: a little below Kafka's default.
const produceBatch = 1_000_000

// recordOverhead is what a record of its own costs in a batch beside key and value, at most.
const recordOverhead = 100

// producing is one produce command at work.
type producing struct {
	topic      string
	partitions int32
	most       int // bytes of one batch
	rate       int
	to         *client.Producer
	keys       *keyMaker
	bar        *progress
	read       func() int64 // bytes of the source so far
	begun      time.Time

	sent    int64
	empty   int64
	keyless exceptions
	refused exceptions
}

// exceptions count lines that were treated otherwise, and keep the first.
type exceptions struct {
	count  int64
	line   int64
	reason string
}

func (x *exceptions) add(line int64, reason string) {
	if x.count == 0 {
		x.line, x.reason = line, reason
	}
	x.count++
}

var errInterrupted = errors.New("interrupted")

// all sends every line and waits for the acknowledgements. An error says why not all were sent or acknowledged.
func (p *producing) all(ctx context.Context, from source) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	batches := pump(reading, from)
	var failure error
	for end := error(nil); end == nil && failure == nil; {
		select {
		case <-ctx.Done():
			failure = errInterrupted
		case b := <-batches:
			for i := range b.lines {
				if failure = p.send(ctx, &b.lines[i]); failure != nil {
					break
				}
			}
			if end = b.end; end != nil && !errors.Is(end, io.EOF) && failure == nil {
				failure = fmt.Errorf("read: %w", end)
			}
			p.bar.set(p.read(), "%d records sent, %d acknowledged", p.sent, p.to.Acked())
		}
	}
	return errors.Join(failure, p.to.Flush(context.WithoutCancel(ctx)))
}

// send sends one line, not before its time.
func (p *producing) send(ctx context.Context, l *line) error {
	switch {
	case l.bad != nil:
		p.refused.add(l.number, l.bad.Error())
		return nil
	case len(l.value) == 0:
		p.empty++
		return nil
	}
	key, reason := p.keys.of(l.value)
	if size := len(key) + len(l.value) + recordOverhead; size > p.most {
		p.refused.add(l.number, fmt.Sprintf("%d bytes, the topic takes %d", size, p.most))
		return nil
	}
	partition := int32(0)
	if key == nil {
		p.keyless.add(l.number, reason)
	} else {
		partition = p.keys.partitioner.Partition(key, p.partitions)
	}
	if err := p.await(ctx); err != nil {
		return err
	}
	p.sent++
	return p.to.Send(partition, key, l.value)
}

// await holds the rate. Waits shorter than a timer's worth are saved up.
func (p *producing) await(ctx context.Context) error {
	if p.rate == 0 {
		return nil
	}
	due := p.begun.Add(time.Duration(float64(p.sent) / float64(p.rate) * float64(time.Second)))
	early := time.Until(due)
	if early < time.Millisecond {
		return nil
	}
	if !wait(ctx, early) {
		return errInterrupted
	}
	return nil
}

// report says what was done. Lines that were not sent are a failure.
func (p *producing) report(e *env, failure error) error {
	took := time.Since(p.begun)
	e.say("produced %d records to topic %s in %s (%.0f/s)", p.to.Acked(), p.topic, took.Round(time.Millisecond),
		float64(p.to.Acked())/took.Seconds())
	if p.empty > 0 {
		e.say("empty lines left out: %d", p.empty)
	}
	if x := p.keyless; x.count > 0 {
		e.say("records without a usable key, sent to partition 0 where the job dead-letters them: %d; the first is line %d: %s",
			x.count, x.line, x.reason)
	}
	if x := p.refused; x.count > 0 {
		failure = errors.Join(failure, fmt.Errorf("lines not sent: %d; the first is line %d: %s", x.count, x.line, x.reason))
	}
	if failure != nil && p.to.Acked() != p.sent {
		failure = fmt.Errorf("%w: of %d records sent %d are acknowledged", failure, p.sent, p.to.Acked())
	}
	return failure
}

// keyMaker makes record keys as the job wants them.
type keyMaker struct {
	reader      *reading.Reader
	record      reading.Record
	partitioner job.Partitioner
}

func newKeyMaker(input *config.Input) (*keyMaker, error) {
	format := input.Format
	format.Key, format.Parts = input.PartitionedBy, nil
	for i, part := range input.Format.Parts {
		name := input.Format.Key[i]
		switch {
		case !slices.Contains(format.Key, name):
		case part.From == reading.FromKey || part.From == reading.FromHeader:
			return nil, fmt.Errorf("key field %s comes from the record's key or a header, and produce writes records that have neither: "+
				"use the producer that the job is for", name)
		}
	}
	if len(input.Format.Parts) > 0 {
		for _, name := range format.Key {
			format.Parts = append(format.Parts, input.Format.Parts[slices.Index(input.Format.Key, name)])
		}
	}
	reader, err := reading.NewReader(format)
	if err != nil {
		return nil, err
	}
	k := &keyMaker{reader: reader, partitioner: job.Murmur2}
	if input.Partitioner == config.CRC32 {
		k.partitioner = job.CRC32
	}
	return k, nil
}

// of returns the record key of a value, nil with the reason when it has none. Of several readings the first counts.
func (k *keyMaker) of(value []byte) (key []byte, reason string) {
	k.record.Value = value
	fields, refusal := k.reader.Keys(&k.record)
	switch {
	case refusal != nil:
		return nil, refusal.String()
	case fields == nil:
		return nil, "it holds no reading"
	}
	return job.AppendRecordKey(nil, fields...), ""
}
