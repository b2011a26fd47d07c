package job

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// The tests of this file are the variants of fault cases that need a window, a format or batches of their own.

// feeds runs fn with a run of each way to read the same records: at one go, one record a commit, and with all that is
// local lost after each record.
func feeds(t *testing.T, config Config, fn func(t *testing.T, r *run, between func())) {
	t.Helper()
	for _, way := range []string{"at one go", "one by one", "with crashes"} {
		t.Run(way, func(t *testing.T) {
			r := newRun(t, config)
			fn(t, r, func() {
				if way != "at one go" {
					r.drain()
				}
				if way == "with crashes" {
					r.crash()
				}
			})
		})
	}
}

// C11: the sum is exact in a session too that the third of its readings has made out of two.
func TestC11SessionsThatJoin(t *testing.T) {
	feeds(t, sessions(30_000, 60_000), func(t *testing.T, r *run, between func()) {
		for _, add := range []struct {
			at    int64
			value string
		}{{0, "1e16"}, {50_000, "1"}, {25_000, "-1e16"}, {60_000, "1"}} {
			r.add("a", add.at, add.value)
			between()
		}
		r.add("closer", 300_000, "0")
		r.drain().expectSpans("a 0..60 4 2")
	})
}

// C11: ten times 0.1 is 1, whatever the batches.
func TestC11TenTimesATenth(t *testing.T) {
	feeds(t, minutes(0), func(_ *testing.T, r *run, between func()) {
		for i := range int64(10) {
			r.add("a", i, "0.1")
			between()
		}
		r.drain().expectState("a +0 10 1")
	})
}

// W26: first and last of a session that is made of two.
func TestW26SessionThatMerges(t *testing.T) {
	c := sessions(30_000, 60_000)
	c.Aggregations[0].Functions = aggregate.Ends
	feeds(t, c, func(t *testing.T, r *run, between func()) {
		for _, add := range []struct {
			at    int64
			value string
		}{{50_000, "900"}, {10_000, "1000"}, {50_000, "901"}, {10_000, "999"}, {30_000, "5"}} {
			r.add("a", add.at, add.value)
			between()
		}
		r.add("closer", 300_000, "0")
		if r.drain(); len(r.results) != 1 || !strings.HasSuffix(string(r.results[0].value), `,"first":1000,"last":901,"final":true}`) {
			t.Errorf("results %q", r.results)
		}
	})
}

// C03: a counter above 2^53 twice in a window, of a device whose name is a number: int64 mode keeps every digit.
func TestC03WholeNumbers(t *testing.T) {
	c := minutes(0)
	c.Format.Whole = true
	c.Aggregations[0].Functions = aggregate.Plain | aggregate.Ends
	feeds(t, c, func(t *testing.T, r *run, between func()) {
		for i := range 2 {
			r.raw([]byte("8838840643388017390"), fmt.Appendf(nil, `{"device":8838840643388017390,"ts":%d,"value":9007199254740993}`, t0+1000+i))
			between()
		}
		r.add("b", 1000, "228930314431312345")
		r.add("closer", 60_000, "0")
		r.drain()
		for key, want := range map[string]string{
			"8838840643388017390": `"key":["8838840643388017390"],"start":1704067200000,"end":1704067260000,"count":2,"sum":18014398509481986,` +
				`"min":9007199254740993,"max":9007199254740993,"mean":9007199254740992,"first":9007199254740993,"last":9007199254740993`,
			"b": `"sum":228930314431312345,"min":228930314431312345`,
		} {
			for _, m := range r.results {
				if string(m.key) == key && !contains(string(m.value), want) {
					t.Errorf("%s\nwant %s", m.value, want)
				}
			}
		}
		if len(r.results) != 2 {
			t.Errorf("%d results", len(r.results))
		}
	})
}

// C03: as doubles the case's three values are others and counted, once, by the part that has read them; readings that are not accepted do
// not count.
func TestC03InexactIsCounted(t *testing.T) {
	feed := func(r *run) {
		for i := range 2 {
			r.raw([]byte("8838840643388017390"), fmt.Appendf(nil, `{"device":8838840643388017390,"ts":%d,"value":9007199254740993}`, t0+1000+i))
		}
		r.add("b", 1000, "228930314431312345")
		r.add("b", 1000, "21.5")
		r.add("b", -86_400_000*9000, "228930314431312345") // implausible
		r.drain()
	}
	r := newRun(t, minutes(0))
	if feed(r); r.counters().Inexact != 3 || r.counters().DeadLettered != 1 {
		t.Errorf("%+v, want 3 inexact values", r.counters())
	}
	c := minutes(0)
	c.Format.Whole, c.Format.Where = true, "value != 21.5"
	r = newRun(t, c)
	if feed(r); r.counters().Inexact != 0 || r.counters().Accepted != 3 {
		t.Errorf("whole numbers: %+v, want none", r.counters())
	}
	relay, two := handOn(t, minutes(0), []task.Input{{Offset: 5, Timestamp: t0 + 1000, Value: fmt.Appendf(nil, `{"device":"a","ts":%d,"value":1e23}`, t0)}})
	two.expectState("a +0 1 1e+23")
	if n, m := relay.counters(), two.counters(); n.Inexact != 1 || m.Inexact != 0 || m.Accepted != 1 {
		t.Errorf("the relay %+v and what follows it %+v: want 1 and 0", n, m)
	}
}

