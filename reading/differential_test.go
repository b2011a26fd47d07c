package reading_test

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/reading"
)

// Two formats that the differential tests read everything with: one field of each kind, and several of each.
func formats() []reading.Format {
	one := reading.DefaultFormat()
	one.Key, one.Time, one.Values = []string{"device"}, "ts", []string{"value"}
	many := reading.DefaultFormat()
	many.Key, many.Time, many.Values = []string{"site", "device"}, "time of day", []string{"a", "temperature", "ü\"\n"}
	many.Unit = reading.RFC3339
	return []reading.Format{one, many}
}

// samples are documents of every kind, good and bad; they are the seeds of the mutations and of the fuzz target.
var samples = []string{
	`{"device":"d-000123","ts":1704067200123,"value":21.53}`,
	" {\r\n\t\"device\" : \"a\\u00e9\\n\\ud83d\\ude00\" , \"ts\" : 1.7040672001234567e12 , \"value\" : -0.0 } ",
	`{"value":1e-7,"ts":1704067200123.000001,"x":{"device":[1,{"a":null,"b":[true,false]}],"a":"\"\\\/\b\f\n\r\t"},"device":5.0}`,
	`{"\u0064evice":"é漢😀","ts":1704067200122,"valu\u0065":10.357019999999999,"value2":[],"y":{}}`,
	`{"site":"n","device":7,"time of day":"2016-12-31T23:59:60.123456789Z","a":1,"temperature":-2.5e+3,"ü\"\n":12345678901234567890}`,
	`{"ü\"\n":4,"temperature":3,"a":2,"time of day":"2016-12-31t16:59:60-07:00","device":"d","site":"s","extra":"1"}`,
	`{"site":"","device":null,"time of day":1,"a":"1"}`,
	`{"a":1,"a":2}`,
	`[{"device":"a"}]`,
	`{"device":"d","ts":1704067200,"value":NaN}`,
	`{"device":"d","ts":-1,"value":1}`,
	`{"device":"d","ts":1704067200124,"value":1.7976931348623159e308}`,
	`{"device":"\ud83d","ts":1,"value":1}`,
	"{\"device\":\"s\xff\",\"ts\":1,\"value\":1}",
	"\xef\xbb\xbf{}",
}

// now is the record timestamp of the differential tests.
const now = 1704067200123

// twins are a Reader for each format; they live through a whole test, so that nothing may be left over from a record.
type twins struct {
	formats []reading.Format
	readers []*reading.Reader
	seen    map[string]int // outcomes
}

// demand fails the test when an outcome came up less often than it must for the test to mean anything.
func (tw *twins) demand(t *testing.T, outcome string, least int) {
	t.Helper()
	if tw.seen[outcome] < least {
		t.Errorf("%s: %d times, want %d at least", outcome, tw.seen[outcome], least)
	}
}

func newTwins(t testing.TB) *twins {
	tw := &twins{formats: formats(), seen: make(map[string]int)}
	for i := range tw.formats {
		tw.formats[i].MaxAhead = time.Hour
		tw.readers = append(tw.readers, newReader(t, tw.formats[i]))
	}
	return tw
}

