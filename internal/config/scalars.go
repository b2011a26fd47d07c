package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/spelling"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// anyText is text that is not empty.
var anyText = spec[string]{kind: kindText, want: "text", parse: func(text string) (string, *wrong) {
	if text == "" {
		return "", wrongf("is empty").hinted("want text")
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", wrongf("%s holds a control character, or is not UTF-8", shown(text))
	}
	return text, nil
}}

// truth is true or false.
var truth = spec[bool]{kind: kindTruth, want: "true or false", parse: func(text string) (bool, *wrong) {
	if text != "true" && text != "false" {
		return false, wrongf("%s is neither true nor false", shown(text))
	}
	return text == "true", nil
}}

// duration is a time span in whole ms.
func duration(allowed window.Range) spec[int64] {
	return spec[int64]{kind: kindUnits, want: allowed.String(), parse: func(text string) (int64, *wrong) {
		ms, err := window.ParseDuration(text, allowed)
		if err == nil {
			return ms, nil
		}
		w := wrongf("%v", err)
		if _, numeric := strconv.ParseUint(text, 10, 64); numeric == nil && text != "0" {
			w.hinted("did you mean %ss or %sms?", text, text)
		}
		return 0, w
	}}
}

// sizeUnits are the units of sizes.
var sizeUnits = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}}

// size is a number of bytes: 16MiB, or 16777216 without a unit.
func size(least, most int64) spec[int64] {
	want := fmt.Sprintf("%s to %s", formatSize(least), formatSize(most))
	return spec[int64]{kind: kindUnits, want: want, parse: func(text string) (int64, *wrong) {
		bytes, fault := parseSize(text)
		switch {
		case fault != "":
		case bytes < least:
			fault = "is too small"
		case bytes > most:
			fault = "is too large"
		default:
			return bytes, nil
		}
		return 0, wrongf("size %s %s: want %s, written like 64KiB or 16MiB", shown(text), fault, want)
	}}
}

func parseSize(text string) (bytes int64, fault string) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	if digits == 0 {
		return 0, "does not begin with a whole number"
	}
	unit := int64(1)
	if name := text[digits:]; name != "" {
		i := slices.IndexFunc(sizeUnits, func(u struct {
			name  string
			bytes int64
		}) bool {
			return u.name == name
		})
		if i < 0 {
			return 0, fmt.Sprintf("has the unit %s, known are B, KiB, MiB, GiB, TiB", shown(name))
		}
		unit = sizeUnits[i].bytes
	}
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return math.MaxInt64, ""
	}
	return n * unit, ""
}

