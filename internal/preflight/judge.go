package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/spelling"
)

// Judge says everything that is not as the plan needs it.
func Judge(plan *Plan, s *kafka.Survey) []Finding {
	j := &judge{Plan: plan, survey: s}
	j.versions()
	for _, name := range plan.topics() {
		t := s.Topics[name]
		if j.exists(name, &t) {
			j.rights(name, &t)
			j.replicas(name, &t)
			j.settings(name, &t)
		}
	}
	j.counts()
	j.group()
	j.transactions()
	return j.found
}

// judge collects findings.
type judge struct {
	*Plan
	survey *kafka.Survey
	found  []Finding
}

func (j *judge) fault(topic, repair, format string, args ...any) {
	j.found = append(j.found, Finding{Fault: true, Topic: topic, What: fmt.Sprintf(format, args...), Repair: repair})
}

func (j *judge) warn(topic, repair, format string, args ...any) {
	j.found = append(j.found, Finding{Topic: topic, What: fmt.Sprintf(format, args...), Repair: repair})
}

// versions judges the transactions (R12).
func (j *judge) versions() {
	if j.survey.TransactionVersion >= 2 {
		return
	}
	upgrade := j.command("kafka-features.sh", "upgrade --feature transaction.version=2")
	if !j.AllowOld {
		j.fault("", upgrade+"  (brokers of 4.0 or later; else kafka.allow_transaction_v1: true)", "the cluster's transaction.version is %d, exactly-once needs 2", j.survey.TransactionVersion)
		return
	}
	j.warn("", upgrade, "the cluster's transaction.version is %d, which kafka.allow_transaction_v1 admits", j.survey.TransactionVersion)
	if err := j.survey.VerificationErr; err != nil {
		j.fault("", j.grant("--cluster", kafka.RightDescribeConfigs), "whether brokers verify transactions is not known: %v", err)
	}
	for _, id := range j.survey.Brokers {
		if value, ok := j.survey.Unverified[id]; ok {
			j.fault("", j.command("kafka-configs.sh", "--alter --entity-type brokers --entity-name %d --add-config transaction.partition.verification.enable=true", id),
				"broker %d has transaction.partition.verification.enable %s: records of a writer that was replaced could still be committed", id, value)
		}
	}
}

// exists judges whether a topic is there, and tells whether there is something to judge.
func (j *judge) exists(name string, t *kafka.SurveyedTopic) bool {
	switch {
	case t.DescribeErr != nil:
		j.fault(name, j.grant("--topic "+name, j.wanted(name)), "nothing is known of topic %s: %v", name, t.DescribeErr)
	case !t.Missing:
		return true
	case j.Makes:
	case name == j.Changelog:
		j.unmade()
	case name == j.Input:
		j.absent("input.topic", name, 0)
	default:
		j.absent("the job's file", name, j.survey.Topics[j.Input].TopicInfo.Partitions)
	}
	return false
}

// absent tells of a topic that is not there, and of the one that was perhaps meant (D21).
func (j *judge) absent(key, name string, partitions int32) {
	what, repair := "topic "+name+" does not exist", j.create(name, partitions)
	if name == j.Input {
		what = "input " + what
	}
	if like := spelling.Nearest(name, j.survey.Others); like != "" {
		what += fmt.Sprintf(" (did you mean %s?)", like)
		repair = fmt.Sprintf("name %s in %s, or %s", like, key, repair)
	}
	j.fault(name, repair, "%s", what)
}

// replicas is their number in words.
func replicas(n int64) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

func (j *judge) create(name string, partitions int32) string {
	count := "COUNT"
	if partitions > 0 {
		count = fmt.Sprint(partitions)
	}
	return j.command("kafka-topics.sh", "--create --topic %s --partitions %s", name, count)
}

// unmade judges a changelog that the first start will make.
func (j *judge) unmade() {
	if n := len(j.survey.Brokers); j.Replication > n {
		j.fault(j.Changelog, fmt.Sprintf("changelog.replication_factor: %d, or more brokers", n),
			"changelog %s cannot be made: changelog.replication_factor is %d and there are %d brokers", j.Changelog, j.Replication, n)
	}
	if !j.survey.MakeTopics {
		j.warn(j.Changelog, j.grant("--topic "+j.Changelog, kafka.RightCreate), "changelog %s does not exist, and %s may not be allowed to make it", j.Changelog, j.who())
	}
}

// wanted are the rights that the job needs on a topic.
func (j *judge) wanted(name string) kafka.Rights {
	if name == j.Input {
		return kafka.RightRead | kafka.RightDescribe | kafka.RightDescribeConfigs
	}
	return kafka.RightRead | kafka.RightWrite | kafka.RightDescribe | kafka.RightDescribeConfigs // results are read to know whether the job has lived (R5)
}

func (j *judge) rights(name string, t *kafka.SurveyedTopic) {
	if lack := t.Rights.Missing(j.wanted(name)); lack != 0 {
		j.fault(name, j.grant("--topic "+name, lack), "%s has no right to %s topic %s", j.who(), list(lack.Names()), name)
	} else if t.ConfigsErr != nil {
		j.fault(name, "", "the settings of topic %s are not known: %v", name, t.ConfigsErr)
	}
}

func list(names []string) string { return strings.Join(names, ", ") }

