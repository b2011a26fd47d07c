package job

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/spelling"
	"github.com/tidemark-streams/tidemark/reading"
)

// The bounds of a search for a name: it is a hint, and no record may make it dear (I13).
const (
	nearBytes    = 64 << 10
	nearPaths    = 1000
	nearDepth    = 16
	nearElements = 3
)

// Near returns the path that was probably meant by a field for which a record was refused, in the words of its dead letter:
// that of a name which is written a little differently, else of the same name elsewhere in the record; "" for none. It is for
// refusals that are told to people, not for each.
func (c *Config) Near(reason, field string, value []byte) string {
	if reason != reading.MissingField.String() || field == "" {
		return "" // the others are there
	}
	return c.near(value, field)
}

// Near is that of the job's Config.
func (j *Job) Near(reason, field string, value []byte) string {
	return j.config.Near(reason, field, value)
}

// near is Near for a path. In a document of several readings it may begin at any member, as paths of Format.Each do.
func (c *Config) near(document []byte, path string) string {
	var root any
	if len(document) > nearBytes || json.Unmarshal(document, &root) != nil {
		return ""
	}
	whole, wanted := "", path
	inItems := c.Format.Each != ""
	if rest, found := strings.CutPrefix(path, "$."); found {
		whole, wanted, inItems = "$.", rest, false
	}
	f := nearFinder{}
	f.walk(root, nil)
	candidates := f.paths
	if inItems {
		candidates = f.tails(len(splitPath(wanted)))
	}
	candidates = slices.DeleteFunc(candidates, func(p string) bool { return p == wanted })
	if near := spelling.Nearest(wanted, candidates); near != "" {
		return whole + near
	}
	if inItems {
		return ""
	}
	last := splitPath(wanted)
	for _, p := range candidates {
		if steps := splitPath(p); strings.EqualFold(steps[len(steps)-1], last[len(last)-1]) {
			return whole + p
		}
	}
	return ""
}

// nearFinder lists the paths of a document.
type nearFinder struct{ paths []string }

func (f *nearFinder) walk(v any, steps []string) {
	if len(steps) > nearDepth || len(f.paths) >= nearPaths {
		return
	}
	if len(steps) > 0 {
		f.paths = append(f.paths, strings.Join(steps, "."))
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			f.walk(v[name], append(slices.Clip(steps), pathEscapes.Replace(name)))
		}
	case []any:
		for i, element := range v[:min(len(v), nearElements)] {
			f.walk(element, append(slices.Clip(steps), strconv.Itoa(i)))
		}
	}
}

// tails are the last n steps of each path that has so many, each once.
func (f *nearFinder) tails(n int) (tails []string) {
	seen := map[string]bool{}
	for _, p := range f.paths {
		steps := splitPath(p)
		if len(steps) < n {
			continue
		}
		if tail := strings.Join(steps[len(steps)-n:], "."); !seen[tail] {
			seen[tail] = true
			tails = append(tails, tail)
		}
	}
	return tails
}

// pathEscapes makes a name one step of a path.
var pathEscapes = strings.NewReplacer(`\`, `\\`, `.`, `\.`, `*`, `\*`)

// splitPath splits a path into its steps, which stay escaped.
func splitPath(path string) (steps []string) {
	begin := 0
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			i++
		case '.':
			steps, begin = append(steps, path[begin:i]), i+1
		}
	}
	return append(steps, path[begin:])
}