func formatSize(bytes int64) string {
	for _, unit := range slices.Backward(sizeUnits[:4]) {
		if bytes != 0 && bytes%unit.bytes == 0 {
			return strconv.FormatInt(bytes/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}

// whole is a whole number.
func whole(least, most int) spec[int] {
	want := fmt.Sprintf("%d to %d", least, most)
	return spec[int]{kind: kindNumber, want: want, parse: func(text string) (int, *wrong) {
		n, err := strconv.Atoi(text)
		switch {
		case errors.Is(err, strconv.ErrRange) || err == nil && (n < least || n > most):
			return 0, wrongf("%s is outside %s", text, want)
		case err != nil || text != strconv.Itoa(n):
			return 0, wrongf("%s is not a plain whole number: want %s", shown(text), want)
		}
		return n, nil
	}}
}

// word is one of a few words. Words after "later:" are known, but not in this version.
func word(now []string, later ...string) spec[string] {
	want := oneOf(now)
	return spec[string]{kind: kindText, want: want, parse: func(text string) (string, *wrong) {
		switch {
		case slices.Contains(now, text):
			return text, nil
		case slices.Contains(later, text):
			return "", wrongf("%s is not yet in this version: want %s", shown(text), want)
		}
		w := wrongf("%s is not known: want %s", shown(text), want)
		if near := spelling.Nearest(text, slices.Concat(now, later)); near != "" {
			w.hinted("did you mean %s?", near)
		}
		return "", w
	}}
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

const nameCharacters = "letters, digits, . _ and -"

var nameForm = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// topic is the name of a Kafka topic.
var topic = spec[string]{kind: kindText, want: "1 to 249 " + nameCharacters, parse: func(text string) (string, *wrong) {
	switch {
	case text == "":
		return "", wrongf("the topic's name is empty")
	case !nameForm.MatchString(text) || text == "." || text == ".." || len(text) > maxTopic:
		return "", wrongf("topic %s is no name that Kafka allows: want 1 to 249 %s", shown(text), nameCharacters)
	case strings.HasPrefix(text, "__"):
		return "", wrongf("topic %s: names that begin with __ belong to Kafka itself", shown(text))
	}
	return text, nil
}}

// topicOrEmpty is a topic, or "" for none.
var topicOrEmpty = spec[string]{kind: kindText, want: topic.want + ", or empty", parse: func(text string) (string, *wrong) {
	if text == "" {
		return "", nil
	}
	return topic.parse(text)
}}

// Names become parts of topic names, keys and directories.
const (
	maxTopic = 249
	maxName  = 128
)

// name is the name of a job or of an aggregation.
func name(what string, reserved ...string) spec[string] {
	want := fmt.Sprintf("1 to %d %s, a letter or digit first", maxName, nameCharacters)
	return spec[string]{kind: kindText, want: want, parse: func(text string) (string, *wrong) {
		switch {
		case !nameForm.MatchString(text) || len(text) > maxName || strings.ContainsAny(text[:1], "._-"):
			return "", wrongf("%s %s: want %s", what, shown(text), want)
		case slices.Contains(reserved, strings.ToLower(text)):
			return "", wrongf("%s %s: the state directory holds a file of this name", what, shown(text)).hinted("want another name than %s", oneOf(reserved))
		}
		return text, nil
	}}
}

// address is HOST:PORT.
func address(leastPort int) spec[string] {
	const form = "HOST:PORT"
	return spec[string]{kind: kindText, want: form, parse: func(text string) (string, *wrong) {
		host, port, err := net.SplitHostPort(text)
		if err != nil || strings.ContainsAny(host, " /@?#\"'\\") || host == "" && leastPort > 0 {
			return "", wrongf("address %s: want %s", shown(text), form).hinted("for example localhost:9092")
		}
		if n, err := strconv.Atoi(port); err != nil || n < leastPort || n > 65535 || port != strconv.Itoa(n) {
			return "", wrongf("address %s: port %s is outside %d to 65535", shown(text), shown(port), leastPort)
		}
		return text, nil
	}}
}

// listen is an address of this machine only, or "" for a free port.
var listen = spec[string]{kind: kindText, want: "a loopback HOST:PORT, or empty", parse: func(text string) (string, *wrong) {
	if text == "" {
		return "", nil
	}
	if _, w := address(0).parse(text); w != nil {
		return "", w
	}
	host, _, _ := net.SplitHostPort(text)
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", wrongf("address %s can be reached from other machines, which needs a token: not yet in this version", shown(text)).
			hinted("want a loopback address, as 127.0.0.1:8080")
	}
	return text, nil
}}

const instantForm = "a time of RFC 3339, as 2024-01-31T12:00:00Z, or a date"

// instant reads a time of RFC 3339 or a date, which is its midnight UTC.
func instant(text string, least time.Time) (time.Time, *wrong) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t, err = time.Parse(time.RFC3339Nano, text)
	}
	if err != nil {
		return time.Time{}, wrongf("%s: want %s", shown(text), instantForm)
	}
	if last := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC); t.Before(least) || t.After(last) {
		return time.Time{}, wrongf("%s is outside %s to %s", shown(text), least.Format(time.DateOnly), last.Format(time.DateOnly))
	}
	return t.UTC(), nil
}

// earliestTime is an instant as Format.Min.
var earliestTime = spec[int64]{kind: kindText, want: instantForm, parse: func(text string) (int64, *wrong) {
	t, w := instant(text, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC))
	return t.UnixMilli(), w
}}

// start is where a new task begins to read. Kafka's own negative times have another meaning, so none before 1970.
var start = spec[Start]{kind: kindText, want: "earliest, latest or " + instantForm, parse: func(text string) (Start, *wrong) {
	if text == "earliest" || text == "latest" {
		return Start{Latest: text == "latest"}, nil
	}
	t, w := instant(text, time.Unix(0, 0).UTC())
	if w == nil {
		return Start{Time: t}, nil
	}
	if near := spelling.Nearest(text, []string{"earliest", "latest"}); near != "" {
		w.hinted("did you mean %s?", near)
	}
	if strings.HasSuffix(w.what, instantForm) {
		w.what = strings.TrimSuffix(w.what, instantForm) + "earliest, latest or " + instantForm
	}
	return Start{}, w
}}

// maxAhead is a duration, or off.
var maxAhead = spec[time.Duration]{kind: kindUnits, want: window.Graces.String() + ", or off", parse: func(text string) (time.Duration, *wrong) {
	if text == "off" {
		return reading.NoMaxAhead, nil
	}
	ms, w := duration(window.Graces).parse(text)
	return time.Duration(ms) * time.Millisecond, w
}}

// chosen is one function of an aggregation.
type chosen struct {
	functions aggregate.Functions
	percents  aggregate.Percents
}

var function = spec[chosen]{kind: kindText, want: oneOf(aggregate.Words()), parse: func(text string) (chosen, *wrong) {
	f, p, err := aggregate.ParseFunction(text)
	if err == nil {
		return chosen{f, p}, nil
	}
	w := wrongf("%v", err)
	near := spelling.Nearest(text, append(slices.Sorted(maps.Keys(otherNames)), aggregate.All.Names()...))
	if own, ok := otherNames[near]; ok {
		near = own
	}
	if near != "" {
		w.hinted("did you mean %s?", near)
	}
	return chosen{}, w
}}

// otherNames are what other systems call the functions.
var otherNames = map[string]string{"avg": "mean", "average": "mean", "total": "sum", "minimum": "min", "maximum": "max", "number": "count",
	"median": "p50", "stdev": "stddev", "increase": "delta", "cardinality": "distinct"}
