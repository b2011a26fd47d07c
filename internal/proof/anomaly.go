package proof

import (
	"fmt"
	"strings"
	"time"
)

// Kind names what is wrong.
type Kind string

// The anomalies. Want is what the oracle computed, found what was observed.
const (
	// Lost: a window, a late topic or a dead letter topic lacks a reading that was taken in.
	Lost Kind = "lost"
	// Double: a reading was counted, or written to the late or dead letter topic, more than once.
	Double Kind = "double"
	// Revived: state holds a window whose final result was published; nothing may be alive after its end.
	Revived Kind = "revived"
	// MissingWindow: a window that must be in the state or among the results is nowhere.
	MissingWindow Kind = "missing window"
	// WindowTwice: more than one final result, or more than one live entry, for one window of one key (I10).
	WindowTwice Kind = "window twice"
	// Torn: a part of a commit is visible without the others (I3): a result of a window that is not due, counters that
	// do not add up (I9), a dump that differs from the changelog it is made of.
	Torn Kind = "torn"
	// Stale: a window stands exactly where it stood some readings ago; what came after was forgotten.
	Stale Kind = "stale"
	// WrongValue: nothing is lost or double, and a number, a reason or a byte differs all the same.
	WrongValue Kind = "wrong value"
	// Unknown: a window, late reading or dead letter for which there was no input.
	Unknown Kind = "unknown"
)

// Anomaly is one difference, in the smallest words that show it.
type Anomaly struct {
	Kind        Kind
	Where       string // where it was seen: "state", "results", a topic, "changelog", "counters"
	Aggregation string // "" when no window is concerned
	Key         []string
	Start, End  int64 // ms
	Want, Found string
}

// String is the anomaly in one line.
func (a Anomaly) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s", a.Kind, a.Where)
	if a.Aggregation != "" {
		fmt.Fprintf(&b, ": %s %q [%s, %s)", a.Aggregation, a.Key, utc(a.Start), utc(a.End))
	}
	return fmt.Sprintf("%s: want %s, found %s", b.String(), a.Want, a.Found)
}

func utc(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z") }

// Report says what is wrong in at most limit lines, with the count of each kind first; "" when nothing is.
func Report(anomalies []Anomaly, limit int) string {
	if len(anomalies) == 0 {
		return ""
	}
	var order []Kind
	count := map[Kind]int{}
	for _, a := range anomalies {
		if count[a.Kind] == 0 {
			order = append(order, a.Kind)
		}
		count[a.Kind]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d anomalies:", len(anomalies))
	for _, k := range order {
		fmt.Fprintf(&b, " %d %s;", count[k], k)
	}
	for i, a := range anomalies {
		if i == limit {
			fmt.Fprintf(&b, "\n  ... and %d more", len(anomalies)-limit)
			break
		}
		fmt.Fprintf(&b, "\n  %s", a)
	}
	return b.String()
}
