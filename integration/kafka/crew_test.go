package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// session is the program's own: a member that is silent for so long loses its seat.
const session = 6 * time.Second

// waited is the least time that anything takes which waits for the session of a process that has just gone: its last
// heartbeat was half a second before. What is quicker has not waited, however busy the machine is.
const waited = session - 500*time.Millisecond

// crew is a job whose instances are processes of the real binary on one broker.
type crew struct {
	t          *testing.T
	ctx        context.Context
	jobs       []*proof.Job // one for each state directory
	partitions int32
	reader     *oracle.Reader
	client     *kgo.Client
	admin      *kadm.Client // with the client
	starts     int
	flowing    map[*proof.Flow]bool
}

// patience is how much longer than on a machine at rest a test may take before it is given up. All waits are for events; the
// limit only ends one that does not come.
const patience = 4

// newCrew makes the topics of a new job on the shared broker and configuration files for two instances. edit changes them
// first.
func newCrew(t *testing.T, limit time.Duration, partitions int32, edit func(instance int, job *proof.Job)) *crew {
	t.Helper()
	return newCrewAt(t, broker.Addr, 2, limit, partitions, edit)
}

// newCrewAt is newCrew on a broker of the test's own, for any number of instances.
func newCrewAt(t *testing.T, addr string, instances int, limit time.Duration, partitions int32, edit func(instance int, job *proof.Job)) *crew {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience*limit)
	t.Cleanup(cancel)
	c := &crew{t: t, ctx: ctx, partitions: partitions}
	program, err := binary()
	c.must(err)
	name := fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), time.Now().UnixNano())
	for i := range instances {
		job := &proof.Job{Binary: program, Dir: t.TempDir(), Name: name, Oracle: proof.FleetConfig(partitions), Checkpoint: time.Second,
			Brokers: []string{addr}}
		if edit != nil {
			edit(i, job)
		}
		c.must(job.WriteConfig())
		c.jobs = append(c.jobs, job)
	}
	admin, err := connect(t, addr).Admin()
	c.must(err)
	defer admin.Close()
	for _, topic := range c.jobs[0].Topics() {
		c.must(admin.Create(ctx, kafka.TopicSpec{Name: topic, Partitions: partitions}))
	}
	known := []string{addr}
	if len(c.jobs[0].Brokers) > 1 {
		known = c.jobs[0].Brokers // some of a cluster may be away
	}
	c.reader, err = oracle.NewReader(known...)
	c.must(err)
	t.Cleanup(c.reader.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(known...))
	c.must(err)
	t.Cleanup(cl.Close)
	c.client, c.admin = cl, kadm.NewClient(cl)
	return c
}

// must ends the test at an error.
func (c *crew) must(err error) {
	if err != nil {
		c.t.Helper()
		c.t.Fatal(err)
	}
}

// binary is the path of tidemark: TIDEMARK_BIN, or bin/tidemark built from this source.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("TIDEMARK_BIN"); path != "" {
		return filepath.Abs(path)
	}
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", "tidemark"))
	if err != nil {
		return "", err
	}
	if said, err := exec.Command("go", "build", "-o", path, "../../cmd/tidemark").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, said)
	}
	return path, nil
})

// randomSeed is TIDEMARK_SEED, or a new one; a failure tells how to use it again.
func randomSeed(t *testing.T) uint64 {
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("TIDEMARK_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: TIDEMARK_SEED=%d TIDEMARK_KILLS=%s go test -count=1 -run '^%s$' ./integration/kafka", n, os.Getenv("TIDEMARK_KILLS"), t.Name())
		}
	})
	return n
}

// flow lets a fleet send readings until the returned function is called, at the latest at the test's end.
func (c *crew) flow(seed uint64, rate int) (finish func() int) {
	c.t.Helper()
	return c.flows(proof.NewFleet(seed, 300).Next, rate)
}

// flows is flow for any feed.
func (c *crew) flows(feed proof.Feed, rate int) (finish func() int) {
	c.t.Helper()
	f, err := c.jobs[0].StartFlow(feed, rate)
	c.must(err)
	if c.flowing == nil {
		c.flowing = map[*proof.Flow]bool{}
	}
	c.flowing[f] = true
	finish = sync.OnceValue(func() int {
		delete(c.flowing, f)
		lines, err := f.Finish(context.WithoutCancel(c.ctx))
		if err != nil {
			c.t.Error(err)
		}
		return lines
	})
	c.t.Cleanup(func() { finish() })
	return finish
}

// instance is one process.
type instance struct {
	*proof.Instance
	crew  *crew
	job   *proof.Job
	lines []line // of its log, as far as it was read
	read  int64  // bytes of the log
}

// start starts an instance, with variables added to its environment; it ends with the test.
func (c *crew) start(job *proof.Job, variables ...string) *instance {
	c.t.Helper()
	c.starts++
	p, err := job.StartInstance(fmt.Sprintf("run-%04d", c.starts), variables...)
	c.must(err)
	c.t.Cleanup(func() {
		select {
		case <-p.Done():
		default:
			_ = p.Kill()
		}
		if c.t.Failed() && c.starts < 20 {
			text, _ := p.Log()
			c.t.Logf("pid %d of %s:\n%s", p.PID(), job.Dir, text[max(0, len(text)-6000):])
		}
	})
	return &instance{Instance: p, crew: c, job: job}
}

// line is one line of an instance's log, as far as the tests read it.
type line struct {
	Time       time.Time
	Level, Msg string
	Partition  int32
	Partitions json.RawMessage // a list where it says what is assigned, elsewhere a number
	Assigned   []int32         `json:"-"` // nil without a seat
	Class      string
	Report     *report
	Step       string // of a crash point
}

