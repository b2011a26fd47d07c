package oracle

import (
	"fmt"
	"testing"
	"time"
)

// t0 is 2024-01-01T00:00:00Z, on a minute, hour and day boundary.
const t0 = 1704067200000

// job is the default job of the recipes: tumbling 60 s, one partition.
func job(grace int64) *Config {
	c := Defaults()
	c.Key, c.Values, c.Time, c.Partitions = []string{"device"}, []string{"value"}, TimeField{Name: "ts", Unit: "ms"}, 1
	c.Aggregations = []Aggregation{{Name: "minute", Size: 60_000, Grace: grace}}
	return &c
}

// input makes records with rising offsets; the record timestamp is the event time unless said otherwise.
type input []Record

func (in *input) add(device string, at int64, value any) *Record {
	*in = append(*in, Record{Offset: int64(len(*in)), Timestamp: t0 + at, Key: []byte(device),
		Value: fmt.Appendf(nil, `{"device":%q,"ts":%d,"value":%v}`, device, t0+at, value)})
	return &(*in)[len(*in)-1]
}

// expect compares the windows with lines "device start count sum final".
func expect(t *testing.T, o *Outcome, want ...string) {
	t.Helper()
	var got []string
	for _, w := range o.Windows {
		s := w.Stats(0, len(w.Readings))
		got = append(got, fmt.Sprintf("%s +%d %d %v %v", w.Key[0], (w.Start-t0)/1000, s.Count, s.Sum(), w.Final))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("windows\n got %q\nwant %q", got, want)
	}
	if c := o.Counters; c.In != c.Accepted+c.DeadLettered {
		t.Errorf("I9 is broken by the oracle itself: %+v", c)
	}
	for _, a := range o.Aggregations {
		if o.Counters.Accepted != a.Folded+a.PartlyLate+a.Late {
			t.Errorf("I9 is broken by the oracle itself: %+v of %+v", a, o.Counters)
		}
	}
}

// fastClock is the input of W01. The evil record's own timestamp is that of the honest reading before it, or evilTime.
func fastClock(evilTime int64) input {
	var in input
	in.add("a", 1000, 1)
	in.add("b", 1000, 1)
	in.add("evil", 86_400_000, 9).Timestamp = t0 + evilTime
	for at := int64(61_000); at <= 601_000; at += 60_000 {
		in.add("a", at, 1)
		in.add("b", at, 1)
	}
	return in
}

func TestW01FastClockIsRefused(t *testing.T) {
	o := job(10_000).Run(0, fastClock(1000))
	finals, open := map[string]int{}, map[string]int{}
	for _, w := range o.Windows {
		if len(w.Readings) != 1 {
			t.Errorf("window %s +%d has %d readings", w.Key, w.Start-t0, len(w.Readings))
		}
		if w.Final {
			finals[w.Key[0]]++
		} else {
			open[w.Key[0]]++
		}
	}
	if finals["a"] != 9 || finals["b"] != 9 || open["a"] != 2 || open["b"] != 2 || len(o.Late) != 0 {
		t.Errorf("9 results, 2 open and 0 late wanted for each; results %v, open %v, late %d", finals, open, len(o.Late))
	}
	if len(o.Dead) != 1 || o.Dead[0].Offset != 2 || fmt.Sprint(o.Dead[0].Faults) != "[future]" {
		t.Errorf("dead letters %+v", o.Dead)
	}
}

// Without the guard the fast clock closes everything only when the record's own timestamp is as fast.
func TestW01GuardOff(t *testing.T) {
	free := job(10_000)
	free.MaxAhead = 1 << 50
	if o := free.Run(0, fastClock(86_400_000)); len(o.Late) != 20 {
		t.Errorf("late %d, want all 20 honest readings after the fast one", len(o.Late))
	}
	if o := free.Run(0, fastClock(1000)); len(o.Late) != 0 || o.Counters.Ahead != 1 {
		t.Errorf("late %d, ahead %d: a record of honest time must not pull the others", len(o.Late), o.Counters.Ahead)
	}
}

func TestW01FirstRecordAndPause(t *testing.T) {
	var in input
	in.add("evil", 86_400_000, 9).Timestamp = t0
	in.add("a", 1000, 1)
	in.add("a", 2*86_400_000, 1) // an honest pause of two days is no future
	o := job(0).Run(0, in)
	expect(t, o, "a +0 1 1 true", "a +172800 1 1 false")
	if len(o.Dead) != 1 {
		t.Errorf("dead letters %+v", o.Dead)
	}
}

func TestW07LateStaysLate(t *testing.T) {
	for _, closer := range []string{"a", "b"} {
		var in input
		in.add("a", 1000, 5)
		in.add(closer, 61_000, 7)
		in.add("a", 2000, 100)
		o := job(0).Run(0, in)
		expect(t, o, "a +0 1 5 true", closer+" +60 1 7 false")
		if len(o.Late) != 1 || o.Late[0].Offset != 2 || o.Late[0].StreamTime != t0+61_000 {
			t.Errorf("late %+v", o.Late)
		}
	}
}

