package job

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// fastClock feeds the input of W01; the evil record's own timestamp is evilTime ms after t0.
func fastClock(r *run, evilTime int64) *run {
	r.add("a", 1000, "1")
	r.add("b", 1000, "1")
	evil := r.record("evil", 86_400_000, "9")
	evil.Timestamp = t0 + evilTime
	r.feed(evil)
	for at := int64(61_000); at <= 601_000; at += 60_000 {
		r.add("a", at, "1")
		r.add("b", at, "1")
	}
	return r.drain()
}

func TestW01FastClock(t *testing.T) {
	r := fastClock(newRun(t, minutes(10_000)), 1000)
	var want []string
	for _, device := range []string{"a", "b"} {
		for _, start := range []int{0, 120, 180, 240, 300, 360, 420, 480, 60} {
			want = append(want, fmt.Sprintf("%s +%d 1 1", device, start))
		}
	}
	r.expectResults(want...)
	r.expectState("a +540 1 1", "a +600 1 1", "b +540 1 1", "b +600 1 1")
	r.expectDead("future_time")
	if detail := r.dead[0].header(HeaderDetail); !strings.Contains(detail, "1704153600000") {
		t.Errorf("the detail does not name the time: %s", detail)
	}
	if len(r.late) != 0 {
		t.Errorf("%d late", len(r.late))
	}
}

// With the guard off the fast clock pulls everybody only when the record's own timestamp is as fast, and then every
// honest reading is in the late topic, none lost.
func TestW01GuardOff(t *testing.T) {
	config := minutes(10_000)
	config.Format.MaxAhead = reading.NoMaxAhead
	if r := fastClock(newRun(t, config), 86_400_000); len(r.late) != 20 || r.task.Committed().Aggregations[0].Late != 20 {
		t.Errorf("%d late", len(r.late))
	}
	if r := fastClock(newRun(t, config), 1000); len(r.late) != 0 || r.counters().Ahead != 1 {
		t.Errorf("%d late, ahead %d: a record of honest time must not pull the others", len(r.late), r.counters().Ahead)
	}
}

func TestW01EvilFirstAndPause(t *testing.T) {
	r := newRun(t, minutes(0))
	evil := r.record("evil", 86_400_000, "9")
	evil.Timestamp = t0
	r.feed(evil)
	r.add("a", 1000, "1")
	r.add("a", 2*86_400_000, "1") // an honest pause of two days is no future
	r.drain().expectResults("a +0 1 1")
	r.expectDead("future_time")
}

// W07: stream time survives a restart, whoever set it, and with everything local gone.
func TestW07StreamTimeSurvives(t *testing.T) {
	for _, closer := range []string{"a", "b"} {
		r := newRun(t, minutes(0))
		r.add("a", 1000, "5")
		r.add(closer, 61_000, "7")
		r.drain()
		r.crash()
		r.add("a", 2000, "100")
		r.drain().expectResults("a +0 1 5")
		r.expectState(closer + " +60 1 7")
		if len(r.late) != 1 || string(r.late[0].key) != "a" {
			t.Errorf("%d late", len(r.late))
		}
	}
}

