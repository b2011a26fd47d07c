package job

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// One window with so many different numbers that distinct is an estimate and percentiles have a digit less, and another
// with all readings of a key far apart, through crashes: results, dump lines and entries are those of the oracle.
func TestSketchesAgainstOracle(t *testing.T) {
	c := minutes(0)
	c.Aggregations[0].Functions, c.Aggregations[0].Percents = aggregate.All, aggregate.AllPercents
	r := newRun(t, c)
	random := rand.New(rand.NewPCG(5, 6))
	var records []oracle.Record
	add := func(device string, at int64, value string) {
		in := r.record(device, at, value)
		r.feed(in)
		records = append(records, oracle.Record{Offset: in.Offset, Timestamp: in.Timestamp, Key: in.Key, Value: in.Value})
	}
	for i := range 2000 {
		add("many", int64(i*20), strconv.FormatFloat(random.ExpFloat64()*float64(1-i%3), 'g', 5, 64))
		if i%100 == 0 {
			add("few", int64(i*20), strconv.Itoa(i%7))
		}
		if i%300 == 299 {
			r.drain().crash()
		}
	}
	r.drain()
	compare(t, r, oracleConfig(&c, 1).Run(0, records))
	add("closer", 60_000, "1")
	r.drain()
	compare(t, r, oracleConfig(&c, 1).Run(0, records))
	if len(r.results) != 2 {
		t.Errorf("%d results", len(r.results))
	}
}