func TestW08ExactlyAtTheLimitIsLate(t *testing.T) {
	var in input
	in.add("a", 1000, 1)
	in.add("a", 89_999, 1)
	in.add("a", 59_999, 1) // still in time
	in.add("a", 90_000, 1)
	in.add("a", 59_999, 1) // end + grace = stream time: late
	o := job(30_000).Run(0, in)
	expect(t, o, "a +0 2 2 true", "a +60 2 2 false")
	want := Late{Aggregation: "minute", Offset: 4, Key: []string{"a"}, Time: t0 + 59_999, Start: t0, End: t0 + 60_000,
		StreamTime: t0 + 90_000, Record: in[4]}
	if len(o.Late) != 1 || fmt.Sprint(o.Late[0]) != fmt.Sprint(want) {
		t.Errorf("late %+v, want %+v", o.Late, want)
	}
}

func TestW23RareDeviceIsClosedByThePartition(t *testing.T) {
	var in input
	in.add("a", 1000, 5)
	for at := int64(1000); at <= 600_000; at += 1000 {
		in.add("b", at, 1)
	}
	in.add("a", 2000, 9)
	o := job(0).Run(0, in)
	if w := o.Windows[0]; !w.Final || w.Key[0] != "a" || len(w.Readings) != 1 || o.Windows[1].Key[0] != "b" {
		t.Errorf("first window %+v, second %+v", w, o.Windows[1])
	}
	if len(o.Late) != 1 || o.Aggregations[0].Results != 11 || o.StreamTime != t0+600_000 || o.SetterOffset != 600 {
		t.Errorf("late %+v, counters %+v, stream time %d of offset %d", o.Late, o.Aggregations, o.StreamTime, o.SetterOffset)
	}
}

// The order of judgement: what is refused moves nothing, and the guard looks at the record's own timestamp.
func TestRefusedMovesNothing(t *testing.T) {
	var in input
	in.add("a", 1000, 1)
	in.add("a", 500_000, "null")
	in.add("a", 59_000, 1)
	in.add("a", 400_000, 1).Timestamp = -1 // no record timestamp: no guard, stream time by event time
	in.add("a", 60_000, 1)
	o := job(0).Run(0, in)
	expect(t, o, "a +0 2 2 true", "a +360 1 1 false")
	if len(o.Late) != 1 || len(o.Dead) != 1 || o.Counters.Untimed != 1 {
		t.Errorf("late %d, dead %d, untimed %d", len(o.Late), len(o.Dead), o.Counters.Untimed)
	}
}

func starts(a *Aggregation, t int64) (list []int64) {
	for _, s := range a.spans(t) {
		list = append(list, s.start)
	}
	return list
}

func TestWindowsBeforeTheEpochAndWithOffset(t *testing.T) {
	for _, c := range []struct{ offset, at, want int64 }{{0, -1, -60_000}, {0, -60_000, -60_000}, {0, 59_999, 0},
		{7000, 6999, -53_000}, {7000, 7000, 7000}, {-1000, 58_999, -1000}, {-1000, 59_000, 59_000}} {
		a := Aggregation{Size: 60_000, Offset: c.offset}
		if got := starts(&a, c.at); len(got) != 1 || got[0] != c.want {
			t.Errorf("offset %d, time %d: starts %d, want %d", c.offset, c.at, got, c.want)
		}
	}
}

// Sets of hand-made starts, the W17 case among them.
func TestWindowsThatOverlap(t *testing.T) {
	for _, c := range []struct {
		size, step, offset, at int64
		want                   string
	}{
		{10_000, 3_000, 0, t0 + 9_000, "[0 3000 6000 9000]"}, {10_000, 3_000, 0, t0 + 10_000, "[3000 6000 9000]"},
		{10, 5, 0, t0, "[-5 0]"}, {10, 5, 1, t0, "[-9 -4]"}, {10, 10, 0, t0 + 9, "[0]"}, {3, 1, 0, t0, "[-2 -1 0]"},
	} {
		a := Aggregation{Size: c.size, Step: c.step, Offset: c.offset}
		got := starts(&a, c.at)
		for i := range got {
			got[i] -= t0
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("size %d, step %d, offset %d, time +%d: starts %d, want %s", c.size, c.step, c.offset, c.at-t0, got, c.want)
		}
	}
}

