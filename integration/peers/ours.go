package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-streams/tidemark"
)

// ours is a job of tidemark.
type ours struct {
	name, config, state string
}

// job makes the topics and the configuration of a new job.
func (b *bench) job(input string, partitions int32, checkpoint time.Duration) (*ours, error) {
	name := b.name("tidemark")
	o := &ours{name: name, config: filepath.Join(b.dir, name+".yaml"), state: filepath.Join(b.dir, name+".state")}
	text := fmt.Sprintf(`job: %[1]s
kafka: {brokers: ["%[2]s"]}
input: {topic: %[3]s, key: [device], values: [value], time: {field: ts, unit: ms}}
aggregations:
  - {name: hourly, window: {tumbling: 1h, grace: 1h}, functions: [count, sum, min, max, mean], output: {topic: %[1]s-hourly, emit: final}}
late: {topic: %[1]s-late}
dead_letter: {topic: %[1]s-dead}
changelog: {topic: %[1]s-changelog}
state: {dir: %[4]q, store: memory}
checkpoint: {interval: %[5]dms}
`, name, b.broker.Addr, input, o.state, checkpoint.Milliseconds())
	if err := os.WriteFile(o.config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return o, b.topics(partitions, name+"-hourly", name+"-late", name+"-dead")
}

// run starts the daemon, or with flags something like it.
func (b *bench) run(o *ours, flags ...string) (*process, error) {
	return b.start(b.binary, append([]string{"run", "-c", o.config, "--json"}, flags...)...)
}

// status is the daemon's; nil before it answers.
func (b *bench) status(o *ours) *tidemark.Status {
	s, _, err := tidemark.FetchStatus(b.ctx, o.state)
	if err != nil {
		return nil
	}
	return s
}

// committed is how many input records the daemon has committed, and of how many; -1 while a task does not know.
func committed(s *tidemark.Status, tasks int) (position, end int64) {
	if s == nil || len(s.Tasks) != tasks {
		return -1, 0
	}
	for _, t := range s.Tasks {
		if t.Position == nil || t.End == nil {
			return -1, 0
		}
		position += *t.Position
		end += *t.End
	}
	return position, end
}
