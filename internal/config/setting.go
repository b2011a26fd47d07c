package config

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Setting is one value in force.
type Setting struct {
	Key    string // full path, for example aggregations[0].window.grace
	Value  string // as it would be written in the file; never a secret
	Source string // "default", file:line, or "environment"
}

// Settings lists every value in force, in the order of the reference page.
func (j *Job) Settings() []Setting { return j.settings }

// String is the configuration in force as YAML, each value with its source; read again it is the same job. Secrets are
// named, not shown.
func (j *Job) String() string {
	var b strings.Builder
	var open []string // the sections of the line before
	for _, s := range j.settings {
		path := strings.Split(s.Key, ".")
		sections := path[:len(path)-1]
		same := 0
		for same < len(sections) && same < len(open) && open[same] == sections[same] {
			same++
		}
		indent, dash := "", ""
		line := func(text string) {
			fmt.Fprintf(&b, "%s%s%s\n", indent[:len(indent)-len(dash)], dash, text)
			dash = ""
		}
		for i, name := range sections {
			name, index, listed := strings.Cut(name, "[")
			if i >= same && (!listed || index == "0]") {
				line(name + ":")
			}
			indent += "  "
			if listed {
				indent += "  "
			}
			if i >= same && listed {
				dash = "- "
			}
		}
		line(fmt.Sprintf("%s: %s  # %s", path[len(path)-1], s.Value, s.Source))
		open = sections
	}
	return b.String()
}

// set takes a value in force down. text is in the form of the file.
func (d *decoder) set(path, text string, at place) {
	d.settings = append(d.settings, Setting{Key: path, Value: text, Source: at.String()})
}

var plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*(:[0-9]+)?$`)

// quoted is a value in the form of the file. Text that YAML could take for something else is put in quotes.
func quoted(text string, k kind) string {
	if k != kindText {
		return text
	}
	switch strings.ToLower(text) {
	case "true", "false", "null", "yes", "no", "on", "off":
		return strconv.Quote(text)
	}
	if plainText.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}
