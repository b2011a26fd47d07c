package oracle

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// row reads a row as an object with a member for each column: what is in quotes is a text, and of the other cells an empty
// one is null and a number of JSON a number.
func (c *Config) row(text string) (row tree, faults []Fault) {
	broken := []Fault{FaultJSON}
	switch {
	case text == "":
		return tree{}, []Fault{FaultEmpty}
	case !utf8.ValidString(text):
		return tree{}, []Fault{FaultUTF8, FaultJSON} // what else is wrong may be told first
	case strings.HasPrefix(text, "\ufeff"):
		return tree{}, broken
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	row = tree{kind: '{', names: c.Shape.Columns}
	separator := string(rune(c.Shape.Separator))
	for more := true; more; {
		var one tree
		if rest, quoted := strings.CutPrefix(text, `"`); quoted {
			one.kind = '"'
			for again := true; again; { // two quotes stand for one
				var piece string
				var ok bool
				if piece, text, ok = strings.Cut(rest, `"`); !ok {
					return tree{}, broken
				}
				one.text += piece
				if rest, again = strings.CutPrefix(text, `"`); again {
					one.text += `"`
				}
			}
			if text != "" && !strings.HasPrefix(text, separator) {
				return tree{}, broken
			}
			_, text, more = strings.Cut(text, separator)
		} else {
			one.text, text, more = strings.Cut(text, separator)
			switch {
			case strings.ContainsFunc(one.text, func(r rune) bool { return r < ' ' && r != '\t' || r == '"' }):
				return tree{}, broken
			case one.text == "":
				one.kind = 'n'
			case isNumber(json.RawMessage(one.text)) && json.Valid([]byte(one.text)) && !strings.ContainsAny(one.text, " \t"):
				one.kind = '0'
			default:
				one.kind = '"'
			}
		}
		row.members = append(row.members, one)
	}
	if len(row.members) != len(row.names) {
		return tree{}, broken
	}
	return row, nil
}
