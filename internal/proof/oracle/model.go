package oracle

import (
	"cmp"
	"math"
	"slices"
)

// Outcome is what must come of one input partition.
type Outcome struct {
	Partition    int32
	Windows      []*Window // every window that ever took a reading, in the order of (aggregation, key, start)
	Late         []Late    // in the order of the input
	Dead         []Dead    // in the order of the input
	StreamTime   int64     // Never before the first reading
	SetterOffset int64     // offset of the record that set StreamTime, -1 for none
	Counters     Counters
	Aggregations []AggregationCounters // in the order of configuration, what dedup remembers behind them
	Handed       []Handed              // of a relay: the readings that it hands on, in the order of the input
	Remembered   map[string]string     // values of the live entries that are no windows, by WindowID: of dedup, and clocks of keys
}

// Counters are the left side of I9: In = Accepted + DeadLettered + Filtered + Skipped. The oracle knows no repair
// that skips.
type Counters struct {
	In, Accepted, DeadLettered, Filtered, Skipped int64

	Ahead   int64 // accepted readings whose event time lies after their record's
	Untimed int64 // records without a usable timestamp of their own

	Duplicates int64 // readings that were known already, the last term of In
}

// AggregationCounters are the right side of I9: Accepted = Folded + PartlyLate + Late.
type AggregationCounters struct {
	Name       string
	ClosedEnd  int64 // windows that end here or before are due
	Folded     int64 // readings that are in all of their windows
	PartlyLate int64 // in some
	Late       int64 // in none
	Missed     int64 // windows that the readings in some or none are not in
	Results    int64
}

// Window is one window of one key with every reading it took.
type Window struct {
	Aggregation string
	Key         []string
	Start, End  int64 // ms
	Final       bool  // due when the input ended: a result, and no state
	Stored      bool  // its entry holds its length
	Readings    []Folded
}

// Folded is one reading in a window.
type Folded struct {
	Time   int64 // event time in ms,
	Nanos  int64 // and the ns beyond
	Offset int64
	Index  int64 // in the record
	Values []float64
	Whole  []int64 // in their place where numbers are whole
	Stray  bool    // it belongs between readings of which not all is kept any more; see trail
}

// Stats are the statistics of one value field over the first n readings of the window, in the order of the input.
func (w *Window) Stats(value, n int) Stats {
	numbers := make([]sample, n)
	for i := range numbers {
		numbers[i] = sampleOf(&w.Readings[i], value)
	}
	s := statsOf(numbers)
	s.places(numbers)
	return s
}

// Late is a reading that came after all of its windows were due; Start and End are the first one's.
type Late struct {
	Aggregation      string
	Offset           int64
	Key              []string
	Time, Start, End int64
	StreamTime       int64 // as it stood after this reading; with MaxLag what closed the windows of its key
	Record           Record
}

// Dead is a record that was refused, with all that is wrong with it.
type Dead struct {
	Offset int64
	Faults []Fault
	Record Record
}

// Run judges the records of one partition one after the other, in the order of judgement of design section 7.
func (c *Config) Run(partition int32, records []Record) *Outcome {
	m := &model{config: c, partition: partition, windows: map[string]*Window{}, sessions: map[string][]*Window{}, reached: map[string]int64{}, clocks: map[string]clock{}}
	if int(partition) < len(c.Ticks) {
		m.ticks = c.Ticks[partition]
	}
	m.out = &Outcome{Partition: partition, StreamTime: Never, SetterOffset: -1}
	for _, a := range c.Aggregations {
		m.out.Aggregations = append(m.out.Aggregations, AggregationCounters{Name: a.Name, ClosedEnd: Never})
	}
	if c.Dedup.Within > 0 {
		m.known = map[string]int64{}
		m.out.Aggregations = append(m.out.Aggregations, AggregationCounters{Name: dedupName, ClosedEnd: Never})
	}
	for _, r := range records {
		m.tick(r.Offset)
		m.judge(r)
	}
	m.tick(math.MaxInt64)
	return m.finish()
}

type model struct {
	config    *Config
	partition int32
	out       *Outcome
	windows   map[string]*Window
	known     map[string]int64     // by WindowID: until which closed end; nil without dedup
	sessions  map[string][]*Window // of an aggregation and key, all that there ever were
	reached   map[string]int64     // the latest time of each key
	clocks    map[string]clock     // with MaxLag, by WindowID
	ticks     []Tick               // that are still to come
}

// judge takes one record: its readings one after the other. One that cannot be split counts as one, and so does one that
// holds none, which is filtered.
func (m *model) judge(r Record) {
	var all []Judged
	if m.config.Role == Relayed {
		all, r.Timestamp = m.config.handed(r)
	} else {
		all = m.config.split(r)
	}
	timed := r.Timestamp >= max(m.config.Min, 0)
	if !timed {
		m.out.Counters.Untimed++
	}
	var dead []Fault
	for i := range all {
		if m.one(r, &all[i], timed) {
			dead = append(dead, all[i].Faults...)
		}
	}
	if dead != nil {
		m.out.Dead = append(m.out.Dead, Dead{Offset: r.Offset, Faults: dead, Record: r})
	}
}

// split are the readings of a record.
func (c *Config) split(r Record) []Judged {
	if c.Shape == nil {
		reading, faults := c.Read(r.Value)
		return []Judged{{Reading: reading, Faults: faults}}
	}
	all, faults := c.Readings(r)
	switch {
	case faults != nil:
		return []Judged{{Faults: faults}}
	case len(all) == 0:
		return []Judged{{Filtered: true}}
	}
	return all
}

