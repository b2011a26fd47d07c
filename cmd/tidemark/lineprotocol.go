package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/reading"
)

// measurementName is the member that holds the measurement; timeName the one with the timestamp, when the job names none.
const (
	measurementName = "measurement"
	timeName        = "time"
)

// pointReader makes JSON lines of line protocol, one object of each line: the member measurement, each tag as a text, each
// field as a number, text or truth value, and the timestamp where the job looks for the event time and in its unit. The
// digits of numbers stay as they are written.
type pointReader struct {
	lines     *lineReader
	precision reading.Unit // of the timestamps
	name      string       // of their member
	unit      reading.Unit // of that member; RFC3339 for a text
	now       func() time.Time

	names map[string]bool // members of the present object
}

// newPointReader finds out what the job wants.
func newPointReader(from io.Reader, precision reading.Unit, input *config.Input) (*pointReader, error) {
	p := &pointReader{lines: &lineReader{from: from}, precision: precision, name: timeName, unit: precision, now: time.Now,
		names: map[string]bool{}}
	format := &input.Format
	switch {
	case format.Columns != nil:
		return nil, errors.New("line protocol becomes JSON, and input.format of the job is csv")
	case format.Clock.Record:
		return p, nil
	}
	p.name = format.Time
	if strings.ContainsAny(p.name, `.\$`) || format.Each != "" {
		return nil, fmt.Errorf("input.time.field of the job is %q: a line's timestamp becomes a member of an object without others inside: want a plain name and no input.each", p.name)
	}
	if len(format.Clock.Then) > 0 && !format.Unit.Numeric() {
		return nil, fmt.Errorf("input.time.then of the job is %s: a line's timestamp becomes one member", format.Clock.Then)
	}
	switch p.unit = format.Unit; p.unit {
	case reading.Layout:
		return nil, fmt.Errorf("input.time.unit of the job is %q: the timestamps of line protocol can be written in s, ms, us, ns and rfc3339 only",
			format.Clock.Layout)
	case reading.ISO8601:
		p.unit = reading.RFC3339
	}
	return p, nil
}

func (p *pointReader) ready() bool { return p.lines.ready() }

// next returns the next line as a JSON object; comments and blank lines are empty ones. A line that cannot become one is a
// bad line; the lines after it can.
func (p *pointReader) next() (line, error) {
	l, err := p.lines.next()
	if err != nil {
		return l, err
	}
	text := l.value
	l.value = nil
	if at := invalidUTF8(text); at >= 0 {
		l.column, l.bad = at+1, errors.New("is not valid UTF-8")
		return l, nil
	}
	decoder := lineprotocol.NewDecoderWithBytes(text)
	if !decoder.Next() {
		return l, nil
	}
	if l.value, err = p.object(decoder, text); err == nil {
		return l, nil
	}
	l.value, l.bad = nil, err
	var syntax *lineprotocol.DecodeError
	if errors.As(err, &syntax) || errors.As(badValue(text), &syntax) {
		l.column, l.bad = syntax.Column, syntax.Err
	}
	return l, nil
}

// badValue reads the fields of a line again, and returns the fault of the first value that is none, with its column, which
// those that ask for the bytes of a value are not told.
func badValue(text []byte) error {
	decoder := lineprotocol.NewDecoderWithBytes(text)
	for decoder.Next() {
		for {
			key, _, err := decoder.NextField()
			if err != nil || key == nil {
				return err
			}
		}
	}
	return nil
}

// object is a point as a JSON object.
func (p *pointReader) object(from *lineprotocol.Decoder, text []byte) ([]byte, error) {
	clear(p.names)
	measurement, err := from.Measurement()
	if err != nil {
		return nil, err
	}
	object, err := p.member([]byte{'{'}, measurementName)
	if err != nil {
		return nil, err
	}
	object = appendJSONString(object, string(measurement))
	for {
		key, value, err := from.NextTag()
		if err != nil {
			return nil, err
		}
		if key == nil {
			break
		}
		if object, err = p.member(object, string(key)); err != nil {
			return nil, err
		}
		object = appendJSONString(object, string(value))
	}
	for {
		key, kind, value, err := from.NextFieldBytes()
		if err != nil {
			return nil, err
		}
		if key == nil {
			break
		}
		if object, err = p.member(object, string(key)); err != nil {
			return nil, err
		}
		if object, err = appendField(object, kind, value); err != nil {
			return nil, err
		}
	}
	stamp, err := from.TimeBytes()
	if err != nil {
		return nil, err
	}
	if object, err = p.member(object, p.name); err != nil {
		return nil, err
	}
	if object, err = p.appendTime(object, string(stamp)); err != nil {
		column := bytes.LastIndex(text, stamp) + 1
		return nil, &lineprotocol.DecodeError{Column: column, Err: err}
	}
	return append(object, '}'), nil
}

