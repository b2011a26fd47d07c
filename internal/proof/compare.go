package proof

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// Expected is what the oracle computed of the whole input. It is used by one goroutine at a time.
type Expected struct {
	Config   *oracle.Config
	Outcomes []*oracle.Outcome // by input partition
	Pairs    []ExpectedPair    // of a job whose readings go through a relay, in place of the outcomes

	answers map[question]answer // kept from comparison to comparison: a deviation takes the oracle long
}

// question is one function of one value over the first n readings of a window.
type question struct {
	window   *oracle.Window
	value, n int
	function string
}

type answer struct {
	text      string
	whole     bool // a whole number of any size
	beyond    bool // the doubles
	unordered bool
}

// answer asks the oracle, unless it has been asked before.
func (e *Expected) answer(q question) answer {
	if a, known := e.answers[q]; known {
		return a
	}
	stats := q.window.Stats(q.value, q.n)
	text, whole := statText(stats, q.function)
	x, _ := stats.Function(q.function)
	a := answer{text: text, whole: whole, beyond: math.IsInf(x, 0),
		unordered: slices.Contains([]string{"delta", "rate", "time_mean"}, q.function) && stats.Unordered()}
	if e.answers == nil {
		e.answers = map[question]answer{}
	}
	e.answers[q] = a
	return a
}

// Expect lets the oracle judge an input topic, read to its end.
func Expect(config *oracle.Config, input [][]oracle.Message) *Expected {
	e := &Expected{Config: config}
	for p, messages := range input {
		e.Outcomes = append(e.Outcomes, config.Run(int32(p), oracle.Records(messages)))
	}
	return e
}

// Observed is what tidemark published. A nil part is not compared; an empty one is, and lacks everything.
type Observed struct {
	State    []Line         // `state dump`
	Results  []Line         // the result topics, final ones alone where there are others
	Updates  []Line         // all results of aggregations that publish some before the end, in the order of each partition
	Live     []oracle.Entry // the fold of the changelog, by a reader of its own
	Late     []Output       // the late topic
	Dead     []Output       // the dead letter topic
	Counters []Counters     // by input partition
	// Backwards are commits whose stream time or input position is below that of the one before.
	Backwards []string
	Pairs     []ObservedPair // of a job whose readings go through a relay, in place of live entries and counters
}

// Output is one record of the late or dead letter topic and the input record it stands for.
type Output struct {
	Partition   int32 // of the input
	Offset      int64 // of the input
	Key, Value  []byte
	Reason      string // dead letters
	Aggregation string // late readings, and what follows
	Start, End  int64  // of the window that was missed
	StreamTime  int64  // after the reading
}

// Counters are those of one task.
type Counters struct {
	Task         oracle.Counters
	Aggregations []oracle.AggregationCounters
	StreamTime   int64
}

// Compare returns every difference, windows first, in the order of (aggregation, key, start).
func Compare(want *Expected, got *Observed) []Anomaly {
	if want.Pairs != nil {
		return comparePairs(want, got)
	}
	c := comparison{want: want, got: got}
	windows := map[string]*oracle.Window{}
	for _, o := range want.Outcomes {
		for _, w := range o.Windows {
			windows[oracle.WindowID(w.Aggregation, w.Key, w.Start)] = w
		}
	}
	if got.State != nil {
		c.lines(windows, got.State, "state", false)
	}
	if got.Results != nil {
		c.lines(windows, got.Results, "results", true)
		c.current(got.Results)
	}
	if got.Updates != nil {
		c.updates(got.Updates)
	}
	if got.Live != nil {
		c.live(windows)
	}
	if got.Late != nil {
		c.outputs("late topic", c.expectedLate(), got.Late)
	}
	if got.Dead != nil {
		c.outputs("dead letter topic", c.expectedDead(), got.Dead)
	}
	if got.Counters != nil {
		c.counters()
	}
	for _, b := range got.Backwards {
		c.report(Stale, "changelog", "a stream time and an input position that never fall", b)
	}
	slices.SortStableFunc(c.found, func(a, b Anomaly) int {
		return cmp.Or(cmp.Compare(a.Aggregation, b.Aggregation), slices.Compare(a.Key, b.Key), cmp.Compare(a.Start, b.Start))
	})
	return c.found
}

