package tidemark

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/spelling"
)

// batchOverhead is what a record may cost in its batch beside key and value: the batch header, lengths and headers.
const batchOverhead = 1024

// topicFaults lists everything that is wrong with the job's topics.
type topicFaults []string

// Error lists the faults, one a line, and where their commands are to be had with the address of the brokers.
func (f topicFaults) Error() string {
	text := strings.Join(f, "\n")
	if strings.Contains(text, "HOST:PORT") {
		text += "\ntidemark check --live prints the commands with the address of your brokers"
	}
	return text
}

// topics are the job's topics as the cluster has them.
type topics struct {
	identity  record.Identity
	limits    Limits
	retention int64 // delete.retention.ms of the changelog
	found     map[string]kafka.TopicInfo
	asked     time.Duration // when, by now
}

// prepareTopics looks the job's topics up, makes those that are ours to make, and refuses those that could lose state,
// all faults in one go.
func (a *App) prepareTopics(ctx context.Context, admin kafka.Admin) (*topics, error) {
	cluster, _, err := admin.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	if err := admin.Transactions(ctx); err != nil { // before a seat is taken: every task would refuse it at its fence
		return nil, err
	}
	found, err := admin.Topics(ctx, a.topicNames()...)
	if err != nil {
		return nil, err
	}
	if err := a.checkOutputs(ctx, admin, found); err != nil {
		return nil, err
	}
	if err := a.createMissing(ctx, admin, found); err != nil {
		return nil, err
	}
	if found, err = admin.Topics(ctx, a.topicNames()...); err != nil {
		return nil, err
	}
	for _, name := range a.topicNames() {
		if _, ok := found[name]; !ok { // it is there: this broker has not heard of it yet
			return nil, &kafka.Error{Class: kafka.ClassTransient, Op: "look at the topics", Topic: name, Partition: -1, Offset: -1,
				Err: errors.New("the broker that was asked does not know it yet")}
		}
	}
	if err := refuse(append(a.checkChangelog(found), a.checkSizes(found)...)); err != nil { // what was made has the brokers' defaults
		return nil, err
	}
	return a.describeTopics(cluster, found), nil
}

// existingTopics takes the job's topics as they are, for those who must make nothing.
func (a *App) existingTopics(ctx context.Context, admin kafka.Admin) (*topics, error) {
	cluster, _, err := admin.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	found, err := admin.Topics(ctx, a.topicNames()...)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{a.options.Input, a.options.Changelog.Topic} {
		if _, ok := found[name]; !ok {
			return nil, refuse(topicFaults{fmt.Sprintf("topic %s does not exist: there is no task to repair; tidemark run makes a changelog, "+
				"and says so where the job has lived before", name)})
		}
	}
	if err := a.checkOutputs(ctx, admin, found); err != nil {
		return nil, err
	}
	return a.describeTopics(cluster, found), nil
}

// describeTopics says what is needed of topics that are in order.
func (a *App) describeTopics(cluster string, found map[string]kafka.TopicInfo) *topics {
	t := &topics{identity: record.Identity{ClusterID: cluster, Input: found[a.options.Input].Topic,
		Changelog: found[a.options.Changelog.Topic].Topic, Growing: a.options.Relay != nil}, found: found, asked: now()}
	for _, name := range a.outputNames() {
		t.identity.Outputs = append(t.identity.Outputs, found[name].Topic)
	}
	t.limits = a.limits(found)
	t.retention, _ = strconv.ParseInt(found[a.options.Changelog.Topic].Configs["delete.retention.ms"], 10, 64)
	return t
}

// partitions is how many partitions a topic has.
func (t *topics) partitions(name string) int32 { return t.found[name].Partitions }

// ours tells whether a topic is made by us: the changelog, the internal topic of a relay, and where the options say so all.
func (a *App) ours(name string) bool {
	return a.options.Topics.Create || name == a.options.Changelog.Topic || a.options.Relay != nil && slices.Contains(a.options.Results, name)
}

