package oracle

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var writtenNumber = regexp.MustCompile(`^[ \t]*\+?((?:-)?(?:0|[1-9][0-9]*)(?:([.,])[0-9]+)?(?:[eE][+-]?[0-9]+)?)[ \t]*$`)

// written is the number that a text holds: as in JSON, with blanks around it and a plus before it.
func written(text string, comma bool) (float64, bool) {
	token, ok := writtenToken(text, comma)
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(token, 64)
	return x, err == nil
}

func writtenToken(text string, comma bool) (string, bool) {
	m := writtenNumber.FindStringSubmatch(text)
	if m == nil || strings.Contains(text, "+-") && !strings.Contains(strings.ToLower(text[:strings.Index(text, "+-")]), "e") {
		return "", false
	}
	if m[2] != "" && (m[2] == ",") != comma {
		return "", false
	}
	return strings.Replace(m[1], ",", ".", 1), true
}

// time is the time of an item.
func (s *scene) time() (ms, nanos int64, ok bool) {
	c, more := s.config, &s.config.Shape.Time
	if more.Record {
		return s.record.Timestamp, 0, s.record.Timestamp >= max(c.Min, 0) && s.record.Timestamp < yearAfter
	}
	numeric, textual := "", ""
	for _, unit := range []string{c.Time.Unit, more.Also} {
		if _, ok := perSecond[unit]; ok {
			numeric = unit
		} else if unit != "" {
			textual = unit
		}
	}
	v := s.value(c.Time.Name)
	text := v.text
	switch {
	case v.kind == '0' && numeric != "":
		ms, nanos, ok = instant(member{raw: json.RawMessage(text)}, numeric)
	case v.kind == '"' && (textual != "" || more.Text), v.kind == '0' && textual == "layout":
		for _, path := range more.Then {
			w := s.value(path)
			if (w.kind != '"' || textual == "" && !more.Text) && (w.kind != '0' || textual != "layout") {
				return 0, 0, false
			}
			text += " " + w.text
		}
		if more.Take != "" {
			if text, ok = part(more.Take, text); !ok {
				return 0, 0, false
			}
		}
		if token, is := writtenToken(text, false); is && more.Text && numeric != "" {
			ms, nanos, ok = instant(member{raw: json.RawMessage(token)}, numeric)
		} else {
			ms, nanos, ok = s.textual(textual, text)
		}
	}
	if !ok || more.Plus == "" {
		return ms, nanos, ok
	}
	switch p := s.value(more.Plus); p.kind {
	case '.', 'n':
		return ms, nanos, true
	case '0':
		m, n, _ := instant(member{raw: json.RawMessage(p.text)}, more.PlusUnit)
		switch {
		case ms < yearZero || ms >= yearAfter:
		case m < yearZero || m >= yearAfter:
			ms = m
		default:
			ms, nanos = ms+m+(nanos+n)/1e6, (nanos+n)%1e6
		}
		return ms, nanos, true
	}
	return 0, 0, false
}

// textual reads a text as a time.
func (s *scene) textual(unit, text string) (ms, nanos int64, ok bool) {
	switch unit {
	case "rfc3339":
		return dateTime(text)
	case "iso8601":
		return s.iso8601(text)
	case "layout":
		return s.layout(text)
	}
	return 0, 0, false
}

var isoForm = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d)?(?:[.,](\d{1,9}))?([Zz]|[+-]\d\d(?::?\d\d)?)?$`)

func (s *scene) iso8601(text string) (ms, nanos int64, ok bool) {
	m := isoForm.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	return s.civil(m[1]+"T"+m[2]+firstOf(m[3], ":00"), m[4], m[5])
}

// civil reads a date and a time of day as 2006-01-02T15:04:05, with a fraction and a zone, or one or none of them.
func (s *scene) civil(local, fraction, zone string) (ms, nanos int64, ok bool) {
	switch {
	case zone == "Z" || zone == "z":
		zone = "Z"
	case len(zone) == 3:
		zone += ":00"
	case len(zone) == 5:
		zone = zone[:3] + ":" + zone[3:]
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	if zone != "" {
		return dateTime(local + fraction + zone)
	}
	wanted, err := time.Parse("2006-01-02T15:04:05", local)
	if err != nil || s.config.Shape.Time.Zone == "" {
		return 0, 0, false
	}
	location, err := time.LoadLocation(s.config.Shape.Time.Zone)
	if err != nil {
		panic(err)
	}
	// The first instant at which clocks there show this. Offsets lie between -16 h and +16 h; in whole minutes, since the last
	// local mean times are gone.
	const most = 16 * time.Hour
	step := time.Minute
	if wanted.Year() < 1975 {
		step = time.Second
	}
	for offset := most; offset >= -most; offset -= step {
		at := wanted.Add(-offset)
		if at.In(location).Format("2006-01-02T15:04:05") == local {
			digits, _ := strconv.ParseInt((strings.TrimPrefix(fraction, ".") + "000000000")[:9], 10, 64)
			return at.UnixMilli() + digits/1e6, digits % 1e6, true
		}
	}
	return 0, 0, false
}

// The words of a layout and what they match; a single letter is a number that may have one digit.
var (
	layoutWord  = regexp.MustCompile(`(?s)YYYY|YY|MM?|DD?|hh?|mm?|ss?|Z|\*|.`)
	layoutForms = map[string]string{"YYYY": `(?P<Y>\d{4})`, "YY": `(?P<y>\d\d)`, "Z": `(?P<z>[Zz]|[+-]\d\d(?::?\d\d)?)`, "*": `[A-Za-z]+`}
)

// layout reads a text by a layout, by way of an expression that is made of it.
func (s *scene) layout(text string) (ms, nanos int64, ok bool) {
	form := layoutWord.ReplaceAllStringFunc(s.config.Shape.Time.Layout, func(w string) string {
		switch known := layoutForms[w]; {
		case known != "":
			return known
		case !strings.Contains("MDhms", w[:1]):
			return regexp.QuoteMeta(w)
		}
		made := `(?P<` + w[:1] + `>\d{` + strconv.Itoa(len(w)) + `,2})`
		if w[0] == 's' {
			made += `(?:[.,](?P<f>\d{1,9}))?`
		}
		return made
	})
	expression := regexp.MustCompile("^" + form + "$")
	m := expression.FindStringSubmatch(text)
	if m == nil {
		return 0, 0, false
	}
	get := func(name, other string) string {
		if i := expression.SubexpIndex(name); i >= 0 {
			return m[i]
		}
		return other
	}
	two := func(name string) string { return ("0" + get(name, "0"))[len(get(name, "0"))-1:] }
	year := get("Y", "20"+get("y", "00"))
	return s.civil(year+"-"+two("M")+"-"+two("D")+"T"+two("h")+":"+two("m")+":"+two("s"), get("f", ""), get("z", ""))
}
