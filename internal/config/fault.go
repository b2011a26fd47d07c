package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File string // path of the file, or "environment"
	Line int    // 1 is the first; 0 when no line is concerned
	Key  string // full path, for example aggregations[0].window.tumbling; "" when the file as such is concerned
	What string // what is wrong, with value and allowed range
	Hint string // what to do, "" when What says it
}

// String is the fault in one line: file:line: key: what; hint.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	if f.Key != "" {
		b.WriteString(": " + f.Key)
	}
	b.WriteString(": " + f.What)
	if f.Hint != "" {
		b.WriteString("; " + f.Hint)
	}
	return b.String()
}

// Faults are all faults of a configuration, by file and line. It is the error of [Load].
type Faults []Fault

// Error lists the faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// sort puts the file before the environment, and the lines of the file in order.
func (f Faults) sort() {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(rank(a.File), rank(b.File)), cmp.Compare(a.Line, b.Line))
	})
}

func rank(file string) int {
	if file == environment {
		return 1
	}
	return 0
}

// wrong says what is wrong with one value, before it is known where the value stands.
type wrong struct {
	what, hint string
}

func wrongf(format string, args ...any) *wrong { return &wrong{what: fmt.Sprintf(format, args...)} }

func (w *wrong) hinted(format string, args ...any) *wrong {
	w.hint = fmt.Sprintf(format, args...)
	return w
}

// shown is a value as faults show it: quoted, and cut when it is long.
func shown(value string) string {
	const most = 60
	if len(value) > most {
		return fmt.Sprintf("%q...", strings.ToValidUTF8(value[:most], ""))
	}
	return fmt.Sprintf("%q", value)
}