func (j *judge) who() string {
	if j.User == "" {
		return "this client"
	}
	return "user " + j.User
}

// grant is the command that gives rights.
func (j *judge) grant(on string, rights kafka.Rights) string {
	user := j.User
	if user == "" {
		user = "NAME"
	}
	var operations strings.Builder
	for _, name := range rights.Names() {
		operations.WriteString(" --operation " + name)
	}
	return j.command("kafka-acls.sh", "--add --allow-principal User:%s%s %s", user, operations.String(), on)
}

// replicas judges who holds the topic's partitions.
func (j *judge) replicas(name string, t *kafka.SurveyedTopic) {
	if len(t.Leaderless) > 0 {
		var away []int32
		for _, p := range t.Leaderless {
			for _, id := range t.Partitions[p].Replicas {
				if !slices.Contains(j.survey.Brokers, id) && !slices.Contains(away, id) {
					away = append(away, id)
				}
			}
		}
		slices.Sort(away)
		j.fault(name, fmt.Sprintf("start brokers %v", away), "partitions %v of %s have no leader", t.Leaderless, name)
	}
	written := name != j.Input
	least, known := number(t.Configs, "min.insync.replicas")
	factor := int64(t.ReplicationFactor)
	alter := func(value int64) string { return j.set(name, "min.insync.replicas", fmt.Sprint(value)) }
	in, at := t.LeastInSync()
	switch {
	case known && written && least > factor:
		j.fault(name, alter(max(factor-1, 1)), "%s has min.insync.replicas=%d and %s: nothing can be written", name, least, replicas(factor))
	case known && written && int64(in) < least:
		j.fault(name, "start the brokers of its replicas: "+j.command("kafka-topics.sh", "--describe --topic %s", name), "%s/%d has %s in sync, min.insync.replicas is %d: nothing can be written", name, at, replicas(int64(in)), least)
	case len(t.OutOfSync()) > 0:
		j.warn(name, j.command("kafka-topics.sh", "--describe --topic %s", name), "replicas of partitions %v of %s are not in sync", t.OutOfSync(), name)
	}
	if !written {
		return
	}
	if factor < 3 && !j.Makes { // the embedded broker is for trying out, and says so
		j.warn(name, "kafka-reassign-partitions.sh, or make it with three replicas", "%s has %s: below 3, the loss of a broker can stop the job or lose its data", name, replicas(factor))
	}
	if known && factor > 1 && least < 2 {
		j.warn(name, alter(2), "%s has min.insync.replicas=%d: below 2, a commit can be lost with one broker", name, least)
	}
	if known && factor > 1 && least == factor {
		j.warn(name, alter(factor-1), "%s has min.insync.replicas=%d and %d replicas: the job stands still whenever one broker is away", name, least, factor)
	}
	if t.Configs["unclean.leader.election.enable"] == "true" {
		j.fault(name, j.set(name, "unclean.leader.election.enable", "false"), "%s has unclean.leader.election.enable=true: an election can lose what was committed", name)
	}
}

// counts compares numbers of partitions: equal ones keep each task to itself (V18).
func (j *judge) counts() {
	input := j.survey.Topics[j.Input].TopicInfo.Partitions
	if input == 0 {
		return
	}
	for _, name := range j.topics() {
		switch n := j.survey.Topics[name].TopicInfo.Partitions; {
		case n == 0 || n == input:
		case name == j.Changelog:
			j.fault(name, "name another changelog topic, or give the input its old count back", "changelog %s has %d partitions and input %s has %d: they must be equal, for a task is one of each", name, n, j.Input, input)
		case n < input:
			j.warn(name, j.command("kafka-topics.sh", "--alter --topic %s --partitions %d", name, input),
				"%s has %d partitions and the input %d: tasks share them, and a stuck one delays the results of the others until its transaction times out", name, n, input)
		default:
			j.warn(name, "", "%s has %d partitions and the input %d: the last ones stay empty", name, n, input)
		}
	}
}

func (j *judge) group() {
	g := j.survey.Group
	switch {
	case g.Err != nil:
		j.fault("", j.grant("--group "+j.Job, kafka.RightRead), "group %s: %v", j.Job, g.Err)
	case g.Rights.Missing(kafka.RightRead) != 0:
		j.fault("", j.grant("--group "+j.Job, kafka.RightRead), "%s has no right to Read group %s", j.who(), j.Job)
	}
}

func (j *judge) transactions() {
	a, on := j.survey.Transactions, "--transactional-id "+j.Changelog+"- --resource-pattern-type prefixed"
	switch {
	case a.Err != nil:
		j.fault("", j.grant(on, kafka.RightWrite|kafka.RightDescribe), "transactional ids %s-N: %v", j.Changelog, a.Err)
	case a.Rights.Missing(kafka.RightWrite) != 0:
		j.fault("", j.grant(on, kafka.RightWrite|kafka.RightDescribe), "%s has no right to Write transactional ids %s-N", j.who(), j.Changelog)
	}
}

// set is the command that changes a topic's setting.
func (j *judge) set(topic, key, value string) string {
	return j.command("kafka-configs.sh", "--alter --entity-type topics --entity-name %s --add-config %s=%s", topic, key, value)
}

// number is a number in a setting.
func number(configs map[string]string, key string) (int64, bool) {
	n, err := strconv.ParseInt(configs[key], 10, 64)
	return n, err == nil
}
