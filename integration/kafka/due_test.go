package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// The windows that TestManyWindowsCloseAtOnce closes, unless TIDEMARK_TEST_DUE says another number, and the most records
// of one commit: many slices.
const (
	dueWindows    = 200_000
	dueMaxRecords = 10_000
	dueMaxBytes   = 16 << 20 // the default of commit.max_bytes
	dueProved     = 300_000  // up to so many windows the whole state is compared with the oracle's too
)

// TestManyWindowsCloseAtOnce: one reading closes all windows of one task (R2). The input keeps flowing, no transaction is
// above its limits, the backlog is shown, and a SIGKILL in the middle loses and doubles nothing (I10).
func TestManyWindowsCloseAtOnce(t *testing.T) {
	windows := dueWindows
	if text := os.Getenv("TIDEMARK_TEST_DUE"); text != "" {
		var err error
		if windows, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c := newCrew(t, 20*time.Minute, 1, func(_ int, job *proof.Job) {
		job.MaxRecords, job.Checkpoint = dueMaxRecords, 10*time.Second
		job.Oracle.Aggregations = []oracle.Aggregation{{Name: "hourly", Size: time.Hour.Milliseconds(), Functions: []string{"count", "sum", "min", "max", "mean"}}}
	})
	job := c.jobs[0]
	began := time.Now()
	n, err := job.Produce(c.ctx, proof.Lines(dueLines(windows)))
	c.must(err)
	produced := time.Now()
	c.must(job.RunUntilIdle(c.ctx, "fill"))
	t.Logf("%d readings produced in %v, folded into %d windows in %v", n, produced.Sub(began).Round(time.Millisecond), windows, time.Since(produced).Round(time.Millisecond))

	results := job.Topics()[3]
	finish := c.flowOf(nextHour(), 1000)
	closing := time.Now()
	// Each full commit takes half of its records or more for due windows, so this one is in the middle of the backlog.
	i := c.start(job, fmt.Sprintf("TIDEMARK_CRASH_AT=KILL@commit.end#%d", windows/dueMaxRecords))
	due, metric := c.backlog(job, i)
	if left := int64(windows) - c.endOf(results); left <= 0 {
		t.Fatal("the kill came when nothing was left to close")
	}
	i = c.start(job)
	c.whole(i)
	c.await("the rest of the backlog to be published", func() bool { return c.dueNow(job) == 0 }, i)
	took := time.Since(closing)
	t.Logf("%d windows closed in %v with a SIGKILL between, %.0f windows/s; %d due windows shown before it, metric %d", windows,
		took.Round(time.Millisecond), float64(windows)/took.Seconds(), due, metric)
	if due <= 0 || metric <= 0 {
		t.Errorf("the backlog is not shown: status %d, metric %d", due, metric)
	}
	finish()
	c.must(i.Stop())
	c.slices(job, windows)
	if windows <= dueProved {
		c.prove(job)
	}
}

// dueLines are readings of so many devices, all in one hour.
func dueLines(devices int) [][]byte {
	lines := make([][]byte, devices)
	for d := range lines {
		lines[d] = fmt.Appendf(nil, `{"device":"d%07d","ts":%d,"value":%d}`, d, 1704067200000+d%3_600_000, d)
	}
	return lines
}

// nextHour are readings of a few devices an hour later: the first of them closes all windows before it.
func nextHour() proof.Feed {
	n := 0
	return func() []byte {
		n++
		return fmt.Appendf(nil, `{"device":"n%02d","ts":%d,"value":1}`, n%50, 1704067200000+5_400_000+n%1000)
	}
}

// flowOf is flow with another feed.
func (c *crew) flowOf(feed proof.Feed, rate int) (finish func()) {
	c.t.Helper()
	f, err := c.jobs[0].StartFlow(feed, rate)
	c.must(err)
	return func() {
		_, err := f.Finish(context.WithoutCancel(c.ctx))
		c.must(err)
	}
}

// endOf is the high watermark of the only partition of a topic.
func (c *crew) endOf(topic string) int64 {
	c.t.Helper()
	ends, err := c.reader.Ends(c.ctx, topic)
	c.must(err)
	return ends[0]
}

// dueNow is what the status command says of the backlog, -1 while it says nothing.
func (c *crew) dueNow(job *proof.Job) int64 {
	c.t.Helper()
	ask := exec.CommandContext(c.ctx, job.Binary, "status", "-c", job.Config(), "--json")
	ask.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TIDEMARK_") })
	out, _ := ask.Output() // it fails where no job runs, and where something is red
	if len(out) == 0 {
		return -1
	}
	var said struct {
		Tasks []struct {
			Due   int64  `json:"due_windows"`
			State string `json:"state"`
		}
	}
	c.must(json.Unmarshal(out, &said))
	if len(said.Tasks) != 1 || said.Tasks[0].State == "recovering" {
		return -1
	}
	return said.Tasks[0].Due
}

// backlog is the most that the status command and the metrics say of the backlog until the process is killed.
func (c *crew) backlog(job *proof.Job, i *instance) (status, metric int64) {
	c.t.Helper()
	for {
		select {
		case <-i.Done():
			if !slices.ContainsFunc(i.log(), func(l line) bool { return l.Msg == "crash point reached" }) {
				c.t.Fatal("the process ended before its kill: ", i.Failure())
			}
			return status, metric
		case <-c.ctx.Done():
			c.t.Fatal("the kill did not come")
		default:
			status, metric = max(status, c.dueNow(job)), max(metric, c.dueMetric(job))
		}
	}
}

var dueGauge = regexp.MustCompile(`(?m)^tidemark_task_due_windows\{[^}]*\} (\S+)$`)

// dueMetric is what the metrics say of the backlog, -1 while nobody answers.
func (c *crew) dueMetric(job *proof.Job) int64 {
	addr, err := os.ReadFile(filepath.Join(job.StateDir(), "http.addr"))
	if err != nil {
		return -1
	}
	answer, err := http.Get("http://" + strings.TrimSpace(string(addr)) + "/metrics")
	if err != nil {
		return -1
	}
	defer answer.Body.Close()
	var text bytes.Buffer
	_, _ = text.ReadFrom(answer.Body) // the process may be killed in the middle
	found := dueGauge.FindStringSubmatch(text.String())
	if found == nil {
		return -1
	}
	x, err := strconv.ParseFloat(found[1], 64)
	c.must(err)
	return int64(x)
}

// slice is one commit as the topics hold it.
type slice struct {
	records, bytes, results int
	position                record.InputPosition
}

// slices counts, from the topics, what each commit holds: none is above its limits but for the commit record and the last
// reading folded, the input went on while windows were waiting, and each window has one result.
func (c *crew) slices(job *proof.Job, windows int) {
	c.t.Helper()
	commits := map[uint64]*slice{}
	seen := c.countResults(job, commits)
	var order []uint64
	changes, size := 0, 0
	changelog, err := c.reader.Read(c.ctx, job.Changelog(), oracle.AtHighWatermark)
	c.must(err)
	for _, m := range changelog[0] {
		switch {
		case bytes.Equal(m.Key, record.FenceKey):
		case bytes.Equal(m.Key, record.CommitKey):
			commit, err := record.ParseCommit(m.Value)
			c.must(err)
			s := commits[commit.Number]
			if s == nil {
				s = &slice{}
				commits[commit.Number] = s
			}
			s.records, s.bytes, s.position = s.records+changes+1, s.bytes+size+len(m.Key)+len(m.Value), commit.Position
			changes, size = 0, 0
			order = append(order, commit.Number)
		default:
			changes, size = changes+1, size+len(m.Key)+len(m.Value)
		}
	}
	most, heaviest, closing, moved := 0, 0, 0, 0
	var before record.InputPosition
	for _, n := range order {
		s := commits[n]
		most, heaviest = max(most, s.records), max(heaviest, s.bytes)
		if s.results > 0 {
			closing++
			if s.position > before {
				moved++
			}
		}
		before = s.position
	}
	c.t.Logf("%d commits, %d of them closed windows, %d of these took input too; the largest has %d records (limit %d), the heaviest %d bytes of keys and values (limit %d)",
		len(order), closing, moved, most, dueMaxRecords, heaviest, dueMaxBytes)
	if most > dueMaxRecords+2 || heaviest > dueMaxBytes {
		c.t.Error("a transaction is above its limits")
	}
	if closing < 2*windows/dueMaxRecords || moved < closing/4 {
		c.t.Error("the backlog was not taken in slices between which the input goes on")
	}
	if seen != windows {
		c.t.Errorf("%d windows have a result, want %d", seen, windows)
	}
}

// countResults reads the results of the first hour: each device has one, of its one reading. They are added to the commits.
func (c *crew) countResults(job *proof.Job, commits map[uint64]*slice) (devices int) {
	c.t.Helper()
	results, err := c.reader.Read(c.ctx, job.Topics()[3], oracle.AtHighWatermark)
	c.must(err)
	seen := map[string]bool{}
	for _, m := range results[0] {
		at := slices.IndexFunc(m.Headers, func(h oracle.Header) bool { return h.Key == record.OriginHeader })
		if at < 0 {
			c.t.Fatalf("the result at offset %d has no origin", m.Offset)
		}
		origin, err := record.ParseOrigin(m.Headers[at].Value)
		c.must(err)
		s := commits[origin.Number]
		if s == nil {
			s = &slice{}
			commits[origin.Number] = s
		}
		s.records, s.bytes, s.results = s.records+1, s.bytes+len(m.Key)+len(m.Value)+len(m.Headers[at].Value), s.results+1
		device := string(m.Key)
		var value struct{ Count, Sum int64 }
		c.must(json.Unmarshal(m.Value, &value))
		if want, err := strconv.ParseInt(strings.TrimLeft(device[1:], "0"), 10, 64); device != "d0000000" && (err != nil || value.Sum != want) || value.Count != 1 || seen[device] {
			c.t.Fatalf("the result at offset %d of device %s is %s, or there are two", m.Offset, device, m.Value)
		}
		seen[device] = true
	}
	return len(seen)
}
