package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func pointer[T any](v T) *T { return &v }

// full is a Status with every field set, of n tasks in all states. Names try what a hostile producer would try (D25).
func full(n int) *Status {
	const hostile = "<script>alert(1)</script>\x1b[31m\u202e"
	s := &Status{Format: Format, Job: hostile, Version: "v1", Instance: "i", Host: "h", PID: 7, StateDir: "/s", Started: before(time.Hour), At: noon,
		Input: "in", Changelog: "cl", EstimatedRecovery: 1.5, Memory: Memory{Used: 5 << 20, Mapped: 6 << 20, Max: 1 << 30, From: "as configured"},
		Totals: Totals{Records: 10, Commits: 3, Aggregations: []AggregationTotals{{Name: "hourly", Folded: 9, Late: 1, Results: 2}},
			DeadLetters:   []Letters{{Reason: "truncated", Letters: 4}},
			CommitSeconds: Distribution{Bounds: []float64{0.1, 1}, AtMost: []int64{2, 3}, Count: 3, Sum: 0.5}}}
	for i := range n {
		t := Task{Partition: int32(i), Position: pointer(int64(5)), End: pointer(int64(9)), Lag: pointer(int64(4)), StreamTime: pointer(int64(1704067200000)),
			Setter: &Setter{Key: hostile, Offset: 4}, OpenWindows: 3, DueWindows: 1, KeyClocks: 2, LiveEntries: 4, MemoryUsed: 1 << 20,
			Aggregations: []Aggregation{{Name: "hourly", ClosedEnd: pointer(int64(1704067100000)), NextClose: pointer(int64(1704070800000))}},
			Birth:        "b", Commit: &Commit{Number: 12, At: pointer(before(time.Second)), Latency: pointer(0.02)},
			Checkpoint: &Checkpoint{Path: "/s/p0/1.checkpoint", Bytes: 100, Commit: 10, Age: 33}, LastError: &Failure{At: noon, Class: "transient", What: hostile},
			Anchor: "proved", Recovered: &Recovered{From: "checkpoint"}, EstimatedRecovery: 1.2}
		account := Account{State: Running, Since: before(time.Minute)}
		switch i % 5 {
		case 1:
			t.Recovery = &Recovery{Step: "replay", Done: 5, Total: 10, Rate: 100, Left: pointer(3.0)}
			account.State = Recovering
		case 2:
			account.Waits = []Wait{{For: ForBroker, What: "the brokers: send out/2: NOT_ENOUGH_REPLICAS", Since: before(12 * time.Second)}}
		case 3:
			account.Signs = []Sign{{What: "fetch in/3 from offset 5", Since: before(time.Minute), Limit: Watchdog}}
		case 4:
			account.State, account.Error = Stopped, "fold in/4 at offset 5: "+hostile
		}
		t.Judge(account, noon)
		s.Tasks = append(s.Tasks, t)
	}
	s.Judge()
	return s
}

// gather returns the series of a Status: names with their counts.
func gather(t *testing.T, s *Status) (counts map[string]int, total int) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&collector{func() *Status { return s }})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts = map[string]int{}
	for _, f := range families {
		counts[f.GetName()] = len(f.GetMetric())
		total += len(f.GetMetric())
	}
	return counts, total
}

// TestSeriesAreBounded: 300 tasks have no more series than 100 (I13), and those in trouble are among them.
func TestSeriesAreBounded(t *testing.T) {
	_, hundred := gather(t, full(100))
	counts, many := gather(t, full(300))
	if many != hundred || many > 2000 {
		t.Errorf("%d series for 300 tasks, %d for 100", many, hundred)
	}
	if counts["tidemark_task_health"] != maxTaskSeries || counts["tidemark_tasks"] != len(States) {
		t.Errorf("series %v", counts)
	}
	s := full(300)
	for i := range s.Tasks {
		s.Tasks[i].Health = Green
	}
	s.Tasks[299].Health = Red
	chosen := withSeries(s.Tasks)
	if len(chosen) != maxTaskSeries || chosen[0].Partition != 299 || chosen[1].Partition != 0 || chosen[99].Partition != 98 {
		t.Errorf("chosen: %d tasks, first %d, %d", len(chosen), chosen[0].Partition, chosen[1].Partition)
	}
}

