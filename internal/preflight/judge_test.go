package preflight

import (
	"errors"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// clean is a cluster without a finding.
func clean() (*Plan, *kafka.Survey) {
	plan := &Plan{Job: "boilers", Input: "readings", Changelog: "boilers-changelog", Results: []string{"hourly"}, Late: "late", DeadLetter: "dead",
		Brokers: "b:9092", User: "ann"}
	s := &kafka.Survey{ClusterID: "c", TransactionVersion: 2, Brokers: []int32{1, 2, 3}, MakeTopics: true, Topics: map[string]kafka.SurveyedTopic{},
		Group:        kafka.Access{Rights: kafka.RightRead | kafka.RightDescribe},
		Transactions: kafka.Access{Rights: kafka.RightWrite | kafka.RightDescribe}}
	for _, name := range plan.topics() {
		t := kafka.SurveyedTopic{Rights: kafka.AllRights, TopicInfo: kafka.TopicInfo{Topic: record.Topic{Name: name, Partitions: 2}, ReplicationFactor: 3,
			Configs: map[string]string{"min.insync.replicas": "2", "max.message.bytes": "1048588", "cleanup.policy": "delete", "retention.ms": "604800000",
				"message.timestamp.type": "LogAppendTime", "unclean.leader.election.enable": "false"}}}
		for range 2 {
			t.Partitions = append(t.Partitions, kafka.PartitionState{Leader: 1, Replicas: []int32{1, 2, 3}, InSync: []int32{1, 2, 3}})
		}
		if name == plan.Changelog {
			for key, value := range kafka.ChangelogConfigs {
				t.Configs[key] = value
			}
		}
		s.Topics[name] = t
	}
	return plan, s
}

// TestRules is the table of rules: one thing is wrong, one finding says so with its repair, and nothing else is found.
func TestRules(t *testing.T) {
	denied := errors.New("TOPIC_AUTHORIZATION_FAILED")
	type world struct {
		*Plan
		*kafka.Survey
	}
	topic := func(w *world, name string, change func(*kafka.SurveyedTopic)) {
		t := w.Topics[name]
		change(&t)
		w.Topics[name] = t
	}
	set := func(name, key, value string) func(*world) {
		return func(w *world) { w.Topics[name].Configs[key] = value }
	}
	for name, c := range map[string]struct {
		spoil  func(*world)
		fault  bool
		what   string
		repair string
	}{
		"old transactions": {func(w *world) { w.TransactionVersion = 1 }, true, "transaction.version is 1, exactly-once needs 2", "kafka-features.sh --bootstrap-server b:9092 upgrade --feature transaction.version=2"},
		"old admitted":     {func(w *world) { w.TransactionVersion, w.AllowOld = 0, true }, false, "transaction.version is 0, which kafka.allow_transaction_v1 admits", "upgrade"},
		"missing input": {func(w *world) {
			topic(w, "readings", func(t *kafka.SurveyedTopic) { t.Missing, t.TopicInfo.Partitions = true, 0 })
		}, true, "input topic readings does not exist", "--create --topic readings --partitions COUNT"},
		"misspelt input": {func(w *world) {
			w.Others = []string{"reading-log", "reading", "others"}
			topic(w, "readings", func(t *kafka.SurveyedTopic) { t.Missing, t.TopicInfo.Partitions = true, 0 })
		}, true, "input topic readings does not exist (did you mean reading?)", "name reading in input.topic, or kafka-topics.sh"},
		"misspelt output": {func(w *world) {
			w.Others = []string{"hourly2", "others"}
			topic(w, "hourly", func(t *kafka.SurveyedTopic) { t.Missing = true })
		}, true, "topic hourly does not exist (did you mean hourly2?)", "name hourly2 in the job's file, or kafka-topics.sh"},
		"missing output": {func(w *world) { topic(w, "hourly", func(t *kafka.SurveyedTopic) { t.Missing = true }) }, true, "topic hourly does not exist", "kafka-topics.sh --bootstrap-server b:9092 --create --topic hourly --partitions 2"},
		"changelog to be made": {func(w *world) {
			w.MakeTopics = false
			topic(w, "boilers-changelog", func(t *kafka.SurveyedTopic) { t.Missing = true })
		}, false, "user ann may not be allowed to make it", "--operation Create --topic boilers-changelog"},
		"too many replicas": {func(w *world) {
			w.Replication = 4
			topic(w, "boilers-changelog", func(t *kafka.SurveyedTopic) { t.Missing = true })
		}, true, "changelog.replication_factor is 4 and there are 3 brokers", "changelog.replication_factor: 3"},
		"unknown topic":     {func(w *world) { topic(w, "late", func(t *kafka.SurveyedTopic) { t.DescribeErr = denied }) }, true, "nothing is known of topic late", "kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal User:ann --operation Read --operation Write --operation Describe --operation DescribeConfigs --topic late"},
		"no right to write": {func(w *world) { topic(w, "dead", func(t *kafka.SurveyedTopic) { t.Rights &^= kafka.RightWrite }) }, true, "user ann has no right to Write topic dead", "--operation Write --topic dead"},
		"no right to read":  {func(w *world) { topic(w, "readings", func(t *kafka.SurveyedTopic) { t.Rights &^= kafka.RightRead }) }, true, "no right to Read topic readings", "--operation Read --topic readings"},
		"unknown settings":  {func(w *world) { topic(w, "dead", func(t *kafka.SurveyedTopic) { t.ConfigsErr = denied }) }, true, "the settings of topic dead are not known", ""},
		"no group":          {func(w *world) { w.Group.Rights = kafka.RightDescribe }, true, "no right to Read group boilers", "--operation Read --group boilers"},
		"group refused":     {func(w *world) { w.Group = kafka.Access{Err: denied} }, true, "group boilers: TOPIC", "--operation Read --group boilers"},
		"no transactions":   {func(w *world) { w.Transactions.Rights = 0 }, true, "no right to Write transactional ids boilers-changelog-N", "--operation Write --operation Describe --transactional-id boilers-changelog- --resource-pattern-type prefixed"},
		"leaderless": {func(w *world) {
			w.Survey.Brokers = []int32{1, 3}
			topic(w, "hourly", func(t *kafka.SurveyedTopic) {
				t.Leaderless, t.Partitions[1].Replicas, t.Partitions[1].InSync = []int32{1}, []int32{2}, []int32{2}
				t.Configs["min.insync.replicas"] = "2"
				t.Partitions[1].InSync = []int32{2, 2}
			})
		}, true, "partitions [1] of hourly have no leader", "start brokers [2]"},
		"in sync below minimum": {func(w *world) { topic(w, "dead", func(t *kafka.SurveyedTopic) { t.Partitions[1].InSync = []int32{1} }) }, true, "dead/1 has 1 replica in sync, min.insync.replicas is 2: nothing can be written", "--describe --topic dead"},
		"out of sync": {func(w *world) {
			topic(w, "dead", func(t *kafka.SurveyedTopic) { t.Partitions[1].InSync = []int32{1, 2} })
		}, false, "replicas of partitions [1] of dead are not in sync", "--describe --topic dead"},
		"minimum above factor":   {set("late", "min.insync.replicas", "4"), true, "min.insync.replicas=4 and 3 replicas: nothing can be written", "--add-config min.insync.replicas=2"},
		"minimum equals factor":  {set("late", "min.insync.replicas", "3"), false, "stands still whenever one broker is away", "min.insync.replicas=2"},
		"minimum of one":         {set("late", "min.insync.replicas", "1"), false, "below 2, a commit can be lost with one broker", "min.insync.replicas=2"},
		"unclean elections":      {set("boilers-changelog", "unclean.leader.election.enable", "true"), true, "an election can lose what was committed", "unclean.leader.election.enable=false"},
		"changelog that deletes": {set("boilers-changelog", "cleanup.policy", "delete"), true, "has cleanup.policy=delete, which can lose state", "cleanup.policy=compact"},
		"changelog's clock":      {set("boilers-changelog", "message.timestamp.type", "CreateTime"), true, "has message.timestamp.type=CreateTime, which can lose state", "message.timestamp.type=LogAppendTime"},
		"short tombstones":       {set("boilers-changelog", "delete.retention.ms", "1000"), false, "checkpoints older than that are of no use", "delete.retention.ms=7200000"},
		"long segments":          {set("boilers-changelog", "segment.bytes", "1073741824"), false, "a replay may take longer", "segment.bytes=67108864"},
		"small messages":         {set("boilers-changelog", "max.message.bytes", "1000000"), true, "max.message.bytes=1000000: batches have up to 1000061 bytes", "max.message.bytes=1048588"},
		"small input messages":   {set("readings", "max.message.bytes", "1000"), false, "", ""},
		"compacted results":      {set("hourly", "cleanup.policy", "compact,delete"), false, "of the records of one key only the last is kept", "cleanup.policy=delete"},
		"compacted input":        {set("readings", "cleanup.policy", "compact"), false, "only the last is sure to be there", "cleanup.policy=delete"},
		"short input":            {set("readings", "retention.ms", "3600000"), false, "a job that is down for longer loses readings", "retention.ms"},
		"devices' clocks":        {set("readings", "message.timestamp.type", "CreateTime"), false, "the devices' own clocks", ""},
		"changelog's partitions": {func(w *world) {
			topic(w, "boilers-changelog", func(t *kafka.SurveyedTopic) { t.TopicInfo.Partitions = 3 })
		}, true, "changelog boilers-changelog has 3 partitions and input readings has 2", "give the input its old count back"},
		"fewer partitions": {func(w *world) { topic(w, "dead", func(t *kafka.SurveyedTopic) { t.TopicInfo.Partitions = 1 }) }, false, "tasks share them", "--alter --topic dead --partitions 2"},
		"nothing":          {func(*world) {}, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			plan, s := clean()
			c.spoil(&world{plan, s})
			found := Judge(plan, s)
			if c.what == "" && len(found) == 0 {
				return
			}
			if len(found) != 1 || found[0].Fault != c.fault || !strings.Contains(found[0].What, c.what) || !strings.Contains(found[0].Repair, c.repair) {
				t.Errorf("found %+v, want one, fault %v: %q, repair %q", found, c.fault, c.what, c.repair)
			}
		})
	}
}

