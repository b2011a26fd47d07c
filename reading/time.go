package reading

import (
	"fmt"
	"slices"
	"time"
)

// instant is a point in time: whole ms since 1970, rounded down, and the nanoseconds beyond.
type instant struct {
	ms    int64
	nanos int32
}

const (
	nanosPerMilli   = 1_000_000
	millisPerSecond = 1000
)

// farFuture and farPast stand for instants too far away to be represented; both are outside the plausible years.
var (
	farFuture = instant{ms: latest + 1}
	farPast   = instant{ms: earliest - 1}
)

// eventTime judges the time and puts it into the reading.
func (r *Reader) eventTime() bool {
	p := r.program
	s, i := &p.scan, p.time
	if i == failed {
		return r.recordTime()
	}
	f := &s.fields[i]
	var t instant
	var ok bool
	if f.kind == kindNumber && p.number != 0 {
		t, ok = f.num.instant(s.data[f.start:f.end], p.number), true
	} else {
		t, ok = r.textTime(i)
	}
	if !ok || p.plus != failed && !r.plus(&t) {
		return false
	}
	if t.ms < r.format.Min || t.ms > latest {
		return s.refuseField(ImplausibleTime, i, r.implausible(f, t))
	}
	if bound, ok := r.bound(r.record.Timestamp); ok && (t.ms > bound || t.ms == bound && t.nanos > 0) {
		return s.refuseField(FutureTime, i, r.future(f, t, r.record.Timestamp))
	}
	r.reading.Time, r.reading.Nanos = t.ms, t.nanos
	return true
}

// recordTime makes the record's timestamp the event time.
func (r *Reader) recordTime() bool {
	ms := r.record.Timestamp
	if !r.format.Timed(ms) || ms > latest {
		s := &r.program.scan
		s.refusal = Refusal{Reason: ImplausibleTime, Detail: fmt.Sprintf("the record's timestamp is %d ms, want one from %s on: it is the event time",
			ms, clock(max(r.format.Min, 0)))}
		return false
	}
	r.reading.Time, r.reading.Nanos = ms, 0
	return true
}

// timeText is the text of a time field.
func (r *Reader) timeText(i int) (text []byte, ok bool) {
	p := r.program
	s, f := &p.scan, &p.scan.fields[i]
	switch {
	case f.kind == kindText && (p.text != 0 || r.format.Clock.Text):
		return s.fieldText(f), true
	case f.kind == kindNumber && p.text == Layout:
		return s.data[f.start:f.end], true
	}
	return nil, s.refuseKind(i, r.timeWanted())
}

// textTime is the instant of a time field that is not simply a number in its unit.
func (r *Reader) textTime(i int) (t instant, ok bool) {
	p := r.program
	s := &p.scan
	text, ok := r.timeText(i)
	if ok && len(p.then) > 0 {
		text, ok = r.join(text)
	}
	if !ok {
		return t, false
	}
	if p.take != nil {
		if text = p.take.take(text); text == nil {
			return t, s.refuseField(NoMatch, i, "does not match "+r.format.Clock.Take)
		}
	}
	if r.format.Clock.Text && p.number != 0 {
		if token := s.textToken(text, false); token != nil {
			return exactInstant(token, p.number), true
		}
	}
	fault, at := "is no number of "+unitWords[p.number], 0
	switch p.text {
	case RFC3339:
		t, fault = parseRFC3339(text)
	case ISO8601:
		t, fault = parseISO8601(text, r.format.Clock.Zone)
	case Layout:
		t, fault, at = p.layout.parse(text, r.format.Clock.Zone)
	}
	if fault != "" {
		return t, r.refuseTime(i, fault, at)
	}
	return t, true
}

// join puts the texts of a time in several fields behind one another.
func (r *Reader) join(text []byte) (joined []byte, ok bool) {
	r.joined, r.ends = append(r.joined[:0], text...), append(r.ends[:0], len(text))
	for _, i := range r.program.then {
		if text, ok = r.timeText(i); !ok {
			return nil, false
		}
		r.joined = append(append(r.joined, ' '), text...)
		r.ends = append(r.ends, len(r.joined))
	}
	return r.joined, true
}

// refuseTime notes the fault of a time that is a text; of one in several fields, that field which has the fault's place,
// and the whole text.
func (r *Reader) refuseTime(i int, fault string, at int) bool {
	p := r.program
	if len(p.then) == 0 {
		return p.scan.refuseField(BadTime, i, fault)
	}
	if p.take == nil {
		if n, _ := slices.BinarySearch(r.ends, at); n > 0 {
			i = p.then[n-1]
		}
	}
	return p.scan.refuseField(BadTime, i, fmt.Sprintf("%s; the fields of the time make %q", fault, r.joined[:min(len(r.joined), longestTime)]))
}

// timeWanted says how a time is written.
func (r *Reader) timeWanted() string {
	text := map[Unit]string{RFC3339: "a text as in RFC 3339", ISO8601: "a text as in ISO 8601", Layout: "a time as " + r.format.Clock.Layout}[r.program.text]
	if r.program.number == 0 {
		return text
	}
	number := "a number of " + unitWords[r.program.number]
	if text == "" {
		return number
	}
	return number + " or " + text
}

// plus adds the second number of a time.
func (r *Reader) plus(t *instant) bool {
	s, i := &r.program.scan, r.program.plus
	f := &s.fields[i]
	var more instant
	unit := r.format.Clock.PlusUnit
	switch f.kind {
	case kindAbsent, kindNull:
		return true
	case kindNumber:
		more = f.num.instant(s.data[f.start:f.end], unit)
	default:
		return s.refuseKind(i, "a number of "+unitWords[unit])
	}
	*t = t.add(more)
	return true
}