// TestSamples compares some values, and what is not known with absence.
func TestSamples(t *testing.T) {
	unknown := full(1)
	unknown.Tasks[0].Lag, unknown.Tasks[0].Checkpoint, unknown.Tasks[0].StreamTime, unknown.Lag = nil, nil, nil, nil
	counts, _ := gather(t, unknown)
	for _, name := range []string{"tidemark_lag_records", "tidemark_task_lag_records", "tidemark_task_checkpoint_age_seconds", "tidemark_task_stream_time_seconds"} {
		if counts[name] != 0 {
			t.Errorf("%s is given though it is not known", name)
		}
	}
	server := httptest.NewServer(Handler(func() *Status { return full(5) }))
	defer server.Close()
	text := ask(t, server.URL+"/metrics")
	for _, want := range []string{
		`tidemark_tasks{state="stuck"} 1`, `tidemark_task_seconds_since_progress{partition="3"} 60`, `tidemark_live 0`, `tidemark_health 2`,
		`tidemark_lag_records 20`, `tidemark_task_stream_time_seconds{partition="0"} 1.7040672e+09`, `tidemark_commit_seconds_bucket{le="0.1"} 2`,
		`tidemark_aggregation_readings_total{aggregation="hourly",outcome="late"} 1`, `tidemark_dead_letters_total{reason="truncated"} 4`, `tidemark_task_checkpoint_age_seconds{partition="2"} 33`, "go_goroutines ",
		"process_resident_memory_bytes ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %s", want)
		}
	}
}

