package job

import (
	"errors"
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
)

// Dedup says which readings are repetitions of others, and how long the others are remembered. The zero Dedup is none.
//
// A reading is known by its key and its event time, or with Format.Sequence by its key and that. It is a duplicate when
// one with the same has been accepted and is still remembered; a duplicate is counted and moves nothing else. A reading
// is remembered until stream time is Within, and up to a 64th of that more, beyond its event time. One that comes later
// than that is not judged at all: it goes on to windows, where it is late if Within is as long as these are open.
type Dedup struct {
	Within int64 // ms; 0 for no dedup
}

// MemoryName is the name under which the readings that dedup remembers stand in the changelog, the commit record and the
// status, as if they were windows of an aggregation. Folded are the remembered ones, late those that came too late to
// be judged, and results those that were forgotten. No configured name begins with a parenthesis.
const MemoryName = "(dedup)"

// ErrNoWindow is wrapped by errors about entries that are no windows: readings that dedup remembers, and clocks of keys.
var ErrNoWindow = errors.New("the entry is no window, but a reading that dedup remembers or the clock of a key")

// memoryStart stands in the keys of remembered readings in place of a window's start: before any time, so that the length
// stored in the value tells until when.
const memoryStart = -1 << 48

// granules are how many steps of time a memory is divided into: readings are forgotten together where they can be, for a
// time of its own costs more than a reading.
const granules = 64

// memory is what a Job needs for dedup.
type memory struct {
	index    int // of the table, the last one
	within   int64
	granule  int64
	sequence bool
	key      []byte // of the present reading
	text     []byte // its time
	until    int64  // forgotten when the closed end is there
	judged   bool   // it has not come too late to be judged
}

func newMemory(c *Config) *memory {
	if c.Dedup.Within == 0 || c.Part == Relay {
		return nil
	}
	return &memory{index: len(c.Aggregations), within: c.Dedup.Within, granule: max(1, c.Dedup.Within/granules),
		sequence: c.Format.Sequence != nil}
}

// name sets the key of a reading, and until when it is remembered.
func (m *memory) name(prefix, fields []byte, read *reading.Reading) {
	id := read.Sequence
	if !m.sequence {
		m.text = appendTime(m.text[:0], read.Time, read.Nanos)
		id = m.text
	}
	m.key = record.AppendStart(record.AppendField(append(append(m.key[:0], prefix...), fields...), id), memoryStart)
	past := read.Time % m.granule
	if past < 0 {
		past += m.granule
	}
	m.until = read.Time - past + m.granule
}

// knows tells whether the reading just named is a duplicate. What is due is forgotten, whether its entry is still there
// or not, so that it does not matter when entries are deleted (I11).
func (m *memory) knows(v *task.View) (bool, error) {
	closed := v.ClosedEnd(m.index)
	m.judged = m.until > closed
	if !m.judged {
		return false, nil
	}
	place, there, err := v.Find(m.key)
	return there && place.End > closed, err
}

// remember takes up the reading just named, which has been accepted and has moved stream time.
func (j *Job) remember(v *task.View) error {
	m := j.memory
	v.RaiseClosedEnd(m.index, j.ClosedEnd(m.index, v.StreamTime()))
	state := v.Aggregation(m.index)
	if !m.judged {
		state.Late++
		return nil
	}
	state.Folded++
	place := task.Place{Aggregation: m.index, Start: memoryStart, End: m.until}
	slot, fresh, err := v.Touch(m.key, place)
	if err == nil && !fresh { // a sequence that begins anew: the one before is forgotten, as if it had been deleted already
		state.Results++
		v.Delete(slot)
		slot, _, err = v.Touch(m.key, place)
	}
	if err != nil {
		return err
	}
	j.lengths[slot] = m.until - memoryStart
	return nil
}

// checkDedup returns what is wrong with dedup.
func (c *Config) checkDedup() error {
	switch d := &c.Dedup; {
	case d.Within < 0:
		return fmt.Errorf("dedup: within %d ms", d.Within)
	case d.Within == 0 && c.Format.Sequence != nil:
		return errors.New("dedup: a sequence without a time to remember it")
	case c.Format.Sequence != nil && c.Part != Whole:
		return errors.New("dedup: sequences are not handed on between parts; use key and time")
	}
	return nil
}

// memoryDefinition is the Definition of what dedup remembers.
func (c *Config) memoryDefinition() string {
	by := "time"
	if s := c.Format.Sequence; s != nil {
		by = fmt.Sprintf("%+q", []any{s.From, s.Path, s.Name, s.Take})
	}
	return fmt.Sprintf("entry=%d dedup=%s %s", entryFormat, by, c.Format.Meaning())
}