// R12: with old transactions each broker must verify them.
func TestVerification(t *testing.T) {
	plan, s := clean()
	plan.AllowOld, s.TransactionVersion, s.Unverified = true, 1, map[int32]string{2: "false"}
	found := Judge(plan, s)
	if len(found) != 2 || !found[1].Fault || !strings.Contains(found[1].Repair, "--entity-type brokers --entity-name 2 --add-config transaction.partition.verification.enable=true") {
		t.Errorf("%+v", found)
	}
	s.Unverified, s.VerificationErr = nil, errors.New("CLUSTER_AUTHORIZATION_FAILED")
	if found := Judge(plan, s); len(found) != 2 || !strings.Contains(found[1].Repair, "--operation DescribeConfigs --cluster") {
		t.Errorf("%+v", found)
	}
}

// Brokers without replicas to speak of are a warning each, not a fault: for trying out they do.
func TestOneReplica(t *testing.T) {
	plan, s := clean()
	for name, topic := range s.Topics {
		topic.ReplicationFactor, topic.Configs["min.insync.replicas"] = 1, "1"
		for p := range topic.Partitions {
			topic.Partitions[p].Replicas, topic.Partitions[p].InSync = []int32{1}, []int32{1}
		}
		s.Topics[name] = topic
	}
	found := Judge(plan, s)
	if len(found) != 4 {
		t.Errorf("%+v", found)
	}
	for _, f := range found {
		if f.Fault || !strings.Contains(f.What, "has 1 replica: below 3") {
			t.Errorf("%+v", f)
		}
	}
}

// R3: the sample decides which partitioner explains the input.
func TestPartitionerIsNamed(t *testing.T) {
	plan, _ := clean()
	plan.Config = config()
	for _, c := range []struct {
		by   func(key []byte) int32
		key  string
		want string
	}{
		{func(key []byte) int32 { return job.Murmur2.Partition(key, 4) }, "%s", ""},
		{func(key []byte) int32 { return job.CRC32.Partition(key, 4) }, "%s", "input.partitioner: crc32 explains all of them"},
		{func(key []byte) int32 { return int32(len(key)) % 4 }, "%s", "no known partitioner explains them"},
		{func(key []byte) int32 { return job.Murmur2.Partition(key, 4) }, "gateway-%s", "set input.partitioned_by"},
	} {
		found := plan.judgeSample(sampleOf(t, plan.Config, c.key, c.by))
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !found[0].Fault || !strings.Contains(found[0].Repair, c.want)) {
			t.Errorf("%+v, want %q", found, c.want)
		}
	}
}
