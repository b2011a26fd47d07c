package proof

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// Line is one window as tidemark shows it: a line of `state dump`, or the value of a result.
type Line struct {
	Aggregation string
	Key         []string
	Start, End  int64 // ms
	Final       bool  // results only
	Merged      bool  // updates only: the session has become a part of another one
	Overflow    bool  // a number is null because it is beyond the doubles
	Unordered   bool  // a number is null because readings came too far out of order
	Numbers     map[string]Number
	Place       string // where it was read, for messages
}

// Number is one number of a Line as it was written. Null stands for what is no number, such as a sum beyond the doubles.
type Number struct {
	Text string
	Null bool
}

// ID is the window's name, the same as oracle.WindowID.
func (l *Line) ID() string { return oracle.WindowID(l.Aggregation, l.Key, l.Start) }

// ParseLine reads one line. Names must be there and of the right type; a name twice, trailing bytes, or a number that
// is not written as JSON are errors.
func ParseLine(text []byte, place string) (Line, error) {
	l := Line{Numbers: map[string]Number{}, Place: place}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	fields := map[string]any{}
	if err := readObject(decoder, "", fields); err != nil {
		return l, fmt.Errorf("%s: %w in %.200s", place, err, text)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return l, fmt.Errorf("%s: bytes after the object in %.200s", place, text)
	}
	err := errors.Join(l.take(fields, "agg"), l.take(fields, "key"), l.take(fields, "start"), l.take(fields, "end"))
	if err != nil {
		return l, fmt.Errorf("%s: %w in %.200s", place, err, text)
	}
	for name, v := range fields {
		switch x := v.(type) {
		case json.Number:
			l.Numbers[name] = Number{Text: x.String()}
		case nil:
			l.Numbers[name] = Number{Null: true}
		case bool:
			l.Final = l.Final || name == "final" && x
			l.Merged = l.Merged || name == "merged" && x
			l.Overflow = l.Overflow || (name == "overflow" || strings.HasSuffix(name, ".overflow")) && x
			l.Unordered = l.Unordered || (name == "unordered" || strings.HasSuffix(name, ".unordered")) && x
		}
	}
	return l, nil
}

// take moves one of the fixed fields out of the map.
func (l *Line) take(fields map[string]any, name string) error {
	v := fields[name]
	var ok bool
	delete(fields, name)
	switch name {
	case "agg":
		l.Aggregation, ok = v.(string)
	case "key":
		var list []any
		list, ok = v.([]any)
		for _, field := range list {
			text, isText := field.(string)
			ok = ok && isText
			l.Key = append(l.Key, text)
		}
	default:
		number, _ := v.(json.Number)
		n, err := strconv.ParseInt(number.String(), 10, 64)
		ok = err == nil
		if name == "start" {
			l.Start = n
		} else {
			l.End = n
		}
	}
	if !ok {
		return fmt.Errorf("no usable %q", name)
	}
	return nil
}

// readObject reads an object token by token, so that a name twice is noticed. Objects within are flattened: their names
// get that of the outer member and a dot in front.
func readObject(d *json.Decoder, prefix string, into map[string]any) error {
	token, err := d.Token()
	if err != nil || token != json.Delim('{') {
		return errors.Join(errors.New("no object"), err)
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		name := prefix + token.(string)
		if _, twice := into[name]; twice {
			return fmt.Errorf("%q is there twice", name)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		inner := json.NewDecoder(bytes.NewReader(raw))
		inner.UseNumber()
		if raw[0] == '{' {
			if err := readObject(inner, name+".", into); err != nil {
				return err
			}
			continue
		}
		var v any
		if err := inner.Decode(&v); err != nil {
			return err
		}
		into[name] = v
	}
	_, err = d.Token()
	return err
}

// ParseDump reads the output of `state dump`. The result is never nil: an empty dump is something to be compared.
func ParseDump(dump []byte) ([]Line, error) {
	lines := []Line{}
	for i, text := range bytes.Split(bytes.TrimSuffix(dump, []byte("\n")), []byte("\n")) {
		if len(dump) == 0 {
			break
		}
		l, err := ParseLine(text, fmt.Sprintf("state dump, line %d", i+1))
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}
