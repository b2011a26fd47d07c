package tidemark

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// ClosedEnd makes a tally a Closer: its windows close at the stream time.
func (c *tally) ClosedEnd(_ int, streamTime int64) int64 { return streamTime }

// told are the changes that a repair told, in order.
type told []RepairChange

// repair orders a repair from a state directory.
func (w *world) repair(dir string, order Repair) (told, error) {
	w.t.Helper()
	o := w.options()
	o.StateDir = dir
	app, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	var list told
	order.Who = "anna@plant"
	order.Told = func(c RepairChange) { list = append(list, c) }
	return list, app.Repair(w.t.Context(), order)
}

func (w *world) repaired(order Repair) told {
	w.t.Helper()
	order.Do, order.Why = true, "wrong unit"
	list, err := w.repair(w.dir, order)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// everything is all that the cluster holds of this job, as text.
func (w *world) everything() string {
	var b strings.Builder
	for _, topic := range []string{"in", "changelog", "out", "dead"} {
		for p := range int32(2) {
			for _, e := range w.cluster.Entries(topic, p) {
				fmt.Fprintf(&b, "%s/%d %d %d %x %x\n", topic, p, e.Offset, e.State, e.Key, e.Value)
			}
		}
	}
	return b.String()
}

// lastCommit is the last commit record of a task.
func (w *world) lastCommit(partition int32) *record.Commit {
	w.t.Helper()
	var last *record.Commit
	for _, r := range w.cluster.Committed("changelog", partition) {
		if string(r.Key) == string(record.CommitKey) {
			c, err := record.ParseCommit(r.Value)
			if err != nil {
				w.t.Fatal(err)
			}
			last = c
		}
	}
	return last
}

func wants(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Fatalf("error %v, want %q", err, word)
		}
	}
}

// TestRepairChangesNothingUnasked tells all repairs of all tasks, with both sides, and leaves the logs as they were.
func TestRepairChangesNothingUnasked(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(5_000)
	w.run(w.options())
	before, fences := w.everything(), w.cluster.Calls(kafkatest.OpFence)
	for _, order := range []Repair{
		{Kind: RepairReset, Partition: AllPartitions, To: ByStart},
		{Kind: RepairReset, Partition: 1, To: 700},
		{Kind: RepairTime, Partition: AllPartitions, StreamTime: 100},
		{Kind: RepairSkip, Partition: 1, To: 2_500},
		{Kind: RepairReseal, Partition: AllPartitions},
	} {
		list, err := w.repair(w.dir, order)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[int32]int{AllPartitions: 2, 1: 1}[order.Partition]; len(list) != want {
			t.Errorf("%s told of %d tasks, want %d", order.Kind, len(list), want)
		}
		for _, c := range list {
			if c.Done || c.From == nil || c.To == nil || c.Note != "" {
				t.Errorf("%s told %+v", order.Kind, c)
			}
		}
	}
	if w.everything() != before || w.cluster.Calls(kafkatest.OpFence) != fences {
		t.Error("something was written")
	}
}

// TestRepairRefusals holds what cannot be done against the logs: nothing may have changed.
func TestRepairRefusals(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(5_000)
	w.run(w.options())
	before := w.everything()
	skip := Repair{Kind: RepairSkip, Partition: 1, To: 2_500, Do: true, Why: "x"}
	for name, c := range map[string]struct {
		change func(*Repair)
		words  []string
	}{
		"no reason":     {func(r *Repair) { r.Why = " " }, []string{"why"}},
		"two lines":     {func(r *Repair) { r.Why = "a\nb" }, []string{"one line"}},
		"long reason":   {func(r *Repair) { r.Why = strings.Repeat("x", 600) }, []string{"610 bytes", "at most 512"}},
		"no partition":  {func(r *Repair) { r.Partition = AllPartitions }, []string{"names its partition"}},
		"all to":        {func(r *Repair) { *r = Repair{Kind: RepairReset, Partition: AllPartitions, To: 3, Do: true, Why: "x"} }, []string{"name it"}},
		"partition":     {func(r *Repair) { r.Partition = 2 }, []string{"in/2", "there is no partition 2: the topic has 2"}},
		"back":          {func(r *Repair) { r.To = 2_499 }, []string{"in/1", "offset 2500", "back to 2499"}},
		"past the end":  {func(r *Repair) { r.To = 2_501 }, []string{"ends at offset 2500", "go to 2501"}},
		"nowhere begun": {func(r *Repair) { *r = Repair{Kind: RepairReset, Partition: 0, To: 9_999, Do: true, Why: "x"} }, []string{"offset 9999", "[0, 2500]"}},
	} {
		t.Run(name, func(t *testing.T) {
			order := skip
			c.change(&order)
			_, err := w.repair(w.dir, order)
			wants(t, err, c.words...)
			if w.everything() != before {
				t.Error("something was written")
			}
		})
	}
	t.Run("no changelog", func(t *testing.T) {
		w := newWorld(t, 2)
		_, err := w.repair(w.dir, skip)
		wants(t, err, "topic changelog does not exist")
	})
}

