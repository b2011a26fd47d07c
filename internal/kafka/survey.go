package kafka

import (
	"context"
	"slices"
)

// Survey is what brokers say of a job's surroundings to those who only look: nothing is made, joined, fenced or written.
// What could not be asked is an error beside it, not a missing value.
type Survey struct {
	ClusterID          string
	TransactionVersion int16            // finalized level, 0 when the feature is unknown
	Brokers            []int32          // ids of those alive
	Unverified         map[int32]string // of those without transaction.partition.verification.enable=true; asked below version 2
	VerificationErr    error
	MakeTopics         bool // the right to make any topic
	Topics             map[string]SurveyedTopic
	Others             []string // topics there are beside those asked about; listed only when one of these is missing
	Group              Access   // of the consumer group
	Transactions       Access   // of the transactional ids: their first one, by a request that changes nothing
	Seats              []GroupMember
}

// Access is what may be done with a thing.
type Access struct {
	Rights Rights
	Err    error // why it could not be asked; nil when Rights are an answer
}

// Rights are operations that are allowed, as a set.
type Rights uint16

// The operations that jobs need.
const (
	RightRead Rights = 1 << iota
	RightWrite
	RightCreate
	RightDescribe
	RightDescribeConfigs
	AllRights = RightRead | RightWrite | RightCreate | RightDescribe | RightDescribeConfigs
)

var rightNames = []string{"Read", "Write", "Create", "Describe", "DescribeConfigs"}

// Names are the operations of the set as kafka-acls.sh spells them.
func (r Rights) Names() (names []string) {
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// SurveyedTopic is a topic as seen from outside.
type SurveyedTopic struct {
	TopicInfo
	Missing     bool  // it does not exist, as far as those may know who have rights on it
	DescribeErr error // why nothing is known of it: mostly no rights; then all else is empty
	ConfigsErr  error // why its settings are not known
	Rights      Rights
	Partitions  []PartitionState
}

// PartitionState is who holds a partition.
type PartitionState struct {
	Leader           int32 // -1 for none
	Replicas, InSync []int32
}

// Missing are the rights of want that are not there.
func (r Rights) Missing(want Rights) Rights { return want &^ r }

// OutOfSync are the partitions whose replicas are not all in sync.
func (t *SurveyedTopic) OutOfSync() (partitions []int32) {
	for p := range t.Partitions {
		if len(t.Partitions[p].InSync) < len(t.Partitions[p].Replicas) {
			partitions = append(partitions, int32(p))
		}
	}
	return partitions
}

// LeastInSync is the smallest number of replicas in sync of any partition, and the partition.
func (t *SurveyedTopic) LeastInSync() (n int, partition int32) {
	if len(t.Partitions) == 0 {
		return 0, -1
	}
	at := slices.IndexFunc(t.Partitions, func(p PartitionState) bool {
		return !slices.ContainsFunc(t.Partitions, func(o PartitionState) bool { return len(o.InSync) < len(p.InSync) })
	})
	return len(t.Partitions[at].InSync), int32(at)
}

// Surveyor looks at a cluster for a job that is not running. Safe for concurrent use.
type Surveyor interface {
	// Survey asks about topics, a consumer group, and a transactional id. An error means that no broker gave an answer;
	// what a broker refused to tell is in the Survey.
	Survey(ctx context.Context, topics []string, group, transactionalID string) (*Survey, error)
}
