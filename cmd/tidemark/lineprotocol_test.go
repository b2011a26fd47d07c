package main

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/reading"
)

// points reads line protocol for a job whose event time is the member ts, in the unit given.
func points(t *testing.T, text string, precision, unit reading.Unit) (lines []line) {
	t.Helper()
	format := reading.DefaultFormat()
	format.Time, format.Unit = "ts", unit
	p, err := newPointReader(strings.NewReader(text), precision, &config.Input{Format: format})
	if err != nil {
		t.Fatal(err)
	}
	p.now = func() time.Time { return time.UnixMilli(1704067200123) }
	for {
		l, err := p.next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
}

// TestLineProtocol holds the rules of InfluxDB's reference for line protocol: what is escaped where, how values of each
// type are written, and what stands for a point; and ours for the object that it becomes.
func TestLineProtocol(t *testing.T) {
	for text, want := range map[string]string{
		`w,site=a temperature=82 1704067200123000000`:                    `{"measurement":"w","site":"a","temperature":82,"ts":1704067200123}`,
		`w temperature=82i,humidity=7u,ok=t,off=FALSE,note="a b" 5`:      `{"measurement":"w","temperature":82,"humidity":7,"ok":true,"off":false,"note":"a b","ts":0.000005}`,
		`my\ w\,x=y,tag\ key=val\=ue\,\ x field\,key="q\"\\z\n" 1000000`: `{"measurement":"my w,x=y","tag key":"val=ue, x","field,key":"q\"\\z\n","ts":1}`,
		`w,t=C:\dir\ x v=1 0`: `{"measurement":"w","t":"C:\\dir x","v":1,"ts":0}`,
		`w,t="q" v="" 0`:      `{"measurement":"w","t":"\"q\"","v":"","ts":0}`,
		`w v=-1.50,a=1.,b=.5,c=007.25,d=-0,e=1e-3,f=2.E+4,g=-00 0`: `{"measurement":"w","v":-1.50,"a":1,"b":0.5,"c":7.25,"d":-0,"e":1e-3,"f":2E+4,"g":-0,"ts":0}`,
		`w v=9223372036854775807i,u=18446744073709551615u 0`:       `{"measurement":"w","v":9223372036854775807,"u":18446744073709551615,"ts":0}`,
		`  w   v=1   1000000  `:                                    `{"measurement":"w","v":1,"ts":1}`,
		"w v=1 1000000\r":                                          `{"measurement":"w","v":1,"ts":1}`,
		`w v=1`:                                                    `{"measurement":"w","v":1,"ts":1704067200123}`,
		`w,é=ü v="日本" -1500000`:                                    `{"measurement":"w","é":"ü","v":"日本","ts":-1.5}`,
		`# a comment`:                                              ``,
		`   `:                                                      ``,
	} {
		lines := points(t, text, reading.Nanoseconds, reading.Milliseconds)
		if len(lines) != 1 || lines[0].bad != nil || string(lines[0].value) != want {
			t.Errorf("%s\nis   %s (%v)\nwant %s", text, lines[0].value, lines[0].bad, want)
		}
		if want != "" && !json.Valid(lines[0].value) {
			t.Errorf("%s is no JSON", lines[0].value)
		}
	}
}

// TestLineProtocolFaults names line and column of what cannot be read, and goes on behind it.
func TestLineProtocolFaults(t *testing.T) {
	for text, want := range map[string]line{
		`w`:                           {column: 2},
		`w,`:                          {column: 3},
		`w,site v=1`:                  {column: 3},
		`w,site= v=1`:                 {column: 8},
		`w v`:                         {column: 4},
		`w v=`:                        {column: 5},
		`w v=yes 1`:                   {column: 5},
		`w v="open 1`:                 {column: 5},
		`w v=1 17x`:                   {column: 7},
		`w v=1 1 2`:                   {column: 9},
		`w v=1, x=2 1`:                {column: 7},
		`w v=1i5 1`:                   {column: 5},
		`w v=NaN 1`:                   {column: 5},
		`w v=99999999999999999999i 1`: {column: 5},
		`w v=1e999 1`:                 {column: 5},
		`w,v=a v=1 1`:                 {},
		`w,ts=a v=1 1`:                {},
		`w,measurement=a v=1 1`:       {},
		`w v=1 99999999999999999999`:  {column: 7},
		"w,site=\xff v=1 1":           {column: 8},
	} {
		lines := points(t, "ok v=1 1\n"+text+"\nok v=2 1\n", reading.Nanoseconds, reading.Milliseconds)
		if len(lines) != 3 || lines[0].bad != nil || lines[2].bad != nil {
			t.Fatalf("%s: %+v", text, lines)
		}
		l := lines[1]
		if l.bad == nil || l.number != 2 || l.column != want.column || l.value != nil {
			t.Errorf("%q: line %d column %d: %v; want column %d", text, l.number, l.column, l.bad, want.column)
		}
	}
}

// TestLineProtocolTimes converts between all units without loss, and to texts.
func TestLineProtocolTimes(t *testing.T) {
	const s, ms, us, ns = reading.Seconds, reading.Milliseconds, reading.Microseconds, reading.Nanoseconds
	for _, want := range []struct {
		precision, unit reading.Unit
		stamp, time     string
	}{
		{s, ns, "1704067201", "1704067201000000000"}, {s, s, "1704067201", "1704067201"}, {ns, s, "1704067201000000001", "1704067201.000000001"},
		{ns, ms, "1704067201500000000", "1704067201500"}, {us, ms, "-1", "-0.001"}, {ms, us, "-5", "-5000"}, {ns, s, "0", "0"}, {ns, s, "-10", "-0.00000001"},
		{ms, reading.RFC3339, "1704067201120", `"2024-01-01T00:00:01.12Z"`}, {ns, reading.ISO8601, "-1", `"1969-12-31T23:59:59.999999999Z"`},
		{s, reading.RFC3339, "1704067201", `"2024-01-01T00:00:01Z"`}, {s, ns, "007", "7000000000"},
	} {
		lines := points(t, "w v=1 "+want.stamp, want.precision, want.unit)
		if got := string(lines[0].value); got != `{"measurement":"w","v":1,"ts":`+want.time+`}` {
			t.Errorf("%s %s in %s: %s (%v), want %s", want.stamp, want.precision, want.unit, got, lines[0].bad, want.time)
		}
	}
	if l := points(t, "w v=1 1704067201000", s, reading.RFC3339)[0]; l.bad == nil || l.column != 7 || !strings.Contains(l.bad.Error(), "--precision") {
		t.Errorf("ms taken for s: %+v", l)
	}
}

// TestLineProtocolRefusesJobs that could not find what it writes.
func TestLineProtocolRefusesJobs(t *testing.T) {
	for want, change := range map[string]func(*reading.Format){
		"input.format of the job is csv":    func(f *reading.Format) { f.Columns = []string{"ts"} },
		"want a plain name":                 func(f *reading.Format) { f.Time = "meta.ts" },
		"no input.each":                     func(f *reading.Format) { f.Each = "list" },
		"becomes one member":                func(f *reading.Format) { f.Unit, f.Clock.Then = reading.ISO8601, []string{"day"} },
		`input.time.unit of the job is "YY`: func(f *reading.Format) { f.Unit, f.Clock.Layout = reading.Layout, "YYYY-MM-DD" },
	} {
		format := reading.DefaultFormat()
		format.Time = "ts"
		change(&format)
		if _, err := newPointReader(strings.NewReader(""), reading.Nanoseconds, &config.Input{Format: format}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLineProtocolAnything is never a crash and never bytes that are no JSON.
func TestLineProtocolAnything(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const alphabet = `wwvv==,, \\""iu.-+eE0123456789tTfF#` + "\x00\xff\u00e9\t"
	var all strings.Builder
	for range 100_000 {
		all.WriteString("w v=")
		for range random.IntN(24) {
			all.WriteByte(alphabet[random.IntN(len(alphabet))])
		}
		all.WriteByte('\n')
	}
	made, texts := 0, strings.Split(all.String(), "\n")
	for _, l := range points(t, all.String(), reading.Nanoseconds, reading.Milliseconds) {
		if l.value != nil && (l.bad != nil || !json.Valid(l.value)) {
			t.Fatalf("%q: %s (%v)", texts[l.number-1], l.value, l.bad)
		}
		if l.value != nil {
			made++
		}
	}
	if made < 100 {
		t.Errorf("only %d of the texts are points: this proves little", made)
	}
}
