package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// plant is a job with several keys, values and aggregations, and odd names.
func plant() Config {
	c := minutes(0)
	c.Format.Key = []string{"site", "device"}
	c.PartitionedBy = []string{"device"}
	c.Format.Values = []string{"temp", "hum \"%\""}
	c.Aggregations = append(c.Aggregations,
		Aggregation{Name: "hour/é", Window: window.Tumbling{Size: window.Hour, Offset: 5 * window.Minute}, Grace: window.Minute,
			Functions: aggregate.Total | aggregate.Mean},
		Aggregation{Name: "extremes", Window: window.Tumbling{Size: window.Minute}, Functions: aggregate.Min | aggregate.Max})
	return c
}

func plantReading(r *run, site, device string, at int64, temp, hum string) {
	r.raw([]byte(device), fmt.Appendf(nil, `{"site":%s,"device":%s,"ts":%d,"temp":%s,"hum \"%%\"":%s}`,
		appendString(nil, []byte(site)), appendString(nil, []byte(device)), t0+at, temp, hum))
}

// show prints messages as lines "key TAB value".
func show(b *strings.Builder, title string, messages []message) {
	fmt.Fprintf(b, "# %s\n", title)
	for _, m := range messages {
		fmt.Fprintf(b, "%s\t%s\n", m.key, m.value)
	}
}

// The bytes of entries, results, dump lines and fingerprints are golden: format 1, and part of I11.
func TestGolden(t *testing.T) {
	var entries, results, dumps strings.Builder
	for _, c := range []struct {
		name string
		run  func() *run
	}{
		{"one value", func() *run {
			r := newRun(t, minutes(0))
			for _, v := range []string{"1e16", "1", "-1e16", "1", "-0"} {
				r.add("a\"\t\x01é", 1000, v)
			}
			r.add("big", 2000, "1.7e308")
			r.add("big", 2000, "1.7e308")
			r.add("third", 2000, "0.1")
			r.add("third", 2000, "0.2")
			r.add("third", 2000, "1e-7")
			return r
		}},
		{"several", func() *run {
			r := newRun(t, plant())
			plantReading(r, "n", "1", 1000, "20.5", "1.7e308")
			plantReading(r, "n", "1", 2000, "20.25", "1.7e308")
			plantReading(r, "s\n", "2", 2000, "-0", "0")
			return r
		}},
	} {
		r := c.run()
		r.drain()
		fmt.Fprintf(&entries, "# %s\n", c.name)
		keys := make([]string, 0, len(r.base.values))
		for key := range r.base.values {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, func(a, b string) int { return Compare([]byte(a), []byte(b)) })
		for _, key := range keys {
			fmt.Fprintf(&entries, "%x\t%x\n", key, r.base.values[key])
		}
		fmt.Fprintf(&dumps, "# %s\n", c.name)
		for _, exact := range []bool{false, true} {
			for _, text := range r.dump(exact) {
				fmt.Fprintf(&dumps, "%s\n", text)
			}
		}
		closer := r.record("closer", 0, "0")
		closer.Timestamp += 7_500_000
		closer.Value = []byte(strings.NewReplacer(itoa(t0), itoa(t0+7_500_000), `"value":0`, `"value":0,"site":"n","temp":0,"hum \"%\"":0`).
			Replace(string(closer.Value)))
		r.feed(closer)
		r.drain()
		show(&results, c.name, r.results)
		for i := range r.config.Aggregations {
			fmt.Fprintf(&dumps, "%016x %s\n", r.config.Fingerprint(i), r.config.Definition(i))
		}
	}
	golden(t, "entries.v1", entries.String())
	golden(t, "results", results.String())
	golden(t, "dump", dumps.String())
}

// The headers of late readings and dead letters are what people's repair scripts rely on.
func TestGoldenLetters(t *testing.T) {
	r := newRun(t, minutes(0))
	r.add("a", 70_000, "1")
	late := r.record("a", 1000, "1")
	late.Headers = []task.Header{{Key: "trace", Value: []byte{0xff}}, {Key: HeaderReason, Value: []byte("an older one")}}
	r.feed(late)
	r.raw([]byte("b"), []byte(`{"device":"a","ts":1704067201000,"value":1}`))
	r.raw(nil, []byte(`{"device":"a","ts":1704067201000,"value":1}`))
	r.raw([]byte("a"), []byte(`{"device":"a","ts":1704067201000,"value":"x"}`))
	r.limits.DeadLetter = minLetter
	r.drain()
	r.crash()
	big := task.Input{Offset: r.next, Epoch: 1, Timestamp: t0, Key: []byte(strings.Repeat("k", 9000)), Value: []byte(strings.Repeat("v", 9000)),
		Headers: []task.Header{{Key: "large", Value: []byte(strings.Repeat("h", 9000))}}}
	r.feed(big)
	r.drain()
	var b strings.Builder
	for title, list := range map[string][]message{"late": r.late} {
		showLetters(&b, title, list)
	}
	showLetters(&b, "dead", r.dead)
	golden(t, "letters", b.String())
}

func showLetters(b *strings.Builder, title string, list []message) {
	for _, m := range list {
		fmt.Fprintf(b, "# %s: key %d bytes, value %d bytes\n", title, len(m.key), len(m.value))
		for _, h := range m.headers {
			fmt.Fprintf(b, "%s: %q\n", h.Key, h.Value)
		}
	}
}

