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
	path   string

	csv, points bool   // the form of the source, whatever its name
	separator   string // of CSV
	precision   string // of the timestamps of line protocol
	key         string // path of the field that is the record's key
	headers     []string

	fromDead bool   // the source is the dead letter topic
	reason   string // of dead letters; "" for all
}

const produceLong = `Write JSON lines, CSV or line protocol into the job's input topic, for trying out and for tests.

Each JSON line's own bytes are a record's value; empty lines are left out. The record key is made of the fields
input.partitioned_by: the text of one field, or a compact JSON array of strings for several, numbers as they are
written. input.partitioner gives the partition. A line without a usable key is sent without one, to partition 0. For a
job whose key fields come from the record's key, --key names the field of a line that becomes this key; for one whose key
fields come from a header, --header NAME=FIELD does. Fields are paths, as in input.key, columns or tags; they stay in
the value too.

SOURCE is a file of JSON lines; CSV with a header when it ends in .csv or .tsv or --csv is given; line protocol when it ends in
.lp or with --line-protocol; - is standard input. A file that ends in .gz is unpacked.

What stands between the cells of CSV is a comma, a semicolon or a tab, or the input.csv.separator of the job: whichever the
header has outside of quotes. --separator says so where a header has several of them, and so does a first line sep=; above it.

A row of CSV becomes an object: a cell that is a JSON number becomes that number, an empty one null, any other a string.
With input.format csv it becomes a row of the job's columns.

A line of line protocol becomes an object: the member measurement, each tag as a string, each field as it is, and the
timestamp as the member that input.time.field names (time, if the job takes the record's time), in its unit. The
timestamps are in --precision; a line without one gets the present time. Comments are left out.

What cannot be read is not sent and is told with file, line and column; the rest is sent.

With --from-dead-letters there is no SOURCE: what the job's dead letter topic holds now is written into the input again, each
record with its own key, value and headers, to the partition that its key has, or without a key to the one it came from.
Those that were cut to fit are left out and counted. Nothing remembers what was sent: a second time sends it all again, and
only what was refused is no harm then.

The exit code is 0 only if every line was sent and acknowledged by all replicas in sync.`

func (e *env) produceCommand() *cobra.Command {
	var o produceOptions
	cmd := &cobra.Command{
		Use:   "produce -c FILE [flags] SOURCE|-",
		Short: "Write JSON lines, CSV or line protocol into the job's input topic",
		Long:  produceLong,
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
			case o.csv && o.points:
				return usage(errors.New("--csv and --line-protocol: the source is one of the two"))
			case o.fromDead && (o.csv || o.points || o.separator != "" || o.key != "" || o.headers != nil):
				return usage(errors.New("--from-dead-letters: records are sent again as they are, without --csv, --separator, --line-protocol, --key and --header"))
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
	cmd.Flags().StringVar(&o.separator, "separator", "", "what stands between the cells of CSV: a character, or tab; by default the header tells")
	cmd.Flags().BoolVar(&o.points, "line-protocol", false, "the source is line protocol whatever its name")
	cmd.Flags().StringVar(&o.precision, "precision", "ns", "unit of the timestamps of line protocol: s, ms, us or ns")
	cmd.Flags().StringVar(&o.key, "key", "", "field of a line that becomes the record's key")
	cmd.Flags().StringArrayVar(&o.headers, "header", nil, "NAME=FIELD: field of a line that becomes a header; may be given several times")
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
	lines, err := o.source(file, &defined.Input)
	if err != nil {
		return fmt.Errorf("%s: %w", o.name(), err)
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

// name is that of the source in messages.
func (o *produceOptions) name() string {
	if o.path == "-" {
		return "standard input"
	}
	return o.path
}

// source tells the form of a source by what was said, or else by its name.
func (o *produceOptions) source(file io.Reader, input *config.Input) (source, error) {
	name := strings.TrimSuffix(o.path, ".gz")
	isCSV := o.csv || !o.points && (strings.HasSuffix(name, ".csv") || strings.HasSuffix(name, ".tsv"))
	separator, err := parseSeparator(o.separator)
	if err == nil && o.separator != "" && !isCSV {
		err = errors.New("--separator: the source is no CSV, whose name ends in .csv or .tsv; --csv says so of any other")
	}
	if err != nil {
		return nil, usage(err)
	}
	switch {
	case o.points || !o.csv && strings.HasSuffix(name, ".lp"):
		precision, err := reading.ParseUnit(o.precision)
		if err != nil || !precision.Numeric() {
			return nil, usage(fmt.Errorf("--precision %s: want s, ms, us or ns", o.precision))
		}
		return newPointReader(file, precision, input)
	case isCSV:
		return newCSVReader(file, separator, &input.Format)
	}
	return &lineReader{from: file}, nil
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
	p := &producing{topic: o.topic, partitions: topic.Partitions, most: produceBatch, rate: o.rate, begun: time.Now(),
		refused: exceptions{env: e, source: o.name()}}
	if n, err := strconv.Atoi(topic.Configs["max.message.bytes"]); err == nil && n > 0 {
		p.most = min(p.most, n)
	}
	if p.keys, err = newKeyMaker(&c.job.Input, o.key, o.headers); err != nil {
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

// exceptions count lines that were treated otherwise, and keep the first. With an env the first few are also told at
// once, with their place.
type exceptions struct {
	env    *env
	source string

	count  int64
	line   int64
	reason string
}

// toldLines bounds how many lines are told (I13).
const toldLines = 20

func (x *exceptions) add(at *line, reason string) {
	if x.count == 0 {
		x.line, x.reason = at.number, reason
	}
	x.count++
	switch {
	case x.env == nil || x.count > toldLines:
	case at.column > 0:
		x.env.say("%s:%d:%d: %s", x.source, at.number, at.column, reason)
	default:
		x.env.say("%s:%d: %s", x.source, at.number, reason)
	}
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
		p.refused.add(l, l.bad.Error())
		return nil
	case len(l.value) == 0:
		p.empty++
		return nil
	}
	key, headers, reason := p.keys.of(l.value)
	size := len(key) + len(l.value) + recordOverhead
	for _, h := range headers {
		size += len(h.Key) + len(h.Value) + recordOverhead
	}
	if size > p.most {
		p.refused.add(l, fmt.Sprintf("%d bytes, the topic takes %d", size, p.most))
		return nil
	}
	partition := int32(0)
	if key == nil {
		p.keyless.add(l, reason)
	} else {
		partition = p.keys.partitioner.Partition(key, p.partitions)
	}
	if err := p.await(ctx); err != nil {
		return err
	}
	p.sent++
	return p.to.Send(partition, key, l.value, headers...)
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
	e.say("produced %s to topic %s in %s (%.0f/s)", counted(p.to.Acked(), "record"), p.topic, took.Round(time.Millisecond),
		float64(p.to.Acked())/took.Seconds())
	if p.empty > 0 {
		e.say("empty lines and comments left out: %d", p.empty)
	}
	if x := p.keyless; x.count > 0 {
		e.say("records without a usable key, sent without one to partition 0: %d; the job will refuse the readings in them; the first is line %d: %s",
			x.count, x.line, x.reason)
	}
	if x := p.refused; x.count > 0 {
		failure = errors.Join(failure, fmt.Errorf("lines of %s not sent: %d; the first is line %d: %s", x.source, x.count, x.line, x.reason))
	}
	if failure != nil && p.to.Acked() != p.sent {
		failure = fmt.Errorf("%w: of %d records sent %d are acknowledged", failure, p.sent, p.to.Acked())
	}
	return failure
}
