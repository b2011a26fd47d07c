package reading

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DefaultSeparator stands between the cells of a row.
const DefaultSeparator = ','

// A record may be one row of comma-separated values, as in RFC 4180 but with a separator of choice and without a header:
// its columns are configured. A cell that is a number of JSON is that number, an empty one null, and any other a text;
// one that is written in quotes is a text whatever it holds. A row has as many cells as there are columns.

// rowSet is what is known of rows.
type rowSet struct {
	columns   []int // the field of each column, failed for none
	separator byte
}

// checkColumns finds what is wrong with columns, and gives each its field.
func (c *checker) checkColumns(s *scanner, fields []lateField, order []int) {
	s.separator = c.Separator
	if c.Each != "" {
		c.add("each: a row is one reading")
	}
	if s.separator == '"' || s.separator == '\n' || s.separator == '\r' || s.separator >= utf8.RuneSelf {
		c.add("separator %q: want one character of ASCII, and neither a quote nor the end of a line", c.Separator)
	}
	s.columns = make([]int, len(c.Columns))
	for i, name := range c.Columns {
		if s.columns[i] = failed; name == "" || slices.Contains(c.Columns[:i], name) {
			c.add("columns: %q is empty or there twice", name)
		}
	}
	for i := range fields {
		at := -1
		if names := fields[i].path.names; len(names) == 1 {
			at = slices.Index(c.Columns, names[0])
		}
		if at < 0 {
			hint := ""
			if label := fields[i].label; slices.Contains(c.Columns, label) {
				hint = "; for the column of that name write " + strings.ReplaceAll(label, ".", `\.`)
			}
			c.add("field %q is no column%s", fields[i].label, hint)
			continue
		}
		s.columns[at] = order[i]
	}
}

// row scans a record that is a row.
func (s *scanner) row(data []byte) bool {
	s.data, s.text, s.inside = data, s.text[:0], failed
	s.clear(0, len(s.fields))
	if s.noDocument() {
		return false
	}
	end := len(data)
	if end > 0 && data[end-1] == '\n' {
		end--
	}
	if end > 0 && data[end-1] == '\r' {
		end--
	}
	s.close = len(data) - 1
	p, n := 0, 0
	for more := true; more; n++ {
		i := failed
		if n < len(s.columns) {
			i = s.columns[n]
		}
		s.inside = i
		var f field
		q := s.cell(p, end, &f)
		if q == failed {
			return false
		}
		if i != failed {
			s.fields[i] = f
		}
		more = q < end
		p = q + 1
	}
	if s.inside = failed; n != len(s.columns) {
		return s.fail(Syntax, end, fmt.Sprintf("the row has %d cells, want %d", n, len(s.columns))) != failed
	}
	return true
}

// cell scans one cell and returns the index of the separator behind it, or end.
func (s *scanner) cell(p, end int, f *field) int {
	f.start = p
	if p < end && s.data[p] == '"' {
		return s.quotedCell(p, end, f)
	}
	for p < end && s.data[p] != s.separator {
		switch c := s.data[p]; {
		case c < ' ' && c != '\t':
			return s.controlChar(p)
		case c == '"':
			return s.fail(Syntax, p, "a quote inside a cell that does not begin with one")
		case c < utf8.RuneSelf:
			p++
		default:
			_, size := utf8.DecodeRune(s.data[p:end])
			if size == 1 {
				return s.badUTF8(p)
			}
			p += size
		}
	}
	token := s.data[f.start:p]
	switch unsigned := token; {
	case len(token) == 0:
		f.kind = kindNull
	default:
		if token[0] == '-' {
			unsigned = token[1:]
		}
		f.kind, f.form = kindText, formBare
		if size := numberSize(unsigned); size > 0 && size == len(unsigned) {
			f.kind = kindNumber
			s.number(f.start, &f.num)
		}
	}
	f.end = p
	return p
}

// quotedCell scans a cell in quotes, in which two quotes stand for one.
func (s *scanner) quotedCell(p, end int, f *field) int {
	f.kind, f.form = kindText, formQuoted
	for p++; ; {
		if p >= end {
			return s.fail(Truncated, len(s.data), "the row ends after "+strconv.Itoa(len(s.data))+" bytes, want a closing quote")
		}
		switch c := s.data[p]; {
		case c == '"' && p+1 < end && s.data[p+1] == '"':
			p += 2
		case c == '"':
			f.end = p + 1
			if p++; p < end && s.data[p] != s.separator {
				return s.fail(Syntax, p, found(s.data[p])+" after a closing quote, want the separator")
			}
			return p
		case c < utf8.RuneSelf:
			p++
		default:
			_, size := utf8.DecodeRune(s.data[p:end])
			if size == 1 {
				return s.badUTF8(p)
			}
			p += size
		}
	}
}

// form is how a text is written.
type form uint8

const (
	formJSON   form = iota
	formBare        // as it is
	formQuoted      // a cell in quotes
)

// cellText is the text of a cell in quotes.
func (s *scanner) cellText(f *field) []byte {
	begin := len(s.text)
	for p := f.start + 1; p < f.end-1; p++ {
		s.text = append(s.text, s.data[p])
		if s.data[p] == '"' {
			p++
		}
	}
	return s.text[begin:]
}
