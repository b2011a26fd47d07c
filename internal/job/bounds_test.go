package job

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// crowd is a job whose records hold readings of many devices of one group.
func crowd(kind window.Kind) Config {
	c := minutes(0)
	c.Format.Each, c.Format.Key, c.PartitionedBy = "m", []string{"$.group", "device"}, []string{"$.group"}
	c.Aggregations[0].Window, c.Aggregations[0].Functions = kind, aggregate.Plain
	return c
}

// everyMinute is the most windows that a time can be in.
var everyMinute = window.Hopping{Size: 24 * window.Hour, Step: window.Minute}

// crowded is a record of n readings, each of the device that its index gives.
func crowded(offset int64, group string, n int, device func(i int) int, headers ...task.Header) task.Input {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"group":"%s","m":[`, group)
	for i := range n {
		fmt.Fprintf(&b, `%s{"device":"d%d","ts":%d,"value":1}`, ","[:min(i, 1)], device(i), t0+10*offset+int64(i%10))
	}
	b.WriteString("]}")
	return task.Input{Offset: offset, Epoch: 1, Timestamp: t0, Key: []byte(group), Value: b.Bytes(), Headers: headers}
}

func each(i int) int { return i }
func same(int) int   { return 0 }

// TestRecordOfManyWindows: a small record that names more windows than one commit may change is taken up to the bound,
// and the rest of it is one dead letter; what comes back of that counts once, until all is there (I9, I13).
func TestRecordOfManyWindows(t *testing.T) {
	r := newRun(t, crowd(everyMinute))
	const readings, fit = 80, MaxUpdates / 1440
	rounds, headers := 0, []task.Header(nil)
	for left := readings; left > 0; left -= fit {
		r.feed(crowded(int64(rounds), "g", readings, each, headers...))
		r.commit()
		r.checkEquations()
		if rounds++; left <= fit {
			break
		}
		if len(r.dead) != rounds || r.dead[rounds-1].header(HeaderReason) != "too_many_updates" {
			t.Fatalf("round %d: %d dead letters, reason %s", rounds, len(r.dead), r.dead[rounds-1].header(HeaderReason))
		}
		if got, want := r.dead[rounds-1].header(HeaderIndex), fmt.Sprintf("%d-%d", rounds*fit, readings-1); got != want {
			t.Errorf("round %d: readings refused are %s, want %s", rounds, got, want)
		}
		headers = r.dead[rounds-1].headers
	}
	if r.largest > MaxUpdates+2 {
		t.Errorf("a commit of %d records", r.largest)
	}
	if c := r.counters(); rounds != 3 || c.Accepted != readings || r.task.Base().Live() != readings*1440 {
		t.Errorf("after %d rounds %+v, %d entries", rounds, c, r.task.Base().Live())
	}
}

// TestRecordOfLongKeys: what a record writes is bounded in bytes too. The key here stands in the record once.
func TestRecordOfLongKeys(t *testing.T) {
	r := newRun(t, crowd(everyMinute))
	r.feed(crowded(0, strings.Repeat("g", 60_000), 51, each))
	r.drain()
	r.expectDead("too_many_updates")
	if c := r.counters(); c.DeadLettered != 51 || c.Accepted != 0 || r.task.Base().Live() != 0 {
		t.Errorf("%+v", c)
	}
	if text := r.dead[0].header(HeaderDetail); len(text) > maxDetail || strings.Contains(text, "ggg") || !strings.Contains(text, "want a key of at most 11554") {
		t.Errorf("detail %q", text)
	}
	tumbling := newRun(t, crowd(window.Tumbling{Size: window.Minute}))
	tumbling.feed(crowded(0, strings.Repeat("g", 60_000), 1000, each))
	tumbling.drain()
	if c := tumbling.counters(); c.Accepted < 270 || c.Accepted > 280 {
		t.Errorf("%d readings with keys of 60,000 bytes were accepted", c.Accepted)
	}
}

// TestFullRecordsPass: a record of as many readings as one may hold is taken, of as many devices, or of one in many windows.
func TestFullRecordsPass(t *testing.T) {
	for name, test := range map[string]struct {
		kind   window.Kind
		device func(int) int
	}{
		"of as many devices":          {window.Tumbling{Size: window.Minute}, each},
		"in five windows each":        {window.Hopping{Size: 5 * window.Minute, Step: window.Minute}, each},
		"of one device in 24 windows": {window.Hopping{Size: 24 * window.Hour, Step: window.Hour}, same},
		"in sessions":                 {window.Session{Gap: window.Minute}, each},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, crowd(test.kind))
			r.feed(crowded(0, "g", reading.MaxReadings, test.device))
			r.drain()
			if c := r.counters(); c.Accepted != reading.MaxReadings {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestRecordOfManyFolds: few entries can be much work too.
func TestRecordOfManyFolds(t *testing.T) {
	r := newRun(t, crowd(everyMinute))
	r.feed(crowded(0, "g", reading.MaxReadings, same))
	r.drain()
	r.expectDead("too_many_updates")
	if c := r.counters(); c.Accepted != MaxFolds/1440 {
		t.Errorf("%+v", c)
	}
}

// TestBoundsOfARecordStandAlone: how much of a record counts does not depend on what the batch held before it, nor on what
// is committed (I11).
func TestBoundsOfARecordStandAlone(t *testing.T) {
	var digests []record.Digest
	for _, commits := range []int{0, 1, 2} {
		config := crowd(everyMinute)
		config.Aggregations[0].Updates, config.MaxLag, config.Dedup.Within = true, window.Hour, window.Hour
		r := newRun(t, config)
		r.task.Limit(1<<20, 1<<30)
		for i := range 3 {
			r.feed(crowded(int64(i), "g", 12, func(k int) int { return i*6 + k }))
			if i < commits {
				r.commit()
			}
		}
		r.feed(crowded(3, "g", 60, each))
		r.drain()
		c := r.counters()
		if c.DeadLettered == 0 {
			t.Errorf("nothing was refused: %+v", c)
		}
		digests = append(digests, r.task.Base().Digest())
	}
	if digests[0] != digests[1] || digests[0] != digests[2] {
		t.Errorf("states differ: %v", digests)
	}
}

// TestRelayOfLongKeys: what a relay hands on of one record is bounded as well, and what it may not hand on is a dead
// letter of every relay of the input.
func TestRelayOfLongKeys(t *testing.T) {
	config := crowd(nil)
	config.Part, config.Aggregations, config.PartitionedBy, config.Quiet = Relay, nil, nil, true
	r := newRun(t, config)
	r.feed(crowded(0, strings.Repeat("g", 60_000), 1000, each))
	r.drain()
	r.expectDead("too_many_updates")
	bytes := 0
	for i := range r.results {
		bytes += len(r.results[i].key) + len(r.results[i].value)
	}
	if c := r.counters(); bytes > MaxUpdateBytes || bytes < MaxUpdateBytes-200_000 || int(c.Accepted) != len(r.results) {
		t.Errorf("%d bytes were handed on: %+v", bytes, c)
	}
}

// TestReachOfAReading: a job is refused of which one reading alone would be beyond the bounds.
func TestReachOfAReading(t *testing.T) {
	config := crowd(everyMinute)
	for n := 1; ; n++ {
		err := config.Check()
		if config.reach().updates > MaxUpdates {
			if n != MaxUpdates/1440+1 || err == nil || !strings.Contains(err.Error(), "at most 50000") {
				t.Errorf("%d aggregations: %v", n, err)
			}
			return
		}
		if want := MaxUpdates / (n * 1440); err != nil || config.ReadingsOfRecord() != want {
			t.Fatalf("%d aggregations: %v; a record may hold %d readings, want %d", n, err, config.ReadingsOfRecord(), want)
		}
		more := config.Aggregations[0]
		more.Name = fmt.Sprint("more", n)
		config.Aggregations = append(config.Aggregations, more)
	}
}

// TestRepetitionsNeedNoRoom: what dedup leaves out changes nothing, so a record that has been taken up in two parts is not refused
// when it comes a third time.
func TestRepetitionsNeedNoRoom(t *testing.T) {
	c := crowd(everyMinute)
	c.Dedup.Within = window.Hour
	r := newRun(t, c)
	const readings, fit = 4000, MaxFolds / 1440
	var b bytes.Buffer
	b.WriteString(`{"group":"g","m":[`)
	for i := range readings {
		fmt.Fprintf(&b, `%s{"device":"d","ts":%d,"value":1}`, ","[:min(i, 1)], t0+i)
	}
	b.WriteString("]}")
	whole := func(offset int64, headers ...task.Header) {
		r.feed(task.Input{Offset: offset, Epoch: 1, Timestamp: t0, Key: []byte("g"), Value: b.Bytes(), Headers: headers})
		r.commit()
	}
	whole(0)
	if len(r.dead) != 1 || r.dead[0].header(HeaderIndex) != fmt.Sprintf("%d-%d", fit, readings-1) {
		t.Fatalf("%d dead letters", len(r.dead))
	}
	whole(1, r.dead[0].headers...)
	whole(2)
	if c := r.counters(); len(r.dead) != 1 || c.Accepted != readings || c.Duplicates != readings {
		t.Errorf("%d dead letters, %+v", len(r.dead), c)
	}
}
