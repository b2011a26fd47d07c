package reading

import (
	"fmt"
	"math"
	"time"
)

// Unit is how event times are written.
type Unit uint8

// The units of event times. The first four are numbers since 1970-01-01T00:00:00Z, the others texts.
const (
	Seconds Unit = iota + 1
	Milliseconds
	Microseconds
	Nanoseconds
	RFC3339
	ISO8601 // a date and a time of day, with a zone or in Clock.Zone
	Layout  // as Clock.Layout says
)

var unitNames = [...]string{Seconds: "s", Milliseconds: "ms", Microseconds: "us", Nanoseconds: "ns", RFC3339: "rfc3339", ISO8601: "iso8601",
	Layout: "layout"}

// unitWords name the numeric units in refusals.
var unitWords = [...]string{Seconds: "seconds", Milliseconds: "milliseconds", Microseconds: "microseconds", Nanoseconds: "nanoseconds"}

// String is the unit as it is written in a configuration.
func (u Unit) String() string {
	if !u.known() {
		return fmt.Sprintf("Unit(%d)", uint8(u))
	}
	return unitNames[u]
}

func (u Unit) known() bool { return u >= Seconds && u <= Layout }

// Numeric tells whether times of this unit are numbers.
func (u Unit) Numeric() bool { return u >= Seconds && u <= Nanoseconds }

// ParseUnit returns the unit with this name; the error lists the names that exist. Layouts have none.
func ParseUnit(name string) (Unit, error) {
	for u := Seconds; u < Layout; u++ {
		if unitNames[u] == name {
			return u, nil
		}
	}
	return 0, fmt.Errorf("time unit %q: want s, ms, us, ns, rfc3339, iso8601 or a layout as YYYY-MM-DD hh:mm:ss", name)
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
// defaults. A format of Key, Values, Time, Unit, Min and MaxAhead alone is that of a record that is one reading.
type Format struct {
	Key      []string      // names of the key fields, in the order of the key; at least one
	Values   []string      // names of the values; at least one
	Time     string        // path of the time field; empty with Clock.Record
	Unit     Unit          // how event times are written
	Min      int64         // earliest plausible event time, ms since 1970; also of record timestamps
	MaxAhead time.Duration // how far an event time may lie after its record's timestamp, whole ms; NoMaxAhead for no limit

	Parts       []Part   // where the key fields come from, parallel to Key; nil: from the paths that their names are
	Numbers     []Number // how the values are found, parallel to Values; nil: as numbers at the paths that their names are
	Clock       Clock    // what is to be known of times beside the unit
	Each        string   // path of the array or object whose members are items, each a reading; "" when the document is the only one
	Columns     []string // a record is a row of these columns, and paths are their names; nil for JSON
	Separator   byte     // of the cells of a row
	Series      bool     // each value is a reading of its own, whose last key field is the value's name
	Where       string   // condition: readings for which it does not hold are filtered; "" for none
	SkipMissing bool     // a reading that lacks a value is filtered, not refused
	Sequence    *Part    // what tells the readings of a key apart for dedup; nil for nothing but their times

	// Whole says that values are whole numbers of 64 bits, taken without loss, and others are refused. Without it a value is
	// the double nearest to the number written, which is that number as far as it shows, but for two cases that are counted
	// (Reading.Inexact): a double of 2^53 or more that is another number, and a number that is not 0 and becomes 0.
	Whole bool
}

// Origin is where a key field comes from.
type Origin uint8

// The origins of key fields.
const (
	FromField    Origin = iota // a field of the item or the document
	FromKey                    // the record's key
	FromHeader                 // a header of the record, the last one of its name
	FromMember                 // the name of a member that leads to the item, or is it; of an element its index
	FromConstant               // the configuration
)

// Part says where a key field comes from. The zero Part is the field at the path that the key field's name is.
type Part struct {
	From   Origin
	Path   string // FromField: where, when it is not the key field's name
	Name   string // FromHeader: of the header; FromConstant: the constant itself
	Member int    // FromMember: which of the steps of Format.Each that stand for any member, from 1; the members themselves come last
	Take   string // pattern: the part of the text to take; "" for all of it
}

// Number says how a value is found. The zero Number is the number at the path that the value's name is.
type Number struct {
	Path    string   // where, when it is not the value's name
	Value   string   // expression that computes the value, in place of a field
	Text    bool     // a text that holds a number will do
	Comma   bool     // in texts a comma stands before the fraction
	Take    string   // pattern: the part of a text to take
	Missing []Absent // what stands for no value
	Convert string   // expression of x that makes the value out of the number
	Range   *Range   // what is plausible; nil for everything
}

// Absent is a number or a text that stands for no value.
type Absent struct {
	Number   float64
	Text     string
	IsNumber bool
}

// Range is a closed range of plausible values; an infinite end is open.
type Range struct{ Min, Max float64 }

// Clock is what is to be known of event times beside their unit.
type Clock struct {
	Record   bool           // the record's timestamp is the event time, and there is no time field
	Also     Unit           // a second way in which times are written: a numeric one beside texts, or the other way round; 0 for none
	Layout   string         // how times of unit Layout are written
	Zone     *time.Location // of texts without a zone; nil when there are none
	Take     string         // pattern: the part of a text to take
	Text     bool           // a text that holds a number will do where a number is due
	Then     []string       // paths of texts that follow the first one, each after a blank, as a time of day does a date
	Plus     string         // path of a number that is added; absent or null it is 0. "" for none
	PlusUnit Unit           // its unit
}

// DefaultFormat is a Format with the default unit, ms, and the default bounds. Its field names are empty.
func DefaultFormat() Format {
	return Format{Unit: Milliseconds, Min: DefaultMin, MaxAhead: DefaultMaxAhead}
}

// Timed tells whether a record timestamp, in ms, counts as one: it is not before Min, and not negative, which is how Kafka
// says that there is none.
func (f *Format) Timed(recordTimestamp int64) bool { return recordTimestamp >= max(f.Min, 0) }
