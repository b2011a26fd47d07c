package oracle

import (
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"time"
)

// Reading is one valid measurement.
type Reading struct {
	Key    []string
	Record []byte // the record key that its fields make
	Time   int64  // event time, ms
	Values []float64
}

// Read takes a record's value apart. It judges the bytes alone; the record's own key, partition and timestamp are
// judged by the caller.
func (c *Config) Read(value []byte) (Reading, []Fault) {
	fields, faults := object(value, c.Depth)
	if faults != nil {
		return Reading{}, faults
	}
	var r Reading
	var ok bool
	if r.Key, ok = texts(fields, c.Key); !ok {
		faults = append(faults, FaultKey)
	}
	by := c.PartitionedBy
	if by == nil {
		by = c.Key
	}
	if parts, ok := texts(fields, by); ok {
		r.Record = RecordKey(parts)
	}
	for _, name := range c.Values {
		x, ok := number(fields[name])
		if !ok {
			faults = append(faults, FaultValue)
			break
		}
		r.Values = append(r.Values, x)
	}
	r.Time, ok = instant(fields[c.Time.Name], c.Time.Unit)
	if !ok {
		faults = append(faults, FaultTime)
	}
	return r, faults
}

// texts returns the text of key fields: a string as it is, a number as its token.
func texts(fields map[string]member, names []string) ([]string, bool) {
	var out []string
	for _, name := range names {
		m := fields[name]
		switch {
		case m.text != nil:
			out = append(out, *m.text)
		case isNumber(m.raw):
			out = append(out, string(m.raw))
		default:
			return nil, false
		}
	}
	return out, true
}

func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// number reads a JSON number as a double, rounded to nearest even. A number beyond the doubles is refused; one below
// the smallest double is 0 (C22).
func number(m member) (float64, bool) {
	if !isNumber(m.raw) {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(m.raw), 64)
	return x, err == nil && !math.IsInf(x, 0)
}

// perSecond is how many of each unit make a second.
var perSecond = map[string]int64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}

var (
	wholeNumber = regexp.MustCompile(`^-?[0-9]+$`)
	dateTime    = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`)
)

// instant reads a time field as ms since the epoch; what is finer than a ms is rounded down. A whole number of any
// length is a time, if an impossible one: it is cut to the range of int64, so that the guards judge it.
func instant(m member, unit string) (int64, bool) {
	if unit == "rfc3339" {
		if m.text == nil || !dateTime.MatchString(*m.text) {
			return 0, false
		}
		t, err := time.Parse(time.RFC3339Nano, *m.text)
		return t.UnixMilli(), err == nil
	}
	if !isNumber(m.raw) || !wholeNumber.MatchString(string(m.raw)) {
		return 0, false
	}
	n, ok := new(big.Int).SetString(string(m.raw), 10)
	if !ok {
		return 0, false
	}
	n.Mul(n, big.NewInt(1000))
	n.Div(n, big.NewInt(perSecond[unit])) // rounds down, for the divisor is positive
	switch {
	case n.IsInt64():
		return n.Int64(), true
	case n.Sign() < 0:
		return math.MinInt64, true
	}
	return math.MaxInt64, true
}
