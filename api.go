package tidemark

import (
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// The brokers.
type (
	// Cluster is where the topics are: what Connect returns, or a broker in memory of package tidemarktest.
	Cluster = kafka.Cluster
	// Brokers say how to reach a cluster. Only their addresses are needed.
	Brokers = client.Options
	// SASL is how to sign in to brokers.
	SASL = client.SASL
)

// Connect makes the way to a cluster. It checks what is said of it and does not wait for an answer: App.Run does.
func Connect(brokers Brokers) (Cluster, error) { return client.New(brokers) }

// The job that tidemark brings along: windowed aggregates, as a file says them to the command.
type (
	// Windows is a job in code: how records are read, how they must be partitioned, and what is computed of them. Its
	// method Processor is what Options want; Check says all that is wrong with it. Its tables are in the order of
	// Options.Results.
	Windows = job.Config
	// Table is one aggregation of Windows.
	Table = job.Aggregation
	// Dedup says which readings are repetitions of others.
	Dedup = job.Dedup
	// MaxBad is how many readings of a partition may be refused in a while before its task stops.
	MaxBad = job.MaxBad
	// Partitioner is the rule by which producers choose the partition of a record key.
	Partitioner = job.Partitioner
)

// The partitioners.
const (
	Murmur2   = job.Murmur2   // Java clients, franz-go, tidemark produce
	CRC32     = job.CRC32     // librdkafka and all that builds on it
	Unchecked = job.Unchecked // whatever the partition: that a key lies in one is your promise
)

// A job of one's own.
type (
	// Processor is the logic of a job; see task.Processor for its duties. It must be deterministic (I11).
	Processor = task.Processor
	// View is a task's state as the next record sees it.
	View = task.View
	// Input is one consumed record.
	Input = task.Input
	// Slot is the number of a dirty entry.
	Slot = task.Slot
	// Place is where an entry stands in time.
	Place = task.Place
	// Aggregation names one aggregation and the fingerprint of its meaning.
	Aggregation = task.Aggregation
	// Header is one header of a record.
	Header = task.Header
	// EntryKey is the key of an entry, taken apart.
	EntryKey = record.EntryKey
	// Limits are the largest records that the brokers accept.
	Limits = job.Limits
	// RecoveryReport says what one recovery did, phase by phase.
	RecoveryReport = recovery.Report
)

// Where View.Emit puts a record: the topic of the aggregation, that of late readings, or that of dead letters.
const (
	SinkResult = task.SinkResult
	SinkLate   = task.SinkLate
	SinkDead   = task.SinkDead
)

// Removed is the aggregation of a Place whose entry is of none that is configured.
const Removed = task.Removed

// AppendEntryKey appends the key of an entry: the window that begins at start, in ms, of an aggregation and a key of
// several fields.
func AppendEntryKey(dst []byte, aggregation string, start int64, fields ...[]byte) []byte {
	dst = record.EntryPrefix(dst, aggregation)
	for _, field := range fields {
		dst = record.AppendField(dst, field)
	}
	return record.AppendStart(dst, start)
}

// ParseEntryKey takes the key of an entry apart.
func ParseEntryKey(key []byte) (EntryKey, error) { return record.ParseEntryKey(key) }

// What Run returns, to be told apart with errors.Is and errors.As.
var (
	// ErrSeatTaken: another process runs with our identity, as after a state directory was copied while it was in use.
	ErrSeatTaken = kafka.ErrSeatTaken
	// ErrPermanent is for a Processor to wrap: the task stops at once instead of trying the record again.
	ErrPermanent = task.ErrPermanent
)

// The errors that say more.
type (
	// Error names topic, partition and offset of what went wrong with the brokers or the logs, and what to do.
	Error = kafka.Error
	// BadError says that more readings were refused than MaxBad allows.
	BadError = job.BadError
)
