package proof

import (
	"reflect"
	"slices"
	"strings"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// Model says in the oracle's words what a job's file says. The number of partitions is left to the caller.
func Model(defined *config.Job) oracle.Config {
	c := readAs(&defined.Input.Format)
	in := &defined.Input
	c.PartitionedBy, c.Partitioner, c.MaxLag, c.Quorum = in.PartitionedBy, in.Partitioner.String(), in.MaxLag, in.Quorum
	c.Dedup.Within = defined.Dedup
	for i := range defined.Aggregations {
		c.Aggregations = append(c.Aggregations, aggregated(&defined.Aggregations[i]))
	}
	return c
}

// Pairs are the keys of a job with input.rekey; nil without.
func Pairs(defined *config.Job) (pairs []Pair) {
	for _, part := range defined.Parts() {
		if part.Part != job.Relayed {
			continue
		}
		p := Pair{Suffix: strings.TrimPrefix(part.Name, defined.Name), Key: part.Input.Format.Key}
		for _, a := range part.Aggregations {
			p.Aggregations = append(p.Aggregations, a.Name)
		}
		pairs = append(pairs, p)
	}
	return pairs
}

// aggregated is an aggregation in the oracle's words.
func aggregated(a *config.Aggregation) oracle.Aggregation {
	to := oracle.Aggregation{Name: a.Name, Grace: a.Grace, Updates: a.Updates, Current: a.Current, Functions: aggregate.Names(a.Functions, a.Percents)}
	switch w := a.Window.(type) {
	case window.Tumbling:
		to.Size, to.Offset = w.Size, w.Offset
	case window.Hopping:
		to.Size, to.Step, to.Offset = w.Size, w.Step, w.Offset
	case window.Session:
		to.Gap = w.Gap
	case window.Calendar:
		to.Unit, to.Zone = w.Unit().String(), w.Zone()
	default:
		panic("a kind of window that the oracle does not know: " + w.String())
	}
	return to
}

// longestAhead stands for no limit: sums of times stay far from overflow.
const longestAhead = 1 << 50

// readAs is a format in the oracle's words.
func readAs(f *reading.Format) oracle.Config {
	c := oracle.Defaults()
	c.Key, c.Values, c.Whole = f.Key, f.Values, f.Whole
	c.Time = oracle.TimeField{Name: f.Time, Unit: f.Unit.String()}
	if c.MaxAhead, c.Min = f.MaxAhead.Milliseconds(), f.Min; f.MaxAhead == reading.NoMaxAhead {
		c.MaxAhead = longestAhead // what stands for no limit is 292 years as a duration
	}
	if f.Sequence != nil {
		c.Dedup.Sequence = f.Sequence.Path
	}
	if plain(f) {
		return c
	}
	s := &oracle.Shape{Each: f.Each, Columns: f.Columns, Separator: f.Separator, Series: f.Series, SkipMissing: f.SkipMissing, Where: f.Where,
		Parts: map[string]oracle.Part{}, Numbers: map[string]oracle.Number{}}
	for i, p := range f.Parts {
		s.Parts[f.Key[i]] = partAs(f.Key[i], &p)
	}
	for i, n := range f.Numbers {
		s.Numbers[f.Values[i]] = numberAs(&n)
	}
	k := &f.Clock
	s.Time = oracle.Times{Record: k.Record, Text: k.Text, Layout: k.Layout, Take: k.Take, Then: k.Then, Plus: k.Plus, PlusUnit: k.PlusUnit.String()}
	if k.Also != 0 {
		s.Time.Also = k.Also.String()
	}
	if k.Zone != nil {
		s.Time.Zone = k.Zone.String()
	}
	c.Shape = s
	return c
}

// plain tells whether records are objects with plain fields, which the oracle reads in a way of its own.
func plain(f *reading.Format) bool {
	names := slices.Concat(f.Key, f.Values, []string{f.Time})
	if f.Sequence != nil {
		names = append(names, f.Sequence.Path)
	}
	path := func(name string) bool { return strings.ContainsAny(name, `.\$`) }
	return f.Parts == nil && f.Numbers == nil && reflect.DeepEqual(f.Clock, reading.Clock{}) && f.Each == "" && f.Columns == nil && !f.Series && f.Where == "" &&
		!f.SkipMissing && (f.Unit.Numeric() || f.Unit == reading.RFC3339) && !slices.ContainsFunc(names, path)
}

// partAs is where a key field comes from.
func partAs(name string, p *reading.Part) oracle.Part {
	to := oracle.Part{Path: p.Path, Take: p.Take, Member: p.Member, Key: p.From == reading.FromKey}
	switch p.From {
	case reading.FromHeader:
		to.Header = p.Name
	case reading.FromConstant:
		to.Constant = p.Name
	case reading.FromField:
		if to.Path == "" {
			to.Path = name
		}
	}
	return to
}

// numberAs is how a value is found.
func numberAs(n *reading.Number) oracle.Number {
	to := oracle.Number{Path: n.Path, Value: n.Value, Take: n.Take, Convert: n.Convert, Text: n.Text, Comma: n.Comma}
	for _, m := range n.Missing {
		if m.IsNumber {
			to.MissingNumbers = append(to.MissingNumbers, m.Number)
		} else {
			to.MissingTexts = append(to.MissingTexts, m.Text)
		}
	}
	if n.Range != nil {
		to.Min, to.Max = &n.Range.Min, &n.Range.Max
	}
	return to
}
