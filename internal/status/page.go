package status

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page and its style are part of the program
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

// styleHash names the one style that a browser may use: nothing is loaded, and nothing written into the page by a name
// or a key could take effect (D25).
var styleHash = func() string {
	sum := sha256.Sum256([]byte(styleText))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

// maxShown bounds the lists of the page beside the table of tasks; /status has everything.
const maxShown = 50

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"style":   func() template.CSS { return template.CSS(styleText) },
	"clock":   clock,
	"event":   eventTime,
	"since":   since,
	"span":    span,
	"size":    size,
	"count":   count,
	"records": records,
	"clean":   clean,
	"idle":    func(t Task) bool { return t.idle() },
	"waiting": waiting,
	"limit":   func(all []Reason) []Reason { return all[:min(len(all), maxShown)] },
	"over":    func(all []Reason) int { return max(0, len(all)-maxShown) },
}).Parse(pageText))

// writePage answers with the page.
func writePage(w http.ResponseWriter, s *Status) {
	var b bytes.Buffer
	if err := page.Execute(&b, s); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // whoever asked has gone; there is nobody to tell
}

// next is one aggregation of one task with its next close.
type next struct {
	Partition int32
	Name      string
	NextClose *int64
}

// waiting lists which open windows wait for which event time: the answer to "why is there no output?" (W05).
func waiting(tasks []Task) (all []next) {
	for i := range tasks {
		for _, a := range tasks[i].Aggregations {
			if a.NextClose != nil && len(all) < maxShown {
				all = append(all, next{tasks[i].Partition, a.Name, a.NextClose})
			}
		}
	}
	return all
}

// idle tells that a task has committed all there is (W03).
func (t *Task) idle() bool {
	return t.State == Running && t.Lag != nil && *t.Lag == 0 && t.DueWindows == 0
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// eventTime shows ms since 1970.
func eventTime(ms *int64) string {
	if ms == nil {
		return "none"
	}
	return time.UnixMilli(*ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// since is how long ago something was, in seconds.
func since(now time.Time, then any) float64 {
	at, _ := then.(time.Time)
	if p, ok := then.(*time.Time); ok {
		at = *p
	}
	return now.Sub(at).Seconds()
}

// span shows seconds with about two digits.
func span(s float64) string {
	switch {
	case s < 0.0005:
		return "0 s"
	case s < 1:
		return fmt.Sprintf("%.0f ms", s*1000)
	case s < 10:
		return fmt.Sprintf("%.1f s", s)
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.0f h", s/3600)
	}
	return fmt.Sprintf("%.0f days", s/86400)
}

// size shows bytes.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}

func count(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return strconv.FormatInt(*n, 10)
}

// records is count with its unit, where there is a number.
func records(n *int64) string {
	if n == nil {
		return count(n)
	}
	return count(n) + " records"
}

// Estimate is how long a recovery after a crash would take, in words: a process without tasks has nothing to recover.
func (s *Status) Estimate() string {
	if len(s.Tasks) == 0 {
		return "-"
	}
	return "about " + span(s.EstimatedRecovery)
}

// NoTasks says why there are no tasks.
func (s *Status) NoTasks() string {
	if w := s.Waiting; w != nil {
		return "no tasks yet: waiting for " + clean(w.What)
	}
	return "no tasks: the group has given this process no partition"
}

// Text makes text of bytes that came from outside, for a field of a Status.
func Text(bytes []byte) string { return clean(string(bytes)) }

// clean makes text of bytes that came from outside: what is no text, or steers a terminal, is written as \xNN.
func clean(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			for _, c := range []byte(text[i : i+n]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		} else {
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}
