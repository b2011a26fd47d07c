// Package kafka says what tidemark needs of a Kafka cluster, and nothing of how it is got: positions in logs, a raw
// fetch that knows where it stands, a transactional writer that is made at a fence and thrown away at its first error,
// the group as an assignment oracle, and topics. kafka/client speaks to real brokers with franz-go; kafka/kafkatest is
// an in-memory cluster with faults for tests.
//
// The error classes of I8 are one table in errors.go.
package kafka

import (
	"context"
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// Header is one record header.
type Header = record.Header

// Record is one delivered record.
type Record = record.Consumed

// Message is one record to be written. Key, Value and Headers must stay unchanged until Send has returned. A nil Value
// is a tombstone.
type Message struct {
	Topic     string
	Partition int32
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Offsets are the offsets of one partition at one moment.
type Offsets struct {
	Start         int64 // log start
	Stable        int64 // last stable offset: the lowest offset of an open transaction, else HighWatermark
	HighWatermark int64
}

// Fetched is the answer to one fetch. Next is the position after it, past markers, aborted batches and compacted holes:
// it may have moved although Records is empty (I5, R9).
type Fetched struct {
	Records []Record
	Next    int64
	Bytes   int // on the wire, compressed
	Offsets
	Held *Held // of the reader's Room, to be given back when Records have served; nil for none
}

// Log reads one partition, read_committed, at positions the caller chooses. It never joins a group, never resets an
// offset and never skips: a position outside the log is an *Error of class ClassLost, and so is a log that has lost
// what lay below a position it was read from, though it may have been filled again (R16). Not safe for concurrent use; its slices are not reused.
type Log interface {
	// Offsets asks the leader for the partition's offsets.
	Offsets(ctx context.Context) (Offsets, error)
	// OffsetAt returns the offset of the first record whose timestamp is not below the given one, in ms, and the high
	// watermark when there is none.
	OffsetAt(ctx context.Context, timestamp int64) (int64, error)
	// EpochEnd returns the offset at which the records of a leader epoch, and of those before it, end in the leader's log.
	// It is not known for an epoch below 0 and for one that is older than the log.
	EpochEnd(ctx context.Context, epoch int32) (end int64, known bool, err error)
	// Fetch returns what is delivered from position on, waiting up to wait for something to come. At most about
	// maxBytes are fetched, but always at least one batch. A fetch that finds nothing within wait returns no records
	// and Next = position.
	Fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (Fetched, error)
	// Close releases the connection.
	Close()
}

// Producer is what a fence yields: the producer id and epoch that the broker gave, recorded for people and never
// compared (V3).
type Producer struct {
	ID    int64
	Epoch int16
}

// Writer is one transactional producer: fenced once, then any number of transactions, closed at the first error. After
// any error the outcome of the open transaction is unknown (I8): only Close may follow. One goroutine at a time.
type Writer interface {
	// Fence runs InitProducerID: it ends whatever transaction an older owner left open and makes the older owner's
	// later requests fail (I4). When it returns nil the markers of that transaction are in the log.
	Fence(ctx context.Context) (Producer, error)
	// Send writes messages into the open transaction, beginning one if none is open, and returns when every single
	// one is acknowledged (Flush alone proves nothing). offsets[i] is the acknowledged offset of messages[i]; the slice
	// is reused by the next Send. Any failed message is an error that names topic, partition, offset and size.
	Send(ctx context.Context, messages []Message) (offsets []int64, err error)
	// Commit ends the open transaction with EndTxn(commit). Nil means committed; any error means unknown.
	Commit(ctx context.Context) error
	// Close drops the client. An open transaction is left to the next fence or to its timeout; Close never aborts,
	// for a nil from an abort proves nothing.
	Close()
}

// Member is this process's seat in the group.
type Member struct {
	ID         string
	Instance   string // static instance id, "" for none
	Generation int32
}

// Group is the consumer group as an oracle of assignment: it fetches nothing and commits nothing by itself. Safe for
// concurrent use.
type Group interface {
	// Assignments delivers the full list of assigned input partitions, ascending, each time it changes. A nil list,
	// unlike an empty one, means that the seat was lost: the group has gone on without this process, or brokers were
	// away for longer than a session. The newest list replaces an unread older one. The channel is closed by Leave and
	// Close.
	Assignments() <-chan []int32
	// Ask sends a heartbeat of our own, after the call began, and tells whether the partition is assigned to us
	// according to an answer without error. A rebalance under way is waited for. It precedes every fence (I4, V11).
	Ask(ctx context.Context, partition int32) (bool, error)
	// SetOffset sets the group's offset of a partition for lag tools, with metadata (birth id and commit number). It
	// is a courtesy after a commit: nothing is ever judged by the offset (V4).
	SetOffset(ctx context.Context, partition int32, next record.InputPosition, metadata string) error
	// Offsets returns the group's offsets and metadata by partition; a partition without one is absent.
	Offsets(ctx context.Context) (map[int32]GroupOffset, error)
	// Member returns the present seat.
	Member() Member
	// Leave gives the seat up: the next rebalance begins at once. Close keeps it until the session ends.
	Leave(ctx context.Context) error
	Close()
}

// GroupOffset is what the group knows of one partition.
type GroupOffset struct {
	Next     record.InputPosition
	Metadata string
}

// TopicInfo describes one existing topic.
type TopicInfo struct {
	record.Topic
	ReplicationFactor int
	Configs           map[string]string // effective values
	Leaderless        []int32           // partitions without a leader
	InSync            []int             // by partition: replicas in sync; empty when that is not known
}

// TopicSpec is a topic to be made.
type TopicSpec struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16 // 0 or -1: the broker's default
	Configs           map[string]string
}

// Admin asks about the cluster and makes topics. Safe for concurrent use.
type Admin interface {
	// Cluster returns the cluster's id and the finalized level of transaction.version (0 when the feature is unknown).
	Cluster(ctx context.Context) (id string, transactionVersion int16, err error)
	// Transactions refuses a cluster whose transactions a writer could not rely on: transaction.version below 2, unless
	// that is allowed (R12). Fence asks the same.
	Transactions(ctx context.Context) error
	// Topics describes the named topics; a topic that does not exist is absent from the map. It never creates one.
	Topics(ctx context.Context, names ...string) (map[string]TopicInfo, error)
	// Names lists the topics that this client may see, without those that brokers keep for themselves.
	Names(ctx context.Context) ([]string, error)
	// Create makes a topic and returns when its leaders are known. A topic that exists already is no error.
	Create(ctx context.Context, spec TopicSpec) error
	// AddPartitions raises the partition count of a topic and returns when its leaders are known. A topic that has as many
	// already is no error; none has ever fewer than before.
	AddPartitions(ctx context.Context, topic string, count int32) error
	// OpenTransactions lists the transactions that are open in a partition, by their first offset. The first one holds
	// the last stable offset. It needs the right to read the topic.
	OpenTransactions(ctx context.Context, topic string, partition int32) ([]OpenTransaction, error)
	// Members lists who has a seat in a group, by member id; a group that does not exist has nobody in it.
	Members(ctx context.Context, group string) ([]GroupMember, error)
	// GroupOffsets is Group.Offsets for those who have no seat: the offsets that a group has for a topic.
	GroupOffsets(ctx context.Context, group, topic string) (map[int32]GroupOffset, error)
	// SetGroupOffset is Group.SetOffset for those who have no seat. Brokers refuse it while anybody has one.
	SetGroupOffset(ctx context.Context, group, topic string, partition int32, offset GroupOffset) error
	// Remove takes a member out of a group at once, as the end of its session would. One that is gone already is no
	// error.
	Remove(ctx context.Context, group string, member GroupMember) error
	Close()
}

// GroupMember is a seat in a group as others see it.
type GroupMember struct {
	ID       string
	Instance string // static instance id, "" for none
	Host     string // as the coordinator names it, for people
}

// String names the member for people.
func (m GroupMember) String() string {
	name := "member " + m.ID
	if m.Instance != "" {
		name += " (instance " + m.Instance + ")"
	}
	if m.Host != "" {
		name += " at " + m.Host
	}
	return name
}

// OpenTransaction is a transaction that is open in a partition.
type OpenTransaction struct {
	Producer
	Start         int64 // offset of its first record
	LastTimestamp int64 // of its newest record, ms; -1 when the broker does not say
}

// Cluster makes the parts above. It is what the driver is given: kafka/client for real brokers, kafka/kafkatest in
// tests.
type Cluster interface {
	Admin() (Admin, error)
	Log(topic string, partition int32) (Log, error)
	Writer(transactionalID string) (Writer, error)
	Group(options GroupOptions) (Group, error)
}

// GroupOptions are the options of a seat in a group.
type GroupOptions struct {
	Group     string
	Topic     string        // the input topic
	Instance  string        // static instance id, "" for a dynamic member
	Evict     string        // member id of a former life of this process, removed from the group before joining
	Session   time.Duration // 6 s
	Heartbeat time.Duration // 0.5 s
	// Joined is called with each new member id, so that it can be written down for a later eviction; may be nil.
	Joined func(memberID string)
}
