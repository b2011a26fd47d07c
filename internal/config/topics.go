package config

import "strings"

// role is what a topic is used for. A topic has one role.
type role string

const (
	roleInput     role = "the input topic"
	roleOutput    role = "an output topic"
	roleLate      role = "the late topic"
	roleDead      role = "the dead letter topic"
	roleChangelog role = "the changelog"
	roleBetween   role = "the topic between two parts"
)

// topics gathers the job's topics with their roles.
type topics struct {
	d    *decoder
	uses []use
}

type use struct {
	topic string
	role  role
	key   string
	at    place
}

// need asks for a topic without a default.
func (t *topics) need(s *section, key string, r role) string {
	name, at := need(s, key, "name the topic", topic)
	t.add(s, key, name, r, at)
	return name
}

// get asks for a topic whose default is the job's name with an ending.
func (t *topics) get(s *section, key, job, ending string, r role, sp spec[string]) string {
	def := ""
	if job != "" {
		def = job + ending
	}
	name, at := getShown(s, key, def, "JOB"+ending, sp)
	t.add(s, key, name, r, at)
	return name
}

func (t *topics) add(s *section, key, name string, r role, at place) {
	if name != "" {
		t.uses = append(t.uses, use{name, r, join(s.path, key), at})
	}
}

// check refuses a topic with two roles, and two names that Kafka cannot tell apart in its metrics. Several aggregations
// may share an output: their results name them.
func (t *topics) check() {
	metric := strings.NewReplacer(".", "_")
	for i, b := range t.uses {
		for _, a := range t.uses[:i] {
			if metric.Replace(a.topic) == metric.Replace(b.topic) && (a.topic != b.topic || a.role != b.role) {
				t.clash(a, b)
				break
			}
		}
	}
}

// clash reports at the later of two uses, or at the one that was written when the other is a default.
func (t *topics) clash(a, b use) {
	if b.at.file == "" {
		a, b = b, a
	}
	at := b.at
	if at.file == "" {
		at = place{t.d.file, 0}
	}
	if a.topic == b.topic {
		t.d.add(at, b.key, wrongf("%s is %s already (%s, %v)", shown(b.topic), a.role, a.key, a.at).hinted("a topic has one role: name another one"))
		return
	}
	t.d.add(at, b.key, wrongf("%s and %s (%s, %v) differ in . and _ only: Kafka refuses one of them", shown(b.topic), shown(a.topic), a.key, a.at))
}
