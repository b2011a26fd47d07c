package job

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/task"
)

// headers are a record's headers, for key fields that come from one.
type headers struct{ list []task.Header }

// Header returns the value of the last header with a name, nil for none.
func (h *headers) Header(name string) []byte {
	for _, header := range slices.Backward(h.list) {
		if header.Key == name {
			return header.Value
		}
	}
	return nil
}

// apart are the readings of a record of many that go another way than into windows. A record becomes one dead letter and
// for each aggregation one late letter at most, which name the readings concerned, so that what is written stays in
// proportion to what was read (I13). A record that comes back with that name counts with these readings only.
type apart struct {
	fault fault // of the first that is refused
	bad   []int32
	late  []lateReadings // by aggregation
	only  []indexRun     // readings that count, nil for all
}

// lateReadings are those of an aggregation.
type lateReadings struct {
	which []int32
	first miss // of the first of them
}

// miss is how a reading came too late: the window that it missed, the first of several, and how things stood then.
type miss struct{ start, end, streamTime, closed int64 }

// judgeMany judges the n readings of the open record.
func (j *Job) judgeMany(v *task.View, in *task.Input, n int) error {
	a := &j.apart
	a.bad = a.bad[:0]
	for i := range a.late {
		a.late[i].which = a.late[i].which[:0]
	}
	a.only = parseIndexes(a.only[:0], j.now.headers.Header(HeaderIndex))
	only := a.only
	for i := range n {
		for len(only) > 0 && only[0].last < i {
			only = only[1:]
		}
		if len(a.only) > 0 && (len(only) == 0 || i < only[0].first) {
			continue
		}
		if err := j.judge(v, in, i); err != nil {
			return err
		}
	}
	for i := range a.late {
		if l := &a.late[i]; len(l.which) > 0 {
			j.emitLate(v, in, i, l.first, l.which)
		}
	}
	if len(a.bad) > 0 {
		j.emitDead(v, in, a.fault, a.bad)
	}
	return nil
}

// refuseReading counts a reading as dead-lettered. The record's letter is written at once when it is the only one.
func (j *Job) refuseReading(v *task.View, in *task.Input, i int, f fault) {
	if !j.many {
		j.refuse(v, in, f)
		return
	}
	v.Counters().DeadLettered++
	if len(j.apart.bad) == 0 {
		j.apart.fault = f
	}
	j.apart.bad = append(j.apart.bad, int32(i))
}

// late sees to the letter of a reading that is late for an aggregation; its windows are in spans.
func (j *Job) late(v *task.View, in *task.Input, aggregation int, closed int64, index int32) {
	first := miss{start: j.spans[0].Start, end: j.spans[0].End, streamTime: j.shownTime(v, aggregation, closed), closed: closed}
	if !j.many {
		j.emitLate(v, in, aggregation, first, nil)
		return
	}
	l := &j.apart.late[aggregation]
	if len(l.which) == 0 {
		l.first = first
	}
	l.which = append(l.which, index)
}

// indexRun is a run of indexes.
type indexRun struct{ first, last int }

// bitmap begins a HeaderIndex that would be too long as runs: base64 of a bit for each reading, lowest first.
const bitmap = "bits:"

// maxRuns bounds the runs of a HeaderIndex in bytes; a bitmap of reading.MaxReadings bits is as long.
const maxRuns = 1672

// indexes adds the header that names readings; none are all.
func (l *letter) indexes(which []int32) {
	if len(which) == 0 {
		return
	}
	var b []byte
	for n := 0; n < len(which) && len(b) <= maxRuns; {
		first := n
		for n++; n < len(which) && which[n] == which[n-1]+1; n++ {
		}
		if first > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(which[first]), 10)
		if n > first+1 {
			b = strconv.AppendInt(append(b, '-'), int64(which[n-1]), 10)
		}
	}
	if len(b) > maxRuns {
		bits := make([]byte, which[len(which)-1]/8+1)
		for _, i := range which {
			bits[i/8] |= 1 << (i % 8)
		}
		b = base64.RawStdEncoding.AppendEncode([]byte(bitmap), bits)
	}
	l.headers = append(l.headers, task.Header{Key: HeaderIndex, Value: b})
}

// parseIndexes reads a HeaderIndex as runs in rising order. What is not written as indexes writes it is no header of
// ours, and none are returned.
func parseIndexes(dst []indexRun, text []byte) []indexRun {
	if len(text) == 0 || len(text) > maxRuns {
		return dst
	}
	if encoded, ok := bytes.CutPrefix(text, []byte(bitmap)); ok {
		bits, err := base64.RawStdEncoding.AppendDecode(nil, encoded)
		if err != nil {
			return dst
		}
		for i := range 8 * len(bits) {
			if bits[i/8]>>(i%8)&1 != 0 {
				dst = append(dst, indexRun{i, i})
			}
		}
		return dst
	}
	next := 0
	for part := range strings.SplitSeq(string(text), ",") {
		from, to, isRun := strings.Cut(part, "-")
		if !isRun {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 31)
		last, err2 := strconv.ParseUint(to, 10, 31)
		if err != nil || err2 != nil || int(first) < next || last < first {
			return dst[:0]
		}
		dst = append(dst, indexRun{int(first), int(last)})
		next = int(last) + 1
	}
	return dst
}
