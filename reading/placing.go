package reading

import (
	"fmt"
	"slices"
	"strings"
)

// RecordKey are the names of the key fields that a record's key is made of when nothing else is configured: those that
// come from it, or if none does all but the constants.
func (f *Format) RecordKey() []string {
	var all, key []string
	for i, name := range f.Key {
		switch f.origin(i) {
		case FromKey:
			key = append(key, name)
		case FromConstant:
		default:
			all = append(all, name)
		}
	}
	if key != nil {
		return key
	}
	return all
}

func (f *Format) origin(i int) Origin {
	if len(f.Parts) != len(f.Key) {
		return FromField
	}
	return f.Parts[i].From
}

// Determined tells how named key fields make the record's key, so that all readings of a key lie in one partition
// (R3). Fields of the value make it by their texts: false. Fields taken from the record's key itself do if they leave no
// part of it out, for then only one record key has them: true. The error says which part is left out.
func (f *Format) Determined(names []string) (bool, error) {
	open := make(map[string][]string) // shapes with a wildcard that is not taken, with the patterns
	taken := make(map[string]uint64)  // by shape, a bit for each wildcard
	from := false
	for i, name := range f.Key {
		if f.origin(i) != FromKey || !slices.Contains(names, name) {
			continue
		}
		if from = true; f.Parts[i].Take == "" {
			return true, nil
		}
		p, err := parsePattern(f.Parts[i].Take)
		if err != nil {
			return false, err
		}
		shape := p.shape()
		for n, w := range p.wild {
			if w.taken {
				taken[shape] |= 1 << n
			}
		}
		if open[shape] = append(open[shape], p.text); taken[shape] == 1<<len(p.wild)-1 {
			return true, nil
		}
	}
	if !from {
		return false, nil
	}
	var patterns []string
	for _, texts := range open {
		patterns = append(patterns, texts...)
	}
	slices.Sort(patterns)
	return true, fmt.Errorf("the key fields take only a part of the record's key (%s), so that records with different keys, in different "+
		"partitions, could have one", strings.Join(patterns, ", "))
}

// Meaning is everything about the format that gives readings their meaning, as one line of text. Guards are not in it.
func (f *Format) Meaning() string {
	var b strings.Builder
	numbers := "float64"
	if f.Whole {
		numbers = "int64"
	}
	fmt.Fprintf(&b, "key=%q values=%q numbers=%s time=%q unit=%s", f.Key, f.Values, numbers, f.Time, f.Unit)
	more := func(name string, set bool, value any) {
		if set {
			fmt.Fprintf(&b, " %s=%v", name, value)
		}
	}
	for i := range f.Parts {
		if p := f.Parts[i]; p != (Part{}) {
			more(fmt.Sprintf("key[%d]", i), true, fmt.Sprintf("%+q", []any{p.From, p.Path, p.Name, p.Member, p.Take}))
		}
	}
	for i := range f.Numbers {
		n := f.Numbers[i]
		fields := fmt.Sprintf("%q %q %v %v %q %v %q", n.Path, n.Value, n.Text, n.Comma, n.Take, n.Missing, n.Convert)
		more(fmt.Sprintf("values[%d]", i), fields != `"" "" false false "" [] ""`, fields)
		more(fmt.Sprintf("range[%d]", i), n.Range != nil, n.Range)
	}
	k := &f.Clock
	more("record_time", k.Record, true)
	more("also", k.Also != 0, k.Also)
	more("layout", k.Layout != "", fmt.Sprintf("%q", k.Layout))
	more("zone", k.Zone != nil, k.Zone)
	more("take", k.Take != "", fmt.Sprintf("%q", k.Take))
	more("text", k.Text, true)
	if len(k.Then) == 1 {
		more("then", true, fmt.Sprintf("%q", k.Then[0]))
	}
	more("then", len(k.Then) > 1, fmt.Sprintf("%q", k.Then))
	more("plus", k.Plus != "", fmt.Sprintf("%q %s", k.Plus, k.PlusUnit))
	more("each", f.Each != "", fmt.Sprintf("%q", f.Each))
	more("columns", len(f.Columns) > 0, fmt.Sprintf("%q %q", f.Columns, f.Separator))
	more("series", f.Series, true)
	more("where", f.Where != "", fmt.Sprintf("%q", f.Where))
	more("skip_missing", f.SkipMissing, true)
	return b.String()
}
