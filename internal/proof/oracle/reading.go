package oracle

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Reading is one valid measurement.
type Reading struct {
	Key    []string
	Record []byte // the record key that its fields make
	Time   int64  // event time, ms
	Nanos  int64  // the part of the event time below the ms
	Values []float64
	Whole  []int64 // in their place with Config.Whole

	Inexact int // values that are another number than the one written in a way that is counted

	Sequence string // of Dedup.Sequence
}

// Read takes a record's value apart. It judges the bytes alone; the record's own key, partition and timestamp are
// judged by the caller.
func (c *Config) Read(value []byte) (Reading, []Fault) {
	fields, faults := c.object(value)
	if faults != nil {
		return Reading{}, faults
	}
	var r Reading
	var ok bool
	if r.Key, ok = texts(fields, c.Key); !ok {
		faults = append(faults, FaultKey)
	}
	if parts, ok := texts(fields, c.RecordKeyFields()); ok {
		r.Record = RecordKey(parts)
	}
	for _, name := range c.Values {
		if c.Whole {
			n, ok := whole(fields[name])
			if !ok {
				faults = append(faults, FaultValue)
				break
			}
			r.Whole = append(r.Whole, n)
			continue
		}
		x, ok := number(fields[name])
		if !ok {
			faults = append(faults, FaultValue)
			break
		}
		r.Values = append(r.Values, x)
		if inexact(x, string(fields[name].raw)) {
			r.Inexact++
		}
	}
	if c.Dedup.Sequence != "" {
		sequence, ok := texts(fields, []string{c.Dedup.Sequence})
		if ok {
			r.Sequence = sequence[0]
		} else {
			faults = append(faults, FaultKey)
		}
	}
	r.Time, r.Nanos, ok = instant(fields[c.Time.Name], c.Time.Unit)
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
		case m.text != nil && *m.text != "":
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

// inexact tells whether a double is another number than the one written, and one that counts: 2^53 or more in size, so that
// digits in front of the point are others, or 0 (C03, C22).
func inexact(x float64, token string) bool {
	switch {
	case x == 0:
		mantissa, _, _ := strings.Cut(strings.ToLower(token), "e")
		return strings.ContainsAny(mantissa, "123456789")
	case math.IsInf(x, 0):
		return true
	case math.Abs(x) < 1<<53:
		return false
	}
	written, ok := new(big.Rat).SetString(token)
	return !ok || written.Cmp(new(big.Rat).SetFloat64(x)) != 0
}

// perSecond is how many of each unit make a second.
var perSecond = map[string]int64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}

// The years 0 to 9999, outside of which no time is plausible, in ms.
var (
	yearZero  = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	yearAfter = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
)

// instant reads a time field as ms since the epoch and the ns beyond; what is finer is cut off towards the past. A number
// far outside of the plausible years is cut to just outside of them, so that it is judged as implausible.
func instant(m member, unit string) (ms, nanos int64, ok bool) {
	if unit == "rfc3339" {
		if m.text == nil {
			return 0, 0, false
		}
		return dateTime(*m.text)
	}
	if !isNumber(m.raw) {
		return 0, 0, false
	}
	n, ok := new(big.Rat).SetString(tame(string(m.raw)))
	if !ok {
		panic(fmt.Sprintf("a JSON number that math/big does not read: %s", m.raw))
	}
	n.Mul(n, big.NewRat(1e9, perSecond[unit]))
	ns := new(big.Int).Div(n.Num(), n.Denom()) // rounds down, for the divisor is positive
	whole, rest := new(big.Int).DivMod(ns, big.NewInt(1e6), new(big.Int))
	switch {
	case whole.Cmp(big.NewInt(yearZero)) < 0:
		return yearZero - 1, 0, true
	case whole.Cmp(big.NewInt(yearAfter)) >= 0:
		return yearAfter, 0, true
	}
	return whole.Int64(), rest.Int64(), true
}

// tame replaces a number with an exponent that math/big would drown in by one that means the same for a time.
func tame(token string) string {
	mantissa, _, _ := strings.Cut(strings.ToLower(token), "e")
	rough, _ := strconv.ParseFloat(token, 64)
	switch sign := strings.TrimRight(mantissa[:1], "0123456789"); {
	case !strings.ContainsAny(mantissa, "123456789"):
		return "0"
	case math.Abs(rough) > 1e30:
		return sign + "1e30"
	case math.Abs(rough) < 1e-30:
		return sign + "1e-30"
	}
	return token
}

var rfc3339 = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d):(\d\d)(\.\d{1,9})?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$`)

// dateTime reads RFC 3339 section 5.6. A leap second is the second after 23:59:59 UTC.
func dateTime(text string) (ms, nanos int64, ok bool) {
	p := rfc3339.FindStringSubmatch(text)
	if p == nil {
		return 0, 0, false
	}
	day, clock, second, fraction, zone := p[1], p[2], p[3], p[4], strings.ToUpper(p[5])
	leap := second == "60"
	if leap {
		second = "59"
	}
	t, err := time.Parse(time.RFC3339Nano, day+"T"+clock+":"+second+fraction+zone)
	if err != nil || leap && t.UTC().Format("15:04:05") != "23:59:59" {
		return 0, 0, false
	}
	if leap {
		t = t.Add(time.Second)
	}
	return t.UnixMilli(), int64(t.Nanosecond() % 1e6), true
}
