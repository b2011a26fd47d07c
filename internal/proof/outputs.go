package proof

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// expectedOutput is one record that the late or dead letter topic must hold.
type expectedOutput struct {
	Output
	faults []oracle.Fault // dead letters: any of them may be named
}

func (c *comparison) expectedLate() []expectedOutput {
	var out []expectedOutput
	for _, o := range c.want.Outcomes {
		for _, l := range o.Late {
			out = append(out, expectedOutput{Output: Output{Partition: o.Partition, Offset: l.Offset, Key: l.Record.Key, Value: l.Record.Value,
				Aggregation: l.Aggregation, Start: l.Start, End: l.End, StreamTime: l.StreamTime}})
		}
	}
	return out
}

func (c *comparison) expectedDead() []expectedOutput {
	var out []expectedOutput
	for _, o := range c.want.Outcomes {
		for _, d := range o.Dead {
			out = append(out, expectedOutput{faults: d.Faults,
				Output: Output{Partition: o.Partition, Offset: d.Offset, Key: d.Record.Key, Value: d.Record.Value}})
		}
	}
	return out
}

// id names the input record and the aggregation that an output stands for.
func (o *Output) id() string {
	if o.Aggregation == "" {
		return fmt.Sprintf("input %d/%d", o.Partition, o.Offset)
	}
	return fmt.Sprintf("input %d/%d for %s", o.Partition, o.Offset, o.Aggregation)
}

// outputs compares a late or dead letter topic with what it must hold.
func (c *comparison) outputs(where string, want []expectedOutput, got []Output) {
	seen := map[string][]*Output{}
	for i := range got {
		id := got[i].id()
		seen[id] = append(seen[id], &got[i])
	}
	for i := range want {
		w := &want[i]
		id := w.id()
		switch found := seen[id]; {
		case len(found) == 0:
			c.report(Lost, where, id, "nothing")
		case len(found) > 1:
			c.report(Double, where, id+" once", fmt.Sprintf("%d records", len(found)))
		default:
			c.output(where, w, found[0])
		}
		delete(seen, id)
	}
	for _, o := range got {
		if id := o.id(); seen[id] != nil {
			c.report(Unknown, where, "no such record", id)
			delete(seen, id)
		}
	}
}

// output compares one record of a topic with what it must be.
func (c *comparison) output(where string, want *expectedOutput, got *Output) {
	if want.faults != nil && !reasonFits(got.Reason, want.faults) {
		c.report(WrongValue, where, fmt.Sprintf("%s with a reason of %v", want.id(), want.faults), fmt.Sprintf("%q", got.Reason))
	}
	if want.Start != got.Start || want.End != got.End || want.StreamTime != got.StreamTime {
		c.report(WrongValue, where, fmt.Sprintf("%s of window [%d, %d) at stream time %d", want.id(), want.Start, want.End, want.StreamTime),
			fmt.Sprintf("[%d, %d) at %d", got.Start, got.End, got.StreamTime))
	}
	for _, part := range []struct{ want, got []byte }{{want.Key, got.Key}, {want.Value, got.Value}} {
		if (part.want == nil) != (part.got == nil) || !bytes.Equal(part.want, part.got) {
			c.report(WrongValue, where, fmt.Sprintf("%s with its bytes %.80q", want.id(), part.want), fmt.Sprintf("%.80q", part.got))
		}
	}
}

