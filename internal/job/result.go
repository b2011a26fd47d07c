package job

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"strconv"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// appendResultKey appends the key of a result: the record key of all key fields.
func (t *table) appendResultKey(dst, key []byte) []byte {
	field, rest := takeField(t.fieldsOf(key))
	if len(rest) == 0 {
		return append(dst, field...)
	}
	return appendFields(dst, t.fieldsOf(key))
}

// appendFields appends key fields as a JSON array of strings.
func appendFields(dst, fields []byte) []byte {
	var field []byte
	for sep := byte('['); len(fields) > 0; sep = ',' {
		field, fields = takeField(fields)
		dst = appendString(append(dst, sep), field)
	}
	return append(dst, ']')
}

// appendWindow appends the part of a result or dump line before the functions, without a comma behind.
func (t *table) appendWindow(dst, key []byte, span window.Span) []byte {
	dst = appendFields(append(dst, t.head...), t.fieldsOf(key))
	dst = strconv.AppendInt(append(dst, `,"start":`...), span.Start, 10)
	return strconv.AppendInt(append(dst, `,"end":`...), span.End, 10)
}

// appendNumbers appends the functions of all values, each member with a comma before it.
func (t *table) appendNumbers(dst []byte, accumulators []aggregate.Accumulator, exact bool) []byte {
	if len(accumulators) == 1 {
		return t.appendFunctions(dst, &accumulators[0], exact)
	}
	if t.functions.Has(aggregate.Count) {
		dst = strconv.AppendInt(append(dst, `,"count":`...), accumulators[0].Count(), 10)
	}
	dst = append(dst, `,"values":`...)
	for i := range accumulators {
		dst = append(append(append(dst, "{,"[min(i, 1)]), t.values[i]...), ':')
		at := len(dst)
		dst = t.appendFunctions(dst, &accumulators[i], exact)
		dst[at] = '{' // in place of the first comma
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// member is one function as it stands in a result.
type member struct {
	function aggregate.Functions
	percent  int    // of Quantiles
	head     string // the comma, the name and the colon
}

// membersOf are the members of a result in their order.
func membersOf(a *Aggregation) []member {
	var list []member
	for f := aggregate.Functions(1); f < aggregate.Quantiles; f <<= 1 {
		if a.Functions.Has(f) {
			list = append(list, member{function: f})
		}
	}
	for _, percent := range a.Percents.List() {
		list = append(list, member{function: aggregate.Quantiles, percent: percent})
	}
	for i, name := range aggregate.Names(a.Functions, a.Percents) {
		list[i].head = `,"` + name + `":`
	}
	return list
}

// appendFunctions appends the functions of one value, each with a comma before it; there is at least one.
func (t *table) appendFunctions(dst []byte, a *aggregate.Accumulator, exact bool) []byte {
	f, beyond := t.functions, false
	for i := range t.members {
		m := &t.members[i]
		dst = append(dst, m.head...)
		if m.function == aggregate.Quantiles {
			dst = a.AppendQuantile(dst, m.percent)
			continue
		}
		var overflow bool
		dst, overflow = a.AppendResult(dst, m.function)
		beyond = beyond || overflow
	}
	if beyond {
		dst = append(dst, `,"overflow":true`...)
	}
	if f&aggregate.Trails != 0 && a.Unordered() {
		dst = append(dst, `,"unordered":true`...)
	}
	if exact && f&aggregate.FromSums != 0 {
		dst = append(a.Sum().AppendExact(append(dst, `,"sum_exact":"`...)), '"')
	}
	if exact && f&aggregate.Spreads != 0 {
		dst = append(a.Squares().AppendExact(append(dst, `,"squares_exact":"`...)), '"')
	}
	return dst
}

// appendResult appends the value of a result.
func (t *table) appendResult(dst, key []byte, span window.Span, accumulators []aggregate.Accumulator, final bool) []byte {
	dst = t.appendNumbers(t.appendWindow(dst, key, span), accumulators, false)
	return append(strconv.AppendBool(append(dst, `,"final":`...), final), '}')
}

// appendMerged appends the value of an update that takes back the ones before it: the session has become a part of
// another one.
func (t *table) appendMerged(dst, key []byte, span window.Span) []byte {
	return append(t.appendWindow(dst, key, span), `,"merged":true,"final":false}`...)
}

// Dumper writes entries as lines of JSON. Not safe for concurrent use.
type Dumper struct {
	layout       layout
	accumulators []aggregate.Accumulator
}

// NewDumper makes a Dumper of a job's entries.
func NewDumper(c Config) (*Dumper, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	d := &Dumper{layout: newLayout(&c)}
	d.accumulators = make([]aggregate.Accumulator, len(d.layout.values))
	return d, nil
}

// Append appends the line of one entry, without a newline; exact adds the exact sums as "sum_exact":"M*2^e" and "squares_exact". The error
// of an entry whose aggregation is not configured wraps ErrNotConfigured, that of one that is no window ErrNoWindow; any
// other means damage. Key and value are
// those of a changelog record and are not kept.
func (d *Dumper) Append(dst, key, value []byte, exact bool) ([]byte, error) {
	i, ok := d.layout.find(key)
	switch {
	case !ok:
		return dst, damaged(key)
	case i == task.Removed:
		return dst, ErrNotConfigured
	}
	t := &d.layout.tables[d.layout.tableOf(i, key)]
	if t.memory {
		if _, err := d.layout.decode(value, t, nil); err != nil {
			return dst, err
		}
		return dst, ErrNoWindow
	}
	span, err := t.span(key, value)
	if err != nil {
		return dst, err
	}
	if _, err := d.layout.decode(value, t, d.accumulators); err != nil {
		return dst, err
	}
	return append(t.appendNumbers(t.appendWindow(dst, key, span), d.accumulators, exact), '}'), nil
}

// Compare orders changelog keys of entries as dump lines stand: by aggregation, then key field by key field, then by
// window start; texts by their bytes. Other keys come first, by their bytes.
func Compare(a, b []byte) int {
	nameA, _ := record.AggregationOf(a)
	nameB, _ := record.AggregationOf(b)
	if nameA == nil || nameB == nil {
		return cmp.Or(cmp.Compare(len(nameA), len(nameB)), bytes.Compare(a, b))
	}
	if c := bytes.Compare(nameA, nameB); c != 0 {
		return c
	}
	fieldsA, fieldsB := afterName(a, nameA), afterName(b, nameB)
	for len(fieldsA) > 0 && len(fieldsB) > 0 {
		var fieldA, fieldB []byte
		fieldA, fieldsA = takeField(fieldsA)
		fieldB, fieldsB = takeField(fieldsB)
		if c := bytes.Compare(fieldA, fieldB); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(len(fieldsA), len(fieldsB)), cmp.Compare(record.Start(a), record.Start(b)))
}

// afterName are the key fields in the key of an entry whose aggregation has this name.
func afterName(key, name []byte) []byte {
	_, w := binary.Uvarint(key[1:])
	return key[1+w+len(name) : len(key)-startBytes]
}
