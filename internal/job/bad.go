package job

import (
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// MaxBad is how many readings of a partition may be refused in a while before the task stops: so many are no accident of
// one device, and somebody should look before a day of input has become dead letters. The zero MaxBad is no limit.
//
// The while is counted in record time, in fixed periods of Per since 1970, and never goes back; a record without a
// usable timestamp counts to the present period. How many it has been is in the commit record, so that neither a crash
// nor a supervisor that starts the program again and again lets more of them through (I11).
type MaxBad struct {
	Readings int64
	Per      int64 // ms
}

func (m *MaxBad) check() error {
	if m.Readings < 0 || (m.Readings > 0) != (m.Per > 0) {
		return fmt.Errorf("max_bad: %d readings per %d ms", m.Readings, m.Per)
	}
	return nil
}

// BadError says that more readings were refused than MaxBad allows. The record it is about is not consumed.
type BadError struct {
	Limit  MaxBad
	Start  int64 // of the period, ms
	Record int64 // offset of the one that is too much
}

// Error says what happened and how to go on.
func (e *BadError) Error() string {
	return fmt.Sprintf("more than %d readings are refused in the %s of record time from %s on, at offset %d: stopped by dead_letter.max_bad; "+
		"the dead letters before it say why; go on by raising or removing the limit, or leave input out with  tidemark skip",
		e.Limit.Readings, window.Format(e.Limit.Per), time.UnixMilli(e.Start).UTC().Format(time.RFC3339), e.Record)
}

// Unwrap returns task.ErrPermanent: another attempt would meet the same records.
func (e *BadError) Unwrap() error { return task.ErrPermanent }

// limitBad counts readings of a record that have been refused.
func (j *Job) limitBad(v *task.View, in *task.Input, refused record.Count) error {
	n, m := v.Counters(), &j.config.MaxBad
	if at := j.now.record.Timestamp; j.config.Format.Timed(at) {
		if period := record.Count(at / m.Per); period > n.RefusedPeriod {
			n.RefusedPeriod, n.RefusedInIt = period, 0
		}
	}
	if n.RefusedInIt += refused; n.RefusedInIt > record.Count(m.Readings) {
		return &BadError{Limit: *m, Start: int64(n.RefusedPeriod) * m.Per, Record: in.Offset}
	}
	return nil
}
