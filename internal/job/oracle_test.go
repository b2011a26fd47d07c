package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// TestAgainstOracle runs random jobs over random records, with commits, crashes and batch sizes at random, and compares
// everything that comes out with the oracle, which shares no code: windows with every number bit for bit, late readings,
// dead letters, counters and stream time (I9, I10, I11).
func TestAgainstOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		config := drawConfig(rt)
		r := newRun(t, config)
		r.partitions = rapid.Int32Range(1, 3).Draw(rt, "partitions")
		r.batch = rapid.IntRange(4, 30).Draw(rt, "batch")
		r.crash()
		devices := rapid.SampledFrom([]int{1, 5}).Draw(rt, "devices") // of one, a window has more readings than are kept one by one
		input := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) task.Input { return drawRecord(rt, config, devices) }), 0, 80).Draw(rt, "input")
		for i := range input {
			input[i].Offset = int64(i)
		}
		feedWithCrashes(rt, r, input)
		r.drain()

		var records []oracle.Record
		for _, in := range input {
			records = append(records, oracle.Record{Offset: in.Offset, Timestamp: in.Timestamp, Key: in.Key, Value: in.Value})
		}
		compare(rt, r, oracleConfig(&config, r.partitions).Run(0, records))
	})
}

// feedWithCrashes feeds the input; after a crash it goes on where the commit record says.
func feedWithCrashes(rt *rapid.T, r *run, input []task.Input) {
	crashes := 0
	for at := 0; at < len(input); {
		n := rapid.IntRange(1, 10).Draw(rt, "records")
		r.feed(input[at:min(at+n, len(input))]...)
		at = min(at+n, len(input))
		switch rapid.IntRange(0, 3).Draw(rt, "then") {
		case 0:
			if r.task.Dirty() {
				r.commit()
			}
		case 1:
			if crashes++; crashes < 5 {
				r.crash()
				at = int(r.task.Committed().Position)
			}
		}
	}
}

func drawConfig(t *rapid.T) Config {
	c := minutes(0)
	if rapid.Bool().Draw(t, "two keys") {
		c.Format.Key = []string{"device", "site"}
		c.PartitionedBy = rapid.SampledFrom([][]string{nil, {"device"}, {"site", "device"}}).Draw(t, "partitioned by")
	}
	if rapid.Bool().Draw(t, "two values") {
		c.Format.Values = []string{"value", "other"}
	}
	c.Format.Whole = rapid.Bool().Draw(t, "whole numbers")
	if c.Dedup.Within = rapid.SampledFrom([]int64{0, 0, 1, 7000, 600_000}).Draw(t, "dedup"); c.Dedup.Within > 0 && rapid.Bool().Draw(t, "by sequence") {
		c.Format.Sequence = &reading.Part{Path: "n"}
	}
	if c.MaxLag = rapid.SampledFrom([]int64{0, 0, 1, 10_000, 100_000, 3_600_000}).Draw(t, "max lag"); c.MaxLag > 0 {
		c.Quorum = rapid.IntRange(0, 2).Draw(t, "quorum")
	}
	c.Partitioner = rapid.SampledFrom([]Partitioner{Murmur2, CRC32, Unchecked}).Draw(t, "partitioner")
	c.Aggregations = nil
	for i := range rapid.IntRange(1, 3).Draw(t, "aggregations") {
		size := rapid.SampledFrom([]int64{7, 1000, 60_000, 3_600_000}).Draw(t, "size")
		functions := aggregate.Functions(rapid.Uint32Range(1, uint32(aggregate.All)).Draw(t, "functions"))
		percents := aggregate.Percents(0)
		if functions&aggregate.Quantiles != 0 {
			percents = aggregate.Percents(rapid.Uint64Range(1, uint64(aggregate.AllPercents)).Draw(t, "percents"))
		}
		c.Aggregations = append(c.Aggregations, Aggregation{
			Name:      fmt.Sprintf("agg%d", i),
			Window:    drawWindow(t, size),
			Grace:     rapid.SampledFrom([]int64{0, 1, 30_000, 600_000}).Draw(t, "grace"),
			Functions: functions, Percents: percents,
		})
	}
	return c
}

