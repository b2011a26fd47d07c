package job

import (
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
)

// W26: first and last go by event time, then by where the reading was read, after a crash at every point too.
func TestW26FirstAndLast(t *testing.T) {
	for _, crash := range []bool{false, true} {
		c := minutes(60_000)
		c.Aggregations[0].Functions = aggregate.Ends
		r := newRun(t, c)
		for _, add := range []struct {
			at    int64
			value string
		}{{50_000, "900"}, {10_000, "1000"}, {50_000, "901"}, {10_000, "999"}, {30_000, "5"}} {
			r.add("a", add.at, add.value)
			if crash {
				r.drain().crash()
			}
		}
		if line := string(r.drain().dump(true)[0]); !strings.HasSuffix(line, `,"first":1000,"last":901}`) {
			t.Errorf("crashes %v: %s", crash, line)
		}
		r.add("a", 120_000, "0")
		r.drain()
		if got := string(r.results[0].value); !strings.HasSuffix(got, `,"first":1000,"last":901,"final":true}`) {
			t.Errorf("crashes %v: %s", crash, got)
		}
	}
}
