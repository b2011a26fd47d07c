package reading_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/reading"
)

func TestUnits(t *testing.T) {
	for i, name := range []string{"s", "ms", "us", "ns", "rfc3339", "iso8601"} {
		unit, err := reading.ParseUnit(name)
		if err != nil || unit != reading.Seconds+reading.Unit(i) || unit.String() != name {
			t.Errorf("%s: %v (%v)", name, unit, err)
		}
	}
	for _, name := range []string{"", "S", "sec", "RFC3339"} {
		if unit, err := reading.ParseUnit(name); err == nil || !strings.Contains(err.Error(), "want s, ms, us, ns, rfc3339, iso8601 or a layout") {
			t.Errorf("%q: %v (%v), want an error that lists the units", name, unit, err)
		}
	}
	if s := reading.Unit(9).String(); s != "Unit(9)" {
		t.Errorf("unknown unit is %q", s)
	}
}

func TestCheck(t *testing.T) {
	for _, want := range []struct {
		change func(f *reading.Format)
		fault  string // "" for none
	}{
		{func(f *reading.Format) {}, ""},
		{func(f *reading.Format) { f.MaxAhead = reading.NoMaxAhead }, ""},
		{func(f *reading.Format) { f.MaxAhead = 0 }, ""},
		{func(f *reading.Format) { f.Key = nil }, "key: no field"},
		{func(f *reading.Format) { f.Values = nil }, "values: no field"},
		{func(f *reading.Format) { f.Time = "" }, "time: the name of a field is empty"},
		{func(f *reading.Format) { f.Key = []string{"a", ""} }, "key: the name of a field is empty"},
		{func(f *reading.Format) { f.Values = []string{"a\xff"} }, `values: "a\xff" is not valid UTF-8`},
		{func(f *reading.Format) { f.Values = []string{"device"} }, `values: field "device" is already used as key`},
		{func(f *reading.Format) { f.Key = []string{"ts"} }, `time: field "ts" is already used as key`},
		{func(f *reading.Format) { f.Values = fieldNames(62) }, ""},
		{func(f *reading.Format) { f.Values = fieldNames(63) }, "65 fields, at most 64"},
		{func(f *reading.Format) { f.Unit = 0 }, "time unit 0: want s, ms, us, ns, rfc3339, iso8601 or a layout"},
		{func(f *reading.Format) { f.Unit = 9 }, "time unit 9"},
		{func(f *reading.Format) { f.Min = 253402300800000 }, "outside the years"},
		{func(f *reading.Format) { f.Min = -62167219200001 }, "outside the years"},
		{func(f *reading.Format) { f.MaxAhead = -1 }, "max_ahead -1ns"},
		{func(f *reading.Format) { f.MaxAhead = 1500 * time.Microsecond }, "max_ahead 1.5ms: want 0 or more, in whole ms"},
	} {
		f := formats()[0]
		want.change(&f)
		err := f.Check()
		_, made := reading.NewReader(f)
		if fmt.Sprint(err) != fmt.Sprint(made) {
			t.Errorf("Check says %v, NewReader %v", err, made)
		}
		if (err == nil) != (want.fault == "") || err != nil && !strings.Contains(err.Error(), want.fault) {
			t.Errorf("%+v: %v, want %q", f, err, want.fault)
		}
	}
	err := (&reading.Format{}).Check()
	if n := strings.Count(fmt.Sprint(err), "\n"); n != 3 {
		t.Errorf("an empty format has 4 faults, these are %d: %v", n+1, err)
	}
}

func fieldNames(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("v%d", i)
	}
	return list
}

// TestFormatIsCopied changes the configuration's slices after the Reader is made.
func TestFormatIsCopied(t *testing.T) {
	f := formats()[0]
	r := newReader(t, f)
	f.Key[0], f.Values[0] = "x", "x"
	if _, refusal := r.Read([]byte(`{"device":"a","ts":1704067201000,"value":1}`), now); refusal != nil {
		t.Error(refusal)
	}
}

// TestFieldOrders reads fields in changing orders with one Reader, which learns the last one it saw, and with names that a
// word holds, just does not hold, and that are never written plain.
func TestFieldOrders(t *testing.T) {
	f := reading.DefaultFormat()
	f.Key, f.Time, f.Values = []string{"1234567", "12345678"}, "123456789", []string{`"`, "a", "\u007f", "é"}
	r := newReader(t, f)
	members := []string{`"1234567":"k1"`, `"12345678":"k2"`, `"123456789":1704067200000`, `"\"":1`, `"a":2`, "\"\x7f\":3", `"é":4`, `"1":0`, `"12345678901":0`}
	for shift := range 2 * len(members) {
		for swap := range len(members) {
			order := append(members[shift%len(members):len(members):len(members)], members[:shift%len(members)]...)
			order[swap], order[0] = order[0], order[swap]
			value := []byte("{" + strings.Join(order, ",") + "}")
			if outcome, fault := differ(r, f, value, now); fault != "" || outcome != accepted {
				t.Fatalf("%s: %s %s", value, outcome, fault)
			}
		}
	}
}

// TestNoAllocations holds for every kind of record that is accepted, once the buffers have grown.
func TestNoAllocations(t *testing.T) {
	accepting := 0
	for i, f := range formats() {
		r := newReader(t, f)
		documents := append([]string{
			`{"device":"a","ts":1704067200123,"value":` + strings.Repeat("1234567890", 20) + `,` + manyNames(200) + `}`,
			`{"device":"a","ts":1704067200123.` + strings.Repeat("0", 100) + `1,"value":1.` + strings.Repeat("3", 100) + `}`,
		}, samples...)
		for _, document := range documents {
			value := []byte(document)
			if _, refusal := r.Read(value, now); refusal != nil {
				continue
			}
			accepting++
			if n := testing.AllocsPerRun(50, func() { r.Read(value, now) }); n != 0 {
				t.Errorf("format %d: %.80s: %v allocations", i, document, n)
			}
			if n := grown(func() { r.Read(value, now) }); n > 1<<14 {
				t.Errorf("format %d: %.80s: 3,000 readings took %d bytes", i, document, n)
			}
		}
	}
	if accepting < 8 {
		t.Errorf("only %d documents accepted", accepting)
	}
}

// grown is the memory taken by 3,000 calls: a buffer that grows now and then does not show in an average.
func grown(read func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 3000 {
		read()
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func ExampleReader_Read() {
	format := reading.DefaultFormat()
	format.Key, format.Time, format.Values = []string{"device"}, "ts", []string{"temperature"}
	reader, err := reading.NewReader(format)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, value := range []string{
		`{"device":"boiler-7","ts":1704067201000,"temperature":21.5}`,
		`{"device":"boiler-7","ts":1704067201,"temperature":21.5}`,
		`{"device":"boiler-7","ts":1704067201000,"temperature":null}`,
	} {
		r, refusal := reader.Read([]byte(value), 1704067201250)
		if refusal != nil {
			fmt.Println(refusal)
			continue
		}
		fmt.Printf("%s %d %v\n", r.Key[0], r.Time, r.Values)
	}
	// Output:
	// boiler-7 1704067201000 [21.5]
	// implausible_time in field "ts" at byte 26: 1704067201 ms (1970-01-20T17:21:07.201Z) is before 2000-01-01T00:00:00Z; looks like seconds (2024-01-01T00:00:01Z)
	// null_field in field "temperature" at byte 54: is null, want a number
}