// member appends the name of a member. A name can be there once only, for a reader of JSON would have to choose (C07).
func (p *pointReader) member(object []byte, name string) ([]byte, error) {
	if p.names[name] {
		return nil, fmt.Errorf("%q is there twice: measurement, tags, fields and timestamp (as %q) become members of one object", name, p.name)
	}
	p.names[name] = true
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(appendJSONString(object, name), ':'), nil
}

// appendField appends a field's value.
func appendField(object []byte, kind lineprotocol.ValueKind, value []byte) ([]byte, error) {
	parsed, err := lineprotocol.NewValueFromBytes(kind, value)
	if err != nil {
		return nil, err
	}
	switch kind {
	case lineprotocol.String:
		return appendJSONString(object, parsed.StringV()), nil
	case lineprotocol.Bool:
		return strconv.AppendBool(object, parsed.BoolV()), nil
	}
	return append(object, jsonNumber(string(value))...), nil
}

// jsonNumber writes a number of line protocol by JSON's grammar, which demands digits on both sides of the point and no
// zeros before others.
func jsonNumber(text string) string {
	sign, rest := "", text
	if rest[0] == '-' {
		sign, rest = "-", rest[1:]
	}
	end := strings.IndexAny(rest, ".eE")
	if end < 0 {
		end = len(rest)
	}
	whole, rest := strings.TrimLeft(rest[:end], "0"), rest[end:]
	if whole == "" {
		whole = "0"
	}
	if fraction, ok := strings.CutPrefix(rest, "."); ok && (fraction == "" || fraction[0] == 'e' || fraction[0] == 'E') {
		rest = fraction
	}
	return sign + whole + rest
}

// appendTime appends a timestamp, or the present time where a line has none, in the unit that the job reads.
func (p *pointReader) appendTime(object []byte, stamp string) ([]byte, error) {
	if stamp == "" {
		stamp = strconv.FormatInt(p.now().UnixNano()/nanosOf(p.precision), 10)
	}
	at, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("timestamp %s is beyond 64 bits", stamp)
	}
	if p.unit.Numeric() {
		return append(object, shiftPoint(stamp, decimals(p.unit)-decimals(p.precision))...), nil
	}
	perSecond := int64(time.Second) / nanosOf(p.precision)
	moment := time.Unix(at/perSecond, at%perSecond*nanosOf(p.precision)).UTC()
	if year := moment.Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("timestamp %s %s is outside the years 0 to 9999: is --precision right?", stamp, p.precision)
	}
	return append(moment.AppendFormat(append(object, '"'), time.RFC3339Nano), '"'), nil
}

// decimals of a second that a unit has.
func decimals(u reading.Unit) int { return 3 * int(u-reading.Seconds) }

func nanosOf(u reading.Unit) int64 {
	n := int64(time.Second)
	for range int(u - reading.Seconds) {
		n /= 1000
	}
	return n
}

// shiftPoint multiplies a whole number by a power of ten, exactly.
func shiftPoint(number string, by int) string {
	digits, negative := strings.CutPrefix(number, "-")
	sign := ""
	if negative {
		sign = "-"
	}
	if by >= 0 {
		return jsonNumber(sign + digits + strings.Repeat("0", by))
	}
	digits = strings.Repeat("0", max(0, 1-by-len(digits))) + digits
	whole, fraction := digits[:len(digits)+by], strings.TrimRight(digits[len(digits)+by:], "0")
	return jsonNumber(sign + whole + "." + fraction)
}

// invalidUTF8 is the place of the first byte that is not part of a character, -1 for none.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		at += size
	}
	return at
}
