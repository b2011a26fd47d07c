package job

import (
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
)

// The names, order and nulls of results and exact dumps with functions beside the plain ones.
func TestSpreadResults(t *testing.T) {
	c := minutes(0)
	c.Aggregations[0].Functions = aggregate.Plain | aggregate.Range | aggregate.Spreads
	r := newRun(t, c)
	for _, v := range []string{"2", "4", "4", "4", "5", "5", "7", "9"} {
		r.add("a", 1000, v)
		r.drain().crash()
	}
	r.add("b", 1000, "20.5")
	r.add("c", 1000, "1.7e308")
	r.add("c", 1000, "-1.7e308")
	want := []string{
		`"count":8,"sum":40,"min":2,"max":9,"mean":5,"range":7,"variance":4.571428571428571,"stddev":2.138089935299395,` +
			`"variance_pop":4,"stddev_pop":2,"sum_exact":"5*2^3","squares_exact":"29*2^3"}`,
		`"count":1,"sum":20.5,"min":20.5,"max":20.5,"mean":20.5,"range":0,"variance":null,"stddev":null,` +
			`"variance_pop":0,"stddev_pop":0,"sum_exact":"41*2^-1","squares_exact":"1681*2^-2"}`,
		`"count":2,"sum":0,"min":-1.7e+308,"max":1.7e+308,"mean":0,"range":null,"variance":null,"stddev":null,` +
			`"variance_pop":null,"stddev_pop":1.7e+308,"overflow":true,"sum_exact":"0*2^0"`,
	}
	lines := r.drain().dump(true)
	for i, text := range want {
		if !strings.Contains(string(lines[i]), text) {
			t.Errorf("%s\nwant %s", lines[i], text)
		}
	}
	r.add("closer", 60_000, "0")
	r.drain()
	for _, m := range r.results {
		if got := string(m.value); strings.Contains(got, `["a"]`) && !strings.HasSuffix(got, `"variance_pop":4,"stddev_pop":2,"final":true}`) {
			t.Errorf("result %s", got)
		}
	}
}

// R7: a job whose entries can be larger has less room for keys, and one with plain functions as much as ever.
func TestSpreadLimits(t *testing.T) {
	limits := Limits{Changelog: 4000, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20}
	for functions, want := range map[aggregate.Functions]int{
		aggregate.Count: 4000 - 1 - 302, aggregate.Plain | aggregate.Range: 4000 - 1 - 302, aggregate.Stddev: 4000 - 1 - 302 - 538,
	} {
		c := minutes(0)
		c.Aggregations[0].Functions = functions
		j, err := New(c, 0, 1, limits)
		if err != nil {
			t.Fatal(err)
		}
		if j.maxKey != want {
			t.Errorf("%s: keys of %d bytes, want %d", functions, j.maxKey, want)
		}
	}
}
