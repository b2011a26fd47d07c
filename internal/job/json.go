package job

import "unicode/utf8"

const hexDigits = "0123456789abcdef"

// appendString appends text, which is valid UTF-8, as a JSON string with the fewest escapes: quote, backslash and
// control characters, of which backspace, form feed, newline, carriage return and tab have a short one. These bytes are
// part of record keys, results and dump lines, so they never change.
func appendString(dst, text []byte) []byte {
	dst = append(dst, '"')
	for {
		plain := 0
		for plain < len(text) && !escaped(text[plain]) {
			plain++
		}
		dst = append(dst, text[:plain]...)
		if plain == len(text) {
			return append(dst, '"')
		}
		dst = appendEscape(dst, text[plain])
		text = text[plain+1:]
	}
}

func escaped(c byte) bool { return c < ' ' || c == '"' || c == '\\' }

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// maxEscaped is how much longer appendString may make a byte.
const maxEscaped = 6

// cutText cuts text to at most n bytes, not within a character.
func cutText(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
