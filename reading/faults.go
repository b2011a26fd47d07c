package reading

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// fail notes a refusal. It returns failed for scanning functions to pass on.
func (s *scanner) fail(reason Reason, p int, detail string) int {
	s.refusal = Refusal{Reason: reason, Pos: p, Detail: detail}
	if s.inside != failed {
		s.refusal.Field = s.labels[s.inside]
	}
	if reason == Syntax && p <= 1 {
		if id, ok := framed(s.data); ok {
			s.refusal = Refusal{Reason: RegistryFraming, Detail: fmt.Sprintf("looks like schema registry framing, schema id %d; write JSON without the five bytes in front", id)}
		} else if other := foreign(s.data); other != "" {
			s.refusal = Refusal{Reason: NotJSON, Detail: other}
		}
	}
	if r := &s.refusal; r.Reason == Syntax || r.Reason == NotFinite {
		if other := s.prose(p); other != "" {
			r.Reason, r.Pos, r.Detail = NotJSON, s.blank(0), other
		}
	}
	return failed
}

// prose says that a document whose fault is at p does not go wrong somewhere in its JSON but is none: its first word is none of
// JSON's, as a line of a log has it, or it is XML. NaN and infinity are told as such.
func (s *scanner) prose(p int) string {
	const want = "; a record holds JSON, like {\"name\": 21.5}"
	start := s.blank(0)
	end := start
	for end < len(s.data) && 'a' <= s.data[end]|0x20 && s.data[end]|0x20 <= 'z' {
		end++
	}
	switch word := s.data[start:end]; {
	case p > end || start == len(s.data):
	case s.data[start] == '<':
		return "looks like XML or HTML" + want
	case len(word) > 0 && !bytes.EqualFold(word, []byte("nan")) && !bytes.EqualFold(word, []byte("inf")) && !bytes.EqualFold(word, []byte("infinity")):
		return "it begins with a word that is none of JSON" + want
	}
	return ""
}

// found names a byte: as a character, in hexadecimal when it cannot be printed.
func found(c byte) string {
	if c < ' ' || c > '~' {
		return fmt.Sprintf("0x%02x", c)
	}
	return strconv.QuoteRune(rune(c))
}

// unexpected is the fault of a byte that the grammar does not allow, or of none being left.
func (s *scanner) unexpected(p int, want string) int {
	if p >= len(s.data) {
		return s.truncated(want)
	}
	return s.fail(Syntax, p, "found "+found(s.data[p])+", want "+want)
}

func (s *scanner) truncated(want string) int {
	return s.fail(Truncated, len(s.data), "the document ends after "+strconv.Itoa(len(s.data))+" bytes, want "+want)
}

// noDocument notes what a record holds that does not even begin to be a document, and tells whether it does so.
func (s *scanner) noDocument() bool {
	switch {
	case s.data == nil:
		s.fail(Tombstone, 0, "the record has no value")
	case len(s.data) == 0:
		s.fail(Empty, 0, "the value has 0 bytes")
	case bytes.HasPrefix(s.data, []byte("\xEF\xBB\xBF")):
		s.fail(ByteOrderMark, 0, "the value begins with a byte order mark (ef bb bf); write UTF-8 without one")
	default:
		return false
	}
	return true
}

// foreign names the format that a value which is not JSON seems to have, or returns "".
func foreign(data []byte) string {
	starts := func(prefix string) bool { return bytes.HasPrefix(data, []byte(prefix)) }
	switch {
	case starts("\x1F\x8B"):
		return "looks like gzip; let the producer's client compress instead of the application"
	case starts("\x28\xB5\x2F\xFD"):
		return "looks like zstd; let the producer's client compress instead of the application"
	case starts("\xFF\xFE"), starts("\xFE\xFF"), starts("{\x00"), starts("[\x00"), starts("\x00{\x00"), starts("\x00[\x00"):
		return "looks like UTF-16; JSON is UTF-8"
	}
	return ""
}

// framed tells whether a value begins with the frame of a schema registry, a zero byte and a schema's number, and is no
// UTF-16.
func framed(data []byte) (id uint32, ok bool) {
	if len(data) < 5 || data[0] != 0 || data[2] == 0 && (data[1] == '{' || data[1] == '[') {
		return 0, false
	}
	return binary.BigEndian.Uint32(data[1:]), true
}

// badEnd is the fault of a value that is followed by something else than what may follow.
func (s *scanner) badEnd(p int, want string) int {
	if c := s.data[p-1]; '0' <= c && c <= '9' && continuesNumber(s.data[p]) {
		return s.fail(InvalidNumber, p, found(s.data[p])+" in a number")
	}
	return s.unexpected(p, want)
}

