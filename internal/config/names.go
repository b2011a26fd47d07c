package config

import (
	"errors"
	"fmt"
	"path/filepath"
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
	Brokers                                 []string
	Embedded                                bool // the job's own broker is embedded

	// How often is written: a trial is short.
	Commit, Checkpoint time.Duration
	MaxRecords         int           // of one commit; 0 for the job's own
	IdleClose          time.Duration // 0 for a job without
}

// Rename returns the text of the file at path with other names. All that decides what comes out stays as it is written, but
// for limits that would end a trial: max_bad.
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
	pinTopic(root)
	drop(root, "dead_letter", "max_bad")
	drop(root, "idle_close")
	drop(root, "input", "time", "idle_close")
	drop(root, "http")
	if names.IdleClose > 0 {
		put(root, text(milliseconds(names.IdleClose)), "idle_close")
	}
	if names.Embedded {
		put(root, &yaml.Node{Kind: yaml.MappingNode}, "kafka")
	}
	put(root, textList(names.Brokers), "kafka", "brokers")
	put(root, text(names.Late), "late", "topic")
	if err := absolute(root); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		value string
		path  []string
	}{
		{names.Job, []string{"job"}}, {names.Input, []string{"input", "topic"}}, {"earliest", []string{"input", "start"}},
		{names.DeadLetter, []string{"dead_letter", "topic"}}, {names.Changelog, []string{"changelog", "topic"}},
		{names.StateDir, []string{"state", "dir"}},
		{milliseconds(names.Commit), []string{"commit", "interval"}}, {milliseconds(names.Checkpoint), []string{"checkpoint", "interval"}},
	} {
		put(root, text(s.value), s.path...)
	}
	if names.MaxRecords > 0 {
		put(root, &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(names.MaxRecords)}, "commit", "max_records")
	}
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

// pinTopic lets key fields that are the topic's name have that of the job's own topic.
func pinTopic(root *yaml.Node) {
	in := valueOf(root, "input")
	if in == nil || in.Kind != yaml.MappingNode {
		return
	}
	topic, keys := valueOf(in, "topic"), valueOf(in, "key")
	if topic == nil || keys == nil {
		return
	}
	for _, k := range keys.Content {
		if of := valueOf(k, "record"); of != nil && of.Value == "topic" {
			drop(k, "record")
			put(k, text(topic.Value), "constant")
		}
	}
}

// ofFiles are the settings that name files.
var ofFiles = [][]string{{"kafka", "tls", "ca"}, {"kafka", "tls", "cert"}, {"kafka", "tls", "key"}, {"kafka", "sasl", "password_file"}}

// absolute lets paths mean the same in another working directory.
func absolute(root *yaml.Node) error {
	for _, path := range ofFiles {
		at := root
		for _, key := range path {
			if at != nil && at.Kind == yaml.MappingNode {
				at = valueOf(at, key)
			} else {
				at = nil
			}
		}
		if at == nil || at.Value == "" {
			continue
		}
		whole, err := filepath.Abs(at.Value)
		if err != nil {
			return err
		}
		at.Value = whole
	}
	return nil
}

// drop removes what stands at a path of keys.
func drop(in *yaml.Node, path ...string) {
	at := -1
	if in.Kind == yaml.MappingNode {
		at = keyAt(in, path[0])
	}
	switch {
	case at < 0:
	case len(path) == 1:
		in.Content = slices.Delete(in.Content, at, at+2)
	default:
		drop(in.Content[at+1], path[1:]...)
	}
}

// put sets what stands at a path of keys, making those that are missing.
func put(in, value *yaml.Node, path ...string) {
	at := keyAt(in, path[0])
	if at < 0 {
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
// under them as the job does. Paths are made absolute.
func OwnVariables(environ []string) []string {
	environ = slices.Clone(environ)
	for i, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		named := slices.ContainsFunc(ofFiles, func(path []string) bool { return name == prefix+strings.ToUpper(strings.Join(path, "_")) })
		if whole, err := filepath.Abs(value); named && value != "" && err == nil {
			environ[i] = name + "=" + whole
		}
	}
	replaced := []string{"JOB", "KAFKA_BROKERS", "KAFKA_EMBEDDED", "INPUT_TOPIC", "INPUT_START", "LATE_TOPIC", "DEAD_LETTER_TOPIC",
		"CHANGELOG_TOPIC", "STATE_DIR", "COMMIT_INTERVAL", "COMMIT_MAX_RECORDS", "CHECKPOINT_INTERVAL", "HTTP_LISTEN", "IDLE_CLOSE",
		"INPUT_TIME_IDLE_CLOSE", "DEAD_LETTER_MAX_BAD"}
	return slices.DeleteFunc(environ, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		key, ours := strings.CutPrefix(name, prefix)
		return !ours || slices.Contains(replaced, key) || slices.ContainsFunc(foreign, func(f string) bool { return strings.HasPrefix(name, f) })
	})
}