// TestRepairDemandsAnEmptyGroup refuses while a process works, naming it, and with TakeOver fences it: the process asks
// the group, recovers onto what the repair has written, and works on.
func TestRepairDemandsAnEmptyGroup(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(3_000)
	d := w.start(w.dir, nil)
	d.until("all of partition 1", func(e Event) bool {
		return e.Kind == EventCommitted && e.Partition == 1 && e.Commit.Position == 1_500
	})
	order := Repair{Kind: RepairTime, Partition: 1, StreamTime: 1_400, Do: true, Why: "a fast clock"}
	_, err := w.repair(t.TempDir(), order)
	wants(t, err, "group job is not empty", "job-member-1", "--take-over")
	if c := w.lastCommit(1); c.Mark != record.MarkNone {
		t.Errorf("commit record %+v", c)
	}
	order.TakeOver = true
	if _, err := w.repair(w.dir, order); err != nil { // the directory is the daemon's: its checkpoints are not asked
		t.Fatal(err)
	}
	if c := w.lastCommit(1); c.Mark != record.MarkTime || c.StreamTime != 1_400 {
		t.Errorf("commit record %+v", c)
	}
	w.produce(100)
	e := d.until("a commit after the repair", func(e Event) bool {
		return e.Kind == EventCommitted && e.Partition == 1 && e.Commit.Position == 1_550
	})
	if e.Commit.Mark != record.MarkNone || e.Commit.Note != "" {
		t.Errorf("the mark of the repair is repeated: %+v", e.Commit)
	}
	if n := count(d, func(e Event) bool {
		return e.Kind == EventRecovered && e.Partition == 1 && strings.Contains(strings.Join(e.Recovery.Warnings, ""), "anna@plant: a fast clock")
	}); n != 1 {
		t.Errorf("%d recoveries tell of the repair, want 1", n)
	}
	former := w.lastCommit(0).Birth
	reset := Repair{Kind: RepairReset, Partition: 0, To: ByStart, Do: true, Why: "wrong unit", TakeOver: true}
	if _, err := w.repair(t.TempDir(), reset); err != nil {
		t.Fatal(err)
	}
	w.produce(100)
	d.until("a new life of partition 0", func(e Event) bool {
		return e.Kind == EventCommitted && e.Partition == 0 && e.Commit.Birth != former && e.Commit.Position == 1_600 && e.Commit.Counters.Accepted == 1_600
	})
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
}

// TestSkippedInputIsCounted skips a part of the input; the job goes on behind it and its equations hold (I9).
func TestSkippedInputIsCounted(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(5_000)
	w.run(w.options())
	w.produce(1_000)
	w.repaired(Repair{Kind: RepairSkip, Partition: 0, To: 2_700})
	if o := w.groupOffset(0); o.Next != 2_700 || o.Metadata != record.Metadata(w.lastCommit(0).Birth, w.lastCommit(0).Number) {
		t.Errorf("the group stands at %+v", o)
	}
	w.run(w.options())
	c := w.lastCommit(0)
	if c.Position != 3_000 || c.Counters.In != 3_000 || c.Counters.Skipped != 200 || c.Counters.Accepted != 2_800 {
		t.Errorf("commit record %+v", c)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func (w *world) groupOffset(partition int32) kafka.GroupOffset {
	w.t.Helper()
	admin, _ := w.cluster.Admin()
	offsets, err := admin.GroupOffsets(w.t.Context(), "job", "in")
	if err != nil {
		w.t.Fatal(err)
	}
	return offsets[partition]
}

// TestResetIsFinishedByAnother dies in the middle of the second task's reset. No start goes on from there; another reset
// does, and the new life makes the results that the former one had made.
func TestResetIsFinishedByAnother(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(5_000)
	w.run(w.options())
	first := [2]string{w.published(0, 0), w.published(1, 0)}
	births := [2]record.BirthID{w.lastCommit(0).Birth, w.lastCommit(1).Birth}

	died := errors.New("the process died")
	w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
		last := len(c.Messages) - 1
		if c.Op == kafkatest.OpSend && c.Partition == 1 && c.Messages[last].Key[0] == byte(record.KindCommit) {
			if r, err := record.ParseCommit(c.Messages[last].Value); err == nil && r.Mark == record.MarkReset {
				return kafkatest.Fail(died)
			}
		}
		return kafkatest.Verdict{}
	})
	reset := Repair{Kind: RepairReset, Partition: AllPartitions, To: ByStart, Do: true, Why: "wrong unit"}
	list, err := w.repair(w.dir, reset)
	wants(t, err, died.Error())
	w.cluster.Inject(nil)
	if len(list) != 3 || !list[2].Done || list[2].Partition != 0 {
		t.Fatalf("told %+v", list)
	}
	app, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, app.Run(t.Context()), "changelog/1", "a reset was begun and not finished", "run tidemark reset again", "anna@plant: wrong unit")
	// The first task is whole, and may have got to work before the second one stopped the process.
	ends := [2]int64{w.cluster.Offsets("out", 0).HighWatermark, w.cluster.Offsets("out", 1).HighWatermark}

	w.repaired(reset)
	w.run(w.options())
	for p := range int32(2) {
		if c := w.lastCommit(p); c.Birth == births[p] || c.Counters.Accepted != 2_500 {
			t.Errorf("partition %d: commit record %+v", p, c)
		}
		if got := w.published(p, ends[p]); got != first[p] {
			t.Errorf("partition %d: the new life published %s, the former one %s", p, got, first[p])
		}
	}
}

