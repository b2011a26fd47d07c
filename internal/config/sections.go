package config

import (
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/window"
)

// maxAggregations is as many as a commit record may hold.
const maxAggregations = 256

func (d *decoder) aggregations(root *section, topics *topics) (all []Aggregation) {
	const hint = "name at least one, as  aggregations: [{name: hourly, window: {tumbling: 1h}, functions: [count], output: {topic: hourly}}]"
	v, ok := root.find("aggregations", known{})
	d.aggregation(&section{d: d, path: "aggregations[0]", listed: true, off: true}, topics) // its keys are known in any case
	switch {
	case !ok:
		d.add(root.at, "aggregations", wrongf("is missing").hinted("%s", hint))
	case v.kind == kindMap:
		d.add(v.at, v.key, wrongf("holds keys, want a list").hinted("put  -  before each aggregation"))
	case v.kind != kindList:
		d.add(v.at, v.key, wrongf("holds %v, want a list", v.kind).hinted("%s", hint))
	case len(v.items) == 0 || len(v.items) > maxAggregations:
		d.add(v.at, v.key, wrongf("the list has %d aggregations, want 1 to %d", len(v.items), maxAggregations))
	}
	names := map[string]place{}
	for i, item := range v.items {
		path := fmt.Sprintf("aggregations[%d]", i)
		if item.kind != kindMap {
			d.add(place{d.file, item.line}, path, wrongf("holds %v, want keys", item.kind))
			continue
		}
		s := &section{d: d, path: path, at: place{d.file, item.line}, pairs: item.pairs, written: true, listed: true}
		a, at := d.aggregation(s, topics)
		if first, ok := names[a.Name]; ok && a.Name != "" {
			d.add(at, path+".name", wrongf("%s is the name of another aggregation already (%v)", shown(a.Name), first).
				hinted("state is kept by name: each needs its own"))
		}
		names[a.Name] = at
		all = append(all, a)
	}
	for i, a := range all {
		for _, b := range all {
			if a.Current && a.Output != "" && a.Output == b.Output && a.Name != b.Name {
				d.add(names[a.Name], fmt.Sprintf("aggregations[%d].output.topic", i), wrongf("%s holds the current values of this aggregation, and %s writes to it too",
					shown(a.Output), shown(b.Name)).hinted("the last record of a key would be of either: give it a topic of its own"))
			}
		}
	}
	return all
}

func (d *decoder) aggregation(s *section, topics *topics) (a Aggregation, named place) {
	a.Name, named = need(s, "name", "name the aggregation, as  name: hourly", name("aggregation"))
	s.aggregationKey(&a)
	d.window(s, &a)
	functions, _ := list(s, "functions", "a list of "+oneOf(aggregate.Words()), "name them, as  functions: [count, mean]", function)
	for _, f := range functions {
		a.Functions |= f.functions
		a.Percents |= f.percents
	}
	out := s.section("output", "{topic: TOPIC}")
	a.Output = topics.need(out, "topic", roleOutput)
	emit, _ := get(out, "emit", "final", word([]string{"final", "updates"}))
	mode, _ := get(out, "mode", "log", word([]string{"log", "current"}))
	a.Updates, a.Current = emit == "updates", mode == "current"
	out.close()
	s.later("where")
	s.close()
	return a, named
}

func (d *decoder) changelog(root *section, topics *topics, j *Job) (c Changelog) {
	s := root.section("changelog", "{topic: TOPIC}")
	var rfAt, minAt place
	c.Topic = topics.get(s, "topic", j.Name, "-changelog", roleChangelog, topic)
	c.ReplicationFactor, rfAt = get(s, "replication_factor", "0", whole(0, 1000))
	c.MinInsyncReplicas, minAt = get(s, "min_insync_replicas", "0", whole(0, 1000))
	s.close()
	switch {
	case c.ReplicationFactor > 1 && j.Kafka.Embedded:
		d.add(rfAt, "changelog.replication_factor", wrongf("%d, but the embedded broker is alone", c.ReplicationFactor).hinted("want 0 or 1"))
	case c.ReplicationFactor > 0 && c.MinInsyncReplicas > c.ReplicationFactor:
		d.add(minAt, "changelog.min_insync_replicas", wrongf("%d, more than changelog.replication_factor, %d: nothing could be written", c.MinInsyncReplicas, c.ReplicationFactor))
	}
	if c.ReplicationFactor > 0 && c.ReplicationFactor < 3 && !j.Kafka.Embedded {
		d.warn(rfAt, "changelog.replication_factor", "%d: below 3, the loss of a broker can stop the job or lose its state", c.ReplicationFactor)
	}
	if c.MinInsyncReplicas == 1 && !j.Kafka.Embedded {
		d.warn(minAt, "changelog.min_insync_replicas", "1: below 2, a commit can be lost with one broker")
	}
	return c
}

// operation asks for the keys that say nothing about results: how the job is run.
func (d *decoder) operation(root *section, j *Job) {
	s := root.section("state", "{dir: DIRECTORY}")
	j.State.Dir, _ = get(s, "dir", "./state", anyText)
	get(s, "store", "memory", word([]string{"memory"}, "disk"))
	j.State.MaxBytes, _ = get(s, "max_bytes", "auto", maxBytes)
	s.close()

	s = root.section("commit", "{interval: 100ms}")
	interval, _ := get(s, "interval", "100ms", duration(window.Range{Min: 1, Max: window.Minute}))
	j.Commit.Interval = time.Duration(interval) * time.Millisecond
	j.Commit.MaxRecords, _ = get(s, "max_records", "50000", whole(4, 10_000_000))
	j.Commit.MaxBytes, _ = get(s, "max_bytes", "16MiB", size(64<<10, 1<<30))
	j.Commit.MaxPerSecond, _ = get(s, "max_per_second", "0", whole(0, 100_000))
	s.close()

	s = root.section("checkpoint", "{interval: 30s}")
	checkpoint, _ := get(s, "interval", "30s", duration(window.Range{Min: 100, Max: 24 * window.Hour}))
	j.Checkpoint = time.Duration(checkpoint) * time.Millisecond
	s.later("max_write_rate")
	s.close()

	s = root.section("recovery", "{target: 10s}")
	s.later("target")
	s.close()

	shutdown, _ := get(root, "shutdown", "stay", word([]string{"stay", "leave"}))
	j.Leave = shutdown == "leave"

	s = root.section("http", "{listen: ADDRESS}")
	j.Listen, _ = get(s, "listen", `""`, listen)
	s.later("token_file", "token_env")
	s.close()
}

// maxBytes is a size, or auto.
var maxBytes = func() spec[int64] {
	sp := size(1<<20, 1<<50)
	sized := sp.parse
	sp.want += ", or auto: 60 % of the memory limit"
	sp.parse = func(text string) (int64, *wrong) {
		if text == "auto" {
			return 0, nil
		}
		return sized(text)
	}
	return sp
}()
