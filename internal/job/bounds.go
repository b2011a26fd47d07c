package job

import (
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// A commit is full when it has commit.max_records or commit.max_bytes, and that is asked between records only, for a
// record is consumed as a whole. So one record must not make a commit as large as it likes (I13): a hundred bytes of each
// of ten thousand readings can name 1,440 windows each, with a key of 60,000 bytes that stands in the record once. The
// bounds of a record are the defaults of those of a commit, which is thus twice as large at most. They are no setting, so
// that what a record counts does not depend on how commits are cut (I11).
const (
	// MaxUpdates is how many records of a commit one input record may make for entries: one for each entry it touches,
	// two where updates are told.
	MaxUpdates = 50_000
	// MaxUpdateBytes bounds these in bytes, keys counted and values by their least size; and what a Relay hands on.
	MaxUpdateBytes = 16 << 20
	// MaxFolds bounds the windows that the readings of one record may be folded into, an entry counted each time: seconds
	// of work, well below what a task may take without a sign of life (I12).
	MaxFolds = 5_000_000
)

// reach is what one reading may need at most.
type reach struct {
	updates int
	folds   int
}

// reach is that of any reading of the job.
func (c *Config) reach() (most reach) {
	for i := range c.Aggregations {
		a := &c.Aggregations[i]
		windows := 1
		switch w := a.Window.(type) {
		case window.Hopping:
			if w.CheckStep() == nil { // else that is the fault
				windows = int((w.Size + w.Step - 1) / w.Step)
			}
		case window.Session:
			windows = 2 // where it joins two, the second is touched too
		}
		most.folds += windows
		if a.Updates {
			windows *= 2
		}
		if most.updates += windows; c.MaxLag > 0 {
			most.updates++ // the clock of the key
		}
	}
	if c.Dedup.Within > 0 {
		most.updates++
	}
	return most
}

// CheckReach refuses aggregations by which a record of one reading would be beyond the bounds. It looks at MaxLag and Dedup
// beside them.
func (c *Config) CheckReach() error {
	if most := c.reach(); most.updates > MaxUpdates {
		return fmt.Errorf("a reading would change up to %d entries and updates in all aggregations together, at most %d are possible for one record: "+
			"want longer steps of hopping windows, or fewer aggregations in one job", most.updates, MaxUpdates)
	}
	return nil
}

// ReadingsOfRecord is how many readings of different keys a record may hold, with keys of usual length: fewer than
// reading.MaxReadings where each is in many windows. It looks at what CheckReach looks at.
func (c *Config) ReadingsOfRecord() int {
	most := c.reach()
	return min(MaxUpdates/max(1, most.updates), MaxFolds/max(1, most.folds))
}

// longestKey is how many bytes a changelog key may have so that a record of one reading fits.
func (r reach) longestKey() int { return MaxUpdateBytes/max(1, r.updates) - task.PerRecord }

// LongestKey is how many bytes the changelog key of a reading may have: name of the aggregation, key fields and window. It looks
// at what CheckReach looks at.
func (c *Config) LongestKey() int { return c.reach().longestKey() }

// spent is how much of its bounds the present record has used, beside what the View counts.
type spent struct {
	folds int
	bytes int // handed on by a Relay
}

// fits tells whether the present record may have one more reading, with a longest changelog key of so many bytes; if not
// it returns why. It is judged before anything is folded, by the most that a reading can need.
func (j *Job) fits(v *task.View, size int) (fault, bool) {
	records, bytes := v.Touched()
	if records+j.reach.updates <= MaxUpdates && bytes+j.reach.updates*(size+task.PerRecord) <= MaxUpdateBytes &&
		j.spent.folds+j.reach.folds <= MaxFolds {
		j.spent.folds += j.reach.folds
		return fault{}, true
	}
	if need := j.reach.updates * (size + task.PerRecord); need > MaxUpdateBytes {
		return fault{reason: TooManyUpdates, detail: fmt.Sprintf("the reading may change %d entries and updates with %d bytes, for its key has %d: one record may "+
			"change %d bytes; want a key of at most %d, or fewer windows for each time", j.reach.updates, need, size, MaxUpdateBytes, j.reach.longestKey())}, false
	}
	return fault{reason: TooManyUpdates, detail: fmt.Sprintf("the record's readings before this one change %d entries and updates with %d bytes in %d folds, "+
		"and this one may change another %d with %d bytes in %d: one record may change %d with %d bytes in %d; send it in parts",
		records, bytes, j.spent.folds, j.reach.updates, j.reach.updates*(size+task.PerRecord), j.reach.folds,
		MaxUpdates, MaxUpdateBytes, MaxFolds)}, false
}

// hands tells whether a relay may hand on another reading of the present record, of so many bytes; if not it returns why.
func (j *Job) hands(size int) (fault, bool) {
	if j.spent.bytes+size <= MaxUpdateBytes {
		j.spent.bytes += size
		return fault{}, true
	}
	return fault{reason: TooManyUpdates, detail: fmt.Sprintf("the record's readings before this one are handed on with %d bytes, this one would be with %d: "+
		"one record may have %d; send it in parts", j.spent.bytes, size, MaxUpdateBytes)}, false
}
