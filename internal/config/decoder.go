package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/spelling"
)

// environment stands in place of a file name for what the environment says.
const environment = "environment"

// prefix begins the name of every variable that is read.
const prefix = "TIDEMARK_"

// foreign are variables, or beginnings of them, that look like settings and are none: they steer tests.
var foreign = []string{
	"TIDEMARK_TEST_", "TIDEMARK_CRASH", "TIDEMARK_FAKE_", "TIDEMARK_BENCH_", "TIDEMARK_SEED", "TIDEMARK_SWEEP", "TIDEMARK_DATA", "TIDEMARK_REALDATA",
}

// place is where something was said.
type place struct {
	file string // "" for a default
	line int
}

// String is the place as settings name their source.
func (p place) String() string {
	switch {
	case p.file == "":
		return "default"
	case p.line == 0:
		return p.file
	}
	return fmt.Sprintf("%s:%d", p.file, p.line)
}

// known is what the code knows of a key. The reference page is compared with it.
type known struct {
	variable string // of the environment, "" for none
	def      string // default as written, "" for none
	want     string // what is allowed, in words
	later    bool   // a later version will have it
}

// decoder walks the document. Every key that it asks for is noted as known; what it never asked for is unknown.
type decoder struct {
	file     string
	environ  map[string]string // all of the environment
	used     map[string]bool   // variables that were read, or name a secret
	faults   Faults
	settings []Setting
	keys     map[string]known // by path without indexes: aggregations[].name
	order    []string         // of keys
	strays   []stray
	warnings Faults
	keyAt    map[string]place // where aggregations name keys of their own, by path

	idle   time.Duration // input.time.idle_close, and where it stands
	idleAt place
}

// stray is a key of the document that nobody asked for.
type stray struct {
	pair   pair
	path   string   // full
	near   []string // the keys that there are in its place
	hidden bool     // its value may be a secret
}

func newDecoder(file string, environ []string) *decoder {
	d := &decoder{file: file, environ: map[string]string{}, used: map[string]bool{}, keys: map[string]known{}, keyAt: map[string]place{}}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			d.environ[name] = value
		}
	}
	return d
}

func (d *decoder) add(at place, key string, w *wrong) {
	d.faults = append(d.faults, Fault{File: at.file, Line: at.line, Key: key, What: w.what, Hint: w.hint})
}

// warn takes down what is allowed and still deserves a look.
func (d *decoder) warn(at place, key, format string, args ...any) {
	d.warnings = append(d.warnings, Fault{File: cmp.Or(at.file, d.file), Line: at.line, Key: key, What: fmt.Sprintf(format, args...)})
}

// note takes a key down as known, the first time it is met.
func (d *decoder) note(path string, k known) {
	plain := withoutIndexes(path)
	if _, ok := d.keys[plain]; !ok {
		d.keys[plain] = k
		d.order = append(d.order, plain)
	}
}

var indexes = regexp.MustCompile(`\[\d+\]`)

func withoutIndexes(path string) string { return indexes.ReplaceAllString(path, "[]") }

// finish reports what nobody asked for. It comes last, when all keys are known.
func (d *decoder) finish() {
	for _, s := range d.strays {
		d.add(place{d.file, s.pair.line}, s.path, d.unknown(s))
	}
	var variables []string
	for _, k := range d.keys {
		if k.variable != "" {
			variables = append(variables, k.variable)
		}
	}
	slices.Sort(variables)
	for _, name := range slices.Sorted(maps.Keys(d.environ)) {
		if !strings.HasPrefix(name, prefix) || d.used[name] || isForeign(name) {
			continue
		}
		w := wrongf("no key has this variable").hinted("unset it; variables are named like TIDEMARK_COMMIT_INTERVAL, for keys outside lists")
		if near := spelling.Nearest(name, variables); near != "" {
			w.hinted("did you mean %s?", near)
		}
		d.add(place{file: environment}, name, w)
	}
	d.faults.sort()
	d.warnings.sort()
}

func isForeign(name string) bool {
	return slices.ContainsFunc(foreign, func(begin string) bool { return strings.HasPrefix(name, begin) })
}

// elsewhere says what other systems' words are called here.
var elsewhere = map[string]string{
	"size":              "a window of equal size is  window: {tumbling: 1h}",
	"gap":               "a session window is  window: {session: 30s}",
	"advance":           "a hopping window is  window: {hopping: 10s, step: 3s}",
	"bootstrap_servers": "brokers are  kafka: {brokers: [HOST:PORT]}",
	"group_id":          "the group is named after the job",
	"time_unit":         "the unit is  input: {time: {unit: ms}}",
}

// unknown says what an unknown key may have been meant to be.
func (d *decoder) unknown(s stray) *wrong {
	w := wrongf("unknown key")
	if value := s.pair.value; !s.hidden && (value.kind == kindText || value.kind == kindNumber || value.kind == kindTruth) {
		w = wrongf("unknown key, with the value %s", shown(value.text))
	}
	name := s.pair.name
	if near := spelling.Nearest(name, s.near); near != "" {
		return w.hinted("did you mean %s?", near)
	}
	if word, ok := elsewhere[strings.ReplaceAll(strings.ToLower(name), ".", "_")]; ok {
		return w.hinted("%s", word)
	}
	for _, path := range d.order {
		if path == name || strings.HasSuffix(path, "."+name) {
			return w.hinted("did you mean %s?", path)
		}
	}
	if len(s.near) == 0 {
		return w
	}
	return w.hinted("there are %s", strings.Join(s.near, ", "))
}

var secretive = regexp.MustCompile(`(?i)pass|secret|token|credential|key_?data|sasl`)
