package reading

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Each byte of a word at once.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks the bytes of eight that end the plain part of a string: quotes, backslashes, control characters and
// bytes outside ASCII. The lowest mark is exact; a borrow may add false ones above it only.
func special(w uint64) uint64 {
	quote := w ^ '"'*ones
	slash := w ^ '\\'*ones
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w | w) & highs
}

// quoted scans a string from behind its opening quote, and sets escaped when it has escapes.
func (s *scanner) quoted(p int) int {
	for {
		for p+8 <= len(s.data) {
			if m := special(binary.LittleEndian.Uint64(s.data[p:])); m != 0 {
				p += bits.TrailingZeros64(m) >> 3
				break
			}
			p += 8
		}
		if p >= len(s.data) {
			return s.truncated("a closing quote")
		}
		switch c := s.data[p]; {
		case c == '"':
			return p + 1
		case c == '\\':
			s.escaped = true
			if p = s.escape(p); p == failed {
				return failed
			}
		case c < ' ':
			return s.controlChar(p)
		case c < utf8.RuneSelf:
			p++ // near the end, where whole words are not to be had
		default:
			_, size := utf8.DecodeRune(s.data[p:])
			if size == 1 {
				return s.badUTF8(p)
			}
			p += size
		}
	}
}

// escape scans an escape, or two that make a surrogate pair.
func (s *scanner) escape(p int) int {
	if p+1 >= len(s.data) {
		return s.truncated("an escape")
	}
	switch s.data[p+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return p + 2
	case 'u':
	default:
		return s.badEscape(p + 1)
	}
	unit, q := s.hex(p + 2)
	if q == failed || !utf16.IsSurrogate(unit) {
		return q
	}
	if unit >= lowSurrogate {
		return s.loneSurrogate(p)
	}
	return s.lowHalf(p, q)
}

const lowSurrogate = 0xDC00 // the first of the low surrogates, which come second

// lowHalf scans the second escape of a surrogate pair, at q; the first is at p.
func (s *scanner) lowHalf(p, q int) int {
	for i, c := range []byte(`\u`) {
		if q+i >= len(s.data) {
			return s.truncated("the second half of a surrogate pair")
		}
		if s.data[q+i] != c {
			return s.loneSurrogate(p)
		}
	}
	unit, end := s.hex(q + 2)
	if end != failed && (!utf16.IsSurrogate(unit) || unit < lowSurrogate) {
		return s.loneSurrogate(p)
	}
	return end
}

// hex scans the four digits of an escape.
func (s *scanner) hex(p int) (rune, int) {
	var unit rune
	for i := range 4 {
		if p+i >= len(s.data) {
			return 0, s.truncated("four hexadecimal digits")
		}
		d := hexDigit(s.data[p+i])
		if d < 0 {
			return 0, s.unexpected(p+i, "four hexadecimal digits")
		}
		unit = unit<<4 | d
	}
	return unit, p + 4
}

func hexDigit(c byte) rune {
	switch {
	case '0' <= c && c <= '9':
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return rune(c-'A') + 10
	}
	return -1
}

// decode appends the text between two indexes, which has been scanned, to the scanner's text and returns it.
func (s *scanner) decode(start, end int) []byte {
	begin := len(s.text)
	for p := start; p < end; {
		c := s.data[p]
		if c != '\\' {
			s.text = append(s.text, c)
			p++
			continue
		}
		switch c = s.data[p+1]; c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, q := s.hex(p + 2)
			if utf16.IsSurrogate(r) {
				var low rune
				low, q = s.hex(q + 2)
				r = utf16.DecodeRune(r, low)
			}
			s.text = utf8.AppendRune(s.text, r)
			p = q
			continue
		}
		s.text = append(s.text, c)
		p += 2
	}
	return s.text[begin:]
}
