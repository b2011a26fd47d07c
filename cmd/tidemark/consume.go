package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// consumeOptions are what the command line says.
type consumeOptions struct {
	config   string
	topic    string
	untilEnd bool
	meta     bool
}

func (e *env) consumeCommand() *cobra.Command {
	var o consumeOptions
	cmd := &cobra.Command{
		Use:   "consume -c FILE --topic TOPIC [flags]",
		Short: "Print a topic from its beginning, committed records only",
		Long: `Print the values of a topic from its beginning, one a line, committed records only. It goes on as records come in;
with --until-end it prints what was there at its start, one partition after the other, and ends.

With --meta each line is an object: topic, partition, offset, timestamp (ms), key, value, headers. A value that is JSON
stands there as JSON and a deleted one as null; a key that is not text and a value that is not
JSON stand in base64, as key_b64 and value_b64.`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.topic == "" {
				return usage(errors.New("which topic? Name it with --topic"))
			}
			return e.consume(cmd.Context(), o)
		},
	}
	configFlag(cmd, &o.config)
	cmd.Flags().StringVar(&o.topic, "topic", "", "topic to print")
	cmd.Flags().BoolVar(&o.untilEnd, "until-end", false, "end with what was there at the start")
	cmd.Flags().BoolVar(&o.meta, "meta", false, "print each record as an object with its place, time, key and headers")
	return cmd
}

func (e *env) consume(ctx context.Context, o consumeOptions) error {
	connection, admin, release, err := e.open(ctx, o.config)
	if err != nil {
		return err
	}
	defer release()
	topic, err := connection.topic(ctx, admin, o.topic, false)
	if err != nil {
		return err
	}
	c := &consuming{env: e, meta: o.meta}
	for partition := range topic.Partitions {
		log, err := connection.Log(o.topic, partition)
		if err != nil {
			return err
		}
		defer log.Close()
		c.logs = append(c.logs, &logReader{env: e, topic: o.topic, partition: partition, log: log, admin: admin,
			take: func(records []kafka.Record) error { return c.print(o.topic, partition, records) }})
	}
	if o.untilEnd {
		return c.untilEnd(ctx)
	}
	return c.follow(ctx)
}

// consuming is one consume command at work.
type consuming struct {
	env  *env
	meta bool
	logs []*logReader // by partition

	mu sync.Mutex // of the output
}

// untilEnd prints what lies below the high watermarks of this moment, one partition after the other.
func (c *consuming) untilEnd(ctx context.Context) error {
	bounds := make([]kafka.Offsets, len(c.logs))
	for partition, reader := range c.logs {
		var err error
		if bounds[partition], err = reader.log.Offsets(ctx); err != nil {
			return err
		}
	}
	for partition, reader := range c.logs {
		if err := reader.read(ctx, bounds[partition].Start, bounds[partition].HighWatermark); err != nil {
			return err
		}
	}
	return nil
}

// follow prints all partitions at once until the command is told to stop.
func (c *consuming) follow(ctx context.Context) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		if c.env.abandoned() {
			stop(errAbandoned)
		}
	}()
	var readers sync.WaitGroup
	for _, reader := range c.logs {
		readers.Go(func() {
			bounds, err := reader.log.Offsets(reading)
			if err == nil {
				err = reader.read(reading, bounds.Start, endless)
			}
			stop(err) // the first one counts
		})
	}
	readers.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(reading)
}

// print writes records and flushes: whoever reads must not wait for a full buffer.
func (c *consuming) print(topic string, partition int32, records []kafka.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var line []byte
	for i := range records {
		r := &records[i]
		if line = line[:0]; c.meta {
			line = appendMeta(line, topic, partition, r)
		} else if r.Value == nil {
			line = append(line, "null"...)
		} else {
			line = append(line, r.Value...)
		}
		if _, err := c.env.out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return c.env.out.Flush()
}

// appendMeta appends one record as a JSON object.
func appendMeta(dst []byte, topic string, partition int32, r *kafka.Record) []byte {
	dst = appendJSONString(append(dst, `{"topic":`...), topic)
	dst = strconv.AppendInt(append(dst, `,"partition":`...), int64(partition), 10)
	dst = strconv.AppendInt(append(dst, `,"offset":`...), r.Offset, 10)
	dst = strconv.AppendInt(append(dst, `,"timestamp":`...), r.Timestamp, 10)
	dst = appendBytes(append(dst, ','), "key", r.Key, appendTextBytes)
	dst = appendBytes(append(dst, ','), "value", r.Value, appendJSONBytes)
	dst = append(dst, `,"headers":[`...)
	for i, h := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSONString(append(dst, `{"key":`...), h.Key)
		dst = appendBytes(append(dst, ','), "value", h.Value, appendTextBytes)
		dst = append(dst, '}')
	}
	return append(dst, ']', '}')
}

// appendBytes appends one field: null for no bytes at all, what as makes of them, or base64 under a name that says so.
func appendBytes(dst []byte, name string, b []byte, as func(dst, b []byte) ([]byte, bool)) []byte {
	dst = append(dst, '"')
	if b == nil {
		return append(append(dst, name...), `":null`...)
	}
	if with, ok := as(append(append(dst, name...), `":`...), b); ok {
		return with
	}
	dst = append(append(dst, name...), `_b64":"`...)
	return append(base64.StdEncoding.AppendEncode(dst, b), '"')
}

// appendTextBytes appends text as a JSON string.
func appendTextBytes(dst, b []byte) ([]byte, bool) {
	if !utf8.Valid(b) {
		return dst, false
	}
	return appendJSONString(dst, string(b)), true
}

// appendJSONBytes appends JSON as it is, on one line.
func appendJSONBytes(dst, b []byte) ([]byte, bool) {
	if !utf8.Valid(b) || !json.Valid(b) {
		return dst, false
	}
	if bytes.IndexByte(b, '\n') < 0 && bytes.IndexByte(b, '\r') < 0 {
		return append(dst, b...), true
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, b) // it is valid
	return append(dst, compact.Bytes()...), true
}
