package reading_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tidemark-streams/tidemark/reading"
)

// The oracle judges records with encoding/json, strconv, math/big, regexp and time, and with walks of its own for what
// encoding/json lets pass. It shares nothing with the package but the names of reasons and the limits.

// verdict is what the oracle thinks of a record. The reason is "" for a reading, "document" for any fault of the
// document that is not told apart, and else the name of a reason.
type verdict struct {
	reason string
	key    []string
	time   int64
	nanos  int32
	values []float64

	inexact int
}

const documentFault = "document"

func judge(f reading.Format, value []byte, recordTimestamp int64) verdict {
	switch {
	case value == nil:
		return verdict{reason: "tombstone"}
	case len(value) == 0:
		return verdict{reason: "empty"}
	case bytes.HasPrefix(value, []byte("\uFEFF")):
		return verdict{reason: "byte_order_mark"}
	case !json.Valid(value), !utf8.Valid(value), hasLoneSurrogate(value):
		return verdict{reason: documentFault}
	}
	w := walker{dec: json.NewDecoder(bytes.NewReader(value)), configured: configured(f)}
	w.dec.UseNumber()
	top, err := w.value(0)
	if err != nil {
		return verdict{reason: documentFault}
	}
	fields, ok := top.(map[string]any)
	if !ok {
		return verdict{reason: "not_object"}
	}
	return judgeFields(f, fields, recordTimestamp)
}

func configured(f reading.Format) []string {
	return slices.Concat(f.Key, []string{f.Time}, f.Values)
}

var escapes = regexp.MustCompile(`(?s)\\(?:u([0-9a-fA-F]{4})|.)`)

// hasLoneSurrogate looks at the escapes of a document that is valid JSON: backslashes stand in strings only.
func hasLoneSurrogate(value []byte) bool {
	var high rune
	highEnd := -1
	for _, at := range escapes.FindAllSubmatchIndex(value, -1) {
		if high != 0 && at[0] != highEnd {
			return true
		}
		var unit rune
		if at[2] >= 0 {
			n, _ := strconv.ParseUint(string(value[at[2]:at[3]]), 16, 16)
			unit = rune(n)
		}
		switch {
		case high != 0:
			if utf16.DecodeRune(high, unit) == utf8.RuneError {
				return true
			}
			high = 0
		case unit >= 0xD800 && unit <= 0xDBFF:
			high, highEnd = unit, at[1]
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return true
		}
	}
	return high != 0
}

// walker reads a valid document token by token and refuses what is too deep, too wide or there twice.
type walker struct {
	dec        *json.Decoder
	configured []string
	open       int // names of the open objects
}

var errRefused = fmt.Errorf("refused")

func (w *walker) value(depth int) (any, error) {
	token, err := w.dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth++; depth > reading.MaxDepth {
		return nil, errRefused
	}
	if delim == '{' {
		return w.object(depth)
	}
	list := []any{}
	for w.dec.More() {
		v, err := w.value(depth)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err = w.dec.Token()
	return list, err
}

func (w *walker) object(depth int) (any, error) {
	outside := w.open
	fields := make(map[string]any)
	for w.dec.More() {
		token, err := w.dec.Token()
		if err != nil {
			return nil, err
		}
		name := token.(string)
		if _, twice := fields[name]; twice {
			return nil, errRefused
		}
		if depth > 1 || !slices.Contains(w.configured, name) {
			if w.open++; w.open > reading.MaxNames {
				return nil, errRefused
			}
		}
		if fields[name], err = w.value(depth); err != nil {
			return nil, err
		}
	}
	w.open = outside
	_, err := w.dec.Token()
	return fields, err
}

func judgeFields(f reading.Format, fields map[string]any, recordTimestamp int64) verdict {
	var v verdict
	for _, name := range f.Key {
		text, reason := keyText(fields, name)
		if reason != "" {
			return verdict{reason: reason}
		}
		v.key = append(v.key, text)
	}
	if reason := v.takeTime(f, fields, recordTimestamp); reason != "" {
		return verdict{reason: reason}
	}
	for _, name := range f.Values {
		number, reason := numberOf(fields, name)
		if reason != "" {
			return verdict{reason: reason}
		}
		value, _ := strconv.ParseFloat(number, 64)
		if math.IsInf(value, 0) {
			return verdict{reason: "not_finite"}
		}
		v.values = append(v.values, value)
		if otherNumber(number, value) {
			v.inexact++
		}
	}
	return v
}

// otherNumber tells whether a double that is 0, or 2^53 or more, is another number than the one written.
func otherNumber(number string, value float64) bool {
	part := numberShape.FindStringSubmatch(number)
	if value == 0 {
		return strings.Trim(part[2]+part[3], "0") != ""
	}
	if math.Abs(value) < 1<<53 {
		return false
	}
	exact, _ := new(big.Float).SetMode(big.ToNearestEven).SetPrec(4000).SetString(number)
	return exact.Cmp(big.NewFloat(value)) != 0
}

func keyText(fields map[string]any, name string) (text, reason string) {
	if text, ok := fields[name].(string); ok {
		if text == "" {
			return "", "empty_key"
		}
		return text, ""
	}
	return numberOf(fields, name)
}

func numberOf(fields map[string]any, name string) (number, reason string) {
	value, there := fields[name]
	switch value := value.(type) {
	case json.Number:
		return value.String(), ""
	case nil:
		if there {
			return "", "null_field"
		}
		return "", "missing_field"
	}
	return "", "wrong_type"
}

var (
	firstNano = nanosOf(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))
	lastNano  = nanosOf(time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC))
)