// continuesNumber tells whether a byte behind a number was meant as a part of it.
func continuesNumber(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '.' || c == '_' || c == '+' || c == '-'
}

// noNumber is the fault of a sign with no digit behind it.
func (s *scanner) noNumber(p int) int {
	if s.notFinite(p) {
		return failed
	}
	return s.noDigit(p)
}

func (s *scanner) noDigit(p int) int {
	if p >= len(s.data) {
		return s.truncated("a digit")
	}
	return s.fail(InvalidNumber, p, found(s.data[p])+" in a number, want a digit")
}

func (s *scanner) leadingZero(p int) int {
	return s.fail(InvalidNumber, p, found(s.data[p])+" after a leading 0; a number does not begin with 0")
}

// noValue is the fault of a byte that begins no value.
func (s *scanner) noValue(p int) int {
	switch c := s.data[p]; {
	case s.notFinite(p):
		return failed
	case c == '.' || c == '+':
		return s.fail(InvalidNumber, p, found(c)+" begins no number; want '-' or a digit")
	}
	return s.unexpected(p, "a value")
}

// badLiteral finds the byte at which a literal goes wrong.
func (s *scanner) badLiteral(p int, word string) int {
	if s.notFinite(p) {
		return failed
	}
	for i := range len(word) {
		if p+i >= len(s.data) || s.data[p+i] != word[i] {
			return s.unexpected(p+i, word)
		}
	}
	panic("reading: a literal is said to be wrong and is right")
}

// notFinite tells whether what stands at p, perhaps after a sign, was meant as a value that is no number, and notes it.
func (s *scanner) notFinite(p int) bool {
	for _, word := range []string{"nan", "inf"} {
		if len(s.data)-p >= len(word) && bytes.EqualFold(s.data[p:p+len(word)], []byte(word)) {
			s.fail(NotFinite, p, "NaN and infinity are no JSON; want a finite number, or null")
			return true
		}
	}
	return false
}

func (s *scanner) controlChar(p int) int {
	return s.fail(ControlChar, p, found(s.data[p])+" in a string; control characters are written as escapes")
}

func (s *scanner) badEscape(p int) int {
	return s.unexpected(p, `one of " \ / b f n r t u after a backslash`)
}

func (s *scanner) loneSurrogate(p int) int {
	return s.fail(LoneSurrogate, p, "half of a surrogate pair; it stands for no character")
}

func (s *scanner) badUTF8(p int) int {
	if !utf8.FullRune(s.data[p:]) {
		return s.truncated("the rest of a character")
	}
	return s.fail(InvalidUTF8, p, found(s.data[p])+" is not UTF-8 here")
}

func (s *scanner) tooDeep(p int) int {
	return s.fail(TooDeep, p, "nesting deeper than "+strconv.Itoa(MaxDepth))
}

func (s *scanner) tooManyNames(p int) int {
	return s.fail(TooManyFields, p, "more than "+strconv.Itoa(MaxNames)+" names in the objects open here")
}

// longestName bounds the names shown in refusals.
const longestName = 64

func (s *scanner) duplicate(n *name, p int) int {
	text := s.nameBytes(n)
	if len(text) > longestName {
		text = text[:longestName]
	}
	return s.fail(DuplicateField, p, "name "+strconv.Quote(string(text))+" is there twice in one object")
}

// refuseField notes the fault of a configured field that the document holds.
func (s *scanner) refuseField(reason Reason, i int, detail string) bool {
	s.refusal = Refusal{Reason: reason, Pos: s.fields[i].start, Field: s.labels[i], Detail: detail}
	return false
}

// dotted is what to say of a path that leads nowhere while the document has a name that is written like it: a name with a
// point in it, which a backslash makes a part of the name.
func (s *scanner) dotted(path string) string {
	if !strings.Contains(path, ".") || strings.ContainsAny(path, `\$`) || !bytes.Contains(s.data, []byte(`"`+path+`"`)) {
		return ""
	}
	return `; for the name "` + path + `" write ` + strings.ReplaceAll(path, ".", `\.`)
}

// refuseKind notes that a configured field is not of the type wanted.
func (s *scanner) refuseKind(i int, want string) bool {
	detail := "is " + kindNames[s.fields[i].kind] + ", want " + want
	switch s.fields[i].kind {
	case kindAbsent:
		s.refuseField(MissingField, i, detail+s.dotted(s.labels[i]))
		s.refusal.Pos = s.close
	case kindNull:
		s.refuseField(NullField, i, detail)
	default:
		s.refuseField(WrongType, i, detail)
	}
	return false
}
