package proof

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/reading"
)

// TestReadersAgree gives documents made of odd parts, then bent at random bytes, to the reader of tidemark and to the
// oracle's. They must agree on accepting, on every field, and the reason of a refusal must be a fault that the oracle
// sees too. TIDEMARK_SEED replays; TIDEMARK_DOCUMENTS is how many.
func TestReadersAgree(t *testing.T) {
	seed, documents := uint64(time.Now().UnixNano()), 5_000
	if n, err := strconv.ParseUint(os.Getenv("TIDEMARK_SEED"), 10, 64); err == nil {
		seed = n
	}
	if n, err := strconv.Atoi(os.Getenv("TIDEMARK_DOCUMENTS")); err == nil {
		documents = n
	}
	g := generator{random: rand.New(rand.NewPCG(seed, 2))}
	accepted := 0
	for range documents {
		unit := []reading.Unit{reading.Milliseconds, reading.Seconds, reading.Microseconds, reading.Nanoseconds, reading.RFC3339}[g.random.IntN(5)]
		document := g.document(unit)
		fault := compareReaders(unit, document, &accepted)
		if fault != "" {
			t.Fatalf("%s\n%q\nagain: TIDEMARK_SEED=%d go test -run TestReadersAgree ./internal/proof", fault, document, seed)
		}
	}
	if accepted < documents/20 {
		t.Errorf("only %d of %d documents are readings: too few to compare", accepted, documents)
	}
}

const recordTime = 1704067200000

// compareReaders says in what the two differ, "" when in nothing.
func compareReaders(unit reading.Unit, document []byte, accepted *int) string {
	format := reading.DefaultFormat()
	format.Key, format.Values, format.Time, format.Unit = []string{"device", "site"}, []string{"value", "other"}, "ts", unit
	reader, err := reading.NewReader(format)
	if err != nil {
		return err.Error()
	}
	config := oracle.Defaults()
	config.Key, config.Values, config.Time = format.Key, format.Values, oracle.TimeField{Name: "ts", Unit: unit.String()}
	config.Partitions = 1
	config.Aggregations = []oracle.Aggregation{{Name: "a", Size: 1}}

	want, _ := config.Read(document)
	outcome := config.Run(0, []oracle.Record{{Timestamp: recordTime, Key: want.Record, Value: document}})
	got, refusal := reader.Read(document, recordTime)
	switch {
	case refusal != nil && len(outcome.Dead) == 0:
		return fmt.Sprintf("refused (%s), the oracle reads %+v", refusal, want)
	case refusal != nil:
		if !reasonFits(refusal.Reason.String(), outcome.Dead[0].Faults) {
			return fmt.Sprintf("refused (%s), the oracle sees %v", refusal, outcome.Dead[0].Faults)
		}
		return ""
	case len(outcome.Dead) > 0:
		return fmt.Sprintf("read as %+v, the oracle sees %v", got, outcome.Dead[0].Faults)
	}
	*accepted++
	if string(job.AppendRecordKey(nil, got.Key...)) != string(want.Record) {
		return fmt.Sprintf("key %q, the oracle reads %q", got.Key, want.Key)
	}
	if got.Time != want.Time {
		return fmt.Sprintf("time %d, the oracle reads %d", got.Time, want.Time)
	}
	if int(got.Inexact) != want.Inexact {
		return fmt.Sprintf("%d inexact values, the oracle sees %d", got.Inexact, want.Inexact)
	}
	for i := range got.Values {
		if !oracle.SameBits(got.Values[i], want.Values[i]) {
			return fmt.Sprintf("value %v, the oracle reads %v", got.Values[i], want.Values[i])
		}
	}
	return ""
}

// generator makes documents that are readings, nearly readings, or rubbish.
type generator struct{ random *rand.Rand }

func (g generator) one(list ...string) string { return list[g.random.IntN(len(list))] }

func (g generator) document(unit reading.Unit) []byte {
	fields := []string{
		g.name("device") + ":" + g.text(), g.name("site") + ":" + g.text(), g.name("ts") + ":" + g.time(unit),
		g.name("value") + ":" + g.number(), g.name("other") + ":" + g.number(),
	}
	for range g.random.IntN(3) {
		fields = append(fields, g.name(g.one("x", "y", "value", "Device", ""))+":"+g.any(3))
	}
	g.random.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	space := func() string { return strings.Repeat(g.one(" ", "\n", "\t", "\r"), max(0, g.random.IntN(6)-4)) }
	b := []byte(space() + "{" + space() + strings.Join(fields, space()+","+space()) + space() + "}" + space())
	if g.random.IntN(3) == 0 {
		at := g.random.IntN(len(b))
		switch g.random.IntN(4) {
		case 0:
			b = b[:at]
		case 1:
			b[at] = byte(g.random.IntN(256))
		case 2:
			b = append(b[:at:at], b[min(len(b), at+1+g.random.IntN(3)):]...)
		case 3:
			b = append(append(b[:at:at], g.one(`"`, "{", "}", "[", ",", ":", "0", "e", "\\", "\\u", " ", "é", "\xff")...), b[at:]...)
		}
	}
	return b
}