// add adds two instants as spans since 1970. What is too far away to be represented stays so.
func (t instant) add(o instant) instant {
	far := func(t instant) bool { return t.ms < earliest || t.ms > latest }
	switch {
	case far(t):
		return t
	case far(o):
		return o
	}
	sum := instant{ms: t.ms + o.ms, nanos: t.nanos + o.nanos}
	if sum.nanos >= nanosPerMilli {
		sum.ms, sum.nanos = sum.ms+1, sum.nanos-nanosPerMilli
	}
	return sum
}

// bound is the latest event time that is not future, in ms; false when there is none.
func (r *Reader) bound(recordTimestamp int64) (int64, bool) {
	if !r.format.Timed(recordTimestamp) || r.format.MaxAhead == NoMaxAhead || recordTimestamp > latest {
		return 0, false
	}
	return recordTimestamp + r.format.MaxAhead.Milliseconds(), true
}

// instant is the number's instant in a numeric unit. It is exact down to the nanosecond and rounded down from there.
func (n *number) instant(token []byte, unit Unit) instant {
	if !n.exact || n.exp != 0 || n.mant > 1<<62 {
		return exactInstant(token, unit)
	}
	v := int64(n.mant)
	if n.neg {
		v = -v
	}
	switch unit {
	case Seconds:
		switch {
		case v > latest/millisPerSecond:
			return farFuture
		case v < earliest/millisPerSecond:
			return farPast
		}
		return instant{ms: v * millisPerSecond}
	case Milliseconds:
		return instant{ms: v}
	case Microseconds:
		ms, us := floorDiv(v, 1000)
		return instant{ms: ms, nanos: int32(us) * 1000}
	}
	ms, ns := floorDiv(v, nanosPerMilli)
	return instant{ms: ms, nanos: int32(ns)}
}

// floorDiv is the quotient rounded down, and the remainder, which is never negative.
func floorDiv(a, b int64) (quotient, remainder int64) {
	quotient, remainder = a/b, a%b
	if remainder < 0 {
		quotient, remainder = quotient-1, remainder+b
	}
	return quotient, remainder
}

// unitDigits is the number of decimal places between a unit and the nanosecond.
var unitDigits = [...]int64{Seconds: 9, Milliseconds: 6, Microseconds: 3, Nanoseconds: 0}

// wholeDigits bounds the ms of a plausible instant: 253402300799999 has 15 digits.
const wholeDigits = 15

// exactInstant is the instant of a number of any form, in decimal arithmetic.
func exactInstant(token []byte, unit Unit) instant {
	d := parseDecimal(token)
	if d.size == 0 {
		return instant{}
	}
	point := d.point + unitDigits[unit] - 6 // digits of the whole ms
	if point > wholeDigits {
		if d.neg {
			return farPast
		}
		return farFuture
	}
	var ms, ns int64
	for i := range max(point, 0) {
		ms = ms*10 + d.digit(i)
	}
	for i := range int64(6) {
		ns = ns*10 + d.digit(point+i)
	}
	if !d.neg {
		return instant{ms: ms, nanos: int32(ns)}
	}
	if d.size > point+6 { // its last digit, which is not zero, lies below the nanosecond
		ns++
	}
	carry, rest := floorDiv(-ns, nanosPerMilli)
	return instant{ms: carry - ms, nanos: int32(rest)}
}

// implausible says what an implausible time is and what it looks like.
func (r *Reader) implausible(f *field, t instant) string {
	detail := r.shown(f, t)
	if t.ms < earliest || t.ms > latest {
		detail += " is outside the years 0 to 9999"
	} else {
		detail += " is before " + clock(r.format.Min)
	}
	if f.kind == kindNumber && r.program.number != 0 {
		for unit := Seconds; unit < RFC3339; unit++ {
			t := f.num.instant(r.program.scan.data[f.start:f.end], unit)
			if t.ms >= max(r.format.Min, DefaultMin) && t.ms < likelyEnd {
				return fmt.Sprintf("%s; looks like %s (%s)", detail, unitWords[unit], clock(t.ms))
			}
		}
	}
	if t.ms >= 0 && t.ms < unsetEnd {
		return detail + "; looks like a clock that was never set"
	}
	return detail
}

const (
	likelyEnd = 4102444800000 // 2100-01-01 in ms: up to it a number has one likely unit
	unsetEnd  = 31536000000   // 1971-01-01 in ms: clocks that were never set begin in 1970
)

// future names a future time, the bound and what it is measured from.
func (r *Reader) future(f *field, t instant, recordTimestamp int64) string {
	return fmt.Sprintf("%s is more than %s after the record's timestamp %d ms (%s)",
		r.shown(f, t), r.format.MaxAhead, recordTimestamp, clock(recordTimestamp))
}

// longestTime bounds the times shown in refusals.
const longestTime = 40

// shown is a time as it stands in the record and as a date where there is one.
func (r *Reader) shown(f *field, t instant) string {
	token := r.program.scan.data[f.start:f.end]
	text := string(token[:min(len(token), longestTime)])
	if f.kind == kindNumber && r.program.number != 0 {
		text += " " + r.program.number.String()
	}
	if t.ms < earliest || t.ms > latest {
		return text
	}
	return text + " (" + clock(t.ms) + ")"
}

// clock is a time in ms as a date.
func clock(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.999Z")
}