func ask(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestPage: everything is shown, nothing is loaded, and no name takes effect.
func TestPage(t *testing.T) {
	server := httptest.NewServer(Handler(func() *Status { return full(5) }))
	defer server.Close()
	text := ask(t, server.URL+"/")
	for _, want := range []string{`http-equiv="refresh" content="5"`, `name="viewport"`, "running", "recovering", "waiting", "stuck", "stopped",
		"NOT_ENOUGH_REPLICAS", "2024-01-01T00:00:00.000Z", `<progress value="5" max="10">`, "the next one closes when event time reaches 2024-01-01T01:00:00.000Z",
		"33 s old", `<tr class="red">`, `<tr class="green">`, `<tr class="amber">`, "&lt;script&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, not := range []string{"<script", "src=", "@import", "url(", "http://", "https://"} {
		if strings.Contains(text, not) {
			t.Errorf("the page has %q", not)
		}
	}
	if none := ask(t, httptest.NewServer(Handler(func() *Status { return full(0) })).URL); !strings.Contains(none, "no partition") {
		t.Error("a process without tasks does not say so")
	}
}

// TestWaitingClaimsNothing: of a process that waits for its topic nothing is known, and nothing is claimed: no lag in records, no
// time of a recovery, no table of tasks without any.
func TestWaitingClaimsNothing(t *testing.T) {
	s := full(0)
	s.Lag, s.EstimatedRecovery, s.Waiting = nil, 0, &Wait{For: ForInputTopic, What: "topic redings to be made", Since: before(time.Minute)}
	s.Judge()
	var b bytes.Buffer
	if err := s.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	page := ask(t, httptest.NewServer(Handler(func() *Status { return s })).URL)
	for name, shown := range map[string]struct {
		text       string
		want, none []string
	}{
		"page":  {page, []string{"<dd>unknown</dd>", "<dd>-</dd>", "no tasks yet: waiting for topic redings"}, []string{"unknown records", "about 0 s", "<table"}},
		"table": {b.String(), []string{"lag unknown,", "crash -,", "no tasks yet: waiting for topic redings"}, []string{"about 0 s", "PARTITION", "none"}},
	} {
		for _, want := range shown.want {
			if !strings.Contains(shown.text, want) {
				t.Errorf("the %s lacks %q:\n%s", name, want, shown.text)
			}
		}
		for _, none := range shown.none {
			if strings.Contains(shown.text, none) {
				t.Errorf("the %s claims %q:\n%s", name, none, shown.text)
			}
		}
	}
}

// TestPageInABrowser renders the page with the browser that TIDEMARK_TEST_BROWSER names, wide and narrow, and leaves the
// pictures where TIDEMARK_TEST_PICTURES says. make page sets both.
func TestPageInABrowser(t *testing.T) {
	browser, pictures := os.Getenv("TIDEMARK_TEST_BROWSER"), os.Getenv("TIDEMARK_TEST_PICTURES")
	if browser == "" {
		return
	}
	server := httptest.NewServer(Handler(func() *Status { return full(9) }))
	defer server.Close()
	for name, window := range map[string]string{"wide": "1200,1000", "narrow": "390,2400"} {
		file := filepath.Join(pictures, name+".png")
		cmd := exec.Command(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+t.TempDir(),
			"--window-size="+window, "--screenshot="+file, server.URL+"/")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if info, err := os.Stat(file); err != nil || info.Size() < 5000 {
			t.Errorf("no picture %s: %v", file, err)
		}
	}
}

// TestTable: nothing in it steers a terminal.
func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := full(5).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"red: ", "PARTITION", "recovering 50 %", "waiting", `\x1b[31m`, "red for 60 s: partition 3, stuck: fetch in/3"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
	for _, c := range b.String() {
		if c < ' ' && c != '\n' || c == 0x202e {
			t.Fatalf("the table holds the character %U", c)
		}
	}
}

func TestWords(t *testing.T) {
	for s, want := range map[float64]string{0: "0 s", 0.02: "20 ms", 1.25: "1.2 s", 33: "33 s", 600: "10 min", 7200: "2 h", 200000: "2 days"} {
		if got := span(s); got != want {
			t.Errorf("%v: %q, want %q", s, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 1<<63 - 1: "8.0 EiB"} {
		if got := size(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
	if got := Text([]byte("a\xff\n\u00e9")); got != `a\xff\x0aé` {
		t.Errorf("%q", got)
	}
}

const reference = "../../docs/reference/status.md"

var (
	fieldRow  = regexp.MustCompile("(?m)^\\| `([a-z_.\\[\\]]+)` \\| ([^|]+) \\| ([^|]+) \\|$")
	metricRow = regexp.MustCompile("(?m)^\\| `(tidemark_[a-z_]+)` \\| ([^|]+) \\| ([^|]*) \\| ([^|]+) \\|$")
)

// TestReferenceIsComplete: the page has a row for every field of the JSON and for every metric, in the order of the
// code, and no others.
func TestReferenceIsComplete(t *testing.T) {
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, m := range fieldRow.FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, m[1])
		if len(m[3]) < 10 {
			t.Errorf("%s is not described", m[1])
		}
	}
	compare(t, "field", fields("", reflect.TypeFor[Status](), map[reflect.Type]bool{}), rows)
	rows = nil
	var want []string
	for _, m := range metricRow.FindAllStringSubmatch(string(page), -1) {
		rows = append(rows, strings.Join([]string{m[1], m[2], m[3]}, " | "))
	}
	for _, m := range metrics {
		labels := slices.Clone(m.labels)
		if m.task != nil {
			labels = append([]string{"partition"}, labels...)
		}
		for i := range labels {
			labels[i] = "`" + labels[i] + "`"
		}
		want = append(want, strings.Join([]string{m.name, strings.ToLower(m.kind.ToDTO().String()), strings.Join(labels, ", ")}, " | "))
	}
	want = append(want, "tidemark_commit_seconds | histogram | ")
	compare(t, "metric", want, rows)
	if len(want) < 25 {
		t.Errorf("only %d metrics: the test looks at the wrong place", len(want))
	}
}

// fields lists the paths of the JSON form of a type. What is inside a type is listed where the type comes first.
func fields(path string, typ reflect.Type, listed map[reflect.Type]bool) (all []string) {
	listed[typ] = true
	for i := range typ.NumField() {
		f := typ.Field(i)
		name := path + strings.Split(f.Tag.Get("json"), ",")[0]
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			if inner.Kind() == reflect.Slice {
				name += "[]"
			}
			inner = inner.Elem()
		}
		all = append(all, name)
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() && !listed[inner] {
			all = append(all, fields(name+".", inner, listed)...)
		}
	}
	return all
}

func compare(t *testing.T, what string, code, page []string) {
	t.Helper()
	for _, c := range code {
		if !slices.Contains(page, c) {
			t.Errorf("%s: the page lacks the %s\n%s", reference, what, c)
		}
	}
	for _, p := range page {
		if !slices.Contains(code, p) {
			t.Errorf("%s: the code lacks the %s\n%s", reference, what, p)
		}
	}
	if !t.Failed() && !slices.Equal(code, page) {
		t.Errorf("%s: the %ss are not in the order of the code:\n%s", reference, what, strings.Join(code, "\n"))
	}
}

// TestJSONIsStable writes a Status down: names, nulls and units are a contract.
func TestJSONIsStable(t *testing.T) {
	s := full(2)
	got, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "status.json")
	if os.Getenv("TIDEMARK_TEST_UPDATE") != "" {
		if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(got)+"\n" != string(want) {
		t.Errorf("the JSON is\n%s\nwant that of %s; fields may be added (TIDEMARK_TEST_UPDATE=1), not changed", got, golden)
	}
	var back Status
	if err := json.Unmarshal(got, &back); err != nil || fmt.Sprint(back.Tasks[1].Reasons[0]) == "" || back.Tasks[1].State != Recovering {
		t.Errorf("it does not read back: %v", err)
	}
}

// TestSetterWords shows no offset of a reading that there was not.
func TestSetterWords(t *testing.T) {
	for want, setter := range map[string]*Setter{"-": nil, "pump at 4": {Key: "pump", Offset: 4}, "silence or repair": {Offset: -1}} {
		if got := (&Task{Setter: setter}).setter(); got != want {
			t.Errorf("setter %+v: %q, want %q", setter, got, want)
		}
	}
}
