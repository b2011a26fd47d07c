package reading_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// generator draws documents: mostly right, with every fault now and then.
type generator struct {
	r *rand.Rand
	b []byte
}

// one tells whether something that happens once in n times happens.
func (g *generator) one(n int) bool { return g.r.IntN(n) == 0 }

func (g *generator) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *generator) add(parts ...string) {
	for _, part := range parts {
		g.b = append(g.b, part...)
	}
}

func (g *generator) document() []byte {
	g.b = nil
	if g.one(50) {
		g.add(g.pick("\xef\xbb\xbf", " ", "\n", "\x00\x00\x00\x00\x2a", "[", "\x1f\x8b"))
	}
	if g.one(40) {
		g.value(0)
	} else {
		g.object(0, g.topNames())
	}
	if g.one(30) {
		g.add(g.pick(" ", "\n", "x", "{}", ",", "\x00", "//"))
	}
	for g.one(4) {
		g.mutate()
	}
	return g.b
}

// mutate changes, removes, doubles or cuts bytes.
func (g *generator) mutate() {
	if len(g.b) == 0 {
		return
	}
	i := g.r.IntN(len(g.b))
	switch g.r.IntN(4) {
	case 0:
		g.b[i] = byte(g.r.IntN(256))
	case 1:
		g.b = append(g.b[:i], g.b[i+1:]...)
	case 2:
		j := i + g.r.IntN(len(g.b)-i+1)
		g.b = append(g.b[:j:j], g.b[i:]...)
	case 3:
		g.b = g.b[:i]
	}
}

// topNames are the names of the outermost object: most of the configured ones, in some order, and others.
func (g *generator) topNames() []string {
	names := []string{"device", "ts", "value"}
	if g.one(3) {
		names = []string{"site", "device", "time of day", "a", "temperature", "ü\"\n"}
	}
	for g.one(2) {
		names = append(names, g.name())
	}
	if g.one(20) {
		for i := range g.r.IntN(60) {
			names = append(names, "n"+strconv.Itoa(i%58))
		}
	}
	if g.one(2) {
		g.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	}
	if g.one(10) {
		names = names[:g.r.IntN(len(names))]
	}
	return names
}

func (g *generator) name() string {
	return g.pick("x", "y", "", "Device", "value", "Value", "ts ", "device\x00", "a long name, longer than a word", "a long name, longer than a work", "é", "😀")
}

func (g *generator) object(depth int, names []string) {
	g.add("{", g.blank())
	for i, name := range names {
		if i > 0 {
			g.add(",", g.blank())
		}
		g.text(name)
		g.add(g.blank(), ":", g.blank())
		if depth == 0 && !g.one(8) {
			g.fieldValue(name)
		} else {
			g.value(depth + 1)
		}
		g.add(g.blank())
	}
	g.add("}")
}

// fieldValue is a value as a configured field would have it.
func (g *generator) fieldValue(name string) {
	switch name {
	case "device", "site":
		g.text(g.pick("a", "b", "d-000123", "é", "", "line\nbreak", "a somewhat longer name of a device"))
	case "ts":
		g.add(g.timeNumber())
	case "time of day":
		g.add(`"`, g.timeText(), `"`)
	default:
		g.add(g.number())
	}
}

func (g *generator) blank() string {
	if g.one(12) {
		return g.pick(" ", "\n", "\t", "\r", "  \n ", "\v", "\u00a0")
	}
	return ""
}

func (g *generator) value(depth int) {
	switch n := g.r.IntN(12); {
	case n < 3:
		g.add(g.number())
	case n < 6:
		g.text(g.name())
	case n == 6 && depth < 70:
		names := []string{g.name()}
		for g.one(2) {
			names = append(names, g.name())
		}
		g.object(depth+1, names)
	case n == 7 && depth < 70:
		g.add("[", g.blank())
		for i := range g.r.IntN(4) {
			if i > 0 {
				g.add(",")
			}
			g.value(depth + 1)
		}
		g.add("]")
	case n == 8 && g.one(20):
		open := 50 + g.r.IntN(30)
		g.add(strings.Repeat("[", open), strings.Repeat("]", open))
	default:
		g.add(g.pick("null", "true", "false", "{}", "[]", "nul", "True", "NaN", "-Infinity"))
	}
}

