package job

import (
	"fmt"
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

// A meter that begins again at 0, with a reading that comes late: what it counted, how fast, and the mean over time. Then
// a reading that comes behind more others than are kept one by one: it is counted, and the three say that they do not
// know, in the dump and in the result.
func TestTrailResults(t *testing.T) {
	c := minutes(60_000)
	c.Aggregations[0].Functions = aggregate.Count | aggregate.Trails
	r := newRun(t, c)
	for _, add := range []struct {
		at    int64
		value string
	}{{0, "10"}, {20_000, "3"}, {10_000, "12.5"}, {30_000, "4"}} {
		r.add("a", add.at, add.value)
		r.drain().crash()
	}
	for i := range 35 {
		r.add("b", int64(10_000+i*1000), fmt.Sprint(i))
	}
	r.add("b", 11_500, "1.5")
	lines := r.drain().dump(true)
	for i, want := range []string{
		`"count":4,"delta":6.5,"rate":0.21666666666666667,"time_mean":7.5}`,
		`"count":36,"delta":null,"rate":null,"time_mean":null,"unordered":true}`,
	} {
		if !strings.HasSuffix(string(lines[i]), want) {
			t.Errorf("%s\nwant %s", lines[i], want)
		}
	}
	r.crash()
	r.add("closer", 120_000, "0")
	for _, m := range r.drain().results {
		if got := string(m.value); strings.Contains(got, `["b"]`) && !strings.HasSuffix(got, `"time_mean":null,"unordered":true,"final":true}`) {
			t.Errorf("result %s", got)
		}
	}
}

// int64 mode: a meter above 2^53 keeps its digits through entries, crashes, dumps and results, and what is no whole
// number is a dead letter.
func TestWholeResults(t *testing.T) {
	c := minutes(0)
	c.Format.Whole = true
	c.Aggregations[0].Functions, c.Aggregations[0].Percents = aggregate.Plain|aggregate.Ends|aggregate.Rises|aggregate.Quantiles, 1
	r := newRun(t, c)
	for i, v := range []string{"9007199254740993", "9007199254740995", "9007199254740996.0"} {
		r.add("a", int64(i)*1000, v)
		r.drain().crash()
	}
	r.add("a", 4000, "0.5")
	const want = `"count":3,"sum":27021597764222984,"min":9007199254740993,"max":9007199254740996,"mean":9007199254740994,` +
		`"first":9007199254740993,"last":9007199254740996,"delta":3,"rate":1.5,"p50":9007199254740993`
	if line := string(r.drain().dump(false)[0]); !strings.HasSuffix(line, want+"}") {
		t.Errorf("%s\nwant %s", line, want)
	}
	r.add("a", 60_000, "0")
	if r.drain(); len(r.results) != 1 || !strings.HasSuffix(string(r.results[0].value), want+`,"final":true}`) {
		t.Errorf("results %v", r.results)
	}
	if len(r.dead) != 1 || r.dead[0].header(HeaderReason) != "not_whole" {
		t.Errorf("dead letters %v", r.dead)
	}
	other := c
	if other.Format.Whole = false; other.Fingerprint(0) == c.Fingerprint(0) {
		t.Error("doubles have the fingerprint of whole numbers")
	}
}