// one takes one reading: (1) refusal, filter and guard, (2) stream time, (3) closed ends, (4) the windows. It tells whether
// the reading is refused.
func (m *model) one(r Record, j *Judged, timed bool) (refused bool) {
	m.out.Counters.In++
	m.config.Guard(r, j)
	filtered := j.Filtered && len(j.Faults) == 0
	if !filtered {
		m.place(r, j)
	}
	switch {
	case filtered:
		m.out.Counters.Filtered++
		return false
	case len(j.Faults) > 0:
		m.out.Counters.DeadLettered++
		return true
	}
	if m.config.Role == Relay {
		m.out.Counters.Accepted++
		m.handOn(r, j.Reading, j.Index)
		return false
	}
	id, until := m.identify(j.Reading)
	if m.knows(id, until) {
		m.out.Counters.Duplicates++
		return false
	}
	judged := until > m.dedup().ClosedEnd
	m.out.Counters.Accepted++
	advance := j.Reading.Time
	if timed && r.Timestamp < advance {
		m.out.Counters.Ahead++
		advance = r.Timestamp
	}
	m.advance(advance, r, j.Reading)
	for i := range m.config.Aggregations {
		m.fold(i, m.closedFor(i, j.Reading.Key, advance), r, j.Reading, j.Index)
	}
	m.remember(id, until, judged)
	return false
}

// place looks whether a record lies where its reading's key belongs.
func (m *model) place(r Record, j *Judged) {
	c := m.config
	if j.Reading.Record == nil || c.Role == Relay {
		return
	}
	if !c.fromRecordKey() && (r.Key == nil || string(r.Key) != string(j.Reading.Record)) {
		j.Faults = append(j.Faults, FaultWrongKey)
	}
	if c.Partitioner != "unchecked" && PartitionOf(c.Partitioner, r.Key, c.Partitions) != m.partition {
		j.Faults = append(j.Faults, FaultWrongPartition)
	}
}

// Guard adds what is wrong with a reading's time beside the record's.
func (c *Config) Guard(r Record, j *Judged) {
	unreadable := func(f Fault) bool {
		return slices.Contains([]Fault{FaultEmpty, FaultJSON, FaultUTF8, FaultDuplicate, FaultDepth, FaultNames, FaultTime, FaultItems}, f)
	}
	if slices.ContainsFunc(j.Faults, unreadable) || j.Reading.Key == nil && j.Filtered {
		return
	}
	if j.Reading.Time < max(c.Min, yearZero) || j.Reading.Time >= yearAfter {
		j.Faults = append(j.Faults, FaultImplausible)
	}
	late := j.Reading.Time > r.Timestamp+c.MaxAhead || j.Reading.Time == r.Timestamp+c.MaxAhead && j.Reading.Nanos > 0
	if r.Timestamp >= max(c.Min, 0) && late {
		j.Faults = append(j.Faults, FaultFuture)
	}
}

// fold puts the reading into those windows of one aggregation that are not due, which are those that end after closed.
func (m *model) fold(i int, closed int64, r Record, reading Reading, index int64) {
	a, counters := &m.config.Aggregations[i], &m.out.Aggregations[i]
	spans, taken := a.spans(reading.Time), int64(0)
	for _, s := range spans {
		switch {
		case s.end <= closed:
			continue
		case a.Gap > 0:
			m.join(a, closed, folded(r, reading, index), reading.Key)
		default:
			m.put(a, s, folded(r, reading, index), reading.Key)
		}
		taken++
	}
	counters.Missed += int64(len(spans)) - taken
	switch taken {
	case int64(len(spans)):
		counters.Folded++
	case 0:
		counters.Late++
		if slices.ContainsFunc(m.out.Late, func(l Late) bool { return l.Offset == r.Offset && l.Aggregation == a.Name }) {
			break // one letter names all late readings of a record
		}
		m.out.Late = append(m.out.Late, Late{Aggregation: a.Name, Offset: r.Offset, Key: reading.Key, Time: reading.Time,
			Start: spans[0].start, End: spans[0].end, StreamTime: m.lateTime(a, closed), Record: r})
	default:
		counters.PartlyLate++
	}
}

// put adds a reading to one window.
func (m *model) put(a *Aggregation, s span, one Folded, key []string) {
	id := WindowID(a.Name, key, s.start)
	w := m.windows[id]
	if w == nil {
		w = &Window{Aggregation: a.Name, Key: key, Start: s.start, End: s.end, Stored: a.stored()}
		m.windows[id] = w
	}
	one.Stray = strays(w.Readings, &one)
	w.Readings = append(w.Readings, one)
}

func folded(r Record, reading Reading, index int64) Folded {
	return Folded{Time: reading.Time, Nanos: reading.Nanos, Offset: r.Offset, Index: index, Values: reading.Values, Whole: reading.Whole}
}

// finish says which windows are due. As closed ends never fall and a due window takes no reading, it does not matter
// when a window became due: what it holds at the end is what it held then.
func (m *model) finish() *Outcome {
	closed := map[string]*AggregationCounters{}
	for i := range m.out.Aggregations {
		closed[m.out.Aggregations[i].Name] = &m.out.Aggregations[i]
	}
	m.forget()
	m.keepClocks(closed)
	for _, w := range m.windows {
		if a := closed[w.Aggregation]; w.End <= m.closed(a, w.Key) {
			w.Final = true
			a.Results++
		}
		m.out.Windows = append(m.out.Windows, w)
	}
	slices.SortFunc(m.out.Windows, func(a, b *Window) int {
		return cmp.Or(cmp.Compare(a.Aggregation, b.Aggregation), slices.Compare(a.Key, b.Key), cmp.Compare(a.Start, b.Start))
	})
	return m.out
}
