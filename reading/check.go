package reading

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Check returns all faults of the format, joined, or nil.
func (f *Format) Check() error {
	_, err := f.compile()
	return err
}

// checker gathers the faults of a format.
type checker struct {
	*Format
	faults []error
	seen   map[string]string // plain fields by place, with their use
}

func (c *checker) add(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// checkPlain finds what is wrong with names, units and bounds: all that is seen without taking paths apart.
func (c *checker) checkPlain() error {
	if len(c.Key) == 0 {
		c.add("key: no field; name the field that tells devices apart")
	}
	if len(c.Values) == 0 {
		c.add("values: no field; name the field that is measured")
	}
	if len(c.Parts) > 0 && len(c.Parts) != len(c.Key) || len(c.Numbers) > 0 && len(c.Numbers) != len(c.Values) {
		c.add("%d parts of %d key fields and %d numbers of %d values", len(c.Parts), len(c.Key), len(c.Numbers), len(c.Values))
		return errors.Join(c.faults...)
	}
	c.names("key", c.Key)
	c.names("values", c.Values)
	c.checkClock()
	if c.Min < earliest || c.Min > latest {
		c.add("earliest time %d ms is outside the years 0 to 9999", c.Min)
	}
	if c.MaxAhead < 0 || c.MaxAhead != NoMaxAhead && c.MaxAhead%time.Millisecond != 0 {
		c.add("max_ahead %s: want 0 or more, in whole ms", c.MaxAhead)
	}
	return nil
}

// names checks that names are texts and differ.
func (c *checker) names(place string, names []string) {
	seen := make(map[string]bool)
	for _, name := range names {
		switch {
		case name == "":
			c.add("%s: the name of a field is empty", place)
		case !utf8.ValidString(name):
			c.add("%s: %q is not valid UTF-8", place, name)
		case seen[name]:
			c.add("%s: field %q is already used as %s; a field has one use", place, name, place)
		}
		seen[name] = true
	}
}

func (c *checker) checkClock() {
	k := &c.Clock
	switch {
	case !c.Unit.known() && !k.Record:
		c.add("time unit %d: want s, ms, us, ns, rfc3339, iso8601 or a layout", uint8(c.Unit))
	case k.Also != 0 && (!k.Also.known() || k.Also.Numeric() == c.Unit.Numeric()):
		c.add("time units %s and %s: of two, one is for numbers and one for texts", c.Unit, k.Also)
	case c.Unit == Layout || k.Also == Layout:
		if l, err := parseLayout(k.Layout); err != nil {
			c.faults = append(c.faults, err)
		} else if !l.zoned && k.Zone == nil {
			c.add("time layout %q has no Z: the zone of the times must be configured", k.Layout)
		}
	}
	if len(k.Then) > 0 && !k.Record && c.Unit.Numeric() && (k.Also == 0 || k.Also.Numeric()) {
		c.add("time then: a second text needs a time that is a text: want rfc3339, iso8601 or a layout")
	}
	c.checkBlanks()
	for i, path := range k.Then {
		if path == c.Time || slices.Contains(k.Then[:i], path) {
			c.add("time then: field %q is there twice", path)
		}
	}
	if k.Plus != "" && !k.PlusUnit.Numeric() {
		c.add("time plus: unit %s, want s, ms, us or ns", k.PlusUnit)
	}
	switch {
	case c.Time == "" && !k.Record:
		c.add("time: the name of a field is empty")
	case k.Record && (c.Time != "" || len(k.Then) > 0 || k.Plus != "" || k.Take != ""):
		c.add("time: the record's timestamp is the event time, and no field has a part in it")
	}
}

// checkBlanks finds a time in several fields that is written as no text with a blank between the fields is.
func (c *checker) checkBlanks() {
	k := &c.Clock
	if len(k.Then) == 0 || k.Take != "" || k.Record {
		return
	}
	for _, unit := range []Unit{c.Unit, k.Also} {
		written, blanks := unit.String(), 0
		switch unit {
		case RFC3339:
		case ISO8601:
			blanks = 1
		case Layout:
			written, blanks = k.Layout, strings.Count(k.Layout, " ")
		default:
			continue
		}
		if blanks < len(k.Then) {
			c.add("time then: fields are joined by blanks, and %s has %d for %d of them: it matches nothing; want one between the fields, as in YYYY M D h",
				written, blanks, len(k.Then))
		}
	}
}

// use takes down that a plain field is used, and finds fields with two plain uses.
func (c *checker) use(place, label string, p *path) {
	at := p.where()
	if before := c.seen[at]; before != "" {
		c.add("%s: field %q is already used as %s; a field has one use", place, label, before)
	}
	c.seen[at] = place
}