// published are the results of a partition from an offset on.
func (w *world) published(partition int32, from int64) string {
	var b strings.Builder
	for _, r := range w.cluster.Committed("out", partition) {
		if r.Offset >= from {
			fmt.Fprintf(&b, "%s %s\n", r.Key, r.Value)
		}
	}
	return b.String()
}

// cut takes the tail of a changelog partition away, so that its last commit is the n-th to last one.
func (w *world) cut(partition int32, n int) {
	w.t.Helper()
	records := w.cluster.Committed("changelog", partition)
	for i := len(records) - 1; i >= 0; i-- {
		if string(records[i].Key) == string(record.CommitKey) {
			if n--; n == 0 {
				w.cluster.Truncate("changelog", partition, records[i].Offset+2) // behind its marker
				return
			}
		}
	}
	w.t.Fatal("not so many commits")
}

// TestAcceptedLossRunsOnce loses the tail of one changelog. No start goes on, until one is told to; its windows are made
// again under a new birth, and no start after it needs to be told.
func TestAcceptedLossRunsOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(5_000)
	w.run(w.options())
	before := w.lastCommit(0)
	w.cut(0, 3)
	app, err := New(w.options())
	if err != nil {
		t.Fatal(err)
	}
	wants(t, app.Run(t.Context()), "commits are gone", "tidemark run --accept-loss")
	if got := w.lastCommit(1); got.Mark != record.MarkNone {
		t.Errorf("the other task: %+v", got)
	}
	o := w.options()
	o.AcceptLoss = "anna@plant: unclean election"
	o.Progress = func(e Event) {
		if e.Kind == EventRecovered && e.Partition == 0 {
			if text := strings.Join(e.Recovery.Warnings, ""); e.Commit.Mark != record.MarkLoss || !strings.Contains(text, fmt.Sprintf("knows commit %d", before.Number)) {
				t.Errorf("recovered at commit %+v, warnings %q", e.Commit, text)
			}
		}
	}
	w.run(o)
	after := w.lastCommit(0)
	if after.Birth == before.Birth || after.Position != before.Position || after.Digest != before.Digest || after.Counters != before.Counters {
		t.Errorf("commit record %+v, before the loss %+v", after, before)
	}
	w.produce(1_000)
	w.run(w.options())
}

// TestAcceptLossIsNoLicence loses data again under a running process that was told to accept a loss: it stops.
func TestAcceptLossIsNoLicence(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(5_000)
	w.run(w.options())
	w.cut(0, 3)
	d := w.start(w.dir, func(o *Options) { o.AcceptLoss = "anna@plant: unclean election" })
	d.until("the end of the input", func(e Event) bool {
		return e.Kind == EventCommitted && e.Partition == 0 && e.Commit.Position == 2_500
	})
	w.cut(0, 2)
	w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
		if c.Op == kafkatest.OpSend && len(c.Messages) > 1 && c.Messages[0].Topic == "changelog" && c.Messages[0].Partition == 0 {
			return kafkatest.Fail(&kafka.Error{Class: kafka.ClassTransient, Op: "send", Offset: -1, Err: context.DeadlineExceeded})
		}
		return kafkatest.Verdict{}
	})
	w.produce(100)
	e := d.until("the stop", func(e Event) bool { return e.Kind == EventClosed && e.Partition == 0 })
	wants(t, e.Err, "knows commit", "commits are gone", "--accept-loss")
	if w.cluster.Injected(kafkatest.OpSend) == 0 {
		t.Error("no commit was lost: the fault did not happen")
	}
	wants(t, d.end(), "commits are gone")
}