// text writes a string, each character plain or as an escape, and now and then one that is wrong.
func (g *generator) text(s string) {
	g.add(`"`)
	for _, r := range s {
		switch {
		case r < ' ' || r == '"' || r == '\\' || g.one(30):
			g.escape(r)
		default:
			g.add(string(r))
		}
	}
	if g.one(60) {
		g.add(g.pick(`\`, `\u12`, `\ud800`, `\udc00\ud800`, `\ud83d\ude00`, `\x41`, "\x01", "\xff", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x7f", `\u0000`))
	}
	g.add(`"`)
}

func (g *generator) escape(r rune) {
	if short := strings.IndexRune("\b\f\n\r\t\"\\/", r); short >= 0 && g.one(2) {
		g.add(`\`, string(`bfnrt"\/`[short]))
		return
	}
	quoted := strconv.QuoteToASCII(string(r))
	switch {
	case r > 0xFFFF:
		high, low := 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF
		g.add(`\u`, strconv.FormatInt(int64(high), 16), `\u`, strconv.FormatInt(int64(low), 16))
	case strings.HasPrefix(quoted, `"\u`):
		g.add(quoted[1 : len(quoted)-1])
	default:
		g.add(`\u00`, strconv.FormatInt(int64(r)+0x100, 16)[1:])
	}
}

func (g *generator) number() string {
	switch g.r.IntN(10) {
	case 0:
		return strconv.FormatFloat(math.Float64frombits(g.r.Uint64()), "efg"[g.r.IntN(3)], -1, 64) // NaN and Inf among them
	case 1:
		return g.pick("-0", "0", "-0.0", "0e0", "1e400", "-1e400", "5e-400", "-5e-324", "012", "1.", ".5", "+1", "1e", "1e+", "-", "0x1F", "1_0", "1.2.3",
			"1.7976931348623157e308", "1.7976931348623159e308", "9007199254740993", "9007199254740992", "18446744073709551616",
			"123456789012345678901234567890123456789012345678901234567890", "0.000000000000000000000000000000000000000000000000000012345",
			"1e22", "1e23", "9007199254740991e22", "123e-22", "123e-23", "1e99999999999999999999", "0e99999999999999999999", "1e-99999999999999999999")
	case 2:
		return strconv.FormatFloat(g.r.NormFloat64()*math.Pow(10, float64(g.r.IntN(40)-20)), 'g', -1, 64)
	case 3:
		return strconv.FormatUint(g.r.Uint64()>>g.r.IntN(64), 10) + "." + strconv.FormatUint(g.r.Uint64()>>g.r.IntN(64), 10)
	case 4:
		return strconv.FormatUint(g.r.Uint64()>>g.r.IntN(64), 10) + "E" + strconv.Itoa(g.r.IntN(700)-350)
	}
	return strconv.FormatFloat(float64(g.r.IntN(100000)-50000)/100, 'f', g.r.IntN(5), 64)
}

// timeNumber is a number of ms near the record's timestamp, in one of many forms.
func (g *generator) timeNumber() string {
	ms := int64(now) + int64(g.r.IntN(10_000_000)) - 6_000_000
	switch g.r.IntN(10) {
	case 0:
		return strconv.FormatInt(ms, 10) + "." + strconv.FormatUint(g.r.Uint64()>>g.r.IntN(64), 10)
	case 1:
		return strconv.FormatFloat(float64(ms), 'e', -1, 64)
	case 2:
		return strconv.FormatInt(ms, 10) + "000e-" + strconv.Itoa(g.r.IntN(6))
	case 3:
		return g.number()
	case 4:
		return strconv.FormatInt(ms/1000, 10)
	case 5:
		return "0." + strings.Repeat("0", g.r.IntN(5)) + strconv.FormatInt(ms, 10) + "e" + strconv.Itoa(10+g.r.IntN(10))
	}
	return strconv.FormatInt(ms, 10)
}

// timeText is a time of RFC 3339, or nearly.
func (g *generator) timeText() string {
	t := time.UnixMilli(int64(now) + int64(g.r.IntN(10_000_000)) - 6_000_000).UTC()
	if g.one(4) {
		t = time.Date(g.r.IntN(10000), 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, g.r.IntN(12), g.r.IntN(31))
	}
	s := t.In(time.FixedZone("", (g.r.IntN(48*60)-24*60)*60)).Format(g.pick(time.RFC3339, time.RFC3339Nano, "2006-01-02T15:04:05.000000000Z07:00"))
	switch g.r.IntN(12) {
	case 0:
		b := []byte(s)
		b[g.r.IntN(len(b))] = "0123456789-+:TZtz. "[g.r.IntN(19)]
		return string(b)
	case 1:
		return g.pick(s+"Z", s[:len(s)-1], s[1:], strings.ToLower(s), strings.Replace(s, "T", " ", 1), "2016-12-31T23:59:60Z", "2024-02-30T00:00:00Z")
	}
	return s
}
