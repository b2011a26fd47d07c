package reading

// Reading is one valid measurement. Its slices point into the record's value or into buffers of the Reader: they must
// not be changed, and are valid until the next Read and while the value is left alone.
type Reading struct {
	Key    [][]byte  // the key fields in the order configured: decoded text, or a number's JSON token
	Time   int64     // event time in whole ms since 1970, rounded down
	Nanos  int32     // the event time's part below the ms, 0 to 999,999 ns
	Index  int32     // place among the readings of its record, 0 for the first: order is (offset, Index)
	Values []float64 // the values in the order configured; finite
}

// Reader reads records of one Format. It keeps its buffers from record to record and allocates nothing for a record it
// accepts, once the buffers have grown: at most MaxNames names and the decoded bytes of one record. It is used by one
// goroutine at a time.
type Reader struct {
	format  Format
	scan    scanner
	reading Reading
}

// NewReader returns a Reader for a format, or the faults of [Format.Check]. Later changes to the format's slices have
// no effect.
func NewReader(format Format) (*Reader, error) {
	if err := format.Check(); err != nil {
		return nil, err
	}
	r := &Reader{format: format}
	r.scan.init(format.fields())
	r.reading.Key = make([][]byte, len(format.Key))
	r.reading.Values = make([]float64, len(format.Values))
	return r, nil
}

// fields is the list of configured fields in the order in which they are judged.
func (f *Format) fields() []string {
	list := make([]string, 0, len(f.Key)+1+len(f.Values))
	list = append(list, f.Key...)
	list = append(list, f.Time)
	return append(list, f.Values...)
}

// Read reads one record's value; nil is a tombstone. The record's timestamp, in ms, is what event times are guarded
// against. Exactly one of the two results is not nil; both belong to the Reader and are valid until its next Read.
func (r *Reader) Read(value []byte, recordTimestamp int64) (*Reading, *Refusal) {
	if !r.scan.document(value) || !r.judge(recordTimestamp) {
		return nil, &r.scan.refusal
	}
	return &r.reading, nil
}

// Keys reads the key fields of a record's value and nothing else: where a record belongs does not depend on whether its
// time and values are any good. Results and their ownership are those of Read.
func (r *Reader) Keys(value []byte) ([][]byte, *Refusal) {
	if !r.scan.document(value) || !r.keys() {
		return nil, &r.scan.refusal
	}
	return r.reading.Key, nil
}

// judge takes the configured fields from a scanned document: key fields, time, values.
func (r *Reader) judge(recordTimestamp int64) bool {
	s, keys := &r.scan, len(r.format.Key)
	if !r.keys() || !r.eventTime(keys, recordTimestamp) {
		return false
	}
	for i := range r.reading.Values {
		f := &s.fields[keys+1+i]
		if f.kind != kindNumber {
			return s.refuseKind(keys+1+i, "a number")
		}
		v, ok := f.num.float(s.data[f.start:f.end])
		if !ok {
			return s.refuseField(NotFinite, keys+1+i, "is beyond the range of a double, want a finite number")
		}
		r.reading.Values[i] = v
	}
	return true
}

func (r *Reader) keys() bool {
	for i := range r.reading.Key {
		token, ok := r.scan.key(i)
		if !ok {
			return false
		}
		r.reading.Key[i] = token
	}
	return true
}

// key returns a key field's bytes.
func (s *scanner) key(i int) ([]byte, bool) {
	f := &s.fields[i]
	switch {
	case f.kind == kindNumber:
		return s.data[f.start:f.end], true
	case f.kind != kindText:
		return nil, s.refuseKind(i, "a text or a number")
	case f.end-f.start == len(`""`):
		return nil, s.refuseField(EmptyKey, i, "is empty; a key field names a device")
	}
	return s.fieldText(f), true
}

// fieldText returns the decoded text of a field that holds one.
func (s *scanner) fieldText(f *field) []byte {
	if f.escaped {
		return s.decode(f.start+1, f.end-1)
	}
	return s.data[f.start+1 : f.end-1]
}
