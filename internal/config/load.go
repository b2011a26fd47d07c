package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-streams/tidemark/window"
)

// Load reads the file at path and the environment, in the form of os.Environ. The error is of type Faults and holds all
// that is wrong.
func Load(path string, environ []string) (*Job, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Faults{{File: path, What: fmt.Sprintf("the file cannot be read: %v", err), Hint: "-c names the file of the job"}}
	}
	return Parse(path, data, environ)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	return data, cause(err)
}

// cause is an error of the file system without the path, which the fault names already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Parse is Load of a file's content. path is for messages.
func Parse(path string, data []byte, environ []string) (*Job, error) {
	d := newDecoder(path, environ)
	root, ok := d.parseDocument(data)
	if !ok {
		return nil, d.faults
	}
	job := d.job(&section{d: d, at: place{path, 1}, pairs: root.pairs, written: true})
	d.finish()
	if len(d.faults) > 0 {
		return nil, d.faults
	}
	job.settings, job.Warnings = d.settings, d.warnings
	return job, nil
}

// idleClose asks for idle_close, which may stand at the top or with what concerns time.
func (d *decoder) idleClose(root *section, in *Input) time.Duration {
	key, def := "idle_close", "off"
	if d.idleAt != (place{}) {
		def = "" // or the configuration in force would name it twice
	}
	after, at := getShown(root, key, def, "off", idleClose)
	if d.idleAt != (place{}) {
		if root.has(key) {
			d.add(d.idleAt, "input.time.idle_close", wrongf("is there beside idle_close").hinted("remove one of the two"))
		}
		after, at, key = d.idle, d.idleAt, "input.time.idle_close"
	}
	if after > 0 && in.MaxLag > 0 {
		d.warn(at, key, "%s: silence closes windows of keys with a time of their own only when it has lasted for max_lag, %s",
			window.Format(after.Milliseconds()), window.Format(in.MaxLag))
	}
	return after
}

// stateFiles are the names that the state directory uses itself: no job may have them.
var stateFiles = []string{"id", "lock", "http.addr", "broker", "rekey"}

// job asks for every key there is, in the order of the reference page.
func (d *decoder) job(root *section) *Job {
	j := &Job{Timeouts: DefaultTimeouts()}
	topics := &topics{d: d}
	j.Name, _ = need(root, "job", "name the job, as  job: boiler-room", name("job", stateFiles...))
	j.Kafka = d.kafka(root)
	j.Input = d.input(root, topics)
	j.Aggregations = d.aggregations(root, topics)

	late := root.section("late", "{topic: TOPIC}")
	j.Late = topics.get(late, "topic", j.Name, "-late", roleLate, topicOrEmpty)
	late.close()

	dead := root.section("dead_letter", "{topic: TOPIC}")
	j.DeadLetter = topics.get(dead, "topic", j.Name, "-dead", roleDead, topic)
	j.MaxBad, _ = get(dead, "max_bad", "off", maxBad)
	dead.close()

	j.Changelog = d.changelog(root, topics, j)
	d.operation(root, j)
	if j.Kafka.Embedded {
		j.Kafka.EmbeddedDir = filepath.Join(j.State.Dir, "broker")
	}
	j.IdleClose = d.idleClose(root, &j.Input)
	d.dedup(root, j)
	d.reach(root, j)
	root.close()
	d.parts(j, topics)
	topics.check()
	return j
}
