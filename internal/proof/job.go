package proof

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// Job is a job under test: one description from which the configuration file of tidemark and that of the oracle are
// made, so that the two cannot drift apart.
type Job struct {
	Binary     string // path of tidemark
	Dir        string // of the configuration, the state and the logs of everything that is started
	Name       string
	Oracle     oracle.Config
	Checkpoint time.Duration
	MaxRecords int           // of one commit; 0 for the default
	Brokers    []string      // none for an embedded broker in the state directory
	Connect    []string      // more keys of the kafka section, each KEY: VALUE
	Leave      bool          // a planned stop gives up the seat in the group (shutdown: leave)
	In         string        // the input topic; "" for one named after the job
	Log        string        // the changelog topic; "" for one named after the job
	NoLate     bool          // late readings have no topic
	Pairs      []Pair        // of a job whose readings go through a relay first
	Idle       time.Duration // silence that moves stream time; 0 for none
	Variables  []string      // NAME=value, added to the environment of every process
	First      bool          // each process is number 1 of a process namespace of its own, as in a container; on Linux
	// Render makes the text of the configuration file, where it is not made of the fields above; may be nil.
	Render func(*Job) ([]byte, error)
}

// Path returns a path in the job's directory.
func (j *Job) Path(parts ...string) string {
	return filepath.Join(append([]string{j.Dir}, parts...)...)
}

// Config is the path of the configuration file.
func (j *Job) Config() string { return j.Path("job.yaml") }

// StateDir is state.dir, and LocalState what a lost disk would take of it: the checkpoints.
func (j *Job) StateDir() string { return j.Path("state") }

// LocalState is the directory of the job's checkpoints; one with Pairs has several.
func (j *Job) LocalState() string { return j.Path("state", j.Name) }

// Wipe removes all checkpoints.
func (j *Job) Wipe() (err error) {
	for _, p := range j.Parts() {
		err = errors.Join(err, os.RemoveAll(filepath.Join(p.StateDir, p.Name)))
	}
	return err
}

// Input is the input topic.
func (j *Job) Input() string { return cmp.Or(j.In, j.Name+"-in") }

// Late is the topic of late readings, "" when they are only counted.
func (j *Job) Late() string {
	if j.NoLate {
		return ""
	}
	return j.Name + "-late"
}

// Dead is the dead letter topic.
func (j *Job) Dead() string { return j.Name + "-dead" }

// Changelog is the changelog topic.
func (j *Job) Changelog() string { return cmp.Or(j.Log, j.Name+"-changelog") }

// Group is the consumer group.
func (j *Job) Group() string { return j.Name }

// Results is the result topic of an aggregation.
func (j *Job) Results(aggregation string) string { return j.Name + "-" + aggregation }

// Topics are the topics that somebody has to make on a cluster that is not embedded; the changelog is not among them.
func (j *Job) Topics() []string {
	topics := []string{j.Input(), j.Dead()}
	if !j.NoLate {
		topics = append(topics, j.Late())
	}
	for _, a := range j.Oracle.Aggregations {
		topics = append(topics, j.Results(a.Name))
	}
	return topics
}

// WriteConfig writes the configuration file: the job on its brokers, or on an embedded one in its own state directory.
func (j *Job) WriteConfig() error {
	if j.Render != nil {
		text, err := j.Render(j)
		if err != nil {
			return err
		}
		return os.WriteFile(j.Config(), text, 0o600)
	}
	c := &j.Oracle
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("job: %s", j.Name)
	if len(j.Brokers) > 0 {
		line("kafka: {%s}", strings.Join(append([]string{"brokers: [" + quoted(j.Brokers) + "]"}, j.Connect...), ", "))
	} else {
		line("kafka: {embedded: {partitions: %d}}", c.Partitions)
	}
	line("input:")
	line("  topic: %s", j.Input())
	line("  key: [%s]", quoted(c.Key))
	line("  partitioned_by: [%s]", quoted(c.RecordKeyFields()))
	line("  partitioner: %s", c.Partitioner)
	line("  values: [%s]", quoted(c.Values))
	scope := ""
	if c.MaxLag > 0 {
		scope = fmt.Sprintf(", scope: key, max_lag: %dms", c.MaxLag)
	}
	line("  time: {field: %q, unit: %s, max_ahead: %dms, quorum: %d%s}", c.Time.Name, c.Time.Unit, c.MaxAhead, max(c.Quorum, 1), scope)
	line("aggregations:")
	for _, a := range c.Aggregations {
		line("  - name: %s", a.Name)
		line("    window: {%s, grace: %dms}", windowText(&a), a.Grace)
		line("    functions: [%s]", strings.Join(a.Functions, ", "))
		line("    output: {topic: %s, emit: %s}", j.Results(a.Name), map[bool]string{false: "final", true: "updates"}[a.Updates])
	}
	line("late: {topic: %s}", j.Late())
	line("dead_letter: {topic: %s}", j.Dead())
	line("changelog: {topic: %s}", j.Changelog())
	line("state: {dir: %q, store: memory}", j.StateDir())
	if j.MaxRecords > 0 {
		line("commit: {max_records: %d}", j.MaxRecords)
	}
	line("checkpoint: {interval: %dms}", j.Checkpoint.Milliseconds())
	if j.Leave {
		line("shutdown: leave")
	}
	if j.Idle > 0 {
		line("idle_close: %dms", j.Idle.Milliseconds())
	}
	return os.WriteFile(j.Config(), b.Bytes(), 0o600)
}

// windowText is a kind of window as the configuration says it.
func windowText(a *oracle.Aggregation) string {
	switch {
	case a.Gap > 0:
		return fmt.Sprintf("session: %dms", a.Gap)
	case a.Unit != "":
		return fmt.Sprintf("calendar: %s, zone: %s", a.Unit, a.Zone)
	case a.Step > 0:
		return fmt.Sprintf("hopping: %dms, step: %dms, offset: %dms", a.Size, a.Step, a.Offset)
	}
	return fmt.Sprintf("tumbling: %dms, offset: %dms", a.Size, a.Offset)
}

func quoted(names []string) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(list, ", ")
}