// C08: a record key that is no text does no harm to a reading whose key is in its value: the relay looks at no record key,
// and a job without one says which key it wants. A NUL survives in the changelog's key, the state and the results.
func TestC08BinaryRecordKey(t *testing.T) {
	binary := []byte{0, 0, 0, 0, 7}
	relay := minutes(0)
	relay.Part, relay.Aggregations = Relay, nil
	r := newRun(t, relay)
	r.raw(binary, []byte(`{"device":"s\u0000x","ts":1704067201000,"value":4}`))
	if n := r.drain().counters(); n.Accepted != 1 || len(r.dead) != 0 {
		t.Errorf("%+v, dead letters %q", n, r.dead)
	}
	r = newRun(t, minutes(0))
	r.raw(binary, []byte(`{"device":"a","ts":1704067201000,"value":4}`))
	if r.drain().expectDead("wrong_key"); !bytes.Equal(r.dead[0].key, binary) || !contains(r.dead[0].header(HeaderDetail), `"\x00\x00\x00\x00\a", want "a"`) {
		t.Errorf("dead letter %q", r.dead[0])
	}
	r.raw([]byte("s\x00x"), []byte(`{"device":"s\u0000x","ts":1704067201000,"value":4}`))
	r.drain().crash()
	r.expectState("s\x00x +0 1 4")
	r.add("z", 60_000, "1")
	if r.drain(); len(r.results) != 1 || string(r.results[0].key) != "s\x00x" || !contains(string(r.results[0].value), `"key":["s\u0000x"]`) {
		t.Errorf("results %q", r.results)
	}
}

// C16 and C17: a dead letter says where in the text the fault is, and shows bytes that are not printable as numbers.
func TestC17PlaceOfTheFault(t *testing.T) {
	good := `{"device":"a","ts":1704067201000,"value":1}`
	for value, want := range map[string][2]string{
		"\xef\xbb\xbf" + good: {"0", "ef bb bf"}, good + " x": {"44", "x"}, good + "\n" + good: {"44", "{"}, good + "\x00": {"43", "0x00"},
		strings.Replace(good, "1}", "012}", 1): {"42", "leading 0"}, strings.Replace(good, "1}", "1.}", 1): {"43", "}"},
		strings.Replace(good, "1}", "[\x01]}", 1): {"42", "0x01"},
	} {
		r := newRun(t, minutes(0))
		r.raw([]byte("a"), []byte(value))
		r.drain()
		if len(r.dead) != 1 || r.dead[0].header(HeaderPosition) != want[0] || !strings.Contains(r.dead[0].header(HeaderDetail), want[1]) {
			t.Errorf("%q: %q", value, r.dead)
		}
	}
}

// W30: keys that differ have records that differ: several fields are a list, one is its text, however they are made of
// quotes, commas and brackets. What is not printable is escaped in the result.
func TestW30KeysDoNotCollide(t *testing.T) {
	c := minutes(0)
	c.Format.Key = []string{"site", "device"}
	r := newRun(t, c)
	parts := []string{"a", "b", `a","b`, `["a","b"]`, "a\x1f", "\x00", `\u0000`, "a,b", " ", "é", "e\u0301"}
	for _, site := range parts {
		for _, device := range parts {
			r.raw(AppendRecordKey(nil, []byte(site), []byte(device)), fmt.Appendf(nil, `{"site":%s,"device":%s,"ts":%d,"value":1}`, appendString(nil, []byte(site)), appendString(nil, []byte(device)), t0+1000))
		}
	}
	r.feed(inputRecord{Offset: r.next, Epoch: 1, Timestamp: t0 + window.Minute, Key: []byte(`["z","z"]`),
		Value: fmt.Appendf(nil, `{"site":"z","device":"z","ts":%d,"value":1}`, t0+window.Minute)})
	r.drain()
	if len(r.dead) != 0 {
		t.Fatalf("%q", r.dead[0])
	}
	seen, keys := map[string]bool{}, map[string]bool{}
	for _, m := range r.results {
		seen[string(m.key)] = true
		l := r.parse(m.value)
		keys[fmt.Sprintf("%q", l.Key)] = true
		if l.Count != 1 {
			t.Errorf("two keys are one: %s", m.value)
		}
		for _, b := range m.value {
			if b < 0x20 {
				t.Errorf("byte %#x in %s", b, m.value)
			}
		}
	}
	if want := len(parts) * len(parts); len(r.results) != want || len(seen) != want || len(keys) != want {
		t.Errorf("%d results with %d record keys and %d keys, want %d", len(r.results), len(seen), len(keys), want)
	}
}
