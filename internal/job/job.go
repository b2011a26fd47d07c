package job

import (
	"errors"
	"fmt"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// Job is the Processor of one input partition. Not safe for concurrent use.
type Job struct {
	config    Config
	limits    Limits
	layout    layout
	lineup    lineup
	routing   routing
	misrouted misrouted
	names     []task.Aggregation
	memory    *memory // nil without dedup
	maxKey    int     // bytes of a changelog key
	reach     reach   // of one reading
	handed    []int   // of a relay: the key fields that are handed on; nil for all
	many      bool    // a record may hold another number of readings than one

	now   *opened // the present record
	apart apart   // of the present record, when it may hold many readings
	spent spent   // of its bounds

	// The working form of dirty entries, by slot: the aggregation, the length of the window, and an accumulator for each
	// value field. A length has a meaning where it is stored.
	slots        []int32
	lengths      []int64
	accumulators []aggregate.Accumulator

	// Scratch, so that a reading allocates nothing.
	spans  []window.Span
	fields []byte // key fields of the present reading, as in a changelog key
	at     aggregate.At
	key    []byte
	value  []byte
}

// A Job is a Processor that reads ahead.
var (
	_ task.Processor = (*Job)(nil)
	_ task.Preparer  = (*Job)(nil)
)

// New makes the Processor of one input partition out of partitions, that being the input topic's count at the task's
// birth. The error lists everything that is wrong with the configuration, or names a limit that is too small for it.
func New(config Config, partition, partitions int32, limits Limits) (*Job, error) {
	if err := config.Check(); err != nil {
		return nil, err
	}
	if partition < 0 || partition >= partitions {
		return nil, fmt.Errorf("partition %d of %d partitions", partition, partitions)
	}
	format := config.Format
	if config.Part == Relayed {
		format = relayedFormat(&config.Format)
	}
	lineup, err := newLineup(&config, format)
	if err != nil {
		return nil, err
	}
	j := &Job{config: config, limits: limits, layout: newLayout(&config), lineup: lineup, names: config.aggregations(), memory: newMemory(&config)}
	by, determined := config.partitionedBy()
	j.routing = routing{by: by, determined: determined, partitioner: config.Partitioner, partition: partition, partitions: partitions}
	j.handed = config.handed()
	j.maxKey, j.reach = j.layout.maxKey(limits), config.reach()
	j.many = format.Many()
	j.apart.late = make([]lateReadings, len(j.layout.tables))
	return j, j.checkLimits()
}

// leastKey is the size of changelog keys that the topics must have room for.
const leastKey = 1024

func (j *Job) checkLimits() error {
	var faults []error
	if j.maxKey < leastKey {
		faults = append(faults, fmt.Errorf("changelog keys may have only %d bytes with records of %d bytes in the changelog and %d in the results: "+
			"raise max.message.bytes of these topics", j.maxKey, j.limits.Changelog, j.limits.Result))
	}
	if least := min(j.limits.DeadLetter, j.limits.Late); least < minLetter {
		faults = append(faults, fmt.Errorf("dead letters and late readings may have only %d bytes, at least %d are needed: "+
			"raise max.message.bytes of their topics", least, minLetter))
	}
	return errors.Join(faults...)
}

// Aggregations names the aggregations with their fingerprints.
func (j *Job) Aggregations() []task.Aggregation { return j.names }

// Process judges the readings of one record, one after the other, in the order of section 7, which makes I11 true:
//
//  1. refusal, filter and guard depend on the record's bytes, its timestamp and the configuration only, but for the bound
//     of a record, which counts what its readings have touched; what dedup knows already is counted, and moves nothing;
//  2. stream time S := max(S, min(event time, record timestamp)); a record timestamp before time.min counts as none;
//  3. per aggregation closed_end := max(closed_end, S - grace), and every window that ends there or before is due; with
//     MaxLag it does so per key, with the key's own stream time or S - MaxLag, whichever is later;
//  4. the reading goes to each of its windows that is not due; where all are due it is late for the aggregation.
//
// A record that cannot be split into readings counts as one, and so does one that holds none, which is filtered (I9). A
// refused reading moves nothing but its counters. The only errors are a *MisroutedError, a *BadError, or state
// that cannot be read.
func (j *Job) Process(v *task.View, in *task.Input) error {
	refused := v.Counters().DeadLettered
	err := j.process(v, in)
	if refused = v.Counters().DeadLettered - refused; err == nil && refused > 0 && j.config.MaxBad.Readings > 0 {
		return j.limitBad(v, in, refused)
	}
	return err
}

func (j *Job) process(v *task.View, in *task.Input) error {
	counters := v.Counters()
	j.now, j.spent = j.take(in), spent{}
	if !j.config.Format.Timed(j.now.record.Timestamp) {
		counters.Untimed++
	}
	switch o := j.now; {
	case o.refusal != nil:
		counters.In++
		j.refuse(v, in, faultOf(o.refusal))
		return nil
	case o.n == 0:
		counters.In++
		counters.Filtered++
		return nil
	case !j.many:
		return j.judge(v, in, 0)
	}
	return j.judgeMany(v, in, j.now.n)
}

// judge judges the i-th reading of the open record.
func (j *Job) judge(v *task.View, in *task.Input, i int) error {
	counters := v.Counters()
	counters.In++
	read, refusal := j.now.reading(j, i)
	if refusal != nil {
		j.refuseReading(v, in, i, faultOf(refusal))
		return nil
	}
	if read == nil {
		counters.Filtered++
		return nil
	}
	if j.config.Part == Relay {
		j.relay(v, in, i, read)
		return nil
	}
	if reason := j.routing.judge(in, read); reason != "" {
		j.refuseReading(v, in, i, fault{reason: reason, detail: j.routing.detail(reason, in)})
		return j.misrouted.note(int64(counters.In), reason, &j.routing, in)
	}
	size := j.setFields(read)
	if size > j.maxKey {
		j.refuseReading(v, in, i, j.tooLarge(size))
		return nil
	}
	if j.memory != nil {
		if known, err := j.memory.knows(v); known || err != nil {
			counters.Duplicates++
			return err
		}
	}
	if fault, ok := j.fits(v, size); !ok {
		j.refuseReading(v, in, i, fault)
		return nil
	}
	counters.Accepted++
	if j.config.Part != Relayed { // the relay has counted them, and hands on what its values are
		counters.Inexact += record.Count(read.Inexact)
	}
	advance := read.Time
	if at := j.now.record.Timestamp; j.config.Format.Timed(at) && at < advance {
		counters.Ahead++
		advance = at
	}
	j.advance(v, advance, in)
	j.at = aggregate.At{Time: read.Time, Nanos: read.Nanos, Offset: in.Offset, Index: read.Index}
	for i := range j.config.Aggregations {
		closed, err := j.raise(v, i, advance)
		if err == nil {
			err = j.fold(v, in, i, closed, read)
		}
		if err != nil {
			return err
		}
	}
	if j.memory != nil {
		return j.remember(v)
	}
	return nil
}

// setFields keeps the key fields as they stand in a changelog key and returns the size of the longest such key.
func (j *Job) setFields(read *reading.Reading) int {
	j.fields = j.fields[:0]
	for _, field := range read.Key {
		j.fields = record.AppendField(j.fields, field)
	}
	prefix := 0
	for i := range j.layout.tables {
		prefix = max(prefix, len(j.layout.tables[i].prefix))
	}
	size := prefix + len(j.fields) + startBytes
	if m := j.memory; m != nil {
		m.name(j.layout.tables[m.index].prefix, j.fields, read)
		size = max(size, len(m.key))
	}
	return size
}

// fold puts a reading into those of its windows that are not due, being closed up to closed.
func (j *Job) fold(v *task.View, in *task.Input, i int, closed int64, read *reading.Reading) error {
	if defect.ClosingPerBatch {
		closed -= closed % 3307
	}
	t := &j.layout.tables[i]
	if t.sessions {
		return j.join(v, in, i, closed, read)
	}
	j.spans = t.assign(j.spans[:0], read.Time)
	if len(j.spans) == 0 {
		return fmt.Errorf("no window of %q holds the time %d", j.names[i].Name, read.Time)
	}
	missed := 0
	j.key = append(append(j.key[:0], t.prefix...), j.fields...)
	head := len(j.key)
	for _, span := range j.spans {
		if span.End <= closed {
			missed++
			continue
		}
		j.key = record.AppendStart(j.key[:head], span.Start)
		slot, fresh, err := v.Touch(j.key, task.Place{Aggregation: i, Start: span.Start, End: span.End})
		if err != nil {
			return err
		}
		if fresh {
			j.lengths[slot] = span.End - span.Start
		} else if t.stored && span.Start+j.lengths[slot] <= closed {
			missed++ // another version of the zone's rules has ended the window earlier, and it is due
			continue
		}
		j.add(slot, read)
	}
	state := v.Aggregation(i)
	state.Missed += record.Count(missed)
	switch missed {
	case 0:
		state.Folded++
	case len(j.spans):
		state.Late++
		j.late(v, in, i, closed, read.Index)
	default:
		state.PartlyLate++
	}
	return nil
}

// add folds a reading into the entry of a slot.
func (j *Job) add(slot task.Slot, read *reading.Reading) {
	accumulators := j.accumulatorsOf(slot)
	for n := range accumulators {
		if read.Whole != nil {
			accumulators[n].AddWhole(read.Whole[n], &j.at)
		} else {
			accumulators[n].Add(read.Values[n], &j.at)
		}
	}
}

// advance moves the stream time: at once, or when as many devices as the quorum says have reached a time.
func (j *Job) advance(v *task.View, t int64, in *task.Input) {
	q := j.config.Quorum
	if q <= 1 {
		q = 0
		v.AdvanceStreamTime(t, in.Key, in.Offset)
	}
	if v.Vouched() > q { // the quorum was larger before
		v.Forget(q)
	}
	if q == 0 {
		return
	}
	v.Vouch(q, record.EntryDigest(j.fields, 0), t, in.Key, in.Offset)
}

// Ticked raises the closed ends to what follows from the stream time.
func (j *Job) Ticked(v *task.View) error {
	for i := range j.names {
		v.RaiseClosedEnd(i, j.ClosedEnd(i, v.StreamTime()))
	}
	return nil
}

// ClosedEnd is how far the windows of an aggregation are closed at a stream time, in ms, of whatever key.
func (j *Job) ClosedEnd(aggregation int, streamTime int64) int64 {
	if streamTime == record.NoTime {
		return record.NoTime
	}
	if m := j.memory; m != nil && aggregation == m.index {
		return streamTime - m.within
	}
	return streamTime - j.config.MaxLag - j.distance(aggregation)
}

// accumulatorsOf are the accumulators of a slot, one for each value field.
func (j *Job) accumulatorsOf(slot task.Slot) []aggregate.Accumulator {
	n := len(j.layout.values)
	return j.accumulators[int(slot)*n:][:n]
}

// Load makes the working form of a slot from an entry's value, nil for a new one.
func (j *Job) Load(slot task.Slot, key, value []byte) error {
	i, ok := j.layout.find(key)
	if !ok {
		return damaged(key)
	}
	for int(slot) >= len(j.slots) {
		j.slots, j.lengths = append(j.slots, 0), append(j.lengths, 0)
		for range j.layout.values {
			j.accumulators = append(j.accumulators, aggregate.Accumulator{})
		}
	}
	j.slots[slot] = int32(j.layout.tableOf(i, key))
	accumulators := j.accumulatorsOf(slot)
	var functions aggregate.Functions
	if i != task.Removed {
		t := &j.layout.tables[j.slots[slot]]
		functions = t.functions
		if value != nil {
			var err error
			j.lengths[slot], err = j.layout.decode(value, t, accumulators)
			return err
		}
	}
	for n := range accumulators {
		accumulators[n].Reset(functions)
	}
	return nil
}

// Encode appends the value of a slot's entry.
func (j *Job) Encode(slot task.Slot, dst []byte) []byte {
	return j.layout.tables[j.slots[slot]].encode(dst, j.lengths[slot], j.accumulatorsOf(slot))
}

// Place tells the window of an entry from its key, and where its end is stored from its value.
func (j *Job) Place(key, value []byte) (task.Place, error) { return j.layout.place(key, value) }
