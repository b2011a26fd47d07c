package proof

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/reading"
)

// sweepForm is a form of records that is more than an object of plain fields: for the sweep, for the job and for the oracle.
type sweepForm struct {
	records int
	record  func(i int) kafka.Record
	format  func() reading.Format
	by      []string // key fields that the record key is made of
	tell    func(*oracle.Config)
	plain   func(value []byte) []byte // what the oracle reads in a record's place; nil for the record itself
}

// sweepForms hold arrays of readings with several values each, found by paths, and rows of CSV.
var sweepForms = map[string]*sweepForm{
	"arrays": {records: 12, record: sweepArray, format: sweepArrayFormat, by: []string{"gateway"}, tell: func(c *oracle.Config) {
		c.Key, c.Values, c.Time = []string{"gateway", "sensor"}, []string{"temp", "hum"}, oracle.TimeField{Name: "at.ts", Unit: "ms"}
		c.PartitionedBy = []string{"gateway"}
		c.Shape = &oracle.Shape{Each: "readings", Series: true,
			Parts:   map[string]oracle.Part{"gateway": {Path: "$.gw.id"}, "sensor": {Path: "s"}},
			Numbers: map[string]oracle.Number{"temp": {Path: "m.t"}, "hum": {Path: "m.h"}}}
	}},
	"rows": {records: 24, record: sweepRow, format: sweepRowFormat, tell: func(*oracle.Config) {}, plain: sweepRowAsObject},
}

// sweepArray is a record of three readings of two values: some late, some repeated, some of which one value or both are
// bad, records that hold nothing, and records that cannot be split.
func sweepArray(i int) kafka.Record {
	at := int64(sweepStart + i*7_000)
	reading := func(n int) string {
		text := fmt.Sprintf(`{"at":{"ts":%d},"s":"s%d","m":{"t":%d.5,"h":%d}}`, at+int64(n), (i+n)%2, i, n-i)
		switch (i*3 + n) % 11 {
		case 3:
			text = strings.Replace(text, `"h":`, `"h":null,"x":`, 1)
		case 5:
			text = fmt.Sprintf(`{"at":{"ts":%d},"s":"s0","m":{"t":1e16,"h":-1e16}}`, sweepStart+5) // late
		case 7:
			text = `{"at":{},"s":"s1","m":{"t":1,"h":1}}`
		}
		return text
	}
	value := fmt.Sprintf(`{"gw":{"id":"g%d"},"readings":[%s,%s,%s]}`, i%2, reading(0), reading(1), reading(2))
	switch i {
	case 8: // comes again
		value = string(sweepArray(6).Value)
	case 4:
		value = `{"gw":{"id":"g0"},"readings":[]}`
	case 10:
		value = `{"gw":{"id":"g0"},"readings":7}`
	}
	return kafka.Record{Key: fmt.Append(nil, "g", i%2), Value: []byte(value), Timestamp: at}
}

func sweepArrayFormat() reading.Format {
	f := reading.DefaultFormat()
	f.Key, f.Parts = []string{"gateway", "sensor"}, []reading.Part{{Path: "$.gw.id"}, {Path: "s"}}
	f.Values, f.Numbers, f.Series = []string{"temp", "hum"}, []reading.Number{{Path: "m.t"}, {Path: "m.h"}}, true
	f.Each, f.Time = "readings", "at.ts"
	return f
}

// sweepRow is the usual input as rows, with an empty cell and a text where a number is due.
func sweepRow(i int) kafka.Record {
	device, at := fmt.Sprint("d", i%3), int64(sweepStart+i*7_000)
	value := fmt.Sprintf(`%d;"%s";%d.25`, at, device, i)
	switch i {
	case 9, 17:
		value = fmt.Sprintf("%d;%s;1e16", sweepStart+5, device) // late
	case 5: // comes again
		value = fmt.Sprintf("%d;%s;1e17", sweepStart+2*7_000, device)
	case 11:
		value = fmt.Sprintf("%d;%s;warm", at, device)
	case 14:
		value = fmt.Sprintf("%d;%s;", at, device)
	}
	return kafka.Record{Key: []byte(device), Value: []byte(value), Timestamp: at}
}

func sweepRowFormat() reading.Format {
	f := reading.DefaultFormat()
	f.Key, f.Values, f.Time = []string{"device"}, []string{"value"}, "ts"
	f.Columns, f.Separator = []string{"ts", "device", "value"}, ';'
	return f
}

// sweepRowAsObject is what a row says, as the oracle reads it, which knows no rows.
func sweepRowAsObject(row []byte) []byte {
	cells := strings.Split(string(row), ";")
	switch cells[2] {
	case "":
		cells[2] = "null"
	case "warm":
		cells[2] = `"warm"`
	}
	return fmt.Appendf(nil, `{"ts":%s,"device":%q,"value":%s}`, cells[0], strings.Trim(cells[1], `"`), cells[2])
}

// plain are records as the oracle reads them.
func (s sweepScene) plain(read []oracle.Message) []oracle.Message {
	form := sweepForms[s.form]
	if form == nil || form.plain == nil {
		return read
	}
	read = slices.Clone(read)
	for i := range read {
		read[i].Value = form.plain(read[i].Value)
	}
	return read
}

// original puts the records as they are in the place of those: what comes back as late or as a dead letter has their bytes.
func (s sweepScene) original(o *oracle.Outcome, read []oracle.Message) {
	at := func(offset int64) []byte {
		return read[slices.IndexFunc(read, func(m oracle.Message) bool { return m.Offset == offset })].Value
	}
	for i := range o.Late {
		o.Late[i].Record.Value = at(o.Late[i].Offset)
	}
	for i := range o.Dead {
		o.Dead[i].Record.Value = at(o.Dead[i].Offset)
	}
}

// TestSweepForms strikes at every effect of a first process that reads arrays, several values of a reading, paths or rows,
// and at effects of the one after it.
func TestSweepForms(t *testing.T) {
	for form := range sweepForms {
		t.Run(form, func(t *testing.T) {
			scene := sweepScene{records: sweepForms[form].records, form: form}
			o := newSweepWorld(scene, 0).expected(nil).Outcomes[0]
			if len(o.Late) == 0 || len(o.Dead) == 0 || o.Counters.Duplicates == 0 || len(o.Windows) < 10 {
				t.Fatalf("%d late, %d dead letters, %d duplicates, %d windows: the input does not show what can happen", len(o.Late), len(o.Dead),
					o.Counters.Duplicates, len(o.Windows))
			}
			if form == "arrays" && (o.Counters.In < 50 || o.Counters.Filtered != 1) {
				t.Fatalf("%+v: the records do not hold several readings", o.Counters)
			}
			stride := 7 // make sweep: the other scenes try them all
			if *strideFlag > 1 {
				stride = *strideFlag * 5
			}
			sweepPairs(t, scene, [2]string{byKill, byKill}, 0, stride)
		})
	}
}
