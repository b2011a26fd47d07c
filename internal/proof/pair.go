package proof

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// Pair is one key of a job whose readings go through a relay first (input.rekey): a job that hands them on under the key,
// and one that aggregates what it is handed. Their names are those that docs/reference/config.md gives.
type Pair struct {
	Suffix       string // of all names of this key: "" for input.key
	Key          []string
	Aggregations []string
}

// Part is one of the jobs that a Job consists of: itself, or two for each of its Pairs.
type Part struct {
	Name      string // and that of its group
	Input     string // topic
	Changelog string // topic
	StateDir  string
}

// Parts are the jobs that the job consists of; those that hand on come first.
func (j *Job) Parts() []Part {
	if j.Pairs == nil {
		return []Part{{Name: j.Name, Input: j.Input(), Changelog: j.Changelog(), StateDir: j.StateDir()}}
	}
	var relays, relayed []Part
	for i := range j.Pairs {
		first, second := j.pair(&j.Pairs[i])
		relays, relayed = append(relays, first), append(relayed, second)
	}
	return append(relays, relayed...)
}

func (j *Job) pair(p *Pair) (relay, relayed Part) {
	relay = Part{Name: j.Name + "-rekey" + p.Suffix, Input: j.Input(), Changelog: j.Changelog() + "-rekey" + p.Suffix, StateDir: j.Path("state", "rekey"+p.Suffix)}
	relayed = Part{Name: j.Name + p.Suffix, Input: j.Name + "-keyed" + p.Suffix, Changelog: j.Changelog() + p.Suffix, StateDir: j.StateDir()}
	if p.Suffix != "" {
		relayed.StateDir = j.Path("state", p.Suffix[1:])
	}
	return relay, relayed
}

// OwnTopics are those that the job makes itself: changelogs, and topics between parts.
func (j *Job) OwnTopics() (topics []string) {
	for _, p := range j.Parts() {
		topics = append(topics, p.Changelog)
		if p.Input != j.Input() {
			topics = append(topics, p.Input)
		}
	}
	return topics
}

// ExpectedPair is what the oracle computed of one key: of the input for the relay, and of the topic between for the other,
// whose order of readings is the relay's to choose where they come from different partitions.
type ExpectedPair struct{ Relay, Relayed *Expected }

// ObservedPair is what was observed of one key.
type ObservedPair struct {
	Relay, Relayed Observed
	Handed         [][]oracle.Message // the topic between
}

// expectPair reads the topic between the parts of a key.
func (j *Job) expectPair(ctx context.Context, reader *oracle.Reader, p *Pair, input [][]oracle.Message) (e ExpectedPair, err error) {
	_, part := j.pair(p)
	handed, err := reader.Read(ctx, part.Input, oracle.AtHighWatermark)
	if err != nil {
		return e, err
	}
	relay, relayed := j.Oracle.Split(p.Key, int32(len(handed)))
	relayed.Aggregations = slices.DeleteFunc(slices.Clone(relayed.Aggregations), func(a oracle.Aggregation) bool { return !slices.Contains(p.Aggregations, a.Name) })
	e.Relay = Expect(relay, input)
	e.Relayed, err = j.expect(ctx, reader, relayed, part.Changelog, handed)
	return e, err
}

// lookAtPairs shares what was seen of the job among its parts, and adds what only they have. Dead letters are those of the
// first relay.
func (j *Job) lookAtPairs(ctx context.Context, reader *oracle.Reader, s *Sight) error {
	for i := range j.Pairs {
		pair := &j.Pairs[i]
		relay, relayed := j.pair(pair)
		var o ObservedPair
		var err error
		if o.Handed, err = reader.Read(ctx, relayed.Input, oracle.AtHighWatermark); err != nil {
			return err
		}
		if i == 0 {
			o.Relay.Dead = s.Dead
		}
		if err := o.Relay.fold(ctx, reader, relay.Changelog); err != nil {
			return err
		}
		if err := o.Relayed.fold(ctx, reader, relayed.Changelog); err != nil {
			return err
		}
		own := func(aggregation string) bool { return slices.Contains(pair.Aggregations, aggregation) }
		lines := func(all []Line) []Line {
			return slices.DeleteFunc(slices.Clone(all), func(l Line) bool { return !own(l.Aggregation) })
		}
		o.Relayed.State, o.Relayed.Results, o.Relayed.Updates = lines(s.State), lines(s.Results), lines(s.Updates)
		if s.Late != nil {
			o.Relayed.Late = slices.DeleteFunc(slices.Clone(s.Late), func(o Output) bool { return !own(o.Aggregation) })
		}
		s.Pairs = append(s.Pairs, o)
	}
	return nil
}

// comparePairs compares each relay, what it has handed on, and what has become of that.
func comparePairs(want *Expected, got *Observed) (found []Anomaly) {
	for i, w := range want.Pairs {
		g, name := &got.Pairs[i], fmt.Sprintf("key %q", w.Relayed.Config.Key)
		add := func(of string, anomalies []Anomaly) {
			for _, a := range anomalies {
				a.Where += of + name
				found = append(found, a)
			}
		}
		add(" of the relay of ", Compare(w.Relay, &g.Relay))
		add(", ", CompareHanded(w.Relay, g.Handed))
		add(" of ", Compare(w.Relayed, &g.Relayed))
	}
	return found
}