type comparison struct {
	want  *Expected
	got   *Observed
	found []Anomaly

	newest map[string]int64 // start of the newest window of each aggregation and key
}

func (c *comparison) report(kind Kind, where string, want, found string) {
	c.found = append(c.found, Anomaly{Kind: kind, Where: where, Want: want, Found: found})
}

func (c *comparison) window(kind Kind, where string, w *oracle.Window, want, found string) {
	c.found = append(c.found, Anomaly{Kind: kind, Where: where, Aggregation: w.Aggregation, Key: w.Key, Start: w.Start,
		End: w.End, Want: want, Found: found})
}

// lines compares the lines of the state with the open windows, or those of the result topics with the due ones.
func (c *comparison) lines(windows map[string]*oracle.Window, lines []Line, where string, final bool) {
	seen := map[string]int{}
	for i := range lines {
		l := &lines[i]
		id := l.ID()
		seen[id]++
		w := windows[id]
		switch {
		case w == nil:
			c.window(Unknown, where, lineWindow(l), "no such window", l.Place)
		case seen[id] > 1:
			c.window(WindowTwice, where, w, "one", fmt.Sprintf("%d, the last one in %s", seen[id], l.Place))
		case w.Final && !final:
			c.window(Revived, where, w, "no entry: the window is due", l.Place)
		case !w.Final && final:
			c.window(Torn, where, w, "no result: the window is not due", l.Place)
		case final && !l.Final:
			c.window(WrongValue, where, w, "final: true", "no such field in "+l.Place)
		default:
			c.values(w, l, where)
		}
	}
	for id, w := range windows {
		if w.Final == final && seen[id] == 0 && (!final || !c.superseded(w)) {
			c.window(MissingWindow, where, w, fmt.Sprintf("count %d", len(w.Readings)), "nothing")
		}
	}
}

// lineWindow is the name of the window that a line is about.
func lineWindow(l *Line) *oracle.Window {
	return &oracle.Window{Aggregation: l.Aggregation, Key: l.Key, Start: l.Start, End: l.End}
}

// values compares the numbers of one window and gives the first difference a name.
func (c *comparison) values(w *oracle.Window, l *Line, where string) {
	difference := c.difference(w, l, len(w.Readings))
	if difference == "" {
		return
	}
	kind := WrongValue
	count := l.count()
	switch n := int64(len(w.Readings)); {
	case count > n:
		kind = Double
	case count >= 0 && count < n && c.difference(w, l, int(count)) == "":
		kind = Stale
	case count >= 0 && count < n:
		kind = Lost
	}
	want, found, _ := strings.Cut(difference, "\x00")
	c.window(kind, where, w, want, found+" in "+l.Place)
}

// count is the smallest count that the line shows, -1 when it shows none.
func (l *Line) count() int64 {
	least := int64(-1)
	for name, number := range l.Numbers {
		if name != "count" && !strings.HasSuffix(name, ".count") {
			continue
		}
		if n, err := strconv.ParseInt(number.Text, 10, 64); err == nil && (least < 0 || n < least) {
			least = n
		}
	}
	return least
}

// difference compares a line with the first n readings of a window; it is "" when they agree, else what was wanted and
// what was found, with a zero byte between them.
func (c *comparison) difference(w *oracle.Window, l *Line, n int) string {
	if n == 0 {
		return "no entry\x00a line"
	}
	if l.End != w.End {
		return fmt.Sprintf("end %d\x00end %d", w.End, l.End)
	}
	beyond, unordered := false, false
	for i, value := range c.want.Config.WindowValues() {
		for _, function := range c.functions(w.Aggregation) {
			name := function
			if len(c.want.Config.WindowValues()) > 1 {
				name = "values." + value + "." + function
			}
			got, there := l.Numbers[name]
			if !there {
				return fmt.Sprintf("a number %q\x00none", name)
			}
			want := c.want.answer(question{w, i, n, function})
			if !sameNumber(want.text, got, want.whole) {
				return fmt.Sprintf("%s %s\x00%s %s", name, want.text, name, got)
			}
			beyond, unordered = beyond || want.beyond, unordered || want.unordered
		}
	}
	if beyond != l.Overflow {
		return fmt.Sprintf("overflow %v\x00overflow %v", beyond, l.Overflow)
	}
	if unordered != l.Unordered {
		return fmt.Sprintf("unordered %v\x00unordered %v", unordered, l.Unordered)
	}
	return ""
}

