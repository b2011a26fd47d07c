package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/reading"
)

// Rekey says that the input is not partitioned by the keys of the aggregations: a relay hands each reading on under its
// key, by way of a topic that tidemark makes (R3).
type Rekey struct {
	On         bool
	Partitions int // of that topic; 0: as many as the input has when it is made
}

// Parts are the jobs that a configuration with input.rekey consists of, each with a name, a group, a changelog and a state
// directory of its own: for each key that aggregations have, a relay and the job that aggregates what it hands on. The
// relays come first. Without input.rekey it is the job itself.
func (j *Job) Parts() []*Job {
	if !j.Input.Rekey.On {
		return []*Job{j}
	}
	var relays, rest []*Job
	for i, key := range j.keys() {
		suffix := j.suffix(key)
		between := j.between(key)
		own := *j
		relay, relayed := &own, j.part(key)
		if suffix != "" {
			relay.HandOn = key
		}
		relay.Quiet = i > 0 // all relays refuse the same readings, so that one letter of each is enough
		relay.Part, relayed.Part = job.Relay, job.Relayed
		relay.Name, relayed.Name = j.Name+"-rekey"+suffix, j.Name+suffix
		relay.Changelog.Topic, relayed.Changelog.Topic = j.Changelog.Topic+"-rekey"+suffix, j.Changelog.Topic+suffix
		relay.State.Dir = filepath.Join(j.State.Dir, "rekey"+suffix)
		if suffix != "" {
			relayed.State.Dir = filepath.Join(j.State.Dir, suffix[1:])
		}
		relay.Aggregations, relay.Between, relay.Late, relay.Input.PartitionedBy = nil, between, "", nil
		relay.Input.Quorum, relay.Input.MaxLag, relay.IdleClose, relay.Dedup = 0, 0, 0, 0 // whose windows stream time closes are the other's
		relayed.Aggregations = slices.DeleteFunc(slices.Clone(j.Aggregations), func(a Aggregation) bool { return !slices.Equal(j.KeyOf(&a), key) })
		relayed.Input.Topic, relayed.Input.Start, relayed.Input.PartitionedBy, relayed.Input.Partitioner = between, Start{}, nil, job.Murmur2
		relays, rest = append(relays, relay), append(rest, relayed)
	}
	return append(relays, rest...)
}

// part is a copy of the job with the key fields named.
func (j *Job) part(key []string) *Job {
	p := *j
	f := &p.Input.Format
	f.Key, f.Parts = key, nil
	if j.Input.Format.Parts != nil {
		f.Parts = make([]reading.Part, len(key))
		for i, name := range key {
			f.Parts[i] = j.Input.Format.Parts[slices.Index(j.Input.Format.Key, name)]
		}
	}
	return &p
}

// keys are the different keys of the aggregations, in the order in which they come.
func (j *Job) keys() (keys [][]string) {
	for i := range j.Aggregations {
		key := j.KeyOf(&j.Aggregations[i])
		if !slices.ContainsFunc(keys, func(k []string) bool { return slices.Equal(k, key) }) {
			keys = append(keys, key)
		}
	}
	return keys
}

// suffix tells the parts of one key from those of another: nothing for input.key, else the names of its fields, with what
// Kafka does not take in a topic's name replaced.
func (j *Job) suffix(key []string) string {
	if slices.Equal(key, j.Input.Format.Key) {
		return ""
	}
	plain := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '.' {
			return r
		}
		return '-'
	}
	return "-by-" + strings.Map(plain, strings.Join(key, "-"))
}

// maxFormer bounds the fields of input.key of which all keys are made for Keyed: 4 make 64.
const maxFormer = 4

// Keyed is a key that aggregations may have, and the changelog of those that have it.
type Keyed struct {
	Key       []string
	Changelog string
}