// name is a name as a JSON string, sometimes with an escape in it.
func (g generator) name(s string) string {
	if s != "" && g.random.IntN(20) == 0 {
		return fmt.Sprintf(`"\u%04x%s"`, s[0], s[1:])
	}
	return `"` + s + `"`
}

func (g generator) text() string {
	if g.random.IntN(8) == 0 {
		return g.any(1)
	}
	return `"` + g.one("a", "b1", "é", "e\u0301", `\n`, `\u0000x`, `\ud83d\ude00`, `\"`, "\u2028", `\/`, "<&>", "x") +
		strings.Repeat("0123456789", g.random.IntN(3)) + `"`
}

func (g generator) number() string {
	if g.random.IntN(8) == 0 {
		return g.any(1)
	}
	sign := g.one("", "", "-")
	switch g.random.IntN(4) {
	case 0:
		return sign + g.one("0", "0.0", "1e400", "5e-400", "1.7976931348623157e308", "1.7976931348623159e308", "4.9e-324", "2.4703282292062327e-324",
			"9007199254740993", "0.1", "1E+2", "123456789012345678901234567890", "0.000001e-5", "1e22", "1e23", "8.5e22",
			"9007199254740992", "9007199254740992.0", "9007199254740991.4", "9007199254740991.6", "9007199254740993e2", "228930314431312345", "999999999999999999",
			"1000000000000000000", "18446744073709551616", "0.9007199254740993e16", "0e400", "0.00e-7", "2e-324", "3e-324")
	case 1:
		return sign + strconv.FormatFloat(g.random.NormFloat64()*1e3, 'f', g.random.IntN(20), 64)
	case 2:
		return sign + strconv.FormatFloat(g.random.ExpFloat64(), 'e', -1, 64)
	}
	return sign + strconv.Itoa(g.random.IntN(100_000)) + g.one("", ".5", "."+strconv.Itoa(g.random.IntN(1000)), "e3", "E-2", "e+1")
}

func (g generator) time(unit reading.Unit) string {
	if g.random.IntN(10) == 0 {
		return g.any(1)
	}
	ms := recordTime - g.random.Int64N(1_000_000_000) + g.random.Int64N(2)*g.random.Int64N(600_000)
	if unit == reading.RFC3339 {
		zone := time.FixedZone("", (g.random.IntN(24*4)-48)*900)
		form := g.one(time.RFC3339, time.RFC3339Nano, "2006-01-02t15:04:05.000000z", "2006-01-02T15:04:60Z", "2006-01-02T24:04:05Z",
			"2006-01-02 15:04:05Z", "2006-01-02T15:04:05.1234567891Z", "2006-01-02T15:04Z", "2006-1-02T15:04:05Z", "2006-02-31T15:04:05Z", "20060102T150405Z",
			"2006-12-31T23:59:60Z", "2006-01-02T15:04:05+0100", "2006-01-02T15:04:05-00:00", "2006-01-02T15:04:05+24:00", "0000-01-02T15:04:05Z")
		return `"` + time.UnixMilli(ms).In(zone).Format(form) + `"`
	}
	digits := map[reading.Unit]int{reading.Seconds: -3, reading.Milliseconds: 0, reading.Microseconds: 3, reading.Nanoseconds: 6}[unit]
	s := strconv.FormatInt(ms, 10)
	if digits < 0 {
		s = s[:len(s)-3] + g.one("", "."+s[len(s)-3:])
	} else {
		s += strings.Repeat(g.one("0", "9"), digits)
	}
	return g.one("", "", "", "", "", "-") + s + g.one("", "", "", "", ".0", ".999", "e0", "e1", "e-1", "0", "e99999", "e-99999")
}

// any is any JSON value, nested at most so deep, with a taste for what is nearly allowed.
func (g generator) any(depth int) string {
	switch n := g.random.IntN(12); {
	case n < 2 && depth > 0:
		return "[" + g.any(depth-1) + "," + g.any(depth-1) + "]"
	case n < 4 && depth > 0:
		return "{" + g.name(g.one("x", "y")) + ":" + g.any(depth-1) + "," + g.name(g.one("x", "y", "z")) + ":" + g.any(depth-1) + "}"
	case n == 4:
		deep := g.one("60", "61", "62", "63", "64", "65")
		levels, _ := strconv.Atoi(deep)
		return strings.Repeat("[", levels) + strings.Repeat("]", levels)
	case n < 8:
		return g.one("null", "true", "false", `""`, `"1"`, `"NaN"`, "{}", "[]", "1e999", "-0")
	case n == 8:
		return g.one("NaN", "Infinity", "-Infinity", "01", "1.", ".5", "+1", "0x1F", "1_0", "-", "1e", "nul", "tru", "'a'", `"\ud800"`, `"\udc00\ud800"`,
			`"\x"`, "\"\xff\"", "\"\x01\"", "\"\xed\xa0\x80\"", "\"\xc0\x80\"", "{,}", "[,]", "[1,]", `{"a":1,}`, "/**/1", "")
	}
	return strconv.Itoa(g.random.IntN(1000))
}