// TestLeave takes the seats that a process has left behind, of this directory and of no other.
func TestLeave(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(100)
	other := w.start(filepath.Join(w.dir, "other"), nil)
	other.until("partition 0", recoveredOn(0))
	dir := filepath.Join(w.dir, "mine")
	for round := range 2 { // in the first the seat is a dynamic one, in the second it may have an instance id
		mine := w.start(dir, nil)
		mine.until("partition 1", recoveredOn(1))
		_, err := w.leave(dir, true)
		wants(t, err, "is in use by process")
		if err := mine.end(); err != nil {
			t.Fatal(err)
		}
		seats, err := w.leave(dir, false)
		if err != nil || len(seats) != 1 {
			t.Fatalf("round %d: seats %v, %v", round, seats, err)
		}
		_, err = w.repair(dir, Repair{Kind: RepairReseal, Partition: AllPartitions})
		wants(t, err, "2 members", seats[0].ID)
		if done, err := w.leave(dir, true); err != nil || len(done) != 1 || done[0] != seats[0] {
			t.Fatalf("round %d: left %v, %v", round, done, err)
		}
		if seats, err := w.leave(dir, true); err != nil || len(seats) != 0 {
			t.Fatalf("round %d: left again %v, %v", round, seats, err)
		}
	}
	if err := other.end(); err != nil {
		t.Fatal(err)
	}
	_, err := w.leave(filepath.Join(w.dir, "nowhere"), true)
	wants(t, err, "no seat")
}

// TestLeaveDies lets the process that gives up the seat die twice, before the broker heard of it or before the answer came. The
// next one gives it up, or finds it given up, and the task goes to the process that is left.
func TestLeaveDies(t *testing.T) {
	died := &kafka.Error{Class: kafka.ClassTransient, Op: "leave", Offset: -1, Err: errors.New("the process died")}
	for name, c := range map[string]struct {
		verdict kafkatest.Verdict
		left    int // seats that the third one finds
	}{"before": {kafkatest.Fail(died), 1}, "after": {kafkatest.ApplyThenFail(died), 0}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2)
			w.produce(100)
			other := w.start(filepath.Join(w.dir, "other"), nil)
			other.until("partition 0", recoveredOn(0))
			dir := filepath.Join(w.dir, "mine")
			mine := w.start(dir, nil)
			mine.until("partition 1", recoveredOn(1))
			if err := mine.end(); err != nil {
				t.Fatal(err)
			}
			w.cluster.Inject(func(call kafkatest.Call) kafkatest.Verdict {
				if call.Op == kafkatest.OpLeave {
					return c.verdict
				}
				return kafkatest.Verdict{}
			})
			for try := range 2 {
				if _, err := w.leave(dir, true); try == 0 || c.left > 0 {
					wants(t, err, "the process died")
				}
			}
			if w.cluster.Injected(kafkatest.OpLeave) != 1+c.left {
				t.Errorf("%d processes died", w.cluster.Injected(kafkatest.OpLeave))
			}
			w.cluster.Inject(nil)
			if done, err := w.leave(dir, true); err != nil || len(done) != c.left {
				t.Errorf("left %v, %v; want %d", done, err, c.left)
			}
			other.until("partition 1", recoveredOn(1))
			if err := other.end(); err != nil {
				t.Fatal(err)
			}
			w.run(w.options())
		})
	}
}

func (w *world) leave(dir string, do bool) ([]Seat, error) {
	o := w.options()
	o.StateDir = dir
	app, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	return app.Leave(w.t.Context(), do)
}

// TestRepairsPageNamesItsTests holds docs/operations/repairs.md to the tests it names for what it promises.
func TestRepairsPageNamesItsTests(t *testing.T) {
	page, err := os.ReadFile("docs/operations/repairs.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, pattern := range []string{"*_test.go", "internal/repair/*_test.go", "internal/proof/*_test.go", "integration/kafka/*_test.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(source)
		}
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 15 {
		t.Fatalf("%d tests are named", len(named))
	}
	for _, m := range named {
		if !strings.Contains(tests.String(), "func "+m[1]+"(") {
			t.Errorf("%s is named, and does not exist", m[1])
		}
	}
}