// Keyed are the keys that aggregations have, and those that they may have had before: every choice of the fields of
// input.key in every order, where these are few. Without input.rekey there is one.
func (j *Job) Keyed() (all []Keyed) {
	add := func(key []string) {
		changelog := j.Changelog.Topic + j.suffix(key)
		if !slices.ContainsFunc(all, func(k Keyed) bool { return k.Changelog == changelog }) {
			all = append(all, Keyed{key, changelog})
		}
	}
	add(j.Input.Format.Key)
	for _, key := range j.keys() {
		add(key)
	}
	if !j.Input.Rekey.On || len(j.Input.Format.Key) > maxFormer {
		return all
	}
	var choose func(key []string)
	choose = func(key []string) {
		for _, name := range j.Input.Format.Key {
			if !slices.Contains(key, name) {
				longer := append(slices.Clone(key), name)
				add(longer)
				choose(longer)
			}
		}
	}
	choose(nil)
	return all
}

// KeyOf is the key of an aggregation: that of the input by default.
func (j *Job) KeyOf(a *Aggregation) []string {
	if a.Key == nil {
		return j.Input.Format.Key
	}
	return a.Key
}

// between is the topic between the two parts of a key.
func (j *Job) between(key []string) string { return j.Name + "-keyed" + j.suffix(key) }

// aggregationKey asks for the key of an aggregation: that of the input by default.
func (s *section) aggregationKey(a *Aggregation) {
	const want = "a list of fields of input.key"
	if !s.has("key") {
		s.find("key", known{def: asKey, want: want})
		return
	}
	var at []place
	a.Key, at = list(s, "key", want, "leave it out for all of them", anyText)
	if len(at) > 0 {
		s.d.keyAt[join(s.path, "key")] = at[0]
	}
}

// parts refuses keys that need a relay which is not there, and names that the parts would take from others.
func (d *decoder) parts(j *Job, topics *topics) {
	names, wrong := map[string][]string{}, len(j.Aggregations) == 0
	for i := range j.Aggregations {
		a := &j.Aggregations[i]
		key := j.KeyOf(a)
		path := fmt.Sprintf("aggregations[%d].key", i)
		at := d.keyAt[path]
		foreign := slices.DeleteFunc(slices.Clone(a.Key), func(name string) bool { return slices.Contains(j.Input.Format.Key, name) })
		if len(foreign) > 0 && len(j.Input.Format.Key) > 0 {
			d.add(at, path, wrongf("%s is not one of the fields of input.key (%s)", shown(foreign[0]), strings.Join(j.Input.Format.Key, ", ")).
				hinted("name it there too: input.key holds the fields of all keys"))
			wrong = true
			continue
		}
		if !slices.Equal(key, j.Input.Format.Key) && !j.Input.Rekey.On {
			d.add(at, path, wrongf("%s, but the input is partitioned by %s", strings.Join(key, ", "), strings.Join(j.Input.Format.Key, ", ")).
				hinted("write  rekey: true  below input: readings then go to the tasks of their key first"))
			continue
		}
		suffix := j.suffix(key)
		if other, ok := names[suffix]; ok && !slices.Equal(other, key) {
			d.add(at, path, wrongf("%q and %q would have the same topics", key, other).hinted("rename a key field"))
		}
		names[suffix] = key
		if j.Dedup > 0 && len(key) < len(j.Input.Format.Key) {
			d.add(at, path, wrongf("%s, beside dedup: readings of different devices at one time would be repetitions of each other", strings.Join(key, ", ")).
				hinted("give this aggregation a job of its own, without dedup"))
		}
	}
	if !j.Input.Rekey.On || wrong {
		return
	}
	at := d.keyAt["input.rekey"]
	for _, p := range j.Parts() {
		add := func(name string, r role) {
			if _, w := topic.parse(name); w != nil {
				d.add(at, "input.rekey", w)
			}
			topics.uses = append(topics.uses, use{name, r, "input.rekey", at})
		}
		if p.Changelog.Topic != j.Changelog.Topic {
			add(p.Changelog.Topic, roleChangelog)
		}
		if p.Part == job.Relay {
			add(p.Between, roleBetween)
		}
	}
}
