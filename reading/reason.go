package reading

import (
	"fmt"
	"strconv"
)

// Reason is why a record was refused. The list is fixed, and so are the names: they are written to dead letters and are
// labels of metrics. New reasons are added at the end.
type Reason uint8

// The reasons. Those up to NotObject, TooManyReadings and RegistryFraming concern the document, the others a configured
// field.
const (
	Tombstone       Reason = iota + 1 // no value at all: a delete from another system; never deletes state here
	Empty                             // a value of 0 bytes
	ByteOrderMark                     // a byte order mark before the document
	NotJSON                           // another format, or prose, recognised by its first bytes or word
	Syntax                            // JSON that breaks its grammar somewhere
	Truncated                         // the document ends early
	TrailingData                      // bytes after the document
	InvalidNumber                     // a number that JSON does not know: 012, 1., .5, +1, 0x1F
	NotFinite                         // NaN or infinity, or a number beyond the doubles
	ControlChar                       // a control character in a string
	InvalidUTF8                       // a string is not UTF-8
	LoneSurrogate                     // half a surrogate pair as an escape
	DuplicateField                    // a name twice in one object
	TooDeep                           // deeper than MaxDepth
	TooManyFields                     // more names than MaxNames
	NotObject                         // JSON, but no object
	MissingField                      // a configured field is not there
	NullField                         // a configured field is null
	WrongType                         // a configured field is of another type
	EmptyKey                          // a key field is the empty text
	BadTime                           // a time that is not RFC 3339
	ImplausibleTime                   // a time before Format.Min or outside the years 0 to 9999
	FutureTime                        // a time too far after the record's timestamp
	TooManyReadings                   // more readings than MaxReadings
	OutOfRange                        // a value outside of its plausible range
	NoValue                           // a number or text that stands for no value
	BadNumber                         // a text that holds no number
	NoMatch                           // a text that does not match its pattern
	RegistryFraming                   // the five bytes of a schema registry before the document
	NotWhole                          // a value that is no whole number of 64 bits, with Format.Whole
)

var reasonNames = [...]string{
	Tombstone:       "tombstone",
	Empty:           "empty",
	ByteOrderMark:   "byte_order_mark",
	NotJSON:         "not_json",
	Syntax:          "syntax",
	Truncated:       "truncated",
	TrailingData:    "trailing_data",
	InvalidNumber:   "invalid_number",
	NotFinite:       "not_finite",
	ControlChar:     "control_character",
	InvalidUTF8:     "invalid_utf8",
	LoneSurrogate:   "lone_surrogate",
	DuplicateField:  "duplicate_field",
	TooDeep:         "too_deep",
	TooManyFields:   "too_many_fields",
	NotObject:       "not_object",
	MissingField:    "missing_field",
	NullField:       "null_field",
	WrongType:       "wrong_type",
	EmptyKey:        "empty_key",
	BadTime:         "bad_time",
	ImplausibleTime: "implausible_time",
	FutureTime:      "future_time",
	TooManyReadings: "too_many_readings",
	OutOfRange:      "out_of_range",
	NoValue:         "no_value",
	BadNumber:       "bad_number",
	NoMatch:         "no_match",
	RegistryFraming: "registry_framing",
	NotWhole:        "not_whole",
}

// String is the reason's fixed name.
func (r Reason) String() string {
	if r == 0 || int(r) >= len(reasonNames) {
		return fmt.Sprintf("reason(%d)", uint8(r))
	}
	return reasonNames[r]
}

// Reasons returns all reasons in their order.
func Reasons() []Reason {
	list := make([]Reason, 0, len(reasonNames)-1)
	for r := range len(reasonNames) - 1 {
		list = append(list, Reason(r+1))
	}
	return list
}

// Refusal is why and where a record was refused.
type Refusal struct {
	Reason Reason
	Pos    int    // byte of the value where the fault is; for a missing field, the object's closing brace
	Field  string // the configured field concerned; "" when the fault is the document's
	Detail string // what was found and what was wanted; holds no text out of the record but names, numbers and times
}

// String is the refusal in one line.
func (r *Refusal) String() string {
	s := r.Reason.String()
	if r.Field != "" {
		s += " in field " + strconv.Quote(r.Field)
	}
	return s + " at byte " + strconv.Itoa(r.Pos) + ": " + r.Detail
}