func newReader(t testing.TB, f reading.Format) *reading.Reader {
	t.Helper()
	r, err := reading.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// compare reads a record in every format and reports where Reader and oracle differ.
func (tw *twins) compare(t testing.TB, value []byte, recordTimestamp int64) {
	t.Helper()
	for i, f := range tw.formats {
		outcome, fault := differ(tw.readers[i], f, value, recordTimestamp)
		if fault != "" {
			t.Fatalf("format %d, record timestamp %d: %q: %s", i, recordTimestamp, value, fault)
		}
		tw.seen[outcome]++
	}
}

// TestEveryTruncation cuts every sample at every byte.
func TestEveryTruncation(t *testing.T) {
	tw := newTwins(t)
	for _, sample := range samples {
		for n := range len(sample) + 1 {
			tw.compare(t, []byte(sample[:n]), now)
			tw.compare(t, []byte(sample[n:]), now)
		}
	}
}

// TestEveryByteMutation puts every byte value at every place of every sample.
func TestEveryByteMutation(t *testing.T) {
	tw := newTwins(t)
	for _, sample := range samples {
		value := []byte(sample)
		for i, old := range value {
			for c := range 256 {
				value[i] = byte(c)
				tw.compare(t, value, now)
			}
			value[i] = old
		}
	}
}

// TestRandomDocuments compares on documents drawn from a grammar that is a little wrong. TIDEMARK_SEED replays a run,
// TIDEMARK_SWEEP=N draws N documents.
func TestRandomDocuments(t *testing.T) {
	seed, count := uint64(time.Now().UnixNano()), 30_000
	if s := os.Getenv("TIDEMARK_SEED"); s != "" {
		seed = number(t, s)
	}
	if s := os.Getenv("TIDEMARK_SWEEP"); s != "" {
		count = int(number(t, s))
	}
	t.Logf("%d documents; replay: TIDEMARK_SEED=%d TIDEMARK_SWEEP=%d go test -run TestRandomDocuments ./reading", count, seed, count)
	tw := newTwins(t)
	g := generator{r: rand.New(rand.NewPCG(seed, 1))}
	for range count {
		tw.compare(t, g.document(), now+int64(g.r.IntN(1000))-500)
	}
	tw.demand(t, accepted, count/10)
	for _, reason := range reading.Reasons() {
		if reason != reading.Tombstone && reason != reading.TooManyFields && !slices.Contains(elsewhere[1:], reason) { // held by tests of their own
			tw.demand(t, reason.String(), 1+count/10_000)
		}
	}
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// FuzzRead compares on whatever the fuzzer finds.
func FuzzRead(f *testing.F) {
	for _, sample := range samples {
		f.Add([]byte(sample), int64(now))
	}
	tw := newTwins(f)
	f.Fuzz(func(t *testing.T, value []byte, recordTimestamp int64) {
		tw.compare(t, value, recordTimestamp)
	})
}

// dataDir is the directory with real data, or "" with a word in the log.
func dataDir(t *testing.T) string {
	dir := os.Getenv("TIDEMARK_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Logf("NOT RUN on real data: %v; set TIDEMARK_DATA to its directory", err)
		return ""
	}
	return dir
}

// TestRealPayloads compares on the messages of real devices, whole, cut and changed.
func TestRealPayloads(t *testing.T) {
	dir := dataDir(t)
	if dir == "" {
		return
	}
	file, err := os.Open(filepath.Join(dir, "payloads.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	tw, read := newTwins(t), 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var line struct {
			Payload json.RawMessage
			Raw     string
			Base64  []byte `json:"raw_b64"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		for _, value := range [][]byte{line.Payload, []byte(line.Raw), line.Base64, lines.Bytes()} {
			tw.compare(t, value, now)
			for n := 0; n < len(value); n += 7 {
				tw.compare(t, value[:n], now)
			}
		}
		read++
	}
	if read < 81 {
		t.Errorf("%d payloads read, want 81 at least", read)
	}
}

// TestRealReadings compares on the first readings of every set of real data, in its own time unit.
func TestRealReadings(t *testing.T) {
	dir := dataDir(t)
	if dir == "" {
		return
	}
	sets, err := filepath.Glob(filepath.Join(dir, "*.jsonl.gz"))
	if err != nil || len(sets) == 0 {
		t.Fatalf("no sets in %s (%v)", dir, err)
	}
	for _, set := range sets {
		good, judged := 0, 0
		for _, unit := range []reading.Unit{reading.Milliseconds, reading.RFC3339} {
			f := reading.DefaultFormat()
			f.Key, f.Time, f.Values, f.Unit = []string{"device", "metric"}, "ts", []string{"value"}, unit
			n, total := readSet(t, set, f)
			good, judged = max(good, n), judged+total
		}
		if good == 0 {
			t.Errorf("%s: none of %d readings accepted", filepath.Base(set), judged)
		}
	}
}

// readSet compares on the beginning of one set and returns how many readings were accepted and judged.
func readSet(t *testing.T, path string, f reading.Format) (good, total int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t, f)
	for lines := bufio.NewScanner(unzipped); lines.Scan() && total < 3000; total++ {
		outcome, fault := differ(r, f, lines.Bytes(), -1)
		if fault != "" {
			t.Fatalf("%s, line %d: %s: %s", filepath.Base(path), total+1, lines.Text(), fault)
		}
		if outcome == accepted {
			good++
		}
	}
	return good, total
}