func (c *comparison) functions(aggregation string) []string {
	for _, a := range c.want.Config.Aggregations {
		if a.Name == aggregation {
			return a.Functions
		}
	}
	return nil
}

// statText is the shortest text of a function's result that reads back as the same number; "null" for one beyond the
// doubles, or not defined. whole tells that it is a whole number of any size.
func statText(s oracle.Stats, function string) (text string, whole bool) {
	if function == "count" {
		return strconv.FormatInt(s.Count, 10), true
	}
	if text, ok := s.WholeText(function); ok {
		return text, true
	}
	x, ok := s.Function(function)
	if !ok {
		panic("the oracle does not know the function " + function)
	}
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return "null", false
	}
	return strconv.FormatFloat(x, 'g', -1, 64), false
}

// String is the number as it was written.
func (n Number) String() string {
	if n.Null {
		return "null"
	}
	return n.Text
}

// sameNumber compares bit for bit what two texts read back as; how a number is written is not the oracle's affair, but a
// whole number is written with all its digits.
func sameNumber(want string, got Number, whole bool) bool {
	if want == "null" || got.Null || whole {
		return want == got.String()
	}
	a, err1 := strconv.ParseFloat(want, 64)
	b, err2 := strconv.ParseFloat(got.Text, 64)
	return err1 == nil && err2 == nil && oracle.SameBits(a, b)
}

// live compares the entries that are alive in the changelog with the open windows, byte for byte.
func (c *comparison) live(windows map[string]*oracle.Window) {
	const where = "changelog"
	alive, remembered := map[string]bool{}, map[string]string{}
	for _, o := range c.want.Outcomes {
		maps.Copy(remembered, o.Remembered)
	}
	for _, e := range c.got.Live {
		id := oracle.WindowID(e.Aggregation, e.Key, e.Start)
		w := windows[id]
		value, known := remembered[id]
		delete(remembered, id)
		switch {
		case known && value == string(e.Value):
		case known:
			c.window(WrongValue, where, &oracle.Window{Aggregation: e.Aggregation, Key: e.Key, Start: e.Start}, fmt.Sprintf("%x", value), fmt.Sprintf("%x", e.Value))
		case w == nil:
			c.window(Unknown, where, &oracle.Window{Aggregation: e.Aggregation, Key: e.Key, Start: e.Start}, "no such window", "an entry")
		case alive[id]:
			c.window(WindowTwice, where, w, "one entry", "one in each of two partitions")
		case w.Final:
			c.window(Revived, where, w, "no entry: the window is due", "an entry")
		default:
			c.entry(w, e.Value)
		}
		alive[id] = true
	}
	for id, w := range windows {
		if !w.Final && !alive[id] {
			c.window(MissingWindow, where, w, "an entry", "nothing")
		}
	}
	for id := range remembered {
		c.report(Lost, where, "an entry that is no window: "+id, "nothing")
	}
}

// entry compares the bytes of one entry.
func (c *comparison) entry(w *oracle.Window, got []byte) {
	bytesAfter := func(n int) []byte {
		return w.EntryValue(n, len(c.want.Config.WindowValues()), c.functions(w.Aggregation))
	}
	want := bytesAfter(len(w.Readings))
	if bytes.Equal(got, want) {
		return
	}
	kind := WrongValue
	for n := 1; n < len(w.Readings) && kind != Stale; n++ {
		if bytes.Equal(got, bytesAfter(n)) {
			kind = Stale
		}
	}
	c.window(kind, "changelog", w, fmt.Sprintf("%x", want), fmt.Sprintf("%x", got))
}
