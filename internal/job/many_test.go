package job

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/task"
)

// batches is a job whose records hold arrays of readings of one device.
func batches(grace int64) Config {
	c := minutes(grace)
	c.Format.Each, c.Format.Key = "m", []string{"$.device"}
	return c
}

func (r *run) burst(at int64, readings string, headers ...task.Header) {
	in := task.Input{Offset: r.next, Epoch: 1, Timestamp: t0 + at, Key: []byte("a"), Headers: headers,
		Value: fmt.Appendf(nil, `{"device":"a","m":[%s]}`, readings)}
	r.next++
	r.feed(in)
	r.commit()
}

func item(at int64, value string) string { return fmt.Sprintf(`{"ts":%d,"value":%s}`, t0+at, value) }

// TestManyReadings: of an array with bad elements the good ones count once, the record becomes one dead letter that names
// the bad ones, and when that comes back it counts with these only, and only once more (I9).
func TestManyReadings(t *testing.T) {
	r := newRun(t, batches(0))
	r.burst(2000, strings.Join([]string{item(1000, "1"), item(1000, `"x"`), item(2000, "2"), item(2000, "null"), item(2000, "null")}, ","))
	r.burst(2000, "")
	r.checkEquations()
	r.expectDead("wrong_type")
	if got := r.dead[0].header(HeaderIndex); got != "1,3-4" {
		t.Errorf("readings refused are %q, want 1,3-4", got)
	}
	if c := r.counters(); c.In != 6 || c.Accepted != 2 || c.DeadLettered != 3 || c.Filtered != 1 {
		t.Errorf("%+v", c)
	}
	// Somebody has mended the bad ones and sends the record again, with its headers.
	r.burst(3000, strings.Join([]string{item(1000, "1"), item(1000, "10"), item(2000, "2"), item(2000, "20"), item(2000, "null")}, ","), r.dead[0].headers...)
	r.checkEquations()
	if got := r.dead[1].header(HeaderIndex) + " " + r.dead[1].header(HeaderAttempt); got != "4 2" {
		t.Errorf("the second time it is %q, want reading 4 at attempt 2", got)
	}
	r.burst(61_000, item(60_000, "0"))
	r.drain()
	r.expectResults("a +0 4 33")
}

// TestManyLate: the late readings of a record are one late letter, with the window that the first of them missed.
func TestManyLate(t *testing.T) {
	r := newRun(t, batches(0))
	r.burst(61_000, item(61_000, "0"))
	r.burst(61_000, strings.Join([]string{item(1000, "1"), item(61_000, "2"), item(-1000, "3"), item(130_000, "4")}, ","))
	if len(r.late) != 1 {
		t.Fatalf("%d late letters, want 1", len(r.late))
	}
	l := &r.late[0]
	for header, want := range map[string]string{HeaderIndex: "0,2", HeaderWindowStart: fmt.Sprint(int64(t0)), HeaderWindowEnd: fmt.Sprint(int64(t0) + 60_000),
		HeaderStreamTime: fmt.Sprint(int64(t0) + 61_000), HeaderLateness: "1000"} {
		if got := l.header(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	r.checkEquations()
}

// TestIndexes: whatever readings a letter names are read back, in a header of bounded size.
func TestIndexes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var which []int32
		share := random.Float64()
		for i := range int32(1 + random.IntN(10_000)) {
			if random.Float64() < share {
				which = append(which, i)
			}
		}
		if which == nil {
			continue
		}
		l := &letter{}
		l.indexes(which)
		if size := len(l.headers[0].Value); size > maxRuns {
			t.Fatalf("%d readings make a header of %d bytes, want %d at most", len(which), size, maxRuns)
		}
		var got []int32
		for _, run := range parseIndexes(nil, l.headers[0].Value) {
			for i := run.first; i <= run.last; i++ {
				got = append(got, int32(i))
			}
		}
		if !slices.Equal(got, which) {
			t.Fatalf("%v are read back as %v", which, got)
		}
	}
	for _, bad := range []string{"", "x", "1,", "3-2", "5,4", "1-", "-1", "bits:?", strings.Repeat("1", 5000)} {
		if got := parseIndexes(nil, []byte(bad)); len(got) > 0 {
			t.Errorf("%.20q is read as %v", bad, got)
		}
	}
}
