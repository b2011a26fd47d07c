package tidemark

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// lookoutBound is what the documents promise: so long after it has happened the job has stopped for it.
const lookoutBound = 10 * time.Second

// said collects a log.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) lines(has string) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		if strings.Contains(line, has) {
			lines = append(lines, line)
		}
	}
	return lines
}

// remake deletes a topic and makes it again.
func (w *world) remake(name string, partitions int32, configs map[string]string) (was, is record.Topic) {
	admin, err := w.cluster.Admin()
	if err != nil {
		w.t.Fatal(err)
	}
	found, err := admin.Topics(w.t.Context(), name)
	if err != nil {
		w.t.Fatal(err)
	}
	w.cluster.DeleteTopic(name)
	return found[name].Topic, w.cluster.CreateTopic(name, partitions, configs)
}

// commits is the number of commit records in the changelog, 0 when it is not there.
func (w *world) commits() (n int) {
	admin, err := w.cluster.Admin()
	if err != nil {
		w.t.Fatal(err)
	}
	if found, err := admin.Topics(w.t.Context(), "changelog"); err != nil || len(found) == 0 {
		return 0
	}
	for p := range int32(2) {
		for _, r := range w.cluster.Committed("changelog", p) {
			if bytes.Equal(r.Key, record.CommitKey) {
				n++
			}
		}
	}
	return n
}

// D17, S10, S61, S62: what a start refuses, a running job stops for within 10 s, with an error that names the topic and
// both sides. Neither a commit nor a group offset follows.
func TestLookoutStops(t *testing.T) {
	policy := map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
	for name, c := range map[string]struct {
		change func(w *world) []string // returns what the error must say
		class  kafka.Class
	}{
		"input made again": {func(w *world) []string {
			was, is := w.remake("in", 2, nil)
			return []string{"id of input topic in was " + was.ID.String() + ", is " + is.ID.String(), "tidemark reset"}
		}, kafka.ClassLost},
		"changelog made again": {func(w *world) []string {
			was, is := w.remake("changelog", 2, policy)
			return []string{"id of changelog topic changelog was " + was.ID.String() + ", is " + is.ID.String()}
		}, kafka.ClassLost},
		"input is gone": {func(w *world) []string {
			w.cluster.DeleteTopic("in")
			return []string{"topic in, id ", "does not exist any more"}
		}, kafka.ClassLost},
		"changelog is gone": {func(w *world) []string {
			w.cluster.DeleteTopic("changelog")
			return []string{"topic changelog, id ", "does not exist any more"}
		}, kafka.ClassLost},
		"input has grown": {func(w *world) []string {
			w.cluster.AddPartitions("in", 4)
			return []string{"input topic in had 2 partitions, has 4"}
		}, kafka.ClassLost},
		"changelog has grown": {func(w *world) []string {
			w.cluster.AddPartitions("changelog", 4)
			return []string{"changelog topic changelog had 2 partitions, has 4"}
		}, kafka.ClassLost},
		"both have grown": {func(w *world) []string {
			w.cluster.AddPartitions("changelog", 3)
			w.cluster.AddPartitions("in", 3)
			return []string{"input topic in had 2 partitions, has 3", "changelog topic changelog had 2 partitions, has 3"}
		}, kafka.ClassLost},
		"another cluster": {func(w *world) []string {
			w.cluster.SetID("other")
			return []string{`cluster id was "cluster", is "other"`}
		}, kafka.ClassLost},
		"policy": {func(w *world) []string {
			w.cluster.SetConfig("changelog", "cleanup.policy", "compact,delete")
			return []string{"changelog has cleanup.policy=compact,delete, which can lose state; wanted compact", "kafka-configs.sh"}
		}, kafka.ClassPermanent},
		"timestamps": {func(w *world) []string {
			w.cluster.SetConfig("changelog", "message.timestamp.type", "CreateTime")
			return []string{"message.timestamp.type=CreateTime"}
		}, kafka.ClassPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(w *world) {
				w.produce(2_000)
				d := w.daemonize(nil)
				d.healthy()
				told, commits := w.cluster.Calls(kafkatest.OpSetOffset), w.commits()
				want := c.change(w)
				select {
				case <-d.ended:
				case <-time.After(lookoutBound):
					t.Fatalf("still running: %+v", d.app.Status().Reasons)
				}
				for _, text := range want {
					if d.err == nil || !strings.Contains(d.err.Error(), text) {
						t.Errorf("stopped with %v, want %q", d.err, text)
					}
				}
				if class := kafka.ClassOf(d.err); class != c.class {
					t.Errorf("class %v, want %v", class, c.class)
				}
				if n := w.cluster.Calls(kafkatest.OpSetOffset) - told; n != 0 {
					t.Errorf("%d offsets told to the group of a topic that is another one", n)
				}
				if n := w.commits(); n != commits && n != 0 {
					t.Errorf("%d commits, %d before the change", n, commits)
				}
			})
		})
	}
}

// S61: readings of partitions that are new are not read, also when the group assigns them before anybody has looked.
func TestNewPartitionsAreNotRead(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(2_000)
		d := w.daemonize(nil)
		d.healthy()
		fetched := false
		w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			fetched = fetched || c.Op == kafkatest.OpFetch && c.Partition > 1
			return kafkatest.Verdict{}
		})
		w.cluster.AddPartitions("changelog", 4)
		w.cluster.AddPartitions("in", 4) // the group hands them out at once
		<-d.ended
		if fetched {
			t.Error("a new partition was read")
		}
		for p := int32(2); p < 4; p++ {
			if n := len(w.cluster.Entries("changelog", p)); n != 0 {
				t.Errorf("partition %d: %d records in the changelog", p, n)
			}
		}
	})
}