func TestDumperRefuses(t *testing.T) {
	d, err := NewDumper(minutes(0))
	if err != nil {
		t.Fatal(err)
	}
	key := func(name string, start int64) []byte {
		return record.AppendStart(record.AppendField(record.EntryPrefix(nil, name), []byte("a")), start)
	}
	var one aggregate.Accumulator
	one.Add(1, &aggregate.At{Time: t0})
	good := d.layout.tables[0].encode(nil, 0, []aggregate.Accumulator{one})
	if _, err := d.Append(nil, key("minute", t0), good, true); err != nil {
		t.Errorf("a good entry: %v", err)
	}
	if _, err := d.Append(nil, key("other", t0), good, false); !errors.Is(err, ErrNotConfigured) {
		t.Errorf("other aggregation: %v", err)
	}
	for name, c := range map[string]struct{ key, value []byte }{
		"commit key":   {record.CommitKey, good},
		"no key":       {nil, good},
		"short key":    {key("minute", t0)[:9], good},
		"odd start":    {key("minute", t0+1), good},
		"empty value":  {key("minute", t0), nil},
		"newer format": {key("minute", t0), append([]byte{2}, good[1:]...)},
		"no readings":  {key("minute", t0), []byte{1, 0}},
		"cut value":    {key("minute", t0), good[:len(good)-1]},
		"long value":   {key("minute", t0), append(slices.Clone(good), 0)},
	} {
		if text, err := d.Append(nil, c.key, c.value, false); err == nil || errors.Is(err, ErrNotConfigured) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestCompare(t *testing.T) {
	key := func(name string, start int64, fields ...string) []byte {
		k := record.EntryPrefix(nil, name)
		for _, f := range fields {
			k = record.AppendField(k, []byte(f))
		}
		return record.AppendStart(k, start)
	}
	sorted := [][]byte{
		record.CommitKey, record.FenceKey,
		key("b", -5, "z"), key("b", 5, "z"),
		key("bb", 0, "a"), key("bb", -1, "aa"), key("bb", 0, "b"), key("bb", 0, "b", "a"), key("bb", 0, "ba"),
		key("c", 0, ""),
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := Compare(a, b); sign(got) != sign(i-j) {
				t.Errorf("%x and %x compare as %d, want %d", a, b, got, sign(i-j))
			}
		}
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func TestConfigCheck(t *testing.T) {
	good := plant()
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no aggregation":  func(c *Config) { c.Aggregations = nil },
		"no name":         func(c *Config) { c.Aggregations[0].Name = "" },
		"long name":       func(c *Config) { c.Aggregations[0].Name = strings.Repeat("n", 300) },
		"name twice":      func(c *Config) { c.Aggregations[1].Name = "minute" },
		"no window":       func(c *Config) { c.Aggregations[0].Window = nil },
		"size":            func(c *Config) { c.Aggregations[0].Window = window.Tumbling{} },
		"step":            func(c *Config) { c.Aggregations[0].Window = window.Hopping{Size: 10, Step: 11} },
		"grace":           func(c *Config) { c.Aggregations[0].Grace = -1 },
		"long grace":      func(c *Config) { c.Aggregations[0].Grace = window.Longest + 1 },
		"no function":     func(c *Config) { c.Aggregations[0].Functions = 0 },
		"later function":  func(c *Config) { c.Aggregations[0].Functions = aggregate.All + 1 },
		"no key":          func(c *Config) { c.Format.Key = nil },
		"by nothing":      func(c *Config) { c.PartitionedBy = []string{} },
		"by another":      func(c *Config) { c.PartitionedBy = []string{"temp"} },
		"by one twice":    func(c *Config) { c.PartitionedBy = []string{"site", "site"} },
		"odd partitioner": func(c *Config) { c.Partitioner = 9 },
	} {
		c := plant()
		change(&c)
		if err := c.Check(); err == nil {
			t.Errorf("%s is accepted", name)
		}
		if _, err := New(c, 0, 1, roomy); err == nil {
			t.Errorf("New accepts %s", name)
		}
		if _, err := NewDumper(c); err == nil {
			t.Errorf("NewDumper accepts %s", name)
		}
	}
	for name, limits := range map[string]Limits{
		"changelog": {Changelog: 1000, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20},
		"result":    {Changelog: 1 << 20, Result: 1000, Late: 1 << 20, DeadLetter: 1 << 20},
		"late":      {Changelog: 1 << 20, Result: 1 << 20, Late: 1000, DeadLetter: 1 << 20},
		"dead":      {Changelog: 1 << 20, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1000},
	} {
		if _, err := New(plant(), 0, 1, limits); err == nil || !strings.Contains(err.Error(), "max.message.bytes") {
			t.Errorf("small limit of %s: %v", name, err)
		}
	}
	if _, err := New(plant(), 4, 4, roomy); err == nil {
		t.Error("partition 4 of 4 is accepted")
	}
}

// The reasons are a fixed list of different names.
func TestReasons(t *testing.T) {
	seen := map[Reason]bool{}
	for _, r := range Reasons() {
		if r == "" || seen[r] {
			t.Errorf("reason %q", r)
		}
		seen[r] = true
	}
	if !seen[WrongKey] || !seen[WrongPartition] || !seen[TooLarge] || !seen["future_time"] {
		t.Errorf("reasons %v", Reasons())
	}
}