// W17, and a reading that is late for one of its windows only.
func TestW17HoppingModel(t *testing.T) {
	var in input
	in.add("a", 9_000, 1)
	in.add("a", 10_000, 10)
	in.add("a", 9_500, 100) // late for [0, 10)
	in.add("a", 60_000, 0)
	in.add("a", 1_000, 7) // late for all
	c := job(0)
	c.Aggregations[0].Size, c.Aggregations[0].Step = 10_000, 3_000
	o := c.Run(0, in)
	expect(t, o, "a +0 1 1 true", "a +3 3 111 true", "a +6 3 111 true", "a +9 3 111 true",
		"a +51 1 0 false", "a +54 1 0 false", "a +57 1 0 false", "a +60 1 0 false")
	if n := o.Aggregations[0]; n.Folded != 3 || n.PartlyLate != 1 || n.Late != 1 || n.Missed != 1+3 || o.Late[0].Start != t0-6_000 {
		t.Errorf("counters %+v, late %+v", n, o.Late)
	}
}

func TestPartitioners(t *testing.T) {
	// The values are those that Kafka's own test of its hash writes down.
	for key, want := range map[string]int32{"21": -973932308, "foobar": -790332482, "abc": 479470107,
		"a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
	if got := PartitionOf("crc32", []byte("123456789"), 1<<30); uint32(got) != 0xCBF43926%(1<<30) {
		t.Errorf("crc32 gives partition %x", got)
	}
}

func TestWrongKeyAndPartition(t *testing.T) {
	c := job(0)
	c.Partitions = 4
	var in input
	in.add("a", 1000, 1)
	home := PartitionOf("murmur2", []byte("a"), 4)
	if o := c.Run(home, in); len(o.Dead) != 0 {
		t.Errorf("refused at home: %+v", o.Dead)
	}
	if o := c.Run((home+1)%4, in); len(o.Dead) != 1 || fmt.Sprint(o.Dead[0].Faults) != "[wrong_partition]" {
		t.Errorf("dead letters %+v", o.Dead)
	}
	c.Partitioner = "unchecked"
	in[0].Key = nil
	if o := c.Run((home+1)%4, in); len(o.Dead) != 1 || fmt.Sprint(o.Dead[0].Faults) != "[wrong_key]" {
		t.Errorf("dead letters %+v", o.Dead)
	}
	if got := string(RecordKey([]string{"a\"\n", "5", "é\x01"})); got != `["a\"\n","5","é\u0001"]` {
		t.Errorf("record key %s", got)
	}
}

// The examples of W13 and V7, and two readings exactly the gap apart.
func TestSessionsByHand(t *testing.T) {
	config := job(0)
	config.Aggregations = []Aggregation{{Name: "s", Gap: 30_000, Grace: 60_000, Functions: []string{"count"}}}
	var in input
	in.add("a", 0, 1)
	in.add("a", 50_000, 2)
	in.add("a", 25_000, 4)
	in.add("a", 80_000, 1)
	in.add("x", 500_000, 0)
	o := config.Run(0, in)
	expect(t, o, "a +0 3 7 true", "a +80 1 1 true", "x +500 1 0 false")
	if w := o.Windows[0]; w.End != t0+50_000 {
		t.Errorf("it ends at t0+%d", w.End-t0)
	}
	config.Aggregations[0].Grace = 0
	in = nil
	for _, at := range []int64{0, 10_000, 45_000, 20_000, 5000, 0} {
		in.add("a", at, 1)
	}
	o = config.Run(0, in)
	expect(t, o, "a +0 2 2 true", "a +20 2 2 false")
	if len(o.Late) != 2 {
		t.Errorf("%d late", len(o.Late))
	}
}

// Days of W12 and others, worked out by hand.
func TestCalendarByHand(t *testing.T) {
	for _, c := range []struct {
		unit, zone, at, start string
		hours                 int64
	}{
		{"day", "America/New_York", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", 23}, {"day", "America/New_York", "2026-11-02T04:59:59Z", "2026-11-01T04:00:00Z", 25},
		{"day", "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", 23}, {"day", "America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-07T02:30:00Z", 25},
		{"week", "Europe/Brussels", "2024-03-31T12:00:00Z", "2024-03-24T23:00:00Z", 167}, {"month", "UTC", "2024-02-29T12:00:00Z", "2024-02-01T00:00:00Z", 29 * 24},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse(time.RFC3339, c.at)
		start, _ := time.Parse(time.RFC3339, c.start)
		a := Aggregation{Unit: c.unit, Zone: zone}
		if got := a.spans(at.UnixMilli())[0]; got != (span{start.UnixMilli(), start.UnixMilli() + c.hours*3_600_000}) {
			t.Errorf("%s %s: %+v", c.zone, c.at, got)
		}
	}
}

// R11: the second largest of the latest times of all keys.
func TestQuorumByHand(t *testing.T) {
	config := job(0)
	config.Quorum = 2
	var in input
	in.add("evil", 86_400_000, 1)
	in.add("a", 1000, 1)
	in.add("a", 61_000, 1)
	o := config.Run(0, in)
	if o.StreamTime != t0+61_000 || o.SetterOffset != 2 {
		t.Errorf("stream time t0+%d, set at %d", o.StreamTime-t0, o.SetterOffset)
	}
}
