package config

import (
	"slices"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/spelling"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

func (d *decoder) input(root *section, topics *topics) (in Input) {
	s := root.section("input", "{topic: TOPIC, key: [FIELD], values: [FIELD], time: {field: FIELD}}")
	before := len(d.faults)
	in.Topic = topics.need(s, "topic", roleInput)
	inputFormat, formatAt := get(s, "format", "json", word([]string{"json", "csv"}, "json-sr"))
	s.csv(&in.Format, inputFormat, formatAt)
	in.Format.Each, _ = get(s, "each", "", anyText)
	s.keys(&in)
	if s.rekey(&in); !in.Rekey.On {
		s.placing(&in)
	}
	spots := s.values(&in.Format)
	onMissing, _ := get(s, "on_missing", "refuse", word([]string{"refuse", "skip"}))
	in.Format.SkipMissing = onMissing == "skip"
	in.Format.Where, _ = get(s, "where", "", anyText)
	numbers, _ := get(s, "numbers", "float64", word([]string{"float64", "int64"}))
	in.Format.Whole = numbers == "int64"
	s.time(&in)
	in.Start, _ = get(s, "start", "earliest", start)
	s.close()
	d.checkFormat(s, &in, spots, len(d.faults) == before)
	if len(d.faults) == before {
		d.checkInput(s, &in)
	}
	return in
}

// spot is where a value stands in the document.
type spot struct {
	at   place
	path string
}

// checkFormat reports what the keys cannot see alone, such as a path that leads nowhere, or one field with two uses. Where
// the section is not sound much of that comes from what is missing; what is wrong with an expression does not.
func (d *decoder) checkFormat(s *section, in *Input, spots map[string]spot, sound bool) {
	err := in.Format.Check()
	if err == nil {
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !sound && !strings.Contains(line, "expression ") {
			continue
		}
		where, what := d.spotOf(s, line, spots)
		d.add(where.at, where.path, wrongf("%s", what))
	}
}

// spotOf is where the subject of a format's fault stands, and what is said of it.
func (d *decoder) spotOf(s *section, line string, spots map[string]spot) (spot, string) {
	subject := ""
	for name := range spots {
		if begin := "value " + name + ": "; strings.HasPrefix(line, begin) && len(begin) > len(subject) {
			subject = begin
		}
	}
	if subject != "" {
		return spots[subject[len("value "):len(subject)-2]], line[len(subject):]
	}
	subject, what, named := strings.Cut(line, ": ")
	key, more, _ := strings.Cut(subject, " ")
	if key == "value" {
		key = "values"
	}
	i := slices.IndexFunc(s.pairs, func(p pair) bool { return p.name == key })
	if !named || i < 0 {
		return spot{s.at, "input"}, line
	}
	if more != "" {
		what = line
	}
	return spot{place{d.file, s.pairs[i].line}, join(s.path, key)}, what
}

// checkInput reports what is wrong with the keys of an input whose format is sound.
func (d *decoder) checkInput(s *section, in *Input) {
	if len(in.PartitionedBy) == 0 && !in.Rekey.On {
		d.add(s.at, "input.key", wrongf("only constants").hinted("nothing tells devices apart: name what a record brings along, as  {name: device, record: key}; a topic of one device needs  rekey: true"))
	}
	if _, err := in.Format.Determined(in.PartitionedBy); err != nil && in.Partitioner != job.Unchecked && !in.Rekey.On {
		d.add(s.at, "input.key", wrongf("%v", err).
			hinted("take every * as a key field of its own, or promise that it does not happen with  partitioner: unchecked"))
	}
	d.warnOfMembers(s, in)
}

// warnOfMembers warns of records whose readings have different keys, where the record's own key is to be made of them: it
// can be that of one of them only.
func (d *decoder) warnOfMembers(s *section, in *Input) {
	if in.Rekey.On {
		return
	}
	for i, part := range in.Format.Parts {
		if name := in.Format.Key[i]; part.From == reading.FromMember && slices.Contains(in.PartitionedBy, name) {
			at := s.at
			if i := slices.IndexFunc(s.pairs, func(p pair) bool { return p.name == "key" }); i >= 0 {
				at = place{d.file, s.pairs[i].line}
			}
			outcome := "the readings of all others are refused as wrong_key"
			if in.Partitioner == job.Unchecked {
				outcome = "nothing sees to it that the others of each name meet in one partition"
			}
			d.warn(at, join(s.path, "key"), "%s is the name of a member, and a record may hold several: it lies in the partition of one of them, and %s; "+
				"write  rekey: true  below input, or leave the field out of partitioned_by", shown(name), outcome)
			return
		}
	}
}

// placing asks where producers put the records of a key.
func (s *section) placing(in *Input) {
	in.PartitionedBy = s.partitionedBy(&in.Format)
	var at place
	in.Partitioner, at = get(s, "partitioner", job.Murmur2.String(), partitioner)
	if in.Partitioner == job.Unchecked {
		s.d.warn(at, "input.partitioner", "unchecked: that all readings of a key are in one partition is your promise; where it is broken, results are wrong and nothing notices")
	}
}

// rekey asks whether the readings have to be brought to their keys first.
func (s *section) rekey(in *Input) {
	r, bare := s.sectionOr("rekey", "true", "{partitions: 8}")
	in.Rekey.On = bare || r.present()
	r.off = r.off || !in.Rekey.On
	in.Rekey.Partitions, _ = get(r, "partitions", "0", whole(0, 100_000))
	r.close()
	if !in.Rekey.On {
		return
	}
	in.PartitionedBy, s.d.keyAt["input.rekey"] = in.Format.RecordKey(), r.at
	for _, name := range []string{"partitioned_by", "partitioner"} {
		if v, ok := s.find(name, known{}); ok {
			s.d.add(v.at, v.key, wrongf("beside rekey, which does not look at where records lie").hinted("remove one of the two"))
		}
	}
}

// asKey is the default of input.partitioned_by in words.
const asKey = "input.key"

var partitioner = spec[job.Partitioner]{kind: kindText, want: "murmur2, crc32 or unchecked", parse: func(text string) (job.Partitioner, *wrong) {
	text, w := word([]string{job.Murmur2.String(), job.CRC32.String(), job.Unchecked.String()}).parse(text)
	if w != nil {
		return 0, w
	}
	p, err := job.ParsePartitioner(text)
	if err != nil {
		return 0, wrongf("%v", err)
	}
	return p, nil
}}

// partitionedBy asks for the key fields that the record key is made of: all of them that records bring along, in their
// order, by default.
func (s *section) partitionedBy(format *reading.Format) []string {
	if !s.has("partitioned_by") {
		s.find("partitioned_by", known{def: asKey, want: "a list of fields of key"})
		key := format.RecordKey()
		texts := make([]string, len(key))
		for i, field := range key {
			texts[i] = quoted(field, kindText)
		}
		s.d.set(join(s.path, "partitioned_by"), "["+strings.Join(texts, ", ")+"]", place{})
		return key
	}
	fields, at := list(s, "partitioned_by", "a list of fields of key", "leave it out for all key fields", anyText)
	for i, field := range fields {
		if len(format.Key) > 0 && !slices.Contains(format.Key, field) {
			s.d.add(at[i], join(s.path, "partitioned_by"), wrongf("%s is not one of the fields of input.key (%s)", shown(field), strings.Join(format.Key, ", ")).
				hinted("readings of one key would be in several partitions"))
		}
	}
	return fields
}

// csv asks for the columns of rows, which there are with this format only.
func (s *section) csv(format *reading.Format, inputFormat string, at place) {
	c := s.section("csv", "{columns: [NAME]}")
	switch written := c.present(); {
	case inputFormat == "csv" && !written:
		s.d.add(at, "input.csv", wrongf("is missing").hinted("name the columns of a row in their order, as  csv: {columns: [ts, device, temperature]}"))
	case inputFormat != "csv" && written:
		s.d.add(c.at, "input.csv", wrongf("is there without  format: csv"))
	}
	c.off = c.off || inputFormat != "csv" || !c.present()
	format.Columns, _ = list(c, "columns", "a list of names", "name the columns of a row in their order, as  columns: [ts, device, temperature]", anyText)
	format.Separator, _ = get(c, "separator", ",", separator)
	c.close()
}

var separator = spec[byte]{kind: kindText, want: "one character of ASCII, or tab", parse: func(text string) (byte, *wrong) {
	switch {
	case text == "tab":
		return '\t', nil
	case len(text) != 1 || text[0] < ' ' || text[0] >= 0x7f || text[0] == '"':
		return 0, wrongf("%s is no separator: want one character of ASCII other than a quote, or tab", shown(text))
	}
	return text[0], nil
}}

// time asks for the event time, which the word record says is the record's timestamp.
func (s *section) time(in *Input) {
	format := &in.Format
	t, record := s.sectionOr("time", "record", "{field: FIELD}")
	if record {
		t.off, format.Clock.Record, format.Unit = true, true, reading.Milliseconds
		s.d.set(join(s.path, "time"), "record", t.at)
	}
	first := anyText
	first.list = "a time in several fields is  field: year, then: [month, day, hour], unit: YYYY M D h"
	format.Time, _ = need(t, "field", "name the field that holds the event time, as  time: {field: ts}; or write  time: record", first)
	t.units(format)
	format.Clock.Zone, _ = get(t, "zone", "", zone)
	format.Clock.Take, _ = get(t, "take", "", anyText)
	t.then(format)
	format.Clock.Text, _ = get(t, "text", "", truth)
	plus := t.section("plus", "{field: FIELD, unit: UNIT}")
	plus.off = plus.off || !plus.present()
	format.Clock.Plus, _ = need(plus, "field", "name the field that is added to the time", anyText)
	format.Clock.PlusUnit, _ = need(plus, "unit", "say in what it is written, as  unit: ns", numericUnit)
	plus.close()
	var at place
	format.MaxAhead, at = get(t, "max_ahead", window.Format(reading.DefaultMaxAhead.Milliseconds()), maxAhead)
	if format.MaxAhead == reading.NoMaxAhead {
		s.d.warn(at, "input.time.max_ahead", "off: one reading with a wrong clock can close the windows of all devices of its partition")
	}
	format.Min, _ = get(t, "min", time.UnixMilli(reading.DefaultMin).UTC().Format(time.DateOnly), earliestTime)
	if record {
		format.MaxAhead, format.Min = reading.DefaultMaxAhead, reading.DefaultMin
	}
	t.scope(in)
	in.Quorum, _ = get(t, "quorum", "1", whole(1, maxQuorum))
	s.d.idle, s.d.idleAt = getShown(t, "idle_close", "", "off", idleClose)
	t.close()
}

// then asks for the fields that follow the first one of a time.
func (s *section) then(format *reading.Format) {
	const want = "text, or a list of paths of fields"
	if slices.ContainsFunc(s.pairs, func(p pair) bool { return p.name == "then" && p.value.kind == kindList }) {
		format.Clock.Then, _ = list(s, "then", want, "name the fields that follow, as  then: [month, day, hour]; or leave it out", anyText)
		return
	}
	one := anyText
	one.want = want
	if path, _ := get(s, "then", "", one); path != "" {
		format.Clock.Then = []string{path}
	}
}

// scope asks whose stream time closes windows: the partition's, or each key's own (R35).
func (s *section) scope(in *Input) {
	scope, _ := get(s, "scope", "task", word([]string{"task", "key"}))
	def := ""
	if scope == "key" {
		def = defaultMaxLag
	}
	lag, at := getShown(s, "max_lag", def, defaultMaxLag, duration(window.Sizes))
	switch {
	case scope == "key":
		in.MaxLag = lag
	case scope == "task" && s.has("max_lag"):
		s.d.add(at, join(s.path, "max_lag"), wrongf("is there without  scope: key").hinted("write  scope: key  beside it, or remove it"))
	}
}

// defaultMaxLag is how far behind its partition a key's own time is by default: a gateway that is away for a day.
const defaultMaxLag = "24h"

// maxQuorum is as many devices as a commit record may hold.
const maxQuorum = 64

// idleClose is a duration, or off.
var idleClose = spec[time.Duration]{kind: kindUnits, want: idleRange.String() + ", or off", parse: func(text string) (time.Duration, *wrong) {
	if text == "off" {
		return 0, nil
	}
	ms, w := duration(idleRange).parse(text)
	return time.Duration(ms) * time.Millisecond, w
}}

var idleRange = window.Range{Min: 100, Max: window.Longest}

// written is a unit of event times, with the layout where it is one.
type written struct {
	unit   reading.Unit
	layout string
}

var unit = spec[written]{kind: kindText, want: "s, ms, us, ns, rfc3339, iso8601 or a layout as YYYY-MM-DD hh:mm:ss", parse: func(text string) (written, *wrong) {
	if strings.Contains(text, "YY") {
		return written{reading.Layout, text}, nil
	}
	u, err := reading.ParseUnit(text)
	if err != nil {
		return written{}, wrongf("%v", err)
	}
	return written{unit: u}, nil
}}

var numericUnit = spec[reading.Unit]{kind: kindText, want: "s, ms, us or ns", parse: func(text string) (reading.Unit, *wrong) {
	w, fault := unit.parse(text)
	if fault == nil && !w.unit.Numeric() {
		fault = wrongf("%s is no unit of numbers: want s, ms, us or ns", shown(text))
	}
	return w.unit, fault
}}

// units asks for the unit of event times, or for two: of numbers and of texts.
func (s *section) units(format *reading.Format) {
	several := slices.ContainsFunc(s.pairs, func(p pair) bool { return p.name == "unit" && p.value.kind == kindList })
	var all []written
	if several {
		all, _ = list(s, "unit", unit.want, "", unit)
	} else {
		one := unit
		one.want += ", or a list of two"
		w, _ := get(s, "unit", reading.Milliseconds.String(), one)
		all = []written{w}
	}
	for i, w := range all {
		if w.layout != "" {
			format.Clock.Layout = w.layout
		}
		switch i {
		case 0:
			format.Unit = w.unit
		case 1:
			format.Clock.Also = w.unit
		default:
			s.d.add(s.at, join(s.path, "unit"), wrongf("%d units, want one for numbers and one for texts at most", len(all)))
			return
		}
	}
}

// zone is a zone of the time zone data that we carry: the machine's could be another one after a move (I11).
var zone = spec[*time.Location]{kind: kindText, want: "the name of a time zone, as Europe/Berlin", parse: func(text string) (*time.Location, *wrong) {
	zone, err := window.Zone(text)
	if err != nil {
		w := wrongf("%v", err)
		if near := spelling.Nearest(text, window.Zones()); near != "" {
			w.hinted("did you mean %s?", near)
		}
		return nil, w
	}
	return zone, nil
}}
