package reading

import (
	"strconv"
	"unicode/utf8"
)

// keys takes the key fields of the present item.
func (r *Reader) keys() bool {
	for i := range r.program.parts {
		p := &r.program.parts[i]
		var token []byte
		var ok bool
		if p.plain {
			token, ok = r.program.scan.key(p.field)
		} else {
			token, ok = r.part(p, r.format.Key[i])
		}
		if !ok {
			return false
		}
		r.reading.Key[i] = token
	}
	return true
}

// key returns the bytes of a field that is a key field.
func (s *scanner) key(i int) ([]byte, bool) {
	f := &s.fields[i]
	switch {
	case f.kind == kindNumber:
		return s.data[f.start:f.end], true
	case f.kind != kindText:
		return nil, s.refuseKind(i, "a text or a number")
	case f.end-f.start == len(`""`) && f.form != formBare:
		return nil, s.refuseField(EmptyKey, i, "is empty; a key field names a device")
	}
	return s.fieldText(f), true
}

// part takes a key field from wherever it comes, or a part of it.
func (r *Reader) part(p *partOf, name string) (token []byte, ok bool) {
	s := &r.program.scan
	what := "the record's key"
	switch p.From {
	case FromConstant:
		return p.constant, true
	case FromField:
		if token, ok = s.key(p.field); !ok {
			return nil, false
		}
		what = s.labels[p.field]
	case FromMember:
		token = s.nameOf(&s.items[r.item], p.Member-1)
		what = "the member's name"
	case FromHeader:
		what = "header " + p.Name
		if r.record.Headers != nil {
			token = r.record.Headers.Header(p.Name)
		}
	default:
		token = r.record.Key
	}
	switch {
	case token == nil:
		return nil, s.refusePart(MissingField, name, "the record has no "+what)
	case len(token) == 0:
		return nil, s.refusePart(EmptyKey, name, what+" is empty; a key field names a device")
	case !utf8.Valid(token):
		return nil, s.refusePart(InvalidUTF8, name, what+" is not UTF-8")
	case p.take == nil:
		return token, true
	}
	if taken := p.take.take(token); taken != nil {
		return taken, true
	}
	return nil, s.refusePart(NoMatch, name, what+" "+shownText(token)+" does not match "+p.Take)
}

// refusePart notes the fault of a key field that is no field of the document.
func (s *scanner) refusePart(reason Reason, name, detail string) bool {
	s.refusal = Refusal{Reason: reason, Field: name, Detail: detail}
	return false
}

// shownText is the beginning of a text in quotes.
func shownText(text []byte) string {
	if len(text) > longestName {
		text = text[:longestName]
	}
	return strconv.Quote(string(text))
}

// fieldText returns the decoded text of a field that holds one.
func (s *scanner) fieldText(f *field) []byte {
	switch {
	case f.escaped:
		return s.decode(f.start+1, f.end-1)
	case f.form == formBare:
		return s.data[f.start:f.end]
	case f.form == formQuoted:
		return s.cellText(f)
	}
	return s.data[f.start+1 : f.end-1]
}
