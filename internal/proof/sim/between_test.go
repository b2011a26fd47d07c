package sim

import (
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// judgeState compares what the tasks of all jobs hold, and what a relay has handed on, and fills got with what there is of
// the job. The dead letters of a job behind a relay are the relay's.
func (w *world) judgeState(got *proof.Observed) (found []proof.Anomaly, err error) {
	if got.Dead, err = w.outputs(deadTopic); err != nil {
		return nil, err
	}
	if err := w.observe(got, logTopic); err != nil || w.s.Between == 0 {
		return nil, err
	}
	relay := &proof.Observed{Live: []oracle.Entry{}, Dead: got.Dead}
	got.Dead = []proof.Output{}
	if err := w.observe(relay, logTopic+ofRelay); err != nil {
		return nil, err
	}
	config, _ := w.expected().Split(nil, w.s.Between)
	want := proof.Expect(config, w.topic(inTopic))
	return append(proof.Compare(want, relay), proof.CompareHanded(want, w.topic(between))...), nil
}

// judgeResults compares what the job has made of its input.
func (w *world) judgeResults(got *proof.Observed) []proof.Anomaly {
	config, input := w.expected(), inTopic
	if w.s.Between > 0 {
		_, config = config.Split(nil, w.s.Between)
		input = between
	}
	want := proof.Expect(config, w.topic(input))
	var err error
	if got.Late, err = w.outputs(lateTopic); err != nil {
		return []proof.Anomaly{{Kind: proof.Torn, Where: lateTopic, Found: err.Error()}}
	}
	got.Updates = []proof.Line{}
	for _, a := range w.s.Aggregations {
		topic := resultTopic(a.Name)
		for p := range w.partitions(topic) {
			for _, m := range w.messages(topic, p) {
				l, err := proof.ParseLine(m.Value, fmt.Sprintf("%s/%d at offset %d", topic, p, m.Offset))
				if err != nil {
					return []proof.Anomaly{{Kind: proof.Torn, Where: topic, Found: err.Error()}}
				}
				got.Updates = append(got.Updates, l)
				if l.Final || !a.Updates {
					got.Results = append(got.Results, l)
				}
			}
		}
	}
	return proof.Compare(want, got)
}

// observe adds what there is in the tasks of a job.
func (w *world) observe(got *proof.Observed, log string) error {
	for p := range w.partitions(log) {
		fold, err := oracle.FoldChangelog(w.messages(log, p))
		if err != nil {
			return err
		}
		if fold.Last == nil {
			return fmt.Errorf("%s/%d: no commit record", log, p)
		}
		got.Counters = append(got.Counters, proof.Counters{Task: fold.Last.Counters, Aggregations: fold.Last.Aggregations, StreamTime: fold.Last.StreamTime})
		got.Backwards = append(got.Backwards, fold.Backwards...)
		for _, e := range fold.Live {
			got.Live = append(got.Live, e)
		}
		if err := w.audit(log, p); err != nil {
			return err
		}
	}
	return nil
}

// outputs are the records of a topic of late readings or dead letters.
func (w *world) outputs(topic string) ([]proof.Output, error) {
	all := []proof.Output{}
	for _, messages := range w.topic(topic) {
		for _, m := range messages {
			o, err := proof.ParseOutput(m)
			if err != nil {
				return nil, err
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// topic is all that was committed to a topic, by partition.
func (w *world) topic(name string) [][]oracle.Message {
	all := make([][]oracle.Message, w.partitions(name))
	for p := range all {
		all[p] = w.messages(name, int32(p))
	}
	return all
}

// partitions is how many partitions a topic has.
func (w *world) partitions(topic string) int32 {
	if topic == between || topic == logTopic {
		return w.s.tasks()
	}
	return w.s.Partitions
}
