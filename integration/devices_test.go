package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/reading"
)

// devices is where the configurations are that describe the shapes of real devices.
const devices = "../docs/devices"

// message is one message of payloads.jsonl: what a device has sent, and the readings that its documentation means.
type message struct {
	N       int
	Shape   string
	Topic   string
	Payload json.RawMessage
	Raw     *string
	Base64  []byte `json:"raw_b64"`
	Expect  []expected
}

type expected struct {
	Device *string
	TS     *string
	Metric string
	Value  json.Number
}

func (m *message) value() []byte {
	switch {
	case m.Payload != nil:
		return m.Payload
	case m.Raw != nil:
		return []byte(*m.Raw)
	}
	return m.Base64
}

// recordTime is the timestamp of all records: after every message.
var recordTime = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC).UnixMilli()

// got is one accepted reading.
type got struct {
	texts  []string // key fields and the paths of values, which name device and metric between them
	time   time.Time
	value  float64
	record bool // the time is the record's
}

// counts are what becomes of all readings: expectations name the main ones only, and more come out.
type counts struct{ accepted, filtered, refused int }

// TestDevices reads the messages of 62 shapes of real devices with a configuration for each, which needs no code: every
// reading that is expected must come out with its time to the nanosecond and its value to the bit, and of a message that
// is none nothing.
func TestDevices(t *testing.T) {
	dir, found := oracle.DataDir("..")
	if !found {
		fmt.Printf("data sets are not there (%s): not run is the reading of 62 shapes of devices\n", dir)
		return
	}
	jobs := deviceJobs(t)
	shapes, told := map[string]bool{}, new(strings.Builder)
	var c counts
	messages := readMessages(t, filepath.Join(dir, "payloads.jsonl"))
	for _, m := range messages {
		shapes[m.Shape] = true
		if len(jobs[m.Shape]) == 0 {
			t.Errorf("%s: no configuration has the shape %q", devices, m.Shape)
			continue
		}
		var all []got
		for _, job := range jobs[m.Shape] {
			readings, text := readMessage(t, job, &m, &c)
			all = append(all, readings...)
			fmt.Fprintf(told, "%d %s: %s\n", m.N, job.Name, text)
		}
		m.check(t, all)
	}
	if len(messages) != 81 || len(shapes) != 62 || len(jobs) != 62 {
		t.Errorf("%d messages of %d shapes, %d shapes described, want 81, 62 and 62", len(messages), len(shapes), len(jobs))
	}
	if c != (counts{112, 39, 9}) {
		t.Errorf("%+v: they were 112 accepted, 39 filtered and 9 refused; what has changed?", c)
	}
	t.Log(told)
}

// deviceJobs are the configurations by the shape that their first line names.
func deviceJobs(t *testing.T) map[string][]*config.Job {
	paths, err := filepath.Glob(filepath.Join(devices, "*.yml"))
	if err != nil {
		t.Fatal(err)
	}
	jobs := map[string][]*config.Job{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(data), "\n")
		shape, ok := strings.CutPrefix(first, "# shape: ")
		job, err := config.Parse(path, data, nil)
		if err != nil || !ok {
			t.Errorf("%s: shape %q: %v", path, shape, err)
			continue
		}
		jobs[shape] = append(jobs[shape], job)
	}
	return jobs
}

func readMessages(t *testing.T, path string) (all []message) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// readMessage reads a message as a record whose key is the MQTT topic, as bridges write it, and tells what becomes of
// each reading.
func readMessage(t *testing.T, job *config.Job, m *message, c *counts) (all []got, told string) {
	format := job.Input.Format
	reader, err := reading.NewReader(format)
	if err != nil {
		t.Fatal(err)
	}
	key := m.Topic
	if key == "" {
		key = "key-of-" + job.Name
	}
	n, refusal := reader.Open(&reading.Record{Value: m.value(), Key: []byte(key), Timestamp: recordTime})
	if refusal != nil {
		c.refused++
		return nil, refusal.String()
	}
	var lines []string
	for i := range n {
		read, refusal := reader.Reading(i)
		switch {
		case refusal != nil:
			c.refused++
			lines = append(lines, refusal.String())
			continue
		case read == nil:
			c.filtered++
			lines = append(lines, "filtered")
			continue
		}
		at := time.UnixMilli(read.Time).UTC().Add(time.Duration(read.Nanos))
		c.accepted++
		var texts []string
		for _, field := range read.Key {
			texts = append(texts, string(field))
		}
		lines = append(lines, fmt.Sprintf("%q %s %v", texts, at.Format(time.RFC3339Nano), read.Values))
		texts = append(texts, strings.Join(texts, "/"))
		for v, value := range read.Values {
			if format.Series {
				v = i % len(format.Values)
			}
			path := format.Values[v]
			if len(format.Numbers) > 0 && format.Numbers[v].Path != "" {
				path += " " + format.Numbers[v].Path
			}
			all = append(all, got{texts: append(texts, path), time: at, value: value, record: format.Clock.Record})
		}
	}
	if n == 0 {
		lines = append(lines, "no reading")
	}
	return all, strings.Join(lines, "; ")
}

// check compares what came out of a message with what is expected of it.
func (m *message) check(t *testing.T, all []got) {
	if len(m.Expect) == 0 && len(all) > 0 {
		t.Errorf("message %d (%s) is no reading, and these came out: %v", m.N, m.Shape, all)
	}
	for _, want := range m.Expect {
		if slices.ContainsFunc(all, want.matches) {
			continue
		}
		if want.TS == nil && m.clockUnset() {
			continue // there is a time, which says 1970: refused
		}
		t.Errorf("message %d (%s): %+v is missing in %v", m.N, m.Shape, want, all)
	}
}

// clockUnset tells of the one message whose value is not to count as its clock was not set.
func (m *message) clockUnset() bool { return bytes.Contains(m.Payload, []byte("1970-01-01T00:00:03")) }

func (want *expected) matches(g got) bool {
	value, err := strconv.ParseFloat(want.Value.String(), 64)
	if err != nil || math.Float64bits(value) != math.Float64bits(g.value) {
		return false
	}
	if want.TS != nil {
		at, err := time.Parse(time.RFC3339Nano, *want.TS)
		if err != nil || !at.Equal(g.time) {
			return false
		}
	} else if !g.record {
		return false
	}
	named := func(name string) bool {
		return slices.ContainsFunc(g.texts, func(text string) bool { return strings.Contains(text, name) })
	}
	device := want.Device == nil || named(strings.TrimPrefix(*want.Device, "mote-"))
	metric := want.Metric[1+strings.LastIndexAny(want.Metric, ".:"):]
	return device && named(metric)
}
