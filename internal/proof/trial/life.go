package trial

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/crash"
	"github.com/tidemark-streams/tidemark/internal/proof"
)

// life is one process of the program, from its start to its end.
type life struct {
	*proof.Instance
	name string
	job  *proof.Job
	text string // of the order to the crash points, "" for none
}

// entry is what is read of a line of a log.
type entry struct {
	Level     string  `json:"level"`
	Msg       string  `json:"msg"`
	Class     string  `json:"class"`
	Cause     any     `json:"cause"`
	Error     any     `json:"error"`
	Step      string  `json:"step"`
	Signal    string  `json:"signal"`
	From      string  `json:"from"`
	MS        float64 `json:"ms"`
	Partition int32   `json:"partition"`
	Report    *report `json:"report"`
}

// report is what is read of the report of a recovery.
type report struct {
	Partition int32
	From      string
	Why       string
	Commit    int64
	Replayed  int64 `json:"records_replayed"`
	Aside     []struct{ Name, Word, Reason string }
}

// start starts the daemon, or another command, with an order to the crash points.
func (c *chapter) start(job *proof.Job, order string, args ...string) (*life, error) {
	c.starts++
	l := &life{name: fmt.Sprintf("%04d", c.starts), job: job, text: order}
	var variables []string
	if order != "" {
		variables = []string{crash.Variable + "=" + order}
	}
	if len(args) == 0 {
		args = []string{"run", "--json"}
	}
	var err error
	l.Instance, err = job.StartCommand(l.name, variables, args...)
	return l, err
}

// lookAgain is how often the log of a process is looked at while something in it is awaited.
const lookAgain = 5 * time.Millisecond

// sees waits until the log holds a text; false when the process ended, or limit was over, before.
func (l *life) sees(ctx context.Context, text string, limit time.Duration) bool {
	over := time.NewTimer(limit)
	defer over.Stop()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		if log, err := l.Log(); err == nil && bytes.Contains(log, []byte(text)) {
			return true
		}
		select {
		case <-ticker.C:
		case <-over.C:
			return false
		case <-l.Done():
			log, err := l.Log()
			return err == nil && bytes.Contains(log, []byte(text))
		case <-ctx.Done():
			return false
		}
	}
}

// ends waits for the end of the process, at most for limit.
func (l *life) ends(ctx context.Context, limit time.Duration) bool {
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case <-l.Done():
		return true
	case <-over.C:
	case <-ctx.Done():
	}
	return false
}

// The messages of the log that are looked for.
const (
	firstCommit = "first commit after recovery"
	reached     = crash.Reached
	ticked      = "no input: stream time moved on"
)

// entries are the lines of the log that are objects.
func (l *life) entries() ([]entry, error) {
	log, err := l.Log()
	if err != nil {
		return nil, err
	}
	var all []entry
	for line := range bytes.Lines(log) {
		var e entry
		if len(line) > 0 && line[0] == '{' && json.Unmarshal(line, &e) == nil {
			all = append(all, e)
		}
	}
	return all, nil
}

// told is what a life's log says.
type told struct {
	committed bool     // it has committed readings
	point     []string // the points that were reached and killed or failed it
	failures  int
}

// read reads the log of a life that is over: it counts its recoveries and finds what it should not have met.
func (c *chapter) read(l *life) (told, error) {
	all, err := l.entries()
	if err != nil {
		return told{}, err
	}
	var t told
	for _, e := range all {
		switch {
		case e.Msg == firstCommit:
			t.committed = true
		case e.Msg == reached && e.Signal == "killed":
			t.point = append(t.point, e.Step)
		case e.Msg == reached && strings.HasPrefix(e.Signal, "none"):
			t.failures++
		case e.Msg == "recovered":
			c.trial.note(c.number, "", func(s *Summary) {
				s.Recoveries[e.From]++
				s.times = append(s.times, time.Duration(e.MS*float64(time.Millisecond)))
			})
		case e.Report != nil:
			c.readReport(l, e.Report)
		case e.Msg == "panic" || e.Class == "corrupt":
			c.found(proof.Anomaly{Kind: Contradiction, Where: fmt.Sprintf("the log of process %s, partition %d", l.name, e.Partition),
				Want: "a task that agrees with itself", Found: fmt.Sprintf("%s: %v", e.Msg, e.Cause)})
		case e.Msg == "task stopped":
			c.found(proof.Anomaly{Kind: Stopped, Where: fmt.Sprintf("the log of process %s, partition %d", l.name, e.Partition),
				Want: "a task at work", Found: fmt.Sprint(e.Error)})
		}
	}
	return t, nil
}

// readReport holds what a recovery believed and did not believe against what was done to its checkpoints.
func (c *chapter) readReport(l *life, r *report) {
	if c.short && r.From == "checkpoint" && r.Replayed > 0 {
		c.found(proof.Anomaly{Kind: Credulous, Where: fmt.Sprintf("the recovery of partition %d by process %s", r.Partition, l.name),
			Want:  "no checkpoint with commits after it: tombstones are kept for a second only",
			Found: fmt.Sprintf("one was loaded, and %d records replayed", r.Replayed)})
	}
	for _, aside := range r.Aside {
		name := filepath.Join(l.job.Dir, aside.Name)
		if filepath.IsAbs(aside.Name) {
			name = aside.Name
		}
		if c.hurt[name] {
			c.trial.note(c.number, "", func(s *Summary) { s.Aside++ })
			continue
		}
		if aside.Word == "too-old" && c.short {
			continue
		}
		c.found(proof.Anomaly{Kind: Distrusted, Where: fmt.Sprintf("the recovery of partition %d by process %s", r.Partition, l.name),
			Want: "a checkpoint that is believed: nobody has damaged it", Found: fmt.Sprintf("%s: %s", aside.Name, aside.Reason)})
	}
}

// end kills a process, which may have killed itself by its order. It is an error when it had ended in another way.
func (l *life) end() error {
	if l.Killed() {
		return nil
	}
	err := l.Kill()
	if err != nil && l.Killed() {
		return nil
	}
	return err
}

// seats returns the member id and the static instance id by which the group may know the process of a state directory.
func seats(stateDir string) (member, instance string, err error) {
	text, err := os.ReadFile(filepath.Join(stateDir, "id"))
	if err != nil {
		return "", "", err
	}
	var id struct {
		UUID, Machine, Member string
		Inode                 uint64
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return "", "", err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", id.UUID, id.Machine, id.Inode))
	return id.Member, "tidemark-" + hex.EncodeToString(sum[:12]), nil
}
