package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Names are those that a trial of a job uses in place of the job's own, so that it touches nothing of the job.
type Names struct {
	Job, Input, Late, DeadLetter, Changelog string // Late is "" where the job has no such topic
	Result                                  func(aggregation string) string
	StateDir                                string
	Brokers                                 []string // in place of the embedded broker; none to keep the job's brokers

	// How often is written: a trial is short.
	Commit, Checkpoint time.Duration
	MaxRecords         int // of one commit; 0 for the job's own
}

// Rename returns the text of the file at path with other names. All that decides what comes out stays as it is written.
func Rename(path string, names Names) ([]byte, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	documents, line, w := parse(data)
	if w != nil {
		return nil, fmt.Errorf("%s:%d: %s", path, line, w.what)
	}
	if len(documents) != 1 || documents[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s: want one document with keys", path)
	}
	root := documents[0]
	if len(names.Brokers) > 0 {
		put(root, &yaml.Node{Kind: yaml.MappingNode}, "kafka")
		put(root, textList(names.Brokers), "kafka", "brokers")
	}
	for _, s := range []struct {
		value string
		path  []string
	}{
		{names.Job, []string{"job"}}, {names.Input, []string{"input", "topic"}}, {"earliest", []string{"input", "start"}},
		{names.DeadLetter, []string{"dead_letter", "topic"}}, {names.Changelog, []string{"changelog", "topic"}},
		{names.StateDir, []string{"state", "dir"}}, {names.Late, []string{"late", "topic"}},
		{milliseconds(names.Commit), []string{"commit", "interval"}}, {milliseconds(names.Checkpoint), []string{"checkpoint", "interval"}},
	} {
		if s.value != "" {
			put(root, text(s.value), s.path...)
		}
	}
	if names.MaxRecords > 0 {
		put(root, &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(names.MaxRecords)}, "commit", "max_records")
	}
	put(root, nil, "http")
	if err := renameResults(root, names.Result); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return yaml.Marshal(root)
}

func renameResults(root *yaml.Node, result func(string) string) error {
	list := valueOf(root, "aggregations")
	if list == nil || list.Kind != yaml.SequenceNode {
		return errors.New("aggregations: want a list")
	}
	for _, a := range list.Content {
		name := valueOf(a, "name")
		if name == nil {
			return errors.New("aggregations: one has no name")
		}
		put(a, text(result(name.Value)), "output", "topic")
	}
	return nil
}

// put sets what stands at a path of keys, making those that are missing; nil removes it.
func put(in, value *yaml.Node, path ...string) {
	at := keyAt(in, path[0])
	switch {
	case value == nil && at >= 0:
		in.Content = slices.Delete(in.Content, at, at+2)
		return
	case value == nil:
		return
	case at < 0:
		in.Content = append(in.Content, text(path[0]), &yaml.Node{Kind: yaml.MappingNode})
		at = len(in.Content) - 2
	}
	if len(path) == 1 {
		in.Content[at+1] = value
		return
	}
	if in.Content[at+1].Kind != yaml.MappingNode {
		in.Content[at+1] = &yaml.Node{Kind: yaml.MappingNode}
	}
	put(in.Content[at+1], value, path[1:]...)
}

// keyAt is the index of a key in a mapping, -1 when it is not there.
func keyAt(in *yaml.Node, key string) int {
	for i := 0; i+1 < len(in.Content); i += 2 {
		if in.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// valueOf returns the value of a key, nil when there is none.
func valueOf(in *yaml.Node, key string) *yaml.Node {
	if at := keyAt(in, key); at >= 0 {
		return in.Content[at+1]
	}
	return nil
}

func text(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

func textList(values []string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, v := range values {
		list.Content = append(list.Content, text(v))
	}
	return list
}

// OwnVariables returns those of the environment that are settings of the job and that Rename does not set: a trial runs
// under them as the job does.
func OwnVariables(environ []string) []string {
	replaced := []string{"JOB", "KAFKA_BROKERS", "KAFKA_EMBEDDED", "INPUT_TOPIC", "INPUT_START", "LATE_TOPIC", "DEAD_LETTER_TOPIC",
		"CHANGELOG_TOPIC", "STATE_DIR", "COMMIT_INTERVAL", "COMMIT_MAX_RECORDS", "CHECKPOINT_INTERVAL", "HTTP_LISTEN"}
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		key, ours := strings.CutPrefix(name, prefix)
		return !ours || slices.Contains(replaced, key) || slices.ContainsFunc(foreign, func(f string) bool { return strings.HasPrefix(name, f) })
	})
}
