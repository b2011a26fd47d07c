package sim

import (
	"errors"
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// expected is the oracle's configuration of the scenario's job.
func (w *world) expected() *oracle.Config {
	c := oracle.Defaults()
	c.Key, c.Values, c.Time = []string{"device"}, []string{"v"}, oracle.TimeField{Name: "ts", Unit: "ms"}
	c.Partitioner, c.Partitions, c.MaxLag = "unchecked", w.s.Partitions, w.s.MaxLag
	for _, a := range w.s.Aggregations {
		c.Aggregations = append(c.Aggregations, oracle.Aggregation{Name: a.Name, Size: a.Size, Step: a.Step, Offset: a.Offset, Grace: a.Grace, Functions: a.Functions})
	}
	return &c
}

// messages are the committed records of a partition, as the oracle takes them.
func (w *world) messages(topic string, partition int32) []oracle.Message {
	var list []oracle.Message
	for _, r := range w.cluster.Committed(topic, partition) {
		m := oracle.Message{Record: oracle.Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, Value: r.Value}, Partition: partition}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, oracle.Header(h))
		}
		list = append(list, m)
	}
	return list
}

// seen is all that a job shows to the world: its results, late readings and dead letters as they are, and what its
// changelog folds to.
func (w *world) seen() (text string) {
	topics := []string{lateTopic, deadTopic}
	for _, a := range w.s.Aggregations {
		topics = append(topics, resultTopic(a.Name))
	}
	for p := range w.s.Partitions {
		for _, topic := range topics {
			for _, r := range w.cluster.Committed(topic, p) {
				text += fmt.Sprintln(topic, p, r.Offset, string(r.Key), string(r.Value), r.Headers)
			}
		}
		if fold, err := oracle.FoldChangelog(w.messages(logTopic, p)); err != nil || fold.Last == nil {
			text += fmt.Sprintln(err, fold)
		} else {
			text += fmt.Sprintln(fold.Live, *fold.Last)
		}
	}
	return text
}

// judge compares everything that was committed with what the oracle expects, and audits the changelog.
func (w *world) judge() error {
	input := make([][]oracle.Message, w.s.Partitions)
	got := &proof.Observed{Live: []oracle.Entry{}, Results: []proof.Line{}, Late: []proof.Output{}, Dead: []proof.Output{}}
	for p := range w.s.Partitions {
		input[p] = w.messages(inTopic, p)
		if err := w.observe(got, p); err != nil {
			return err
		}
		if err := w.audit(p); err != nil {
			return err
		}
	}
	if anomalies := proof.Compare(proof.Expect(w.expected(), input), got); len(anomalies) > 0 {
		return errors.New(proof.Report(anomalies, 5))
	}
	return nil
}

// observe adds what is there of one task.
func (w *world) observe(got *proof.Observed, p int32) error {
	fold, err := oracle.FoldChangelog(w.messages(logTopic, p))
	if err != nil {
		return err
	}
	if fold.Last == nil {
		return fmt.Errorf("%s/%d: no commit record", logTopic, p)
	}
	got.Counters = append(got.Counters, proof.Counters{Task: fold.Last.Counters, Aggregations: fold.Last.Aggregations, StreamTime: fold.Last.StreamTime})
	for _, e := range fold.Live {
		got.Live = append(got.Live, e)
	}
	for _, a := range w.s.Aggregations {
		for _, m := range w.messages(resultTopic(a.Name), p) {
			l, err := proof.ParseLine(m.Value, fmt.Sprintf("%s/%d at offset %d", resultTopic(a.Name), p, m.Offset))
			if err != nil {
				return err
			}
			got.Results = append(got.Results, l)
		}
	}
	for _, to := range []struct {
		topic string
		list  *[]proof.Output
	}{{lateTopic, &got.Late}, {deadTopic, &got.Dead}} {
		for _, m := range w.messages(to.topic, p) {
			o, err := proof.ParseOutput(m)
			if err != nil {
				return err
			}
			*to.list = append(*to.list, o)
		}
	}
	return nil
}

// audit holds the changelog to its own rules.
func (w *world) audit(p int32) error {
	dumper, err := job.NewDumper(w.jobConfig())
	if err != nil {
		return err
	}
	audit := recovery.NewAudit(jobName, logTopic, p, w.cluster.Offsets(logTopic, p).Start, func(key, value []byte) error {
		if _, err := dumper.Append(nil, key, value, false); !errors.Is(err, job.ErrNoWindow) {
			return err
		}
		return nil
	})
	audit.Take(w.cluster.Committed(logTopic, p))
	err = errors.Join(audit.Faults(), audit.Prove())
	return errors.Join(err, audit.Close())
}