// report is what a recovery says of itself, as far as the tests read it.
type report struct {
	Partition  int32
	From       string
	Checkpoint string
	Records    int64 `json:"records_replayed"`
	Bytes      int64 `json:"bytes_replayed"`
	Anchor     string
	Phases     map[string]float64 `json:"phases_ms"`
	Aside      []struct{ Name, Reason string }
}

// log is everything the instance has logged in whole lines. What was read before is not read again: an instance may live
// for hours.
func (i *instance) log() []line {
	i.crew.t.Helper()
	text, err := i.LogFrom(i.read)
	i.crew.must(err)
	for {
		one, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return i.lines
		}
		var l line
		if bytes.HasPrefix(one, []byte("tidemark: ")) {
			return i.lines // the last words of a process that ends are for people
		}
		if err := json.Unmarshal(one, &l); err != nil {
			i.crew.t.Fatalf("log of %s: %v: %s", i.job.Dir, err, one)
		}
		if l.Msg == "assigned" {
			i.crew.must(json.Unmarshal(l.Partitions, &l.Assigned))
		}
		i.lines, text, i.read = append(i.lines, l), rest, i.read+int64(len(one))+1
	}
}

// standing is what the log says of the instance's tasks.
type standing struct {
	seated bool // the group has spoken
	owned  []int32
	live   map[int32]bool // recovered and at work
}

// stand reads the log from its beginning.
func (i *instance) stand() standing {
	s := standing{live: map[int32]bool{}}
	for _, l := range i.log() {
		switch {
		case l.Msg == "assigned":
			s.seated, s.owned = l.Assigned != nil, l.Assigned
			for p := range s.live {
				if !slices.Contains(l.Assigned, p) {
					delete(s.live, p)
				}
			}
		case l.Msg == "recovering":
			delete(s.live, l.Partition)
		case l.Report != nil: // which follows the line that the task has recovered, and is what tests count
			s.live[l.Report.Partition] = slices.Contains(s.owned, l.Report.Partition)
		}
	}
	return s
}

// settled tells whether everything owned is at work.
func (s standing) settled() bool {
	return s.seated && !slices.ContainsFunc(s.owned, func(p int32) bool { return !s.live[p] })
}

// recoveries are the reports of the log from line number from on: how many for each partition.
func (i *instance) recoveries(from int) map[int32]int {
	n := map[int32]int{}
	for _, l := range i.log()[from:] {
		if l.Report != nil {
			n[l.Report.Partition]++
		}
	}
	return n
}

// lookAgain is how often the log of another process is looked at while something in it is awaited.
const lookAgain = 20 * time.Millisecond

// await returns when the condition holds, which is looked at again and again; none of the instances may end meanwhile.
func (c *crew) await(what string, condition func() bool, alive ...*instance) {
	c.t.Helper()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	began := time.Now()
	for !condition() {
		for _, i := range alive {
			select {
			case <-i.Done():
				c.t.Fatalf("an instance ended while this was awaited: %s: %v", what, i.Failure())
			default:
			}
		}
		for f := range c.flowing {
			select {
			case <-f.Done():
				c.t.Fatalf("the readings ended while this was awaited: %s: %v", what, f.Failure())
			default:
			}
		}
		select {
		case <-ticker.C:
		case <-c.ctx.Done():
			c.t.Fatalf("awaited for %v: %s: %v", time.Since(began), what, context.Cause(c.ctx))
		}
	}
}

// whole waits until the instances own all partitions together, each one once, and work on all of them.
func (c *crew) whole(instances ...*instance) {
	c.t.Helper()
	c.await("every partition to be at work", func() bool {
		var all []int32
		for _, i := range instances {
			s := i.stand()
			if !s.settled() {
				return false
			}
			all = append(all, s.owned...)
		}
		slices.Sort(all)
		return len(all) == int(c.partitions) && len(slices.Compact(all)) == len(all)
	}, instances...)
}

// open are the partitions whose task has a transaction open at the broker. A paused or dead owner can not end its own.
func (c *crew) open() []int32 {
	c.t.Helper()
	listed, err := c.admin.ListTransactions(c.ctx, nil, []string{"Ongoing"})
	c.must(err)
	var open []int32
	for id := range listed {
		if text, ours := strings.CutPrefix(id, c.jobs[0].Changelog()+"-"); ours {
			p, err := strconv.ParseInt(text, 10, 32)
			c.must(err)
			open = append(open, int32(p))
		}
	}
	return open
}

// prove lets one last run take up everything that is left, then compares all that can be seen with the oracle, starts
// the job again, once with its local state deleted, and asks the group for its lag; all that from each directory given:
// what a zombie left in its own must be true or set aside.
func (c *crew) prove(jobs ...*proof.Job) (sight *proof.Sight) {
	c.t.Helper()
	for _, job := range jobs {
		c.must(job.RunUntilIdle(c.ctx, "until-idle"))
		want, err := job.Expect(c.ctx, c.reader)
		c.must(err)
		sight, err = job.Prove(c.ctx, c.reader, want)
		c.must(err)
	}
	if len(sight.State) == 0 {
		c.t.Error("the run proves nothing: no window is open")
	}
	if lag, err := c.jobs[0].Lag(c.ctx, c.reader); err != nil || lag != 0 {
		c.t.Errorf("lag %d of an idle job, error %v", lag, err)
	}
	return sight
}
