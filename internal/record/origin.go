package record

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The formats of the group offset's metadata and of the result header that this program writes.
const (
	MetadataFormat = 1
	OriginFormat   = 1
)

const metadataPrefix = "tidemark/"

// Metadata is the text that goes with the group's offset after a commit: "tidemark/1 <birth id> <commit number>". At
// start it tells whether the group knows of a later commit than the log does (I6); the offset itself is never judged.
func Metadata(birth BirthID, number uint64) string {
	b := append(make([]byte, 0, 48), metadataPrefix...)
	b = strconv.AppendInt(b, MetadataFormat, 10)
	b = appendHex(append(b, ' '), uint64(birth))
	return string(strconv.AppendUint(append(b, ' '), number, 10))
}

// ParseMetadata reads the metadata of a group offset. Other programs may have set the offset: their text is an error,
// and so is an empty one. A *FormatError means that a newer tidemark wrote it.
func ParseMetadata(s string) (birth BirthID, number uint64, err error) {
	const what = "group offset metadata"
	rest, ok := strings.CutPrefix(s, metadataPrefix)
	if !ok {
		return 0, 0, fmt.Errorf("%s %.64q is not tidemark's", what, s)
	}
	p := words{rest: rest}
	if err := p.format(what, MetadataFormat); err != nil {
		return 0, 0, err
	}
	birth = BirthID(p.hex())
	number = p.decimal(math.MaxUint64)
	if p.bad || s != Metadata(birth, number) {
		return 0, 0, fmt.Errorf("%s %.64q is damaged: want \"%s%d BIRTH NUMBER\"", what, s, metadataPrefix, MetadataFormat)
	}
	return birth, number, nil
}

// OriginHeader is the key of the one header of a result.
const OriginHeader = "tidemark"

// Origin is the value of a result's header: which commit of which task published it. A result whose header names our
// job and partition is a trace of an earlier life (section 5, birth).
type Origin struct {
	Job       string // printable, 1 to MaxName bytes
	Birth     BirthID
	Partition int32  // of the input
	Number    uint64 // commit number
}

// Append appends the header's value: "1 <birth id> <partition> <commit number> <job>". It is the same for all results
// of a commit. The job comes last, so that its characters do not matter.
func (o Origin) Append(dst []byte) []byte {
	dst = strconv.AppendInt(dst, OriginFormat, 10)
	dst = appendHex(append(dst, ' '), uint64(o.Birth))
	dst = strconv.AppendInt(append(dst, ' '), int64(o.Partition), 10)
	dst = strconv.AppendUint(append(dst, ' '), o.Number, 10)
	return append(append(dst, ' '), o.Job...)
}

// ParseOrigin reads the value of a result's header. A *FormatError means that a newer program wrote it.
func ParseOrigin(b []byte) (Origin, error) {
	const what = "result header"
	p := words{rest: string(b)}
	if err := p.format(what, OriginFormat); err != nil {
		return Origin{}, err
	}
	o := Origin{Birth: BirthID(p.hex()), Partition: int32(p.decimal(math.MaxInt32)), Number: p.decimal(math.MaxUint64), Job: p.rest}
	if p.bad || !printable(o.Job) || len(o.Job) > MaxName || string(o.Append(nil)) != string(b) {
		return Origin{}, fmt.Errorf("%s %.64q is damaged: want \"%d BIRTH PARTITION NUMBER JOB\"", what, b, OriginFormat)
	}
	return o, nil
}

func printable(s string) bool {
	return s != "" && utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// words takes a text apart at single spaces. It does not mind how a number is written: the callers compare what they
// read, written again, with the text, so that there is one form only.
type words struct {
	rest string
	bad  bool
}

func (w *words) next() string {
	word, rest, _ := strings.Cut(w.rest, " ")
	w.rest = rest
	return word
}

func (w *words) format(what string, known int) error {
	n := w.decimal(math.MaxInt32)
	switch {
	case w.bad || n == 0:
		return fmt.Errorf("%s: damaged: does not begin with a format number", what)
	case n > uint64(known):
		return &FormatError{What: what, Found: int(n), Known: known}
	}
	return nil
}

func (w *words) decimal(most uint64) uint64 {
	n, err := strconv.ParseUint(w.next(), 10, 64)
	w.bad = w.bad || err != nil || n > most
	return n
}

func (w *words) hex() uint64 {
	n, err := strconv.ParseUint(w.next(), 16, 64)
	w.bad = w.bad || err != nil
	return n
}

// appendHex appends n as 16 hexadecimal digits.
func appendHex(dst []byte, n uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[n>>shift&15])
	}
	return dst
}