// reasonFaults says which faults a reason of tidemark's fixed list may stand for.
var reasonFaults = map[string][]oracle.Fault{
	"tombstone":         {oracle.FaultEmpty},
	"empty":             {oracle.FaultEmpty},
	"byte_order_mark":   {oracle.FaultJSON},
	"not_json":          {oracle.FaultJSON},
	"syntax":            {oracle.FaultJSON},
	"truncated":         {oracle.FaultJSON},
	"trailing_data":     {oracle.FaultJSON},
	"invalid_number":    {oracle.FaultJSON},
	"not_finite":        {oracle.FaultJSON, oracle.FaultValue},
	"control_character": {oracle.FaultJSON},
	"invalid_utf8":      {oracle.FaultUTF8},
	"lone_surrogate":    {oracle.FaultUTF8},
	"duplicate_field":   {oracle.FaultDuplicate},
	"too_deep":          {oracle.FaultDepth},
	"too_many_fields":   {oracle.FaultNames},
	"not_object":        {oracle.FaultJSON},
	"missing_field":     {oracle.FaultItems, oracle.FaultKey, oracle.FaultTime, oracle.FaultValue},
	"null_field":        {oracle.FaultItems, oracle.FaultKey, oracle.FaultTime, oracle.FaultValue},
	"wrong_type":        {oracle.FaultItems, oracle.FaultKey, oracle.FaultTime, oracle.FaultValue},
	"empty_key":         {oracle.FaultKey},
	"bad_time":          {oracle.FaultTime},
	"implausible_time":  {oracle.FaultImplausible},
	"future_time":       {oracle.FaultFuture},
	"wrong_key":         {oracle.FaultWrongKey},
	"wrong_partition":   {oracle.FaultWrongPartition},
	"out_of_range":      {oracle.FaultRange},
	"no_value":          {oracle.FaultValue},
	"not_whole":         {oracle.FaultValue},
	"bad_number":        {oracle.FaultValue},
	"no_match":          {oracle.FaultKey, oracle.FaultTime, oracle.FaultValue},
	"registry_framing":  {oracle.FaultJSON},
}

// unjudged are the reasons that come of bounds on a record which the oracle does not have.
var unjudged = []string{"too_many_updates", "too_many_readings", "too_large"}

// Unjudged says that readings were refused which the oracle takes up, so that a comparison says nothing of the job; nil when there
// are none.
func Unjudged(got *Observed) error {
	for i := range got.Dead {
		if o := &got.Dead[i]; slices.Contains(unjudged, o.Reason) {
			return fmt.Errorf("the record at offset %d of input partition %d is refused as %s, a bound that the oracle does not have: this input cannot be judged; "+
				"verify the job with an input in which these readings come in smaller records", o.Offset, o.Partition, o.Reason)
		}
	}
	return nil
}

// reasonFits tells whether a reason names one of the faults that a record has.
func reasonFits(reason string, faults []oracle.Fault) bool {
	return slices.ContainsFunc(reasonFaults[reason], func(f oracle.Fault) bool { return slices.Contains(faults, f) })
}

// counters compares I9 and stream time of each task.
func (c *comparison) counters() {
	const where = "counters"
	if len(c.got.Counters) != len(c.want.Outcomes) {
		c.report(Torn, where, fmt.Sprintf("%d tasks", len(c.want.Outcomes)), fmt.Sprintf("%d", len(c.got.Counters)))
		return
	}
	for i, o := range c.want.Outcomes {
		got := c.got.Counters[i]
		n := got.Task
		if n.In != n.Accepted+n.DeadLettered+n.Filtered+n.Skipped+n.Duplicates {
			c.report(Torn, where, fmt.Sprintf("partition %d: in = accepted + dead-lettered + filtered + skipped + duplicates", i), fmt.Sprintf("%+v", n))
		}
		if n != o.Counters {
			c.report(countKind(n.In, o.Counters.In), where, fmt.Sprintf("partition %d: %+v", i, o.Counters), fmt.Sprintf("%+v", n))
		}
		if got.StreamTime != o.StreamTime {
			c.report(countKind(got.StreamTime, o.StreamTime), where, fmt.Sprintf("partition %d: stream time %d", i, o.StreamTime),
				fmt.Sprint(got.StreamTime))
		}
		if !slices.Equal(got.Aggregations, o.Aggregations) {
			c.report(WrongValue, where, fmt.Sprintf("partition %d: %+v", i, o.Aggregations), fmt.Sprintf("%+v", got.Aggregations))
		}
	}
}

func countKind(got, want int64) Kind {
	switch {
	case got < want:
		return Lost
	case got > want:
		return Double
	}
	return WrongValue
}
