// Package preflight looks at a cluster with the eyes of a job that is going to run on it, and says everything that is not
// as it must be in one go, each fault with its repair (section 9, check --live). It only looks: nothing is made, joined,
// fenced or written. The judgement is pure, so that each rule has its line in a table of tests.
package preflight

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// Plan is what a job wants of its cluster.
type Plan struct {
	Job         string // also its consumer group
	Config      job.Config
	Input       string
	Changelog   string
	Results     []string
	Late        string // "" for none
	DeadLetter  string
	Replication int  // of a changelog that is to be made; 0 is the brokers' default
	AllowOld    bool // transaction.version below 2 is admitted
	Makes       bool // missing topics are made by the job: the embedded broker

	Brokers string // address for the commands of repairs
	User    string // who signs in, for the commands of repairs; "" when nobody does
}

// Finding is one thing that is not as it must be, or that deserves a look.
type Finding struct {
	Fault  bool   `json:"fault"` // the job is refused, stops or can lose data; else a warning
	Topic  string `json:"topic,omitempty"`
	What   string `json:"what"`
	Repair string `json:"repair,omitempty"` // a command, or what to change
}

// String is the finding for people.
func (f Finding) String() string {
	word := "warning"
	if f.Fault {
		word = "fault"
	}
	text := word + ": " + f.What
	if f.Repair != "" {
		text += "\n  repair: " + f.Repair
	}
	return text
}

// Cluster is what a look needs.
type Cluster interface {
	kafka.Surveyor
	Log(topic string, partition int32) (kafka.Log, error)
}

// How much of the input is looked at: the newest records of each partition.
const (
	sampleRecords = 200
	sampleBytes   = 1 << 20
	sampleWait    = 500 * time.Millisecond
)

// Look looks at everything and judges it. The error says that nothing could be seen.
func Look(ctx context.Context, cluster Cluster, plan *Plan) ([]Finding, error) {
	survey, err := cluster.Survey(ctx, plan.topics(), plan.Job, plan.Changelog+"-0")
	if err != nil {
		return nil, err
	}
	found := Judge(plan, survey)
	input := survey.Topics[plan.Input]
	if input.Missing || input.DescribeErr != nil || len(input.Leaderless) > 0 || input.Rights.Missing(kafka.RightRead) != 0 || plan.Config.Part != job.Whole {
		return found, nil
	}
	sample := &job.Sample{}
	for p := range input.TopicInfo.Partitions {
		if err := plan.sample(ctx, cluster, p, input.TopicInfo.Partitions, sample); err != nil {
			return nil, err
		}
	}
	return append(found, plan.judgeSample(sample)...), nil
}

// topics are the topics of the plan, each once.
func (p *Plan) topics() []string {
	var names []string
	seen := map[string]bool{"": true}
	for _, name := range append([]string{p.Input, p.Changelog, p.Late, p.DeadLetter}, p.Results...) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// sample reads the newest records of an input partition.
func (p *Plan) sample(ctx context.Context, cluster Cluster, partition, partitions int32, into *job.Sample) error {
	const plenty = record.Bytes(1 << 20) // sizes are judged elsewhere
	j, err := job.New(p.Config, partition, partitions, job.Limits{Changelog: plenty, Result: plenty, Late: plenty, DeadLetter: plenty})
	if err != nil {
		return err
	}
	log, err := cluster.Log(p.Input, partition)
	if err != nil {
		return err
	}
	defer log.Close()
	o, err := log.Offsets(ctx)
	if err != nil {
		return err
	}
	for at, n := max(o.Start, o.Stable-sampleRecords), 0; at < o.Stable && n < sampleRecords; {
		f, err := log.Fetch(ctx, at, sampleBytes, sampleWait)
		if err != nil {
			return err
		}
		if f.Next == at {
			break // held by somebody's transaction
		}
		j.Sample(f.Records, into)
		at, n = f.Next, n+len(f.Records)
	}
	return nil
}

// judgeSample says whether the input lies as the configuration says (R3).
func (p *Plan) judgeSample(s *job.Sample) (found []Finding) {
	add := func(fault bool, repair, format string, args ...any) {
		found = append(found, Finding{Fault: fault, Topic: p.Input, What: fmt.Sprintf(format, args...), Repair: repair})
	}
	if s.Readings == 0 {
		return nil
	}
	if s.Refused > 0 {
		repair, why := "correct input in the job's file, or the producer", s.WhyRefused
		if s.Like != "" {
			why += fmt.Sprintf("; did you mean %s?", s.Like)
			repair = fmt.Sprintf("name %s in the job's file, or correct the producer", s.Like)
		}
		add(s.Refused == s.Readings, repair, "%d of the newest %d readings of %s would be refused and go to the dead letters; the last one, %s",
			s.Refused, s.Readings, p.Input, why)
	}
	if s.WrongKey > 0 {
		add(true, "set input.partitioned_by to the key fields that make the record key, or produce with the key that input.key makes",
			"%d of the newest %d readings of %s have another record key than input.partitioned_by makes: readings of one key may lie in several partitions; the last one: %s",
			s.WrongKey, s.Readings, p.Input, s.WhyKey)
	}
	if s.Placed > 0 && !s.Explains(p.Config.Partitioner) {
		repair := "no known partitioner explains them: input.partitioner: unchecked takes them, and that all readings of a key lie in one partition is then for you to see to"
		if all := s.Explanations(); len(all) > 0 {
			repair = fmt.Sprintf("input.partitioner: %s explains all of them", all[0])
		}
		add(true, repair, "the newest %d readings of %s do not lie where input.partitioner: %s puts them, and would be refused", s.Placed, p.Input, p.Config.Partitioner)
	}
	return found
}

// command is a command line of Kafka's tools.
func (p *Plan) command(tool, format string, args ...any) string {
	return strings.TrimSpace(fmt.Sprintf("%s --bootstrap-server %s %s", tool, p.Brokers, fmt.Sprintf(format, args...)))
}
