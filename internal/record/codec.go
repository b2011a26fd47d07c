package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// FormatError says that something was written by a newer program, in a format that this one does not know. It is not
// damage: the bytes may be in perfect order, and nothing may be thrown away because of it.
type FormatError struct {
	What  string // for example "commit record"
	Found int    // the format it was written in
	Known int    // the newest format that this program reads
}

// Error names both formats and the way on.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: written by format %d, this program reads up to %d: use the newer tidemark that wrote it, or one after it",
		e.What, e.Found, e.Known)
}

// Limits of what a record may hold, so that hostile bytes cannot make a reader allocate much.
const (
	// MaxName bounds the name of a job, an aggregation and a topic: Kafka's own limit for topic names.
	MaxName = 249
	// MaxText bounds every other text of a commit or fence record: notes, host names, versions.
	MaxText = 1024
	// MaxAggregations bounds the aggregations of a commit record.
	MaxAggregations = 256
	// MaxOutputs bounds the outputs of an identity: one of each aggregation, late and dead letter.
	MaxOutputs = MaxAggregations + 2
	// MaxCount bounds a counter. At a million a second it lasts 36,000 years; the sum of a few never overflows.
	MaxCount = 1 << 60
)

// checkFormat reads the format version, the first byte of every value.
func checkFormat(what string, b []byte, known int) error {
	if len(b) == 0 {
		return fmt.Errorf("%s: empty", what)
	}
	switch found := int(b[0]); {
	case found > known:
		return &FormatError{What: what, Found: found, Known: known}
	case found == 0:
		return fmt.Errorf("%s: damaged: begins with format 0, which does not exist", what)
	}
	return nil
}

// reader takes a value apart. The first failure sticks: everything read after it is zero and err says where it was.
// Only the one encoding that Append writes is accepted, so that equal values have equal bytes.
type reader struct {
	what string
	all  []byte
	at   int
	err  error
}

var (
	errEndsEarly  = errors.New("ends early")
	errNotMinimal = errors.New("number is not in its shortest form")
)

func (r *reader) fail(field string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: damaged at byte %d of %d: %s: %w", r.what, r.at, len(r.all), field, err)
	}
}

// take returns the next n bytes, which point into the value.
func (r *reader) take(field string, n int) []byte {
	if r.err == nil && n > len(r.all)-r.at {
		r.fail(field, errEndsEarly)
	}
	if r.err != nil {
		return nil
	}
	b := r.all[r.at : r.at+n]
	r.at += n
	return b
}

func (r *reader) fixed64(field string) uint64 {
	if b := r.take(field, 8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (r *reader) digest(field string) Digest {
	return Digest{Hi: r.fixed64(field), Lo: r.fixed64(field)}
}

func (r *reader) uvarint(field string, most uint64) uint64 {
	if r.err != nil {
		return 0
	}
	n, w, err := uvarint(r.all[r.at:])
	if err == nil && n > most {
		err = fmt.Errorf("%d is above the limit %d", n, most)
	}
	if err != nil {
		r.fail(field, err)
		return 0
	}
	r.at += w
	return n
}

func (r *reader) count(field string) Count { return Count(r.uvarint(field, MaxCount)) }

// varint reads a zigzag number of at least least.
func (r *reader) varint(field string, least, most int64) int64 {
	start := r.at
	u := r.uvarint(field, math.MaxUint64)
	n := int64(u>>1) ^ -int64(u&1)
	if r.err == nil && (n < least || n > most) {
		r.at = start
		r.fail(field, fmt.Errorf("%d is outside %d to %d", n, least, most))
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *reader) bytes(field string, most int) []byte {
	return r.take(field, int(r.uvarint(field, uint64(most))))
}

// text reads a text and returns old when it is the same one, so that reading into a used value does not allocate.
func (r *reader) text(field string, most int, old string) string {
	b := r.bytes(field, most)
	if string(b) == old {
		return old
	}
	return string(b)
}

// end refuses bytes after the value.
func (r *reader) end() error {
	if r.err == nil && r.at != len(r.all) {
		r.fail("end", fmt.Errorf("%d more bytes than expected", len(r.all)-r.at))
	}
	return r.err
}

// uvarint is binary.Uvarint that accepts the shortest form only. It returns the number and its width.
func uvarint(b []byte) (n uint64, width int, err error) {
	n, width = binary.Uvarint(b)
	switch {
	case width == 0:
		return 0, 0, errEndsEarly
	case width < 0:
		return 0, 0, errors.New("number is longer than 64 bits")
	case width > 1 && b[width-1] == 0:
		return 0, 0, errNotMinimal
	}
	return n, width, nil
}

func appendText(dst []byte, text string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(text)))
	return append(dst, text...)
}

func appendDigest(dst []byte, d Digest) []byte {
	dst = binary.BigEndian.AppendUint64(dst, d.Hi)
	return binary.BigEndian.AppendUint64(dst, d.Lo)
}
