package job

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/task"
)

func TestNear(t *testing.T) {
	var c, items Config
	items.Format.Each = "sensors"
	const nested = `{"device":"a","ENERGY":{"Power":1,"a.b":2},"list":[{"temp":1}],"Ts":5}`
	for _, x := range []struct {
		c                     *Config
		path, document, wants string
	}{
		{&c, "temprature", `{"device":"a","ts":1,"temperature":2}`, "temperature"},
		{&c, "ts", nested, "Ts"},
		{&c, "ENERGY.Powr", nested, "ENERGY.Power"},
		{&c, "Power", nested, "ENERGY.Power"},
		{&c, "$.power", nested, "$.ENERGY.Power"},
		{&c, `ENERGY.a\.c`, nested, `ENERGY.a\.b`},
		{&c, "temp", nested, "list.0.temp"},
		{&c, "humidity", nested, ""},
		{&c, "ts", "no JSON", ""},
		{&c, "ts", "", ""},
		{&c, "temperature", `{"x":"` + strings.Repeat("y", nearBytes) + `","temperatur":1}`, ""},
		{&items, "temprature", `{"id":1,"sensors":[{"temperature":1},{"temperature":2}]}`, "temperature"},
		{&items, "$.idd", `{"idt":1,"sensors":[]}`, "$.idt"},
		{&items, "v.temprature", `{"sensors":{"x":{"v":{"temperature":1}}}}`, "v.temperature"},
	} {
		if got := x.c.Near("missing_field", x.path, []byte(x.document)); got != x.wants {
			t.Errorf("%q in %.80s is near %q, want %q", x.path, x.document, got, x.wants)
		}
		if got := x.c.Near("wrong_type", x.path, []byte(x.document)); got != "" {
			t.Errorf("a field of another type is there, and yet %q was meant", got)
		}
	}
}

// TestNearIsBounded: a hostile record makes no long search (I13).
func TestNearIsBounded(t *testing.T) {
	var c Config
	deep := strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000)
	if got := c.Near("missing_field", "b.c", []byte(deep)); got != "" {
		t.Errorf("near %q", got)
	}
	var wide strings.Builder
	for i := range 4_000 {
		fmt.Fprintf(&wide, `,"n%d":1`, i)
	}
	f := nearFinder{}
	f.walk(map[string]any{"a": strings.Split(wide.String(), ",")}, nil)
	if got := c.Near("missing_field", "n3999x", []byte("{"+wide.String()[1:]+"}")); got == "n3999" || len(f.paths) > nearPaths {
		t.Errorf("near %q, %d paths: the search has no bound", got, len(f.paths))
	}
}

// TestSampleSaysWhereAndWhy: of the last reading that would be refused a sample says where it is, the field and the reason.
func TestSampleSaysWhereAndWhy(t *testing.T) {
	j, err := New(minutes(0), 3, 4, Limits{Changelog: 1 << 20, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var s Sample
	j.Sample([]task.Input{{Offset: 7, Timestamp: 1704067200000, Value: []byte(`{"device":"a","ts":1704067200000,"valeu":1}`)}}, &s)
	if want := `in/3 at offset 7: field "value": is absent, want a number (missing_field)`; s.WhyRefused != want || s.Like != "valeu" {
		t.Errorf("%q, like %q; want %q", s.WhyRefused, s.Like, want)
	}
	j.Sample([]task.Input{{Offset: 8, Timestamp: 1704067200000, Value: []byte(`no JSON`)}}, &s)
	if !strings.HasPrefix(s.WhyRefused, "in/3 at offset 8: it begins with a word") || !strings.HasSuffix(s.WhyRefused, "(not_json)") || s.Like != "" {
		t.Errorf("%q, like %q", s.WhyRefused, s.Like)
	}
}

// TestSampleCountsReadings: of a record with several values that are readings of their own one may be refused and the other be
// taken, which is no fault of all.
func TestSampleCountsReadings(t *testing.T) {
	c := minutes(0)
	c.Format.Values, c.Format.Series = []string{"valeu", "other"}, true
	j, err := New(c, 0, 1, Limits{Changelog: 1 << 20, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var s Sample
	j.Sample([]task.Input{{Timestamp: 1704067200000, Value: []byte(`{"device":"a","ts":1704067200000,"value":1,"other":2}`)}}, &s)
	if s.Readings != 2 || s.Refused != 1 || s.Like != "value" {
		t.Errorf("%+v", s)
	}
}
