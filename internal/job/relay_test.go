package job

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
)

// handOn runs records through a relay, and what it hands on through a job that reads that. Records are given as the
// internal topic has them, with timestamps that mean nothing.
func handOn(t *testing.T, config Config, in []task.Input) (relay, relayed *run) {
	t.Helper()
	first := config
	first.Part, first.Aggregations = Relay, nil
	relay = newRun(t, first)
	relay.feed(in...)
	relay.drain()
	config.Part, config.Partitioner = Relayed, Murmur2
	relayed = newRun(t, config)
	for i, m := range relay.results {
		if len(m.headers) > 0 {
			t.Fatalf("a record between the parts has headers: %v", m.headers)
		}
		relayed.feed(task.Input{Offset: int64(i), Epoch: 1, Timestamp: 1, Key: m.key, Value: m.value})
	}
	relayed.drain()
	if n := relayed.counters(); n.DeadLettered != 0 || n.In != relay.counters().Accepted {
		t.Fatalf("handed on %d, taken %+v; dead: %v", relay.counters().Accepted, n, relayed.dead)
	}
	return relay, relayed
}

// TestRelay compares two parts over records without keys with one job over the same records with the right keys: state,
// results, late readings, refusals and stream time are the same, whatever is wrong with the records (R3).
func TestRelay(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	config := minutes(90_000)
	config.Format.Key, config.Format.Unit = []string{"site", "device"}, reading.RFC3339
	config.Format.Values = []string{"a", "b"}
	config.Aggregations[0].Functions = aggregate.Plain | aggregate.Spreads // ends and trails keep offsets, which are those of the topic between
	values := []string{"1", "-0", "0.1", "1e16", "-1e16", "1.7976931348623157e308", "5e-324", "3.25", "x", "null", "1e999"}
	one := newRun(t, config)
	var bare []task.Input
	at := int64(t0)
	for i := range 3000 {
		at += random.Int64N(700)
		site, device := fmt.Sprintf("s\"%d", random.IntN(2)), fmt.Sprintf("é%d", random.IntN(3))
		when := at - random.Int64N(120_000)
		stamp := time.UnixMilli(when).Add(time.Duration(random.IntN(1_000_000))).UTC().Format(time.RFC3339Nano)
		in := task.Input{Offset: int64(i), Epoch: 1, Timestamp: when + []int64{0, 5, -5, -when - 1, 400_000_000}[random.IntN(5)],
			Key: AppendRecordKey(nil, []byte(site), []byte(device))}
		in.Value = fmt.Appendf(nil, `{"site":%q,"device":%q,"ts":%q,"a":%s,"b":%s}`, site, device, stamp,
			values[random.IntN(len(values))], values[random.IntN(len(values))])
		one.feed(in)
		in.Key = nil
		bare = append(bare, in)
	}
	one.drain()
	relay, two := handOn(t, config, bare)
	if !maps.EqualFunc(one.base.values, two.base.values, bytes.Equal) {
		t.Errorf("state differs: %d entries and %d", len(one.base.values), len(two.base.values))
	}
	same := func(what string, a, b []message) {
		if !slices.EqualFunc(a, b, func(a, b message) bool { return bytes.Equal(a.key, b.key) && bytes.Equal(a.value, b.value) }) {
			t.Errorf("%s differ: %d and %d", what, len(a), len(b))
		}
	}
	same("results", one.results, two.results)
	if len(one.results) < 20 || len(one.late) < 20 || len(one.dead) < 20 || len(one.base.values) == 0 {
		t.Errorf("%d results, %d late, %d refused, %d open: this proves little", len(one.results), len(one.late), len(one.dead), len(one.base.values))
	}
	if len(one.late) != len(two.late) || len(one.dead) != len(relay.dead) {
		t.Errorf("late %d and %d, dead %d and %d", len(one.late), len(two.late), len(one.dead), len(relay.dead))
	}
	a, b := one.task.Committed(), two.task.Committed()
	if a.StreamTime != b.StreamTime || a.Counters.Ahead != b.Counters.Ahead {
		t.Errorf("stream time %d and %d, ahead %d and %d", a.StreamTime, b.StreamTime, a.Counters.Ahead, b.Counters.Ahead)
	}
}

