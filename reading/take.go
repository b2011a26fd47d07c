package reading

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A pattern takes a part out of a text: tele/{}/SENSOR takes dev-1 out of tele/dev-1/SENSOR. It is literal text with
//
//	{}    what is taken: one or more characters other than /
//	{**}  the same, with / among them
//	*     one or more characters other than /, left out
//	**    the same, with / among them
//
// and one {} or {**}. Each stands for as little as possible before the literal text that follows it, and the last one
// for all that is left before the pattern's end. A text either matches as a whole or not at all.

// maxPattern bounds a pattern's text.
const maxPattern = 256

// pattern is a pattern taken apart: literal, wild, literal, wild, ... literal.
type pattern struct {
	text    string
	literal [][]byte
	wild    []wild // between them
}

type wild struct{ taken, slashes bool }

// parsePattern takes a pattern apart.
func parsePattern(text string) (*pattern, error) {
	if len(text) > maxPattern || !utf8.ValidString(text) {
		return nil, fmt.Errorf("a pattern is UTF-8 of at most %d bytes", maxPattern)
	}
	p, taken := &pattern{text: text}, 0
	var literal strings.Builder
	for rest := text; rest != ""; {
		w, size := wildAt(rest)
		if size == 0 {
			literal.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		if len(p.wild) > 0 && literal.Len() == 0 {
			return nil, fmt.Errorf("pattern %q: two wildcards in a row, and no telling where one ends", text)
		}
		if w.taken {
			taken++
		}
		p.literal, p.wild = append(p.literal, []byte(literal.String())), append(p.wild, w)
		literal.Reset()
		rest = rest[size:]
	}
	p.literal = append(p.literal, []byte(literal.String()))
	if taken != 1 {
		return nil, fmt.Errorf("pattern %q takes %d parts, want one {} or {**}", text, taken)
	}
	return p, nil
}

// wildAt is the wildcard that a text begins with, and its length, 0 for none.
func wildAt(text string) (wild, int) {
	for _, w := range []struct {
		text string
		wild
	}{{"{**}", wild{true, true}}, {"{}", wild{true, false}}, {"**", wild{false, true}}, {"*", wild{false, false}}} {
		if strings.HasPrefix(text, w.text) {
			return w.wild, len(w.text)
		}
	}
	return wild{}, 0
}

// take returns the part of a text that the pattern takes, nil when the text does not match.
func (p *pattern) take(text []byte) (taken []byte) {
	rest, ok := bytes.CutPrefix(text, p.literal[0])
	if !ok {
		return nil
	}
	for i, w := range p.wild {
		next, size := p.literal[i+1], 0
		switch {
		case i < len(p.wild)-1:
			if len(rest) == 0 {
				return nil
			}
			size = 1 + bytes.Index(rest[1:], next)
		case bytes.HasSuffix(rest, next):
			size = len(rest) - len(next)
		}
		if size < 1 || !w.slashes && bytes.IndexByte(rest[:size], '/') >= 0 {
			return nil
		}
		if w.taken {
			taken = rest[:size:size]
		}
		rest = rest[size+len(next):]
	}
	return taken
}

// shape is the pattern with nothing taken: patterns of one shape match the same texts.
func (p *pattern) shape() string {
	return strings.NewReplacer("{**}", "**", "{}", "*").Replace(p.text)
}