// drawWindow draws tumbling windows, or hopping ones of which up to seven overlap, or sessions.
func drawWindow(t *rapid.T, size int64) window.Kind {
	if rapid.IntRange(0, 3).Draw(t, "sessions") == 0 {
		return window.Session{Gap: size}
	}
	if rapid.Bool().Draw(t, "tumbling") {
		return window.Tumbling{Size: size, Offset: rapid.Int64Range(0, size-1).Draw(t, "offset")}
	}
	step := rapid.Int64Range((size+6)/7, size).Draw(t, "step")
	return window.Hopping{Size: size, Step: step, Offset: rapid.Int64Range(0, step-1).Draw(t, "offset")}
}

var (
	drawnDevices = []string{`"a"`, `"b"`, `5`, `"5"`, `"\u00e9\""`, `null`, `""`}
	drawnNumbers = []string{`1`, `0.1`, `-0`, `0`, `1e16`, `-1e16`, `1.7e308`, `-1.7e308`, `5e-324`, `20.25`, `null`, `"1"`, `1e999`}
)

// drawnWholes are as drawnNumbers: the first ten are good.
var drawnWholes = []string{`1`, `-0`, `0`, `9007199254740993`, `-9007199254740993`, `9223372036854775807`, `-9223372036854775808`,
	`12.0`, `1.2e1`, `70`, `0.5`, `9223372036854775808`, `1e999`, `null`, `"1"`, `1e-1`}

// drawRecord draws a record that is good in most cases, and odd in one respect in the others.
func drawRecord(t *rapid.T, c Config, devices int) task.Input {
	device := rapid.SampledFrom(drawnDevices[:devices]).Draw(t, "device")
	numbers := drawnNumbers
	if c.Format.Whole {
		numbers = drawnWholes
	}
	number := rapid.SampledFrom(numbers[:10])
	at := t0 + rapid.Int64Range(0, 300_000).Draw(t, "at")
	in := task.Input{Epoch: 1, Timestamp: at}
	switch rapid.IntRange(0, 9).Draw(t, "odd") {
	case 0:
		device = rapid.SampledFrom(drawnDevices).Draw(t, "odd device")
	case 1:
		number = rapid.SampledFrom(numbers)
	case 2:
		in.Timestamp += rapid.SampledFrom([]int64{-400_000, -300_000, -1000, 1000}).Draw(t, "record time")
	case 3:
		in.Timestamp = rapid.SampledFrom([]int64{-1, 0, 946684799999}).Draw(t, "no record time")
	case 4:
		at = rapid.SampledFrom([]int64{0, 946684800000, 253402300800000, t0 + 86_400_000}).Draw(t, "odd time")
	}
	if c.Dedup.Within > 0 && rapid.Bool().Draw(t, "round time") {
		at -= at % 10_000
	}
	in.Value = fmt.Appendf(nil, `{"device":%s,"site":"s","ts":%d,"value":%s,"other":%s,"n":%d}`,
		device, at, number.Draw(t, "value"), number.Draw(t, "other"), rapid.IntRange(0, 9).Draw(t, "n"))
	in.Key = recordKey(c, in.Value)
	switch rapid.IntRange(0, 19).Draw(t, "odd record") {
	case 0:
		in.Key = rapid.SampledFrom([][]byte{nil, {}, []byte("a")}).Draw(t, "odd key")
	case 1:
		in.Value = rapid.SampledFrom([][]byte{nil, {}, []byte("{"), []byte(`{"device":"a"}`)}).Draw(t, "odd value")
	}
	return in
}

// recordKey makes the record key that a producer would give, by encoding/json and the oracle.
func recordKey(c Config, value []byte) []byte {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil {
		panic(err)
	}
	names := c.PartitionedBy
	if names == nil {
		names = c.Format.Key
	}
	var key []string
	for _, name := range names {
		text := string(fields[name])
		if unquoted := ""; json.Unmarshal(fields[name], &unquoted) == nil {
			text = unquoted
		}
		key = append(key, text)
	}
	return oracle.RecordKey(key)
}