// TestRelaySplits hands the readings of one record on to their keys, and counts each once.
func TestRelaySplits(t *testing.T) {
	config := minutes(0)
	config.Format.Each, config.Format.Values = "readings", []string{"value"}
	relay, two := handOn(t, config, []task.Input{{Offset: 5, Timestamp: t0 + 1000, Value: fmt.Appendf(nil,
		`{"readings":[{"device":"a","ts":%d,"value":1},{"device":"b","ts":%d,"value":2},{"device":"a","ts":%d},{"device":"a","ts":%d,"value":4}]}`,
		t0, t0, t0, t0)}})
	two.expectState("a +0 2 5", "b +0 1 2")
	if n := relay.counters(); n.In != 4 || n.Accepted != 3 || n.DeadLettered != 1 || len(relay.dead) != 1 {
		t.Errorf("%+v, %d letters", n, len(relay.dead))
	}
	golden(t, "relayed", string(relay.results[0].key)+" "+string(relay.results[0].value)+"\n"+string(relay.results[2].value)+"\n")
}

// TestRelaySeries hands each value on under its name.
func TestRelaySeries(t *testing.T) {
	config := minutes(0)
	config.Format.Series, config.Format.Values = true, []string{"in", "out"}
	_, two := handOn(t, config, []task.Input{{Timestamp: t0, Value: fmt.Appendf(nil, `{"device":"a","ts":%d,"in":1,"out":2}`, t0)}})
	two.expectState("a/in +0 1 1", "a/out +0 1 2")
}

// TestRelayTimes writes times so that they read back.
func TestRelayTimes(t *testing.T) {
	for _, test := range []struct {
		ms    int64
		nanos int32
		want  string
	}{{5, 0, "5"}, {5, 1, "5.000001"}, {-2, 500_000, "-1.500000"}, {-1, 999_999, "-0.000001"}, {-1, 0, "-1"}, {0, 250_000, "0.250000"}} {
		if got := string(appendTime(nil, test.ms, test.nanos)); got != test.want {
			t.Errorf("%d ms + %d ns is written %s, want %s", test.ms, test.nanos, got, test.want)
		}
	}
}

// TestForeignRecordsBetweenStages refuses what no relay has written, with a reason.
func TestForeignRecordsBetweenStages(t *testing.T) {
	config := minutes(0)
	config.Part = Relayed
	r := newRun(t, config)
	for _, value := range []string{"", "{}", `{"r":1`, `{"r":,"t":1}`, `{"r":12345678901234567890,"t":1,"k":["a"],"v":[1]}`, `{"r":5,"t":1,"k":[],"v":[1]}`} {
		r.raw([]byte("a"), []byte(value))
	}
	r.drain()
	if n := r.counters(); n.DeadLettered != 6 || len(r.dead) != 6 || n.Untimed != 6 {
		t.Errorf("%+v, %d letters", n, len(r.dead))
	}
}

// TestRelayWhole hands on whole numbers with all their digits.
func TestRelayWhole(t *testing.T) {
	config := minutes(0)
	config.Format.Whole = true
	_, two := handOn(t, config, []task.Input{{Timestamp: t0, Value: fmt.Appendf(nil, `{"device":"a","ts":%d,"value":9007199254740993.0}`, t0)}})
	if lines := two.dump(false); len(lines) != 1 || !bytes.Contains(lines[0], []byte(`"max":9007199254740993,`)) {
		t.Errorf("%s", lines)
	}
}

// TestRelayHandsOnAPart judges by the whole key and hands on a part of it. Of several relays of one input only one writes
// what they all refuse, so that nothing is sent in again twice.
func TestRelayHandsOnAPart(t *testing.T) {
	config := minutes(0)
	config.Format.Key, config.Part, config.Aggregations = []string{"site", "device"}, Relay, nil
	config.HandOn, config.Quiet = []string{"site"}, true
	r := newRun(t, config)
	for i, value := range []string{`{"site":"s","device":"d","ts":%d,"value":1}`, `{"site":"s","ts":%d,"value":1}`} {
		r.feed(task.Input{Offset: int64(i), Timestamp: t0, Value: fmt.Appendf(nil, value, t0)})
	}
	r.drain()
	if n := r.counters(); n.Accepted != 1 || n.DeadLettered != 1 || len(r.dead) != 0 {
		t.Errorf("%+v, %d letters", n, len(r.dead))
	}
	r.limits.Result = 10 // of this relay's topic: the others may have handed the reading on
	r.start(r.task.Committed())
	r.feed(task.Input{Offset: 2, Timestamp: t0, Value: fmt.Appendf(nil, `{"site":"s","device":"d","ts":%d,"value":1}`, t0)})
	r.drain()
	r.expectDead("too_large")
	if len(r.results) != 1 || string(r.results[0].key) != "s" || !bytes.Contains(r.results[0].value, []byte(`"k":["s"]`)) {
		t.Errorf("handed on %v", r.results)
	}
}
