package reading

import (
	"fmt"
	"strings"
	"time"
)

// layout is how times are written, taken apart: YYYY or YY (2000 to 2099), MM, DD, hh, mm and ss are so many digits, M, D,
// h, m and s one or two; behind the second there may be a fraction, after a point or a comma; Z is Z or an offset; * is
// one letter or more, such as the name of a zone; all else is itself.
type layout struct {
	text  string
	steps []layoutStep
	short bool // the year has two digits
	zoned bool
}

// layoutStep is a part of a time, or a literal byte.
type layoutStep struct {
	part        layoutPart
	least, most int // digits of a number
	literal     byte
}

// layoutPart is what a token of a layout stands for. Those up to the second are numbers.
type layoutPart int

const (
	partYear layoutPart = iota
	partMonth
	partDay
	partHour
	partMinute
	partSecond
	partZone
	partLetters
	partLiteral
)

var layoutTokens = [...]struct {
	text        string
	part        layoutPart
	least, most int
}{
	{"YYYY", partYear, 4, 4}, {"YY", partYear, 2, 2}, {"MM", partMonth, 2, 2}, {"M", partMonth, 1, 2}, {"DD", partDay, 2, 2}, {"D", partDay, 1, 2},
	{"hh", partHour, 2, 2}, {"h", partHour, 1, 2}, {"mm", partMinute, 2, 2}, {"m", partMinute, 1, 2}, {"ss", partSecond, 2, 2}, {"s", partSecond, 1, 2},
	{"Z", partZone, 0, 0}, {"*", partLetters, 0, 0},
}

// parseLayout takes a layout apart.
func parseLayout(text string) (*layout, error) {
	l := &layout{text: text}
	var seen [partLiteral + 1]int
	before := layoutStep{part: partLiteral}
	for rest := text; rest != ""; {
		step, size := layoutStep{part: partLiteral, literal: rest[0]}, 1
		for _, token := range layoutTokens {
			if strings.HasPrefix(rest, token.text) {
				step, size = layoutStep{part: token.part, least: token.least, most: token.most}, len(token.text)
				break
			}
		}
		if seen[step.part]++; seen[step.part] > 1 && step.part < partLetters {
			return nil, fmt.Errorf("time layout %q: %s is there twice; letters that are left out are *", text, rest[:size])
		}
		if before.most > before.least && (step.most > 0 || step.part == partLiteral && step.literal-'0' <= 9) {
			return nil, fmt.Errorf("time layout %q: %s may have two digits, and those of %q follow at once: no telling where it ends", text,
				text[len(text)-len(rest)-1:len(text)-len(rest)], rest[:size])
		}
		l.short = l.short || step.part == partYear && step.most == 2
		l.steps = append(l.steps, step)
		before, rest = step, rest[size:]
	}
	if seen[partYear] == 0 || seen[partMonth] == 0 || seen[partDay] == 0 || seen[partMinute] > seen[partHour] || seen[partSecond] > seen[partMinute] {
		return nil, fmt.Errorf("time layout %q: want YYYY or YY, MM and DD, then hh, mm and ss as far as there are, as YYYY-MM-DD hh:mm:ss; "+
			"or M, D, h, m and s, where there may be one digit", text)
	}
	l.zoned = seen[partZone] > 0
	return l, nil
}

// layoutTime is what is found in a text by a layout.
type layoutTime struct {
	parts  [partSecond + 1]int
	starts [partSecond + 1]int
	offset int64
	nanos  int64
}

// parse reads a time of this layout. A fault has its place in the text.
func (l *layout) parse(b []byte, zone *time.Location) (t instant, fault string, at int) {
	var w layoutTime
	for i := range l.steps {
		n, fault := w.take(&l.steps[i], b, at)
		switch {
		case fault != "":
			return t, fault, at
		case n == 0:
			return t, l.fault(), at
		}
		at += n
	}
	if at < len(b) {
		return t, l.fault(), at
	}
	if l.short {
		w.parts[partYear] += 2000
	}
	p := &w.parts
	c, fault := makeCivil(int64(p[partYear]), p[partMonth], p[partDay], p[partHour], p[partMinute], p[partSecond])
	if fault != "" {
		return t, fault, w.beyond()
	}
	if c.nanos = w.nanos; l.zoned {
		t, fault = c.at(w.offset)
	} else {
		t, fault = c.in(zone)
	}
	return t, fault, 0
}

func (l *layout) fault() string { return "is no time as " + l.text }

// take reads one step at a place of a text and returns its length, 0 when it is not there.
func (w *layoutTime) take(step *layoutStep, b []byte, at int) (n int, fault string) {
	b = b[at:]
	switch step.part {
	case partLiteral:
		if len(b) > 0 && b[0] == step.literal {
			n = 1
		}
	case partZone:
		w.offset, n, _ = looseZone(b)
	case partLetters:
		for n < len(b) && 'a' <= b[n]|0x20 && b[n]|0x20 <= 'z' {
			n++
		}
	default:
		v := 0
		for n < len(b) && n < step.most && b[n]-'0' <= 9 {
			v, n = v*10+int(b[n]-'0'), n+1
		}
		if n < step.least {
			return 0, ""
		}
		w.parts[step.part], w.starts[step.part] = v, at
	}
	if n > 0 && step.part == partSecond {
		var more int
		if w.nanos, more, fault = fractionAfter(b[n:], ".,"); fault == "" {
			n += more
		}
	}
	return n, fault
}

// beyond is the place of the first part that is beyond what it may be; of a day that only this month does not have, the
// day's.
func (w *layoutTime) beyond() int {
	switch p := &w.parts; {
	case p[partMonth] < 1 || p[partMonth] > 12:
		return w.starts[partMonth]
	case p[partDay] < 1 || p[partDay] > monthDays(int64(p[partYear]), p[partMonth]):
		return w.starts[partDay]
	case p[partHour] > 23:
		return w.starts[partHour]
	case p[partMinute] > 59:
		return w.starts[partMinute]
	}
	return w.starts[partSecond]
}
