package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// R7: the longest key that is accepted, made of the characters that grow most, with the widest sums, still fits the
// changelog and the results; one byte more is refused before the fold.
func TestLimitsHoldAtTheLongestKey(t *testing.T) {
	for _, limits := range []Limits{
		{Changelog: 1 << 20, Result: 1 << 15, Late: 1 << 20, DeadLetter: 1 << 20},
		{Changelog: 4096, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20},
		{Changelog: 1 << 20, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20},
	} {
		r := newRun(t, minutes(0))
		r.limits = limits
		r.crash()
		j, err := New(r.config, 0, 1, limits)
		if err != nil {
			t.Fatal(err)
		}
		fixed := len(j.layout.tables[0].prefix) + startBytes
		longest := j.maxKey - fixed
		for len(record.AppendField(nil, make([]byte, longest)))+fixed > j.maxKey {
			longest--
		}
		device := strings.Repeat("\x01", longest)
		for _, v := range []string{"-1.7976931348623157e308", "5e-324", "-1.7976931348623157e308"} {
			r.add(device, 1000, v)
		}
		r.add(device+"\x01", 1000, "1")
		r.drain()
		for key, value := range r.base.values {
			if size := len(key) + len(value); size > int(limits.Changelog) {
				t.Errorf("limits %+v: an entry of %d bytes", limits, size)
			}
		}
		r.add("closer", 60_000, "1")
		r.drain()
		r.expectDead("too_large")
		if size := len(r.results[0].key) + len(r.results[0].value); size > int(limits.Result) || len(r.results) != 1 {
			t.Errorf("limits %+v: a result of %d bytes", limits, size)
		}
	}
}

// FuzzDump: any key and value give a line of JSON or an error, never a panic.
func FuzzDump(f *testing.F) {
	d, err := NewDumper(plant())
	if err != nil {
		f.Fatal(err)
	}
	numbers := filled()
	value := d.layout.tables[0].encode(nil, 0, append(numbers, numbers...))
	key := record.EntryPrefix(nil, "minute")
	for _, field := range []string{"site", "device"} {
		key = record.AppendField(key, []byte(field))
	}
	key = record.AppendStart(key, t0)
	f.Add(key, value)
	f.Add(record.CommitKey, value)
	f.Add(key[:len(key)-9], value[:len(value)-1])
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		Compare(key, value)
		if Compare(key, key) != 0 {
			t.Fatalf("%x is not itself", key)
		}
		text, err := d.Append([]byte("x"), key, value, true)
		if err != nil {
			return
		}
		if !json.Valid(text[1:]) || text[0] != 'x' {
			t.Fatalf("%x %x gives %s", key, value, text)
		}
	})
}

// Letters of any size fit their topic, and what is kept is the beginning of what came.
func TestLettersFit(t *testing.T) {
	for _, size := range []int{0, 1, 3000, 4096, 5000, 100_000} {
		for _, keySize := range []int{0, 10, 3000, 10_000} {
			for _, headers := range []int{0, 1, 100} {
				r := newRun(t, minutes(0))
				r.limits.DeadLetter = minLetter
				r.crash()
				in := r.record("a", 0, "0")
				in.Key, in.Value = bytes.Repeat([]byte("k"), keySize), bytes.Repeat([]byte("v"), size)
				for i := range headers {
					in.Headers = append(in.Headers, record.Header{Key: fmt.Sprint(i), Value: bytes.Repeat([]byte("h"), 100)})
				}
				r.feed(in)
				r.drain()
				m := r.dead[0]
				if total := len(m.key) + len(m.value) + headerBytes(m.headers); total > minLetter {
					t.Errorf("key %d, value %d, %d headers: a letter of %d bytes", keySize, size, headers, total)
				}
				if !bytes.HasPrefix(in.Key, m.key) || !bytes.HasPrefix(in.Value, m.value) {
					t.Errorf("key %d, value %d: not the beginning", keySize, size)
				}
				if cut := m.header(HeaderTruncated) == "true"; cut != (len(m.value) < size || len(m.key) < keySize || m.header(HeaderHeadersDropped) != "") {
					t.Errorf("key %d, value %d, %d headers: truncated is %v", keySize, size, headers, cut)
				}
			}
		}
	}
}
