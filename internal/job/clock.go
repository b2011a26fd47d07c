package job

import (
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// With Config.MaxLag every key has a stream time of its own, so that a device whose gateway comes hours late is not cut off
// by the others (R35): the latest of its times that count, never ahead of the task's stream time S, which a quorum may
// hold back. What is kept of it is what it closes: per aggregation the closed end of the key, an entry like those of dedup.
// The closed end of the aggregation, S - MaxLag - grace, is a floor: it closes the windows of devices that have fallen
// silent, and makes clocks that it has reached be forgotten, for they say nothing any more.

// raise moves the closed end of one aggregation by the reading that is judged, and returns how far windows of its key are
// closed. A clock is created, or moved, only where it says more than the floor.
func (j *Job) raise(v *task.View, i int, advance int64) (closed int64, err error) {
	s := v.StreamTime()
	v.RaiseClosedEnd(i, j.ClosedEnd(i, s))
	if j.config.MaxLag == 0 || s == record.NoTime {
		return v.ClosedEnd(i), nil
	}
	t := &j.layout.tables[i]
	j.key = append(append(j.key[:0], t.prefix...), j.fields...)
	closed, slot, before, err := v.RaiseKeyClosedEnd(i, j.key, min(advance, s)-j.distance(i))
	if slot < 0 || err != nil {
		return closed, err
	}
	j.lengths[slot] = closed - task.ClockStart
	if t.endsBetween(before, closed) {
		err = v.CloseKey(i, j.key, before, closed)
	}
	return closed, err
}

// distance is how far the closed end of an aggregation is behind the time that closes its windows.
func (j *Job) distance(aggregation int) int64 {
	return j.config.Aggregations[aggregation].Grace + j.layout.tables[aggregation].session.Gap
}

// shownTime is the stream time that a late reading is told: what has closed its windows up to there.
func (j *Job) shownTime(v *task.View, aggregation int, closed int64) int64 {
	if j.config.MaxLag == 0 || closed == record.NoTime {
		return v.StreamTime()
	}
	return closed + j.distance(aggregation)
}

// endsBetween tells whether a window of any key may end after one time and at another or before: where a start tells the
// end, ends are a step apart.
func (t *table) endsBetween(after, upTo int64) bool {
	if t.step == 0 || after == record.NoTime {
		return true
	}
	past := (after - t.phase) % t.step
	if past < 0 {
		past += t.step
	}
	return after-past+t.step <= upTo
}

// setStep notes at which times windows end.
func (t *table) setStep() {
	switch w := t.window.(type) {
	case window.Tumbling:
		t.step, t.phase = w.Size, w.Offset
	case window.Hopping:
		t.step, t.phase = w.Step, (w.Offset+w.Size)%w.Step
	}
}

// isClock tells of an entry's key that it is the clock of a key of an aggregation.
func (l *layout) isClock(aggregation int, key []byte) bool {
	return l.clock > 0 && aggregation < l.aggregations && aggregation >= 0 && record.Start(key) == task.ClockStart
}

// tableOf is the index of the table that an entry of an aggregation follows.
func (l *layout) tableOf(aggregation int, key []byte) int {
	if l.isClock(aggregation, key) {
		return l.clock
	}
	return aggregation
}

// Ahead tells of an entry that it is the clock of a key which is ahead of a stream time.
func (j *Job) Ahead(key, value []byte, streamTime int64) (bool, error) {
	i, ok := j.layout.find(key)
	if !ok || !j.layout.isClock(i, key) {
		return false, nil
	}
	place, err := j.layout.place(key, value)
	return place.End > streamTime-j.distance(i), err
}

// checkMaxLag returns what is wrong with the lag.
func (c *Config) checkMaxLag() error {
	if c.MaxLag != 0 && (c.MaxLag < window.Sizes.Min || c.MaxLag > window.Sizes.Max) {
		return fmt.Errorf("max lag %s: want %s", window.Format(c.MaxLag), window.Sizes)
	}
	return nil
}
