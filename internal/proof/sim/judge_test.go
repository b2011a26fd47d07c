package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// expected is the oracle's configuration of the scenario's job, as if there were no relay before it.
func (w *world) expected() *oracle.Config {
	c := oracle.Defaults()
	c.Key, c.Values, c.Time = []string{"device"}, []string{"v"}, oracle.TimeField{Name: "ts", Unit: "ms"}
	c.Partitioner, c.Partitions, c.MaxLag = "unchecked", w.s.Partitions, w.s.MaxLag
	c.Quorum, c.Dedup.Within = w.s.Quorum, w.s.Dedup
	for _, a := range w.s.Aggregations {
		to := oracle.Aggregation{Name: a.Name, Size: a.Size, Step: a.Step, Offset: a.Offset, Gap: a.Gap, Unit: a.Unit, Grace: a.Grace,
			Updates: a.Updates, Current: a.Current, Functions: a.Functions}
		if a.Unit != "" {
			to.Zone, _ = time.LoadLocation(a.Zone) // the job has asked for it too
		}
		c.Aggregations = append(c.Aggregations, to)
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
func (w *world) seen() string {
	var text strings.Builder
	topics := []string{lateTopic, deadTopic}
	for _, a := range w.s.Aggregations {
		topics = append(topics, resultTopic(a.Name))
	}
	if w.s.Between > 0 {
		topics = append(topics, between)
	}
	for _, topic := range topics {
		for p := range w.partitions(topic) {
			for _, r := range w.cluster.Committed(topic, p) {
				fmt.Fprintln(&text, topic, p, r.Offset, string(r.Key), string(r.Value), r.Headers)
			}
		}
	}
	for _, log := range w.logs() {
		for p := range w.partitions(log) {
			if fold, err := oracle.FoldChangelog(w.messages(log, p)); err != nil || fold.Last == nil {
				fmt.Fprintln(&text, err, fold)
			} else {
				fmt.Fprintln(&text, fold.Live, *fold.Last)
			}
		}
	}
	return text.String()
}

// logs are the changelogs.
func (w *world) logs() []string {
	if w.s.Between > 0 {
		return []string{logTopic, logTopic + ofRelay}
	}
	return []string{logTopic}
}

// judge compares everything that was committed with what the oracle expects, and audits the changelog.
func (w *world) judge() error {
	got := &proof.Observed{Live: []oracle.Entry{}, Results: []proof.Line{}}
	found, err := w.judgeState(got)
	if err != nil {
		return err
	}
	if found = append(found, w.judgeResults(got)...); len(found) > 0 {
		return errors.New(proof.Report(found, 5))
	}
	return nil
}

// audit holds the changelog to its own rules.
func (w *world) audit(log string, p int32) error {
	name, config := jobName, w.jobConfig()
	if log != logTopic {
		name, config = jobName+ofRelay, w.relayConfig()
	}
	dumper, err := job.NewDumper(config)
	if err != nil {
		return err
	}
	audit := recovery.NewAudit(name, log, p, w.cluster.Offsets(log, p).Start, func(key, value []byte) error {
		if _, err := dumper.Append(nil, key, value, false); !errors.Is(err, job.ErrNoWindow) {
			return err
		}
		return nil
	})
	audit.Take(w.cluster.Committed(log, p))
	err = errors.Join(audit.Faults(), audit.Prove())
	return errors.Join(err, audit.Close())
}