// nanosOf is a time in ns since 1970; time.Time has no room for years far away.
func nanosOf(t time.Time) *big.Int {
	n := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(1e9))
	return n.Add(n, big.NewInt(int64(t.Nanosecond())))
}

func (v *verdict) takeTime(f reading.Format, fields map[string]any, recordTimestamp int64) (reason string) {
	var at *big.Int
	if f.Unit == reading.RFC3339 {
		text, ok := fields[f.Time].(string)
		if !ok {
			if _, reason = numberOf(fields, f.Time); reason == "" {
				reason = "wrong_type"
			}
			return reason
		}
		if at = timeOf(text); at == nil {
			return "bad_time"
		}
	} else {
		number, reason := numberOf(fields, f.Time)
		if reason != "" {
			return reason
		}
		at = numericTime(number, f.Unit)
	}
	ms := func(ms int64) *big.Int { return new(big.Int).Mul(big.NewInt(ms), big.NewInt(1e6)) }
	if at.Cmp(firstNano) < 0 || at.Cmp(lastNano) > 0 || at.Cmp(ms(f.Min)) < 0 {
		return "implausible_time"
	}
	if recordTimestamp >= 0 && recordTimestamp >= f.Min && f.MaxAhead != reading.NoMaxAhead {
		bound := ms(recordTimestamp)
		if at.Cmp(bound.Add(bound, big.NewInt(int64(f.MaxAhead)))) > 0 {
			return "future_time"
		}
	}
	whole, part := new(big.Int).DivMod(at, big.NewInt(1e6), new(big.Int))
	v.time, v.nanos = whole.Int64(), int32(part.Int64())
	return ""
}

