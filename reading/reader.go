package reading

// Reading is one valid measurement. Its slices point into the record or into buffers of the Reader: they must not be
// changed, and are valid until the next call of the Reader and while the record is left alone.
type Reading struct {
	Key      [][]byte  // the key fields in the order configured, with Format.Series the value's name behind them
	Time     int64     // event time in whole ms since 1970, rounded down
	Nanos    int32     // the event time's part below the ms, 0 to 999,999 ns
	Index    int32     // place among the readings of its record, 0 for the first: order is (offset, Index)
	Sequence []byte    // of Format.Sequence: decoded text, or a number's JSON token
	Values   []float64 // the values in the order configured, one only with Format.Series; finite
	Whole    []int64   // the same without loss, with Format.Whole only
	Inexact  int32     // how many of the values are another number than the one written, see [Format.Whole]; 0 with it
}

// Record is what a record brings along. A Reader does not change it.
type Record struct {
	Value     []byte // nil for a tombstone
	Key       []byte // nil for none
	Timestamp int64  // ms; negative for none
	Headers   Headers
}

// Headers are the headers of a record; nil are none.
type Headers interface {
	// Header returns the value of the last header with a name, nil for none.
	Header(name string) []byte
}

// Reader reads records of one Format. It keeps its buffers from record to record and allocates nothing for a record it
// accepts, once the buffers have grown: at most MaxNames names, MaxReadings items and the decoded bytes of one record. It
// is used by one goroutine at a time.
type Reader struct {
	format  Format
	program *program
	record  *Record
	reading Reading
	single  Record // of Read
	joined  []byte // the text of a time in several fields
	ends    []int  // of each field's text in it

	item int      // the item judged last, failed for none; what was found out about it is
	head *Refusal // why it is no reading at all,
	skip bool     // and whether it is filtered
}

// NewReader returns a Reader for a format, or the faults of [Format.Check]. Later changes to the format's slices have
// no effect.
func NewReader(format Format) (*Reader, error) {
	p, err := format.compile()
	if err != nil {
		return nil, err
	}
	r := &Reader{format: format, program: p}
	r.reading.Key = make([][]byte, len(format.Key), len(format.Key)+1)
	r.reading.Values = make([]float64, len(format.Values))
	if format.Series {
		r.reading.Key = r.reading.Key[:len(format.Key)+1]
		r.reading.Values = r.reading.Values[:1]
	}
	if format.Whole {
		r.reading.Whole = make([]int64, len(r.reading.Values))
	}
	return r, nil
}

// Many tells whether a record of this format may hold another number of readings than one.
func (f *Format) Many() bool { return f.Each != "" || f.Series }

// Open reads a record as far as is needed to tell how many readings it holds, for Reading to judge one by one; or it
// refuses the record as a whole. A record that holds an empty array or object has 0 readings. The refusal belongs to the
// Reader and is valid until its next call; the record is used until the next Open.
func (r *Reader) Open(record *Record) (readings int, refused *Refusal) {
	s := &r.program.scan
	r.record, r.item = record, failed
	if !s.document(record.Value) {
		return 0, &s.refusal
	}
	n := 1
	if s.each {
		if !s.split() {
			return 0, &s.refusal
		}
		n = len(s.items)
	}
	if r.format.Series {
		n *= len(r.format.Values)
	}
	return n, nil
}

// Reading judges the i-th reading of the open record. Both results are nil when it is filtered: the condition of
// Format.Where does not hold, or a value is missing and Format.SkipMissing is set. Results belong to the Reader and are
// valid until its next call.
func (r *Reader) Reading(i int) (*Reading, *Refusal) {
	item, first, past := i, 0, len(r.program.values)
	if r.format.Series {
		item, first = i/past, i%past
		past = first + 1
	}
	if item != r.item {
		r.item = item
		if r.program.scan.each {
			r.program.scan.take(item)
		}
		if r.skip = r.program.where != nil && !r.program.scan.holds(r.program.where); !r.skip {
			r.head = r.judgeHead()
		}
	}
	if r.skip {
		return nil, nil
	}
	if r.head != nil {
		return nil, r.head
	}
	r.reading.Index, r.reading.Inexact = int32(i), 0
	for v := first; v < past; v++ {
		f := r.value(v, &r.reading.Values[v-first])
		if f == there && r.format.Whole {
			f = r.whole(v, &r.reading.Whole[v-first])
		}
		switch f {
		case there:
		case lacking:
			if r.format.SkipMissing {
				return nil, nil
			}
			return nil, &r.program.scan.refusal
		case wrong:
			return nil, &r.program.scan.refusal
		}
	}
	if r.format.Series {
		r.reading.Key[len(r.reading.Key)-1] = r.program.values[first].name
	}
	return &r.reading, nil
}

// Read reads a record's value of a format whose records are one reading each; nil is a tombstone. The record's
// timestamp, in ms, is what event times are guarded against. Results are those of Open and Reading.
func (r *Reader) Read(value []byte, recordTimestamp int64) (*Reading, *Refusal) {
	r.single = Record{Value: value, Timestamp: recordTimestamp}
	if _, refusal := r.Open(&r.single); refusal != nil {
		return nil, refusal
	}
	return r.Reading(0)
}

// Keys reads the key fields of a record's first reading and nothing else: where a record belongs does not depend on
// whether its time and values are any good. A record without readings has none, and nil is returned with nil. Results
// and their ownership are those of Open and Reading.
func (r *Reader) Keys(record *Record) ([][]byte, *Refusal) {
	if n, refusal := r.Open(record); n == 0 {
		return nil, refusal
	}
	s := &r.program.scan
	r.item = 0
	if s.each {
		s.take(0)
	}
	ok := r.keys()
	r.item = failed
	if !ok {
		return nil, &s.refusal
	}
	return r.reading.Key[:len(r.format.Key)], nil
}

// judgeHead judges what all values of an item have in common: key fields, then the time.
func (r *Reader) judgeHead() *Refusal {
	if !r.keys() || !r.eventTime() {
		return &r.program.scan.refusal
	}
	if p := r.program.sequence; p != nil {
		var ok bool
		if r.reading.Sequence, ok = r.part(p, p.Path); !ok {
			return &r.program.scan.refusal
		}
	}
	return nil
}

// finding is what became of looking for a value.
type finding uint8

const (
	there finding = iota
	lacking
	wrong
)

// value finds the i-th value.
func (r *Reader) value(i int, to *float64) finding {
	s, v := &r.program.scan, &r.program.values[i]
	if !v.plain {
		return r.lenientValue(v, to)
	}
	f := &s.fields[v.field]
	if f.kind != kindNumber {
		s.refuseKind(v.field, "a number")
		return lack(f.kind)
	}
	n, ok := f.num.float(s.data[f.start:f.end])
	if !ok {
		s.refuseField(NotFinite, v.field, "is beyond the range of a double, want a finite number")
		return wrong
	}
	if suspect(n) && inexact(n, s.data[f.start:f.end]) {
		r.countInexact()
	}
	*to = n
	return there
}

// countInexact counts a value that is not the number written. With whole numbers the double is of no account.
func (r *Reader) countInexact() {
	if !r.format.Whole {
		r.reading.Inexact++
	}
}

// lack is whether a field that is not what was wanted is missing or wrong.
func lack(k kind) finding {
	if k == kindAbsent || k == kindNull {
		return lacking
	}
	return wrong
}
