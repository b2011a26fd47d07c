package job

import (
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// join puts a reading into a session of its key. The session that it makes alone is judged first: if that is due the
// reading is late, even where it touches a session that is open, for it could bring the start of one back that has been
// published (V7). Otherwise it joins the neighbours that are not due and lie less than the gap away: at most the one
// before it and the one after it, for sessions of a key are a gap apart. The entry's key has the start in it, so that a
// merge which moves the start is a tombstone and a new entry, in one commit.
func (j *Job) join(v *task.View, in *task.Input, i int, closed int64, read *reading.Reading) error {
	t, state := &j.layout.tables[i], v.Aggregation(i)
	j.spans = t.session.Assign(j.spans[:0], read.Time)
	if len(j.spans) == 0 {
		return fmt.Errorf("no window of %q holds the time %d", j.names[i].Name, read.Time)
	}
	own := j.spans[0]
	if own.End <= closed {
		state.Late++
		state.Missed++
		j.late(v, in, i, closed, read.Index)
		return nil
	}
	state.Folded++
	j.key = append(append(j.key[:0], t.prefix...), j.fields...)
	before, after, err := v.Around(j.key, own.Start)
	if err != nil {
		return err
	}
	joined := before.Aggregation == i && before.End > closed && t.session.Touches(own.Start-before.End)
	follows := after.Aggregation == i && t.session.Touches(after.Start-own.End)
	if joined {
		own = window.Span{Start: before.Start, End: max(own.End, before.End)}
	}
	if follows {
		own.End = max(own.End, after.End)
	}
	head := len(j.key)
	j.key = record.AppendStart(j.key, own.Start)
	slot, _, err := v.Touch(j.key, task.Place{Aggregation: i, Start: own.Start, End: own.End})
	if err != nil {
		return err
	}
	v.Move(slot, own.End)
	j.lengths[slot] = own.End - own.Start
	j.add(slot, read)
	if !follows {
		return nil
	}
	j.key = record.AppendStart(j.key[:head], after.Start)
	gone, _, err := v.Touch(j.key, after)
	if err != nil {
		return err
	}
	into, from := j.accumulatorsOf(slot), j.accumulatorsOf(gone)
	for n := range into {
		into[n].Merge(&from[n])
	}
	v.Delete(gone)
	return nil
}

// assign is Kind.Assign; of calendar windows it remembers the last one, which takes a microsecond to find.
func (t *table) assign(dst []window.Span, at int64) []window.Span {
	if !t.stored {
		return t.window.Assign(dst, at)
	}
	if !t.last.Contains(at) {
		spans := t.window.Assign(dst, at)
		if len(spans) == len(dst) {
			return spans
		}
		t.last = spans[len(dst)]
	}
	return append(dst, t.last)
}
