package job

import (
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
)

// opened is a record and what its reader has found in it. That depends on the record and the configuration alone.
type opened struct {
	reader  *reading.Reader
	in      *task.Input // nil for none
	record  reading.Record
	headers headers
	n       int              // readings
	refusal *reading.Refusal // of the record as a whole

	// The reading of a record that can hold only one.
	read    *reading.Reading
	refused *reading.Refusal
}

// open reads a record.
func (o *opened) open(j *Job, in *task.Input) {
	o.headers.list = in.Headers
	o.record = reading.Record{Value: in.Value, Key: in.Key, Timestamp: in.Timestamp, Headers: &o.headers}
	if j.config.Part == Relayed {
		o.record.Timestamp = relayedTimestamp(in.Value)
	}
	o.read, o.refused = nil, nil
	if o.n, o.refusal = o.reader.Open(&o.record); o.n == 1 && !j.many {
		o.read, o.refused = o.reader.Reading(0)
	}
}

// reading judges the i-th reading of the record.
func (o *opened) reading(j *Job, i int) (*reading.Reading, *reading.Refusal) {
	if j.many {
		return o.reader.Reading(i)
	}
	return o.read, o.refused
}

// maxAhead is how many records are read ahead, as many as a task tells.
const maxAhead = 8

// maxSmall bounds, in bytes, the records that are read ahead: what the readers keep of them must stay small with many tasks (I13), and
// to read a larger one takes longer than to wait for memory.
const maxSmall = 4 << 10

// maxForeseen is for how many entries the cache misses are worth waiting for together.
const maxForeseen = 64

// lineup are the records that were read ahead, each by a reader of its own.
type lineup struct {
	list []opened
	next int    // the first that was not taken
	past int    // behind the last that was read
	key  []byte // scratch
}

// newLineup makes the readers. Records of many readings are not read ahead: each waits for itself only.
func newLineup(config *Config, format reading.Format) (lineup, error) {
	n := maxAhead
	if config.Part == Relay || format.Many() {
		n = 1
	}
	l := lineup{list: make([]opened, n)}
	for i := range l.list {
		reader, err := reading.NewReader(format)
		if err != nil {
			return lineup{}, err
		}
		l.list[i].reader = reader
	}
	return l, nil
}

// take returns a record opened: the next one of those that were read ahead, if it is that.
func (j *Job) take(in *task.Input) *opened {
	l := &j.lineup
	if l.next < l.past && l.list[l.next].in == in {
		l.next++
		return &l.list[l.next-1]
	}
	l.next, l.past = 0, 0
	l.list[0].open(j, in)
	return &l.list[0]
}

// Prepare reads the next records ahead and tells which entries they will touch.
func (j *Job) Prepare(in []task.Input, hashes []uint64) []uint64 {
	l := &j.lineup
	l.next, l.past = 0, 0
	if len(l.list) == 1 {
		return hashes
	}
	// A panic is about a later record than the one whose turn it is: Process meets it again, when it is.
	defer func() { _ = recover() }()
	for i := range in[:min(len(in), len(l.list))] {
		if len(in[i].Value) > maxSmall {
			break
		}
		o := &l.list[i]
		o.in = nil
		o.open(j, &in[i])
		o.in, l.past = &in[i], i+1
		if o.read != nil && len(hashes) < maxForeseen {
			hashes = j.foresee(o.read, hashes)
		}
	}
	return hashes
}

// foresee appends the hashes of entries that a reading will touch.
func (j *Job) foresee(read *reading.Reading, hashes []uint64) []uint64 {
	l := &j.lineup
	for i := range j.config.Aggregations {
		t := &j.layout.tables[i]
		if t.sessions {
			continue
		}
		l.key = append(l.key[:0], t.prefix...)
		for _, field := range read.Key {
			l.key = record.AppendField(l.key, field)
		}
		head := len(l.key)
		j.spans = t.assign(j.spans[:0], read.Time)
		for _, span := range j.spans[:min(len(j.spans), maxForeseen)] {
			l.key = record.AppendStart(l.key[:head], span.Start)
			hashes = append(hashes, record.Hash(l.key))
		}
	}
	return hashes
}