// outputNames are the topics that commits write beside the changelog, each once, in order.
func (a *App) outputNames() []string {
	var names []string
	for _, name := range append(slices.Clone(a.options.Results), a.options.Late, a.options.DeadLetter) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (a *App) topicNames() []string {
	return append([]string{a.options.Input, a.options.Changelog.Topic}, a.outputNames()...)
}

// createMissing makes the changelog, and where the options say so the other topics. The input comes first: its
// partition count is that of all.
func (a *App) createMissing(ctx context.Context, admin kafka.Admin, found map[string]kafka.TopicInfo) error {
	partitions := a.options.Topics.Partitions
	if input, ok := found[a.options.Input]; ok {
		partitions = input.Partitions
	} else if !a.options.Topics.Create || a.options.Topics.InputLater {
		return &missingInput{topic: a.options.Input}
	}
	for _, name := range a.topicNames() {
		if _, ok := found[name]; ok {
			continue
		}
		if !a.ours(name) {
			continue // checkOutputs has named it
		}
		spec := a.spec(name, partitions)
		if err := admin.Create(ctx, spec); err != nil {
			return err
		}
		if name == a.options.Input { // of the embedded broker, where a misspelt name would else be an empty topic and no word of it
			a.made(ctx, admin, name, spec.Partitions)
			continue
		}
		a.log.Info("topic made", "topic", name, "partitions", spec.Partitions)
	}
	return a.growChangelog(ctx, admin, found)
}

// made tells that the input topic was not there, and of one that was perhaps meant (D21).
func (a *App) made(ctx context.Context, admin kafka.Admin, name string, partitions int32) {
	args := []any{"topic", name, "partitions", partitions}
	if like, err := a.meant(ctx, admin, name); err == nil && like != "" {
		args = append(args, "did_you_mean", like)
	}
	a.log.Warn("the input topic was not there: made, and empty", args...)
}

// meant is the topic that was perhaps meant by a name that is none (D21): one of somebody else's. That there is none, or that it
// cannot be found out, is no matter: it is a hint.
func (a *App) meant(ctx context.Context, admin kafka.Admin, name string) (string, error) {
	names, err := admin.Names(ctx)
	if err != nil {
		return "", err
	}
	ours := a.topicNames()
	return spelling.Nearest(name, slices.DeleteFunc(names, func(name string) bool { return slices.Contains(ours, name) })), nil
}

// spec is how a missing topic is made, with as many partitions as the input has.
func (a *App) spec(name string, partitions int32) kafka.TopicSpec {
	spec := kafka.TopicSpec{Name: name, Partitions: partitions, Configs: map[string]string{}}
	minInsync := 0
	switch relay := a.options.Relay; {
	case name == a.options.Changelog.Topic:
		spec.ReplicationFactor, minInsync = a.options.Changelog.ReplicationFactor, a.options.Changelog.MinInsync
		spec.Configs = maps.Clone(kafka.ChangelogConfigs)
	case relay != nil && slices.Contains(a.options.Results, name):
		spec.ReplicationFactor, minInsync = relay.ReplicationFactor, relay.MinInsync
		if relay.Partitions > 0 {
			spec.Partitions = relay.Partitions
		}
	}
	if minInsync > 0 {
		spec.Configs["min.insync.replicas"] = strconv.Itoa(minInsync)
	}
	return spec
}

// growChangelog gives the changelog of a relay as many partitions as its input has now (R34).
func (a *App) growChangelog(ctx context.Context, admin kafka.Admin, found map[string]kafka.TopicInfo) error {
	input, changelog := found[a.options.Input], found[a.options.Changelog.Topic]
	if a.options.Relay == nil || changelog.Name == "" || changelog.Partitions >= input.Partitions {
		return nil
	}
	if err := admin.AddPartitions(ctx, changelog.Name, input.Partitions); err != nil {
		return err
	}
	a.log.Info("the input has grown, and the changelog with it", "topic", changelog.Name, "had", changelog.Partitions, "has", input.Partitions)
	return nil
}

// missingInput says that the input topic does not exist (S82): a daemon waits for it.
type missingInput struct {
	topic string
	like  string // the topic that was perhaps meant, "" for none
}

// Error names the topic and the ways on.
func (e *missingInput) Error() string {
	return fmt.Sprintf("input topic %s does not exist%s", e.topic, e.advice())
}

// advice names the topic that was perhaps meant (D21), and the ways on.
func (e *missingInput) advice() string {
	if e.like == "" {
		return ": " + e.repair()
	}
	return fmt.Sprintf(" (did you mean %s?): %s", e.like, e.repair())
}

func (e *missingInput) repair() string { return "create it, or correct input.topic" }

// asked asks back about a topic that is missing; "" when none has nearly its name, or that cannot be found out (D21).
func (a *App) asked(ctx context.Context, admin kafka.Admin, missing string) string {
	if like, err := a.meant(ctx, admin, missing); err == nil && like != "" {
		return fmt.Sprintf(" (did you mean %s?)", like)
	}
	return ""
}

// refuse makes faults an error that stops the job.
func refuse(faults topicFaults) error {
	if len(faults) == 0 {
		return nil
	}
	return &kafka.Error{Class: kafka.ClassPermanent, Op: "check topics", Offset: -1, Err: faults}
}

// checkOutputs refuses missing outputs, which are not ours to make, before anything is made. A changelog that exists is
// checked in the same go.
func (a *App) checkOutputs(ctx context.Context, admin kafka.Admin, found map[string]kafka.TopicInfo) error {
	var faults topicFaults
	in, known := found[a.options.Input]
	for _, name := range a.outputNames() {
		if _, ok := found[name]; !ok && known && !a.ours(name) {
			faults = append(faults, fmt.Sprintf("topic %s does not exist%s. Repair: kafka-topics.sh --bootstrap-server HOST:PORT --create "+
				"--topic %s --partitions %d (as many as the input has)", name, a.asked(ctx, admin, name), name, in.Partitions))
		}
	}
	faults = append(faults, a.checkSizes(found)...)
	if a.options.Relay != nil && found[a.options.Changelog.Topic].Partitions < in.Partitions {
		return refuse(append(faults, kafka.ChangelogFaults(found[a.options.Changelog.Topic], kafka.TopicInfo{})...)) // it will grow
	}
	return refuse(append(faults, a.checkChangelog(found)...))
}

// checkChangelog lists what is wrong with a changelog that exists.
func (a *App) checkChangelog(found map[string]kafka.TopicInfo) topicFaults {
	changelog, ok := found[a.options.Changelog.Topic]
	if !ok {
		return nil
	}
	return kafka.ChangelogFaults(changelog, found[a.options.Input])
}

// checkSizes lists the written topics that would refuse a full batch, sooner or later and each time it is sent.
func (a *App) checkSizes(found map[string]kafka.TopicInfo) (faults topicFaults) {
	for _, name := range append([]string{a.options.Changelog.Topic}, a.outputNames()...) {
		if fault := kafka.SizeFault(found[name]); fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults
}

// limits are the sizes the topics accept, less what a record costs beside key and value.
func (a *App) limits(found map[string]kafka.TopicInfo) Limits {
	size := func(name string) record.Bytes {
		n, err := strconv.ParseInt(found[name].Configs["max.message.bytes"], 10, 64)
		if err != nil || n <= 0 {
			n = 1048588 // Kafka's default
		}
		return record.Bytes(max(n-batchOverhead, 0))
	}
	l := Limits{Changelog: size(a.options.Changelog.Topic), Late: size(a.options.Late), DeadLetter: size(a.options.DeadLetter)}
	l.Result = l.Changelog
	for _, name := range a.options.Results {
		l.Result = min(l.Result, size(name))
	}
	return l
}