var numberShape = regexp.MustCompile(`^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)

// numericTime is a number of units in ns since 1970, rounded down.
func numericTime(number string, unit reading.Unit) *big.Int {
	part := numberShape.FindStringSubmatch(number)
	digits, _ := new(big.Int).SetString(part[2]+part[3], 10)
	if digits.Sign() == 0 {
		return digits
	}
	exponent := new(big.Int)
	if part[4] != "" {
		exponent.SetString(strings.TrimPrefix(part[4], "+"), 10)
	}
	shift := map[reading.Unit]int64{reading.Seconds: 9, reading.Milliseconds: 6, reading.Microseconds: 3, reading.Nanoseconds: 0}
	exponent.Add(exponent, big.NewInt(shift[unit]-int64(len(part[3]))))
	// Beyond these bounds no number of this many digits is near a plausible time, and none is worth computing.
	far := int64(len(number)) + 40
	exponent = clamp(exponent, -far, far)
	if part[1] == "-" {
		digits.Neg(digits)
	}
	ten := new(big.Int).Exp(big.NewInt(10), new(big.Int).Abs(exponent), nil)
	if exponent.Sign() >= 0 {
		return digits.Mul(digits, ten)
	}
	floor, _ := new(big.Int).DivMod(digits, ten, new(big.Int))
	return floor
}

func clamp(n *big.Int, low, high int64) *big.Int {
	if n.Cmp(big.NewInt(low)) < 0 {
		return big.NewInt(low)
	}
	if n.Cmp(big.NewInt(high)) > 0 {
		return big.NewInt(high)
	}
	return n
}

var timeShape = regexp.MustCompile(
	`^(\d{4})-(\d\d)-(\d\d)[Tt]([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(?:\.(\d{1,9}))?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))$`)

// timeOf is a time of RFC 3339 in ns since 1970, or nil.
func timeOf(text string) *big.Int {
	part := timeShape.FindStringSubmatch(text)
	if part == nil {
		return nil
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(part[i])
		return v
	}
	day := time.Date(n(1), time.Month(n(2)), n(3), 0, 0, 0, 0, time.UTC)
	if day.Format("2006-01-02") != part[1]+"-"+part[2]+"-"+part[3] {
		return nil
	}
	offset := time.Duration(n(9))*time.Hour + time.Duration(n(10))*time.Minute
	if part[8] == "+" {
		offset = -offset
	}
	fraction, _ := strconv.Atoi((part[7] + "000000000")[:9])
	at := day.Add(time.Duration(n(4))*time.Hour + time.Duration(n(5))*time.Minute + time.Duration(n(6))*time.Second).Add(offset)
	if h, m, s := at.Clock(); part[6] == "60" && (h != 0 || m != 0 || s != 0) {
		return nil
	}
	return nanosOf(at.Add(time.Duration(fraction)))
}

// documentReasons are the reasons that the oracle does not tell apart.
var documentReasons = []reading.Reason{
	reading.NotJSON, reading.RegistryFraming, reading.Syntax, reading.Truncated, reading.TrailingData, reading.InvalidNumber, reading.NotFinite,
	reading.ControlChar, reading.InvalidUTF8, reading.LoneSurrogate, reading.DuplicateField, reading.TooDeep, reading.TooManyFields,
}

// accepted stands for no reason in statistics.
const accepted = "accepted"

// differ compares a Reader with the oracle on one record. The fault is "" when they agree; then the outcome is the
// reason, or accepted.
func differ(r *reading.Reader, f reading.Format, value []byte, recordTimestamp int64) (outcome, fault string) {
	want := judge(f, value, recordTimestamp)
	before := bytes.Clone(value)
	got, refusal := r.Read(value, recordTimestamp)
	switch {
	case !bytes.Equal(before, value):
		return "", "the value was changed"
	case (got == nil) == (refusal == nil):
		return "", fmt.Sprintf("two results or none: %v, %v", got, refusal)
	case refusal != nil:
		return refusal.Reason.String(), differRefusal(refusal, want, value)
	}
	return accepted, differReading(got, want)
}

func differReading(got *reading.Reading, want verdict) string {
	switch {
	case want.reason != "":
		return fmt.Sprintf("accepted as %v, want %s", got, want.reason)
	case got.Time != want.time || got.Nanos != want.nanos:
		return fmt.Sprintf("time %d ms + %d ns, want %d ms + %d ns", got.Time, got.Nanos, want.time, want.nanos)
	case int(got.Inexact) != want.inexact:
		return fmt.Sprintf("%d inexact values, want %d", got.Inexact, want.inexact)
	case len(got.Key) != len(want.key) || len(got.Values) != len(want.values):
		return fmt.Sprintf("key %q, values %v, want %q, %v", got.Key, got.Values, want.key, want.values)
	}
	for i, key := range want.key {
		if string(got.Key[i]) != key {
			return fmt.Sprintf("key %q, want %q", got.Key[i], key)
		}
	}
	for i, value := range want.values {
		if math.Float64bits(got.Values[i]) != math.Float64bits(value) {
			return fmt.Sprintf("value %v, want %v: other bits", got.Values[i], value)
		}
	}
	return ""
}

func differRefusal(refusal *reading.Refusal, want verdict, value []byte) string {
	agree := want.reason == refusal.Reason.String()
	if want.reason == documentFault {
		agree = slices.Contains(documentReasons, refusal.Reason)
	}
	if !agree {
		return fmt.Sprintf("refused: %v; want %q", refusal, want.reason)
	}
	if pos, ok := syntaxPos(refusal.Reason, value); ok && pos != refusal.Pos {
		return fmt.Sprintf("refused: %v; encoding/json stops at byte %d", refusal, pos)
	}
	if refusal.Pos < 0 || refusal.Pos > len(value) || refusal.Detail == "" || !utf8.ValidString(refusal.Detail) {
		return fmt.Sprintf("refused without a place or detail: %v", refusal)
	}
	return ""
}

// syntaxPos is where encoding/json finds the first fault of the grammar, for reasons that it has too.
func syntaxPos(reason reading.Reason, value []byte) (int, bool) {
	switch reason {
	case reading.Truncated:
		return len(value), true
	case reading.Syntax, reading.InvalidNumber, reading.ControlChar, reading.TrailingData:
	default:
		return 0, false
	}
	var fault *json.SyntaxError
	if err := json.Unmarshal(value, new(any)); !errors.As(err, &fault) {
		return -1, true
	}
	return int(fault.Offset) - 1, true
}
