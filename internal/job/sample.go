package job

import (
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/reading"
)

// Sample says how records of an input agree with a configuration: whether they are readings, have the record key that is
// expected of them, and lie where a partitioner puts that key. Nothing is folded. Add more to the same Sample with
// [Job.Sample].
type Sample struct {
	Readings   int
	Refused    int    // of these, no readings by the input's format
	WhyRefused string // of the last one: where it is, which field, and the reason
	Like       string // the path in it that was perhaps meant by the one that it lacks; "" for none
	WrongKey   int    // readings whose record has another key than input.partitioned_by makes
	WhyKey     string // of the last one
	Placed     int    // readings with the right key
	fits       [Unchecked]int
}

// Sample judges the readings of records.
func (j *Job) Sample(records []task.Input, s *Sample) {
	anywhere := j.routing
	anywhere.partitioner = Unchecked
	var last *task.Input // that is refused
	var why fault
	for i := range records {
		in := &records[i]
		o := j.take(in)
		if o.refusal != nil {
			s.Readings, s.Refused = s.Readings+1, s.Refused+1
			last, why = in, faultOf(o.refusal)
		}
		for k := range o.n {
			switch read, refused := o.reading(j, k); {
			case refused != nil:
				s.Readings, s.Refused = s.Readings+1, s.Refused+1
				last, why = in, faultOf(refused)
			case read != nil: // else it is filtered
				s.Readings++
				j.sampleOne(in, read, &anywhere, s)
			}
		}
	}
	if last != nil {
		s.WhyRefused = fmt.Sprintf("%s/%d at offset %d: %s", j.config.Input, j.routing.partition, last.Offset, why)
		s.Like = j.config.Near(string(why.reason), why.field, last.Value)
	}
}

// sampleOne judges where a reading that is one lies.
func (j *Job) sampleOne(in *task.Input, read *reading.Reading, anywhere *routing, s *Sample) {
	if reason := anywhere.judge(in, read); reason != "" {
		s.WrongKey++
		s.WhyKey = anywhere.detail(reason, in)
		return
	}
	s.Placed++
	for p := range Unchecked {
		if p.Partition(in.Key, j.routing.partitions) == j.routing.partition {
			s.fits[p]++
		}
	}
}

// Explains tells whether a partitioner puts every reading with the right key where it lies.
func (s *Sample) Explains(p Partitioner) bool { return p == Unchecked || s.fits[p] == s.Placed }

// Explanations are the partitioners that do, other than Unchecked.
func (s *Sample) Explanations() (all []Partitioner) {
	for p := range Unchecked {
		if s.Explains(p) {
			all = append(all, p)
		}
	}
	return all
}
