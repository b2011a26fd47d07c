package reading

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// Unit is how event times are written.
type Unit uint8

// The units of event times. The first four are numbers since 1970-01-01T00:00:00Z.
const (
	Seconds Unit = iota + 1
	Milliseconds
	Microseconds
	Nanoseconds
	RFC3339
)

var unitNames = [...]string{Seconds: "s", Milliseconds: "ms", Microseconds: "us", Nanoseconds: "ns", RFC3339: "rfc3339"}

// unitWords name the numeric units in refusals.
var unitWords = [...]string{Seconds: "seconds", Milliseconds: "milliseconds", Microseconds: "microseconds", Nanoseconds: "nanoseconds"}

// String is the unit as it is written in a configuration.
func (u Unit) String() string {
	if !u.known() {
		return fmt.Sprintf("Unit(%d)", uint8(u))
	}
	return unitNames[u]
}

func (u Unit) known() bool { return u >= Seconds && u <= RFC3339 }

// ParseUnit returns the unit with this name; the error lists the names that exist.
func ParseUnit(name string) (Unit, error) {
	for u := Seconds; u <= RFC3339; u++ {
		if unitNames[u] == name {
			return u, nil
		}
	}
	return 0, fmt.Errorf("time unit %q: want s, ms, us, ns or rfc3339", name)
}

// Limits that do not depend on the configuration.
const (
	MaxDepth  = 64   // objects and arrays nested in one another, the outermost one counted
	MaxNames  = 4096 // names of all objects open at one place, configured fields not counted
	MaxFields = 64   // configured fields
)

// Defaults of the plausibility bounds.
const (
	DefaultMin      int64         = 946684800000 // 2000-01-01T00:00:00Z in ms
	DefaultMaxAhead time.Duration = 5 * time.Minute
)

// NoMaxAhead as Format.MaxAhead switches the guard against future times off.
const NoMaxAhead time.Duration = math.MaxInt64

// Event times outside the years 0 to 9999 are never plausible, whatever the configuration: RFC 3339 ends there too, and
// window arithmetic cannot overflow inside (W11).
const (
	earliest int64 = -62167219200000 // 0000-01-01T00:00:00Z in ms
	latest   int64 = 253402300799999 // 9999-12-31T23:59:59.999Z in ms
)

// Format says how a record's bytes are read. Every field means what it says; start from [DefaultFormat] for the
// defaults.
type Format struct {
	Key      []string      // names of the key fields, in the order of the key; at least one
	Values   []string      // names of the value fields; at least one
	Time     string        // name of the time field
	Unit     Unit          // how event times are written
	Min      int64         // earliest plausible event time, ms since 1970; also of record timestamps
	MaxAhead time.Duration // how far an event time may lie after its record's timestamp, whole ms; NoMaxAhead for no limit
}

// DefaultFormat is a Format with the default unit, ms, and the default bounds. Its field names are empty.
func DefaultFormat() Format {
	return Format{Unit: Milliseconds, Min: DefaultMin, MaxAhead: DefaultMaxAhead}
}

// Timed tells whether a record timestamp, in ms, counts as one: it is not before Min, and not negative, which is how Kafka
// says that there is none.
func (f *Format) Timed(recordTimestamp int64) bool { return recordTimestamp >= max(f.Min, 0) }

// Check returns all faults of the format, joined, or nil.
func (f *Format) Check() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(f.Key) == 0 {
		add("key: no field; name the field that tells devices apart")
	}
	if len(f.Values) == 0 {
		add("values: no field; name the field that is measured")
	}
	seen := make(map[string]string)
	field := func(place, name string) {
		switch {
		case name == "":
			add("%s: the name of a field is empty", place)
		case !utf8.ValidString(name):
			add("%s: %q is not valid UTF-8", place, name)
		case seen[name] != "":
			add("%s: field %q is already used as %s; a field has one use", place, name, seen[name])
		default:
			seen[name] = place
		}
	}
	for _, name := range f.Key {
		field("key", name)
	}
	field("time", f.Time)
	for _, name := range f.Values {
		field("values", name)
	}
	if n := len(f.Key) + 1 + len(f.Values); n > MaxFields {
		add("%d fields, at most %d are possible", n, MaxFields)
	}
	if !f.Unit.known() {
		add("time unit %d: want s, ms, us, ns or rfc3339", uint8(f.Unit))
	}
	if f.Min < earliest || f.Min > latest {
		add("earliest time %d ms is outside the years 0 to 9999", f.Min)
	}
	if f.MaxAhead < 0 || f.MaxAhead != NoMaxAhead && f.MaxAhead%time.Millisecond != 0 {
		add("max_ahead %s: want 0 or more, in whole ms", f.MaxAhead)
	}
	return errors.Join(faults...)
}