// W08: exactly at end + grace the window is closed, and the late record says for which window, at which stream time.
func TestW08ExactlyAtTheLimitIsLate(t *testing.T) {
	r := newRun(t, minutes(30_000))
	r.add("a", 1000, "1")
	r.add("a", 89_999, "1")
	r.add("a", 59_999, "1") // still in time
	r.add("a", 90_000, "1")
	late := r.record("a", 59_999, "1")
	r.feed(late)
	r.drain().expectResults("a +0 2 2")
	r.expectState("a +60 2 2")
	if len(r.late) != 1 || !bytes.Equal(r.late[0].value, late.Value) || !bytes.Equal(r.late[0].key, late.Key) {
		t.Fatalf("late %q", r.late)
	}
	for name, want := range map[string]string{
		HeaderAggregation: "minute", HeaderWindowStart: itoa(t0), HeaderWindowEnd: itoa(t0 + 60_000),
		HeaderStreamTime: itoa(t0 + 90_000), HeaderLateness: "0", HeaderTopic: "in", HeaderPartition: "0", HeaderOffset: "4",
	} {
		if got := r.late[0].header(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// V6: closed_end is persisted, so a longer grace does not open again what has been emitted.
func TestLongerGraceOpensNothing(t *testing.T) {
	r := newRun(t, minutes(0))
	r.add("a", 1000, "1")
	r.add("a", 61_000, "1")
	r.drain()
	r.config.Aggregations[0].Grace = 3_600_000
	r.crash()
	r.add("a", 2000, "1")
	r.add("a", 119_000, "1")
	r.add("a", 130_000, "1")
	r.add("a", 100_000, "1") // in the open window, and within the new grace
	r.drain().expectResults("a +0 1 1")
	r.expectState("a +120 1 1", "a +60 3 3")
	if len(r.late) != 1 || r.late[0].header(HeaderLateness) != "1000" {
		t.Errorf("late %+v", r.late)
	}
}

// W09: times in another unit are refused by the plausibility bounds, with the likely unit.
func TestW09WrongUnit(t *testing.T) {
	r := newRun(t, minutes(0))
	for _, ts := range []string{"1704067201", "1704067201000000", "1704067201000000000", "1704067201000"} {
		r.raw([]byte("a"), []byte(`{"device":"a","ts":`+ts+`,"value":1}`))
	}
	r.drain().expectState("a +0 1 1")
	r.expectDead("implausible_time", "implausible_time", "implausible_time")
	for i, unit := range []string{"seconds", "microseconds", "nanoseconds"} {
		if detail := r.dead[i].header(HeaderDetail); !strings.Contains(detail, unit) || r.dead[i].header(HeaderField) != "ts" {
			t.Errorf("field %q, detail %q; want ts, %s", r.dead[i].header(HeaderField), detail, unit)
		}
	}
}

// W11: absurd times stop nothing, move nothing and overflow nothing.
func TestW11AbsurdTimes(t *testing.T) {
	r := newRun(t, minutes(0))
	for _, ts := range []string{`-1`, `-62135596800000`, `0`, `null`, ``, `""`, `9223372036854775807`, `-9223372036854775808`} {
		field := `"ts":` + ts + `,`
		if ts == "" {
			field = ""
		}
		r.raw([]byte("a"), []byte(`{"device":"a",`+field+`"value":1}`))
		r.add("a", 1000, "1")
	}
	r.drain().expectState("a +0 8 8")
	r.expectDead("implausible_time", "implausible_time", "implausible_time", "null_field", "missing_field", "wrong_type",
		"implausible_time", "implausible_time")
	if c := r.task.Committed(); c.StreamTime != t0+1000 {
		t.Errorf("stream time %d", c.StreamTime)
	}
	// A record without a timestamp of its own is not guarded, but its time is still bounded by the year 9999.
	for _, ts := range []string{"9223372036854775807", "253402300799999"} {
		r.feed(task.Input{Offset: r.next, Epoch: 1, Timestamp: -1, Key: []byte("a"), Value: []byte(`{"device":"a","ts":` + ts + `,"value":1}`)})
		r.next++
	}
	r.drain().expectResults("a +0 8 8")
	if n := r.counters(); n.Untimed != 2 || len(r.dead) != 9 {
		t.Errorf("untimed %d, dead letters %d", n.Untimed, len(r.dead))
	}
}

// W16, I10: one result for each window whatever the batches.
func TestW16OneFinalResult(t *testing.T) {
	for _, batch := range []int{4, 10, 1000} {
		r := newRun(t, minutes(0))
		r.batch = batch
		r.crash()
		for i := range int64(1000) {
			r.add("a", i*59, "1")
		}
		r.add("a", 60_000, "1")
		r.drain().expectResults("a +0 1000 1000")
		r.expectState("a +60 1 1")
	}
}

func TestW23RareDeviceIsClosedByThePartition(t *testing.T) {
	r := newRun(t, minutes(0))
	r.add("a", 1000, "5")
	for at := int64(1000); at <= 600_000; at += 1000 {
		r.add("b", at, "1")
	}
	r.add("a", 2000, "9")
	r.drain().expectState("b +600 1 1")
	if len(r.late) != 1 || len(r.results) != 11 {
		t.Errorf("%d late, %d results", len(r.late), len(r.results))
	}
	if first := r.parse(r.results[0].value); len(r.results) > 0 && first.Count != 1 && first.Count != 59 {
		t.Errorf("first result %+v", first)
	}
	c := r.task.Committed()
	if c.StreamTime != t0+600_000 || c.SetterOffset != 600 || string(c.SetterKey) != "b" {
		t.Errorf("stream time %d set by %q at %d", c.StreamTime, c.SetterKey, c.SetterOffset)
	}
}

func TestC01NotFinite(t *testing.T) {
	r := newRun(t, minutes(0))
	r.add("a", 1000, "2")
	values := []string{"NaN", "Infinity", "-Infinity", "nan", `"NaN"`, `"inf"`, "1e400", "-1e400"}
	for _, value := range values {
		r.add("a", 2000, value)
	}
	r.add("a", 3000, "4")
	r.add("a", 60_000, "0")
	r.drain()
	got := r.parse(r.results[0].value)
	if got.Count != 2 || got.Sum != "6" || got.Min != "2" || got.Max != "4" || got.Mean != "3" {
		t.Errorf("result %+v", got)
	}
	r.expectDead("not_finite", "not_finite", "not_finite", "not_finite", "wrong_type", "wrong_type", "not_finite", "not_finite")
	for i, m := range r.dead {
		if want := fmt.Sprintf(`{"device":"a","ts":%d,"value":%s}`, t0+2000, values[i]); string(m.value) != want {
			t.Errorf("dead letter %s, want the untouched %s", m.value, want)
		}
	}
}

func TestC05NullIsNotZero(t *testing.T) {
	r := newRun(t, minutes(0))
	for _, value := range []string{"10", "null", "", `""`, "[]", "{}", "true", "20"} {
		text := fmt.Sprintf(`{"device":"a","ts":%d,"value":%s}`, t0+1000, value)
		if value == "" {
			text = fmt.Sprintf(`{"device":"a","ts":%d}`, t0+1000)
		}
		r.raw([]byte("a"), []byte(text))
	}
	r.add("b", 1000, "null")
	r.add("c", 1000, "0")
	r.drain().expectState("a +0 2 30", "c +0 1 0")
	r.expectDead("null_field", "missing_field", "wrong_type", "wrong_type", "wrong_type", "wrong_type", "null_field")
}

// C08: devices that differ in a byte are two keys, and bad text is a dead letter with its bytes.
func TestC08Keys(t *testing.T) {
	r := newRun(t, minutes(0))
	bad := []byte("{\"device\":\"s\xff\",\"ts\":1704067201000,\"value\":1}")
	r.raw([]byte("s\xff"), bad)
	r.raw([]byte("s"), []byte(`{"device":"s\ud800","ts":1704067201000,"value":1}`))
	for _, device := range []string{"s\x00x", "S", "s", "\u00e9", "e\u0301", "a\"\\\n\x1f/<é"} {
		r.add(device, 1000, "1")
	}
	r.add("z", 60_000, "1")
	r.drain()
	r.expectDead("invalid_utf8", "lone_surrogate")
	if !bytes.Equal(r.dead[0].value, bad) || string(r.dead[0].key) != "s\xff" || r.dead[0].header(HeaderPosition) != "12" {
		t.Errorf("dead letter %+v", r.dead[0])
	}
	seen := map[string]bool{}
	for _, m := range r.results {
		l := r.parse(m.value)
		if l.Key[0] != string(m.key) {
			t.Errorf("result %q has the record key %q", l.Key, m.key)
		}
		seen[l.Key[0]] = true
	}
	if len(seen) != 6 {
		t.Errorf("keys %v", seen)
	}
}

// C09: a tombstone deletes nothing, and its dead letter is a tombstone too.
func TestC09Tombstones(t *testing.T) {
	r := newRun(t, minutes(0))
	r.add("a", 1000, "1")
	r.raw([]byte("a"), nil)
	r.raw([]byte("a"), []byte{})
	r.raw([]byte("a"), []byte("null"))
	r.raw(nil, nil)
	r.add("a", 2000, "2")
	r.drain().expectState("a +0 2 3")
	r.expectDead("tombstone", "empty", "not_object", "tombstone")
	if r.dead[0].value != nil || r.dead[1].value == nil || r.dead[3].key != nil {
		t.Errorf("null and empty are mixed up: %+v", r.dead)
	}
}

// C09: as the first output of a task, too, an empty key stays empty and null stays null.
func TestC09FirstOutput(t *testing.T) {
	r := newRun(t, minutes(0))
	r.raw([]byte{}, nil)
	r.drain()
	if r.dead[0].key == nil || r.dead[0].value != nil {
		t.Errorf("%+v", r.dead[0])
	}
}

func TestC10KeysAndDevices(t *testing.T) {
	r := newRun(t, minutes(0))
	at := `,"ts":1704067201000,"value":1}`
	r.raw([]byte(""), []byte(`{"device":""`+at))
	r.raw([]byte("a"), []byte(`{"x":1`+at))
	r.raw([]byte("a"), []byte(`{"device":null`+at))
	r.raw([]byte("5"), []byte(`{"device":5`+at))
	r.raw([]byte("5"), []byte(`{"device":"5"`+at))
	r.raw([]byte("a"), []byte(`{"device":["a"]`+at))
	r.raw(nil, []byte(`{"device":"a"`+at))
	r.raw([]byte("b"), []byte(`{"device":"a"`+at))
	r.raw([]byte("8838840643388017390"), []byte(`{"device":8838840643388017390`+at))
	r.drain().expectState("5 +0 2 2", "8838840643388017390 +0 1 1") // C03: the digits stay
	r.expectDead("empty_key", "missing_field", "null_field", "wrong_type", "wrong_key", "wrong_key")
	if detail := r.dead[5].header(HeaderDetail); !strings.Contains(detail, `"b", want "a"`) {
		t.Errorf("detail %s", detail)
	}
}

// C11: the sum is exact, whatever the batches and crashes.
func TestC11ExactAcrossCrashes(t *testing.T) {
	values := []string{"1e16", "1", "-1e16", "1"}
	for crash := range len(values) + 1 {
		r := newRun(t, minutes(0))
		for i, value := range values {
			if i == crash {
				r.drain()
				r.crash()
			}
			r.add("a", int64(i), value)
		}
		r.drain().expectState("a +0 4 2")
	}
}

// C14: what no topic takes is cut, or refused before the fold; the rest goes on.
func TestC14TooLarge(t *testing.T) {
	r := newRun(t, minutes(0))
	r.limits = Limits{Changelog: 1 << 17, Result: 1 << 18, Late: 1 << 20, DeadLetter: 1 << 20}
	r.crash()
	near := bytes.Repeat([]byte("x"), 1_048_500)
	huge := bytes.Repeat([]byte("y"), 5<<20)
	r.raw([]byte("a"), near)
	r.raw([]byte("a"), huge)
	r.add(strings.Repeat("d", 1_500_000), 1000, "1")
	r.raw(huge, huge)
	r.add("a", 1000, "1")
	r.drain().expectState("a +0 1 1")
	r.expectDead("not_json", "not_json", "too_large", "not_json")
	for i, size := range []int{len(near), len(huge), 1_500_042, len(huge)} {
		m := r.dead[i]
		if total := len(m.key) + len(m.value) + headerBytes(m.headers); total > 1<<20 || total < 1<<20-64 {
			t.Errorf("dead letter %d has %d bytes", i, total)
		}
		if m.header(HeaderTruncated) != "true" || m.header(HeaderOriginalSize) != itoa(int64(size)) || len(m.header(HeaderSHA256)) != 64 {
			t.Errorf("dead letter %d: %q", i, m.headers)
		}
	}
	if r.dead[1].header(HeaderSHA256) != hash(huge) || r.dead[3].header(HeaderKeySHA256) != hash(huge) {
		t.Error("the hash is not that of the whole")
	}
}

// C15: a dead letter that comes back as input, again and again, does not grow.
func TestC15RoundAndRound(t *testing.T) {
	r := newRun(t, minutes(0))
	in := task.Input{Epoch: 1, Timestamp: t0, Key: []byte("a"), Value: []byte("bad"),
		Headers: []task.Header{{Key: "trace", Value: []byte("1")}, {Key: "tidemark", Value: []byte("a result's")}}}
	sizes := map[int]bool{}
	for i := range 11 {
		in.Offset = int64(i)
		r.feed(in)
		r.drain()
		m := r.dead[i]
		if m.header(HeaderAttempt) != itoa(int64(i+1)) || m.headers[0].Key != "trace" || m.headers[1].Key != "tidemark" {
			t.Fatalf("round %d: %q", i, m.headers)
		}
		sizes[len(m.headers)] = true
		in.Headers = m.headers
	}
	if len(sizes) != 1 {
		t.Errorf("numbers of headers %v", sizes)
	}
}

// C20: only configured fields are judged; 7 and "7" are one key.
func TestC20ShapesChange(t *testing.T) {
	r := newRun(t, minutes(0))
	for _, value := range []string{`21.5`, `21`, `{"c":21.5}`, `"21.5"`, `true`, `[21.5]`, `21.5,"note":{"x":[1,2]},"unused":1e999`} {
		r.add("a", 1000, value)
	}
	r.drain().expectState("a +0 3 64")
	r.expectDead("wrong_type", "wrong_type", "wrong_type", "wrong_type")
}

// D11, R32: what gives entries their meaning stops the task when it changes; what does not is free.
func TestD11Fingerprint(t *testing.T) {
	base := minutes(0)
	same := minutes(3_600_000)
	same.Input, same.PartitionedBy, same.Partitioner = "renamed", []string{"device"}, CRC32
	same.Format.MaxAhead, same.Format.Min = reading.NoMaxAhead, 0
	if same.Fingerprint(0) != base.Fingerprint(0) {
		t.Error("topics, grace, guards or partitioning change the fingerprint")
	}
	seen := map[uint64]string{base.Fingerprint(0): "base"}
	for name, change := range map[string]func(*Config){
		"size":      func(c *Config) { c.Aggregations[0].Window = window.Tumbling{Size: 30_000} },
		"offset":    func(c *Config) { c.Aggregations[0].Window = window.Tumbling{Size: 60_000, Offset: 1} },
		"step":      func(c *Config) { c.Aggregations[0].Window = window.Hopping{Size: 60_000, Step: 30_000} },
		"functions": func(c *Config) { c.Aggregations[0].Functions = 1 },
		"key":       func(c *Config) { c.Format.Key = []string{"site"} },
		"two keys":  func(c *Config) { c.Format.Key = []string{"device", "site"} },
		"key order": func(c *Config) { c.Format.Key = []string{"site", "device"} },
		"values":    func(c *Config) { c.Format.Values = []string{"value", "other"} },
		"unit":      func(c *Config) { c.Format.Unit = reading.Seconds },
		"time":      func(c *Config) { c.Format.Time = "at" },
		"columns":   func(c *Config) { columns(c, "month", "day") },
		"day first": func(c *Config) { columns(c, "day", "month") },
		"one less":  func(c *Config) { columns(c, "month day") },
	} {
		c := minutes(0)
		change(&c)
		if other := seen[c.Fingerprint(0)]; other != "" {
			t.Errorf("%s and %s have one fingerprint: %s", name, other, c.Definition(0))
		}
		seen[c.Fingerprint(0)] = name
		j, err := New(c, 0, 1, roomy)
		if err != nil {
			t.Fatal(err)
		}
		r := newRun(t, minutes(0))
		if _, err := task.New(r.base, j, r.task.Committed(), task.Options{MaxRecords: 10, MaxBytes: 10_000}); err != nil {
			continue
		}
		r.add("a", 1000, "1")
		r.drain()
		if _, err := task.New(r.base, j, r.task.Committed(), task.Options{MaxRecords: 10, MaxBytes: 10_000}); err == nil {
			t.Errorf("a changed %s is taken on old state", name)
		}
	}
}

// columns makes the time one in several fields.
func columns(c *Config, then ...string) {
	c.Format.Time, c.Format.Unit = "year", reading.Layout
	c.Format.Clock = reading.Clock{Layout: "YYYY M D", Zone: time.UTC, Then: then}
}

// An aggregation that is configured no more is removed without a result, and one that is added starts empty.
func TestAggregationsComeAndGo(t *testing.T) {
	r := newRun(t, minutes(0))
	r.add("a", 1000, "1")
	r.drain()
	hour := r.config.Aggregations[0]
	hour.Name, hour.Window = "hour", hourly
	r.config.Aggregations = []Aggregation{hour}
	r.crash()
	r.add("a", 2000, "1")
	r.drain().expectState("a +0 1 1")
	if len(r.results) != 0 || r.task.Committed().Aggregations[0].Since != 1 {
		t.Errorf("results %q, %+v", r.results, r.task.Committed().Aggregations)
	}
	tombstones := 0
	for _, m := range r.changelog {
		if kind, _ := record.KindOf(m.key); kind == record.KindEntry && m.value == nil {
			tombstones++
		}
	}
	if tombstones != 1 {
		t.Errorf("%d tombstones", tombstones)
	}
}
