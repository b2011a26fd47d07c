package reading

import (
	"fmt"
	"math"
	"strconv"
)

// lenientValue finds a value with all that is configured for it. In this order: the field, or the expression; what
// stands for no value; the part of the text and the number in it; conversion; range.
func (r *Reader) lenientValue(v *valueOf, to *float64) (f finding) {
	s := &r.program.scan
	var n float64
	s.rounded = false
	if v.compute != nil {
		n, f = s.computed(v)
	} else {
		n, f = s.read(v)
	}
	if f != there {
		return f
	}
	if v.convert != nil {
		n = s.evaluate(v.convert, n).number
	}
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		s.refuseValue(v, NotFinite, "is not finite as computed, want a finite number")
		return wrong
	case v.Range != nil && (n < v.Range.Min || n > v.Range.Max):
		s.refuseValue(v, OutOfRange, fmt.Sprintf("is %s, plausible is %s", shownNumber(n), v.Range))
		return wrong
	}
	if s.rounded {
		r.countInexact()
	}
	*to = n
	return there
}

// String is the range in words.
func (r *Range) String() string {
	switch {
	case math.IsInf(r.Min, -1):
		return "at most " + shownNumber(r.Max)
	case math.IsInf(r.Max, 1):
		return "at least " + shownNumber(r.Min)
	}
	return shownNumber(r.Min) + " to " + shownNumber(r.Max)
}

func shownNumber(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }

// refuseValue notes the fault of a value; where its field is, if it has one.
func (s *scanner) refuseValue(v *valueOf, reason Reason, detail string) {
	pos := s.close
	if v.field != failed {
		pos = s.fields[v.field].start
	}
	s.refusal = Refusal{Reason: reason, Pos: pos, Field: v.label, Detail: detail}
}

// computed is the value of an expression.
func (s *scanner) computed(v *valueOf) (float64, finding) {
	o := s.evaluate(v.compute, 0)
	if o.kind == kindNumber {
		return o.number, there
	}
	s.refuseKind(o.field, "a number")
	if s.refusal.Reason == WrongType {
		s.refusal.Detail = "is not what the expression computes with"
	}
	s.refusal.Detail += " (" + s.labels[o.field] + ")"
	s.refusal.Field = v.label
	return 0, lack(o.kind)
}

// read is the number of a field.
func (s *scanner) read(v *valueOf) (float64, finding) {
	f := &s.fields[v.field]
	switch f.kind {
	case kindNumber:
		n, ok := f.num.float(s.data[f.start:f.end])
		if !ok {
			s.refuseValue(v, NotFinite, "is beyond the range of a double, want a finite number")
			return 0, wrong
		}
		s.noteRounding(n, s.data[f.start:f.end])
		return s.unlessMissing(v, n)
	case kindText:
		return s.readText(v, s.fieldText(f))
	}
	s.refuseKind(v.field, v.wants())
	return 0, lack(f.kind)
}

func (v *valueOf) wants() string {
	if v.Text {
		return "a number, or a text that holds one"
	}
	return "a number"
}

// readText is the number in a text.
func (s *scanner) readText(v *valueOf, text []byte) (float64, finding) {
	for i := range v.Missing {
		if m := &v.Missing[i]; !m.IsNumber && m.Text == string(text) {
			s.refuseValue(v, NoValue, "is "+shownText(text)+", which stands for no value")
			return 0, lacking
		}
	}
	if !v.Text {
		s.refuseKind(v.field, v.wants())
		return 0, wrong
	}
	if v.take != nil {
		taken := v.take.take(text)
		if taken == nil {
			s.refuseValue(v, NoMatch, shownText(text)+" does not match "+v.Take)
			return 0, wrong
		}
		text = taken
	}
	token := s.textToken(text, v.Comma)
	if token == nil {
		as := ""
		if v.Comma {
			as = " with a decimal comma"
		}
		s.refuseValue(v, BadNumber, "is "+shownText(text)+", which is no number"+as)
		return 0, wrong
	}
	s.token = token
	n, ok := parseToken(token)
	if !ok {
		s.refuseValue(v, NotFinite, "is beyond the range of a double, want a finite number")
		return 0, wrong
	}
	s.noteRounding(n, token)
	return s.unlessMissing(v, n)
}

// noteRounding takes down that a number which a value is made of is not the one written.
func (s *scanner) noteRounding(f float64, token []byte) {
	s.rounded = s.rounded || suspect(f) && inexact(f, token)
}

// unlessMissing is a number, unless it stands for no value.
func (s *scanner) unlessMissing(v *valueOf, n float64) (float64, finding) {
	for i := range v.Missing {
		if m := &v.Missing[i]; m.IsNumber && m.Number == n {
			s.refuseValue(v, NoValue, "is "+shownNumber(n)+", which stands for no value")
			return 0, lacking
		}
	}
	return n, there
}
