package reading

import (
	"bytes"
	"strconv"
	"unsafe"
)

// numberSize is the length of the number of JSON, without a sign, that a text begins with; failed for none.
func numberSize[T string | []byte](text T) int {
	digits := func(p int) int {
		for p < len(text) && text[p]-'0' <= 9 {
			p++
		}
		return p
	}
	p := digits(0)
	if p == 0 || p > 1 && text[0] == '0' {
		return failed
	}
	if p < len(text) && text[p] == '.' {
		q := digits(p + 1)
		if q == p+1 {
			return failed
		}
		p = q
	}
	if p < len(text) && text[p]|0x20 == 'e' {
		q := p + 1
		if q < len(text) && (text[q] == '+' || text[q] == '-') {
			q++
		}
		if p = digits(q); p == q {
			return failed
		}
	}
	return p
}

// textToken finds the number that a text holds by the rule for numbers in texts: blanks around it do not count, a plus
// may precede it, and all else is as in JSON, but for a comma in place of the point where that is configured. It
// returns the number as JSON writes it, in the text or in the scanner's text, or nil.
func (s *scanner) textToken(text []byte, comma bool) []byte {
	text = bytes.Trim(text, " \t")
	if len(text) > 0 && text[0] == '+' {
		if text = text[1:]; len(text) > 0 && text[0] == '-' {
			return nil
		}
	}
	if comma {
		if bytes.IndexByte(text, '.') >= 0 {
			return nil // a thousands mark, or a device that does not do what the configuration says
		}
		if at := bytes.IndexByte(text, ','); at >= 0 {
			start := len(s.text)
			s.text = append(s.text, text...)
			text = s.text[start:]
			text[at] = '.'
		}
	}
	unsigned := bytes.TrimPrefix(text, []byte("-"))
	if size := numberSize(unsigned); size < 0 || size != len(unsigned) {
		return nil
	}
	return text
}

// textNumber is the number that a text holds; false when it holds none, or one beyond the doubles.
func (s *scanner) textNumber(text []byte, comma bool) (float64, bool) {
	token := s.textToken(text, comma)
	if token == nil {
		return 0, false
	}
	f, ok := parseToken(token)
	if ok {
		s.noteRounding(f, token)
	}
	return f, ok
}

// parseToken is the double nearest to a number as JSON writes it. ParseFloat does not keep its argument; a string made
// by conversion would be allocated when it is long.
func parseToken(token []byte) (float64, bool) {
	f, err := strconv.ParseFloat(unsafe.String(&token[0], len(token)), 64)
	return f, err == nil
}
