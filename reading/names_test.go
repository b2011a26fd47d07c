package reading_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/reading"
)

// manyNames are n members with different names.
func manyNames(n int) string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf(`"n%d":%d`, i, i)
	}
	return strings.Join(members, ",")
}

// TestManyNames reads objects large enough for the table, inside, beside and around one another, over and over with one
// Reader: a name left in the table by a closed object or by a refused document would show as a duplicate or fill it up.
func TestManyNames(t *testing.T) {
	tw := newTwins(t)
	good := `"device":"a","ts":1704067200123,"value":1`
	nested := `"x":[{` + manyNames(300) + `},{` + manyNames(300) + `,"deeper":{` + manyNames(500) + `}}]`
	documents := []string{
		"{" + manyNames(reading.MaxNames) + "," + good + "}",
		"{" + manyNames(40) + "," + nested + "," + strings.ReplaceAll(manyNames(40), "n", "m") + "," + good + "}",
		"{" + manyNames(10) + "," + nested + "," + strings.ReplaceAll(manyNames(10), "n", "m") + "," + good + "}",
		"{" + nested + "," + good + "," + manyNames(16) + "}",
		"{" + nested + "," + good + "," + manyNames(17) + "}",
	}
	for range 5 {
		for _, document := range documents {
			tw.compare(t, []byte(document), now)
			tw.compare(t, []byte(document[:len(document)/2]), now)
			tw.compare(t, []byte(strings.Replace(document, `"n7":7`, `"n8":7`, 1)), now)
		}
	}
	tw.demand(t, accepted, 5*len(documents))
	tw.demand(t, "duplicate_field", 5*len(documents))
	tw.demand(t, "truncated", 5*len(documents))
}

// TestLikeNames puts names into one object that differ in their last byte or in their length only.
func TestLikeNames(t *testing.T) {
	tw := newTwins(t)
	for size := range 20 {
		for _, end := range []string{"x", "y", `x\u0000`, "xx", ""} {
			name := func(end string) string { return `"` + strings.Repeat("n", size) + end + `":0,` }
			value := "{" + name("x") + name(end) + `"device":"a","ts":1704067200123,"value":1}`
			tw.compare(t, []byte(value), now)
			tw.compare(t, []byte("{"+strings.ReplaceAll(manyNames(20), "n", "m")+","+value[1:]), now)
		}
	}
	tw.demand(t, accepted, 20*2*4)
	tw.demand(t, "duplicate_field", 20*2)
}

// TestNamesThatMustBeEscaped looks for fields whose names would end a string if they stood there as they are.
func TestNamesThatMustBeEscaped(t *testing.T) {
	for _, name := range []string{`"`, `a":1,"b`, "\n", "tab\tin a long name", `\`, `C:\temp and more`} {
		f := formats()[0]
		f.Values = []string{strings.NewReplacer(`\`, `\\`, ".", `\.`).Replace(name)}
		r := newReader(t, f)
		f.Values[0] = name // to the oracle, which knows no paths
		for _, written := range []string{name, fmt.Sprintf("%q", name)[1 : len(fmt.Sprintf("%q", name))-1]} {
			value := []byte(`{"device":"a","ts":1704067200123,"` + written + `":1,"z":2}`)
			if outcome, fault := differ(r, f, value, now); fault != "" || (outcome == accepted) != (written != name) {
				t.Errorf("field %q, record %q: %s %s", name, value, outcome, fault)
			}
		}
	}
}

// BenchmarkManyNames shows what a byte costs in objects of few and of very many names, which must not be far apart.
func BenchmarkManyNames(b *testing.B) {
	for _, n := range []int{4, 16, 17, 100, reading.MaxNames} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newReader(b, formats()[0])
			document := []byte(`{"device":"a","ts":1704067200123,"value":1,` + manyNames(n) + "}")
			b.SetBytes(int64(len(document)))
			b.ReportAllocs()
			for b.Loop() {
				if _, refusal := r.Read(document, now); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}