func oracleConfig(c *Config, partitions int32) *oracle.Config {
	o := &oracle.Config{Whole: c.Format.Whole, Key: c.Format.Key, PartitionedBy: c.PartitionedBy, Values: c.Format.Values,
		Time: oracle.TimeField{Name: c.Format.Time, Unit: c.Format.Unit.String()}, MaxAhead: oracle.DefaultMaxAhead, Min: oracle.DefaultMin,
		Depth: oracle.DefaultDepth, Names: oracle.DefaultNames, Partitioner: c.Partitioner.String(), Partitions: partitions}
	o.Dedup.Within, o.Quorum, o.MaxLag = c.Dedup.Within, c.Quorum, c.MaxLag
	if c.Format.Sequence != nil {
		o.Dedup.Sequence = c.Format.Sequence.Path
	}
	for _, a := range c.Aggregations {
		told := oracle.Aggregation{Name: a.Name, Grace: a.Grace, Functions: aggregate.Names(a.Functions, a.Percents)}
		switch w := a.Window.(type) {
		case window.Tumbling:
			told.Size, told.Offset = w.Size, w.Offset
		case window.Hopping:
			told.Size, told.Step, told.Offset = w.Size, w.Step, w.Offset
		case window.Session:
			told.Gap = w.Gap
		}
		o.Aggregations = append(o.Aggregations, told)
	}
	return o
}

// compare compares all that a run has committed with what the oracle says.
func compare(t rapid.TB, r *run, want *oracle.Outcome) {
	results := map[string]string{}
	for _, m := range r.results {
		text := string(m.value)
		l := r.parseLine(m.value)
		if _, twice := results[l]; twice {
			t.Fatalf("two results of one window: %s", text)
		}
		results[l] = text
	}
	state := map[string]string{}
	for _, text := range r.dump(true) {
		state[r.parseLine(text)] = string(text)
	}
	bytesOf := map[string]string{}
	remembered := map[string]string{}
	for key, value := range r.base.values {
		parsed, err := record.ParseEntryKey([]byte(key))
		if err != nil {
			t.Fatal(err)
		}
		into := bytesOf
		if parsed.Aggregation == MemoryName || parsed.Start == task.ClockStart {
			into = remembered
		}
		into[oracle.WindowID(parsed.Aggregation, parsed.Fields, parsed.Start)] = string(value)
	}
	wantResults, wantState, wantBytes := map[string]string{}, map[string]string{}, map[string]string{}
	for _, w := range want.Windows {
		id := oracle.WindowID(w.Aggregation, w.Key, w.Start)
		if w.Final {
			wantResults[id] = expectedLine(r.config, w, false)
		} else {
			wantState[id] = expectedLine(r.config, w, true)
			wantBytes[id] = string(w.EntryValue(len(w.Readings), len(r.config.Format.Values), namesOf(r.config, w)))
		}
	}
	if !maps.Equal(remembered, want.Remembered) {
		t.Fatalf("remembered\n got %x\nwant %x", remembered, want.Remembered)
	}
	if !maps.Equal(results, wantResults) {
		t.Fatalf("results\n got %v\nwant %v", results, wantResults)
	}
	if !maps.Equal(state, wantState) {
		t.Fatalf("state\n got %v\nwant %v", state, wantState)
	}
	if !maps.Equal(bytesOf, wantBytes) {
		t.Fatalf("entries\n got %x\nwant %x", bytesOf, wantBytes)
	}
	compareLetters(t, r, want)
	compareCounters(t, r.task.Committed(), want)
}

// parseLine returns the window's id.
func (r *run) parseLine(text []byte) string {
	var l struct {
		Agg   string
		Key   []string
		Start int64
	}
	if err := json.Unmarshal(text, &l); err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
	return oracle.WindowID(l.Agg, l.Key, l.Start)
}

func aggregationOf(c Config, w *oracle.Window) *Aggregation {
	return &c.Aggregations[slices.IndexFunc(c.Aggregations, func(a Aggregation) bool { return a.Name == w.Aggregation })]
}

func namesOf(c Config, w *oracle.Window) []string {
	a := aggregationOf(c, w)
	return aggregate.Names(a.Functions, a.Percents)
}