// A broker that answers once as if it knew of nothing does not stop a job.
func TestLookoutLooksTwice(t *testing.T) {
	watched(t, func(w *world) {
		w.produce(2_000)
		d := w.daemonize(nil)
		d.healthy()
		asked := 0
		w.cluster.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			if c.Op == kafkatest.OpTopics {
				switch asked++; asked {
				case 1:
					w.cluster.SetID("other")
				case 2:
					w.cluster.SetID("cluster")
				}
			}
			if c.Op == kafkatest.OpCluster && asked == 0 {
				w.cluster.SetID("other")
			} else if c.Op == kafkatest.OpCluster {
				w.cluster.SetID("cluster")
			}
			return kafkatest.Verdict{}
		})
		d.after(time.Minute)
		w.cluster.Inject(nil)
		if asked < 3 {
			t.Fatalf("%d looks: the fault did not happen", asked)
		}
		d.healthy()
		if err := d.end(); err != nil {
			t.Error(err)
		}
	})
}

// D17: an output that is made again is a loud warning; the tasks go on with the new one, and nothing is published twice.
func TestOutputMadeAgain(t *testing.T) {
	watched(t, func(w *world) {
		var log said
		w.produce(6_000)
		d := w.daemonize(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		d.healthy()
		before := w.cluster.Committed("out", 0)
		was, is := w.remake("out", 2, nil)
		w.produce(6_000)
		d.healthy()
		after := w.cluster.Committed("out", 0)
		if len(before) == 0 || len(after) == 0 {
			t.Fatalf("%d results before, %d after", len(before), len(after))
		}
		for _, r := range after {
			if slices.ContainsFunc(before, func(o kafka.Record) bool { return bytes.Equal(o.Key, r.Key) && bytes.Equal(o.Value, r.Value) }) {
				t.Errorf("published again: %s %s", r.Key, r.Value)
			}
		}
		loud := log.lines("MADE AGAIN")
		if len(loud) != 1 || !strings.Contains(loud[0], was.ID.String()) || !strings.Contains(loud[0], is.ID.String()) {
			t.Errorf("said %q, want one warning with %v and %v", loud, was.ID, is.ID)
		}
		if err := d.end(); err != nil {
			t.Fatal(err)
		}

		// What was committed since names the new output: no start warns of it again.
		d = w.daemonize(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		d.healthy()
		if n := len(log.lines("output topics, their ids or partition counts have changed")); n > 2 {
			t.Errorf("%d warnings of tasks, want at most one of each: %q", n, log.lines("output topics"))
		}
	})
}

// An output that is gone is named, nothing is left out of a commit for want of it, and work goes on when it is there
// again.
func TestOutputGone(t *testing.T) {
	watched(t, func(w *world) {
		var log said
		w.produce(2_000)
		d := w.daemonize(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		d.healthy()
		w.cluster.DeleteTopic("out")
		d.after(time.Minute)
		w.produce(6_000)
		s := d.after(3 * time.Minute)
		if s.Tasks[0].Lag == nil || *s.Tasks[0].Lag == 0 {
			t.Errorf("lag %v: commits went on without their results", s.Tasks[0].Lag)
		}
		if s.Ready || !slices.ContainsFunc(s.Reasons, func(r status.Reason) bool { return strings.Contains(r.What, "out") }) {
			t.Errorf("reasons %+v, want the topic named", s.Reasons)
		}
		if len(log.lines("AN OUTPUT TOPIC IS GONE")) != 1 {
			t.Errorf("said %q", log.lines("OUTPUT"))
		}
		w.cluster.CreateTopic("out", 2, nil)
		d.after(time.Minute)
		d.healthy()
		if n := len(w.cluster.Committed("out", 0)); n == 0 {
			t.Error("no result in the new topic")
		}
	})
}

// R13: a delete.retention.ms that is lowered while the job runs is in the commit record at once, without input, and
// stays there when it is raised again. Any change of a setting is told with both values.
func TestRetentionLoweredWhileRunning(t *testing.T) {
	watched(t, func(w *world) {
		var log said
		w.produce(2_000)
		d := w.daemonize(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		d.healthy()
		smallest := func() string {
			text := ""
			for p := range int32(2) {
				all := w.cluster.Committed("changelog", p)
				i := len(all) - 1
				for ; !bytes.Equal(all[i].Key, record.CommitKey); i-- {
				}
				c, err := record.ParseCommit(all[i].Value)
				if err != nil {
					t.Fatal(err)
				}
				text += fmt.Sprint(c.MinRetention, " ")
			}
			return text
		}
		if got := smallest(); got != "7200000 7200000 " {
			t.Fatalf("retention %s at first", got)
		}
		commits := w.cluster.Calls(kafkatest.OpCommit)
		w.cluster.SetConfig("changelog", "delete.retention.ms", "1000")
		d.after(lookoutBound)
		w.cluster.SetConfig("changelog", "delete.retention.ms", "86400000")
		d.after(lookoutBound)
		synctest.Wait()
		if got := smallest(); got != "1000 1000 " {
			t.Errorf("retention %s after it was 1000 for %v", got, lookoutBound)
		}
		if n := w.cluster.Calls(kafkatest.OpCommit) - commits; n != 2 {
			t.Errorf("%d commits for it, want one of each task", n)
		}
		for _, want := range []string{`delete.retention.ms was \"7200000\", is \"1000\"`, `delete.retention.ms was \"1000\", is \"86400000\"`} {
			if len(log.lines(want)) != 1 {
				t.Errorf("not said once: %s: %q", want, log.lines("settings"))
			}
		}
	})
}
