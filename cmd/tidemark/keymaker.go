package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/reading"
)

// keyMaker makes record keys and headers as the job wants them.
type keyMaker struct {
	reader      *reading.Reader // of the fields of input.partitioned_by; nil with given
	given       *fieldReader    // of the field that --key names, which is the record's key
	headers     []madeHeader
	record      reading.Record
	partitioner job.Partitioner
}

// madeHeader is a header whose value is a field of the line.
type madeHeader struct {
	name string
	from *fieldReader
}

// newKeyMaker makes the maker for a job's input. key is the path of the field that is to be the record's key, "" for what
// input.partitioned_by says; headers are NAME=PATH.
func newKeyMaker(input *config.Input, key string, headers []string) (*keyMaker, error) {
	k := &keyMaker{partitioner: input.Partitioner}
	for _, text := range headers {
		name, path, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usage(fmt.Errorf("--header %s: want NAME=FIELD", text))
		}
		from, err := newFieldReader(&input.Format, path)
		if err != nil {
			return nil, usage(fmt.Errorf("--header %s: %w", text, err))
		}
		k.headers = append(k.headers, madeHeader{name, from})
	}
	var err error
	if key != "" {
		if k.given, err = newFieldReader(&input.Format, key); err != nil {
			return nil, usage(fmt.Errorf("--key %s: %w", key, err))
		}
		return k, nil
	}
	format := input.Format
	format.Key, format.Parts = input.PartitionedBy, nil
	if len(format.Key) == 0 { // constants only, with rekey: one device, whose records may as well have its name for a key
		format.Key = input.Format.Key
	}
	for i, part := range input.Format.Parts {
		name := input.Format.Key[i]
		if !slices.Contains(format.Key, name) {
			continue
		}
		switch made := slices.ContainsFunc(k.headers, func(h madeHeader) bool { return h.name == part.Name }); {
		case part.From == reading.FromKey:
			return nil, usage(fmt.Errorf("key field %s of the job comes from the record's key: say with --key FIELD which field of a line that key is", name))
		case part.From == reading.FromHeader && !made:
			return nil, usage(fmt.Errorf("key field %s of the job comes from header %s: say with --header %s=FIELD which field of a line goes there", name, part.Name, part.Name))
		}
	}
	if len(input.Format.Parts) > 0 {
		for _, name := range format.Key {
			format.Parts = append(format.Parts, input.Format.Parts[slices.Index(input.Format.Key, name)])
		}
	}
	k.reader, err = reading.NewReader(format)
	return k, err
}

// of returns the record key and the headers of a value. A key that is nil has the reason why there is none; of several
// readings the first counts. A header whose field is not there is left out.
func (k *keyMaker) of(value []byte) (key []byte, headers []kafka.Header, reason string) {
	k.record.Value = value
	for _, h := range k.headers {
		if text, _ := h.from.of(value); text != nil {
			headers = append(headers, kafka.Header{Key: h.name, Value: text})
		}
	}
	if k.given != nil {
		key, reason = k.given.of(value)
		return key, headers, reason
	}
	k.record.Headers = lineHeaders(headers)
	fields, refusal := k.reader.Keys(&k.record)
	switch {
	case refusal != nil:
		return nil, headers, refusal.String()
	case fields == nil:
		return nil, headers, "it holds no reading"
	}
	return job.AppendRecordKey(nil, fields...), headers, ""
}

// lineHeaders are headers as the reader wants them.
type lineHeaders []kafka.Header

// Header returns the value of the last header with a name.
func (l lineHeaders) Header(name string) []byte {
	for _, h := range slices.Backward(l) {
		if h.Key == name {
			return h.Value
		}
	}
	return nil
}

// fieldReader takes one text or number out of a line.
type fieldReader struct {
	reader *reading.Reader
	record reading.Record
}

// newFieldReader reads the field at a path of the lines of a job.
func newFieldReader(lines *reading.Format, path string) (*fieldReader, error) {
	format := reading.DefaultFormat()
	format.Columns, format.Separator, format.Each = lines.Columns, lines.Separator, lines.Each
	format.Key, format.Clock.Record = []string{path}, true
	format.Values, format.Numbers = []string{"nothing"}, []reading.Number{{Value: "0"}} // a format has a value
	reader, err := reading.NewReader(format)
	return &fieldReader{reader: reader}, err
}

// of returns the field's text, or a number's token, in bytes of its own; nil with the reason when there is none.
func (f *fieldReader) of(value []byte) (text []byte, reason string) {
	f.record.Value = value
	fields, refusal := f.reader.Keys(&f.record)
	switch {
	case refusal != nil:
		return nil, refusal.String()
	case fields == nil:
		return nil, "it holds no reading"
	}
	return slices.Clone(fields[0]), ""
}