// expectedLine writes a result or an exact dump line with encoding/json and the oracle's numbers.
func expectedLine(c Config, w *oracle.Window, exact bool) string {
	functions, names := aggregationOf(c, w).Functions, namesOf(c, w)
	key, _ := json.Marshal(w.Key)
	text := fmt.Sprintf(`{"agg":"%s","key":%s,"start":%d,"end":%d`, w.Aggregation, key, w.Start, w.End)
	if len(c.Format.Values) == 1 {
		text += expectedNumbers(w.Stats(0, len(w.Readings)), functions, names, exact)
	} else {
		if functions.Has(aggregate.Count) {
			text += fmt.Sprintf(`,"count":%d`, len(w.Readings))
		}
		sep := `,"values":{`
		for i, name := range c.Format.Values {
			text += fmt.Sprintf(`%s"%s":{%s}`, sep, name, expectedNumbers(w.Stats(i, len(w.Readings)), functions, names, exact)[1:])
			sep = ","
		}
		text += "}"
	}
	if !exact {
		text += `,"final":true`
	}
	return text + "}"
}

func expectedNumbers(s oracle.Stats, functions aggregate.Functions, names []string, exact bool) (text string) {
	overflow := false
	for _, name := range names {
		if whole, ok := s.WholeText(name); ok {
			text += fmt.Sprintf(`,"%s":%s`, name, whole)
			continue
		}
		v, _ := s.Function(name)
		number, err := json.Marshal(v)
		if err != nil { // an infinity, or NaN for what is not defined
			number, overflow = []byte("null"), overflow || math.IsInf(v, 0)
		}
		text += fmt.Sprintf(`,"%s":%s`, name, number)
	}
	if overflow {
		text += `,"overflow":true`
	}
	if functions&aggregate.Trails != 0 && s.Unordered() {
		text += `,"unordered":true`
	}
	if exact && functions&aggregate.FromSums != 0 {
		text += fmt.Sprintf(`,"sum_exact":"%s"`, s.ExactSum())
	}
	if exact && functions&aggregate.Spreads != 0 {
		text += fmt.Sprintf(`,"squares_exact":"%s"`, s.ExactSquares())
	}
	return text
}

func compareLetters(t rapid.TB, r *run, want *oracle.Outcome) {
	var late, wantLate []string
	for _, m := range r.late {
		late = append(late, fmt.Sprint(m.header(HeaderAggregation), m.header(HeaderOffset), m.header(HeaderWindowStart),
			m.header(HeaderWindowEnd), m.header(HeaderStreamTime)))
	}
	for _, l := range want.Late {
		wantLate = append(wantLate, fmt.Sprint(l.Aggregation, itoa(l.Offset), itoa(l.Start), itoa(l.End), itoa(l.StreamTime)))
	}
	slices.Sort(late)
	slices.Sort(wantLate)
	if !slices.Equal(late, wantLate) {
		t.Fatalf("late\n got %q\nwant %q", late, wantLate)
	}
	if len(r.dead) != len(want.Dead) {
		t.Fatalf("%d dead letters, want %d", len(r.dead), len(want.Dead))
	}
	for i, m := range r.dead {
		if w := want.Dead[i]; m.header(HeaderOffset) != strconv.FormatInt(w.Offset, 10) || string(m.value) != string(w.Record.Value) ||
			string(m.key) != string(w.Record.Key) || (m.key == nil) != (w.Record.Key == nil) {
			t.Fatalf("dead letter %q, want %+v", m, w)
		}
	}
}

func compareCounters(t rapid.TB, c *record.Commit, want *oracle.Outcome) {
	n := c.Counters
	got := oracle.Counters{In: int64(n.In), Accepted: int64(n.Accepted), DeadLettered: int64(n.DeadLettered), Ahead: int64(n.Ahead),
		Untimed: int64(n.Untimed), Duplicates: int64(n.Duplicates)}
	if got != want.Counters || c.StreamTime != want.StreamTime || c.SetterOffset != want.SetterOffset {
		t.Fatalf("counters %+v, stream time %d of %d; want %+v, %d of %d",
			got, c.StreamTime, c.SetterOffset, want.Counters, want.StreamTime, want.SetterOffset)
	}
	for i, a := range c.Aggregations {
		got := oracle.AggregationCounters{Name: a.Name, ClosedEnd: a.ClosedEnd, Folded: int64(a.Folded),
			PartlyLate: int64(a.PartlyLate), Late: int64(a.Late), Missed: int64(a.Missed), Results: int64(a.Results)}
		if got != want.Aggregations[i] {
			t.Fatalf("%+v, want %+v", a, want.Aggregations[i])
		}
	}
}
