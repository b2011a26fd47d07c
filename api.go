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
	//
	//	type Brokers struct {
	//		Brokers     []string    // host:port of at least one broker
	//		ClientID    string      // shown in the brokers' logs and quotas; "" is "tidemark"
	//		TLS         *tls.Config // nil for plain text
	//		SASL        *SASL       // nil for none
	//		Logger      *slog.Logger
	//		Compression Compression
	//		// Sent is called when a request has been written to a broker and is not answered yet, with the request's name in the
	//		// protocol, for crash tests; may be nil.
	//		Sent func(request string)
	//		// AllowTransactionV1 admits clusters below transaction.version 2, with what makes their transactions whole (R12).
	//		AllowTransactionV1 bool
	//	}
	Brokers = client.Options
	// SASL is how to sign in to brokers.
	//
	//	type SASL struct {
	//		Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	//		User      string
	//		Password  string
	//		Renew     func() (string, error) // asked for the password at each sign-in, where it may change; nil: it is Password
	//	}
	SASL = client.SASL
)

// Connect makes the way to a cluster. It checks what is said of it and does not wait for an answer: App.Run does.
func Connect(brokers Brokers) (Cluster, error) { return client.New(brokers) }

// The job that tidemark brings along: windowed aggregates, as a file says them to the command.
type (
	// Windows is a job in code: how records are read, how they must be partitioned, and what is computed of them. Its
	// method Processor is what Options want; Check says all that is wrong with it. Its tables are in the order of
	// Options.Results.
	//
	//	type Windows struct {
	//		Input         string         // topic, for the headers of late readings and dead letters
	//		Format        reading.Format // key, values, time and its guards
	//		PartitionedBy []string       // the key fields that make the record key, in order; nil stands for all of them (R3)
	//		Partitioner   Partitioner
	//		Aggregations  []Table // none of a Relay
	//		Quorum        int     // how many devices must have reached a time before stream time does (R11); 0 and 1: any reading does
	//		MaxLag        int64   // ms; not 0: each key has a stream time of its own, so far behind the task's at most (R35)
	//		Dedup         Dedup
	//		MaxBad        MaxBad
	//		Part          Part
	//		HandOn        []string // of a Relay: the key fields that readings are handed on under; nil stands for all
	//		Quiet         bool     // of a Relay: what it refuses is counted only, for another one of the same input publishes it
	//	}
	Windows = job.Config
	// Table is one aggregation of Windows.
	//
	//	type Table struct {
	//		Name      string
	//		Window    window.Kind
	//		Grace     int64 // ms
	//		Updates   bool  // each commit tells how the windows that it changed stand
	//		Current   bool  // the results of a key are its current value: see Update
	//		Functions aggregate.Functions
	//		Percents  aggregate.Percents // which quantiles, with aggregate.Quantiles
	//	}
	Table = job.Aggregation
	// Dedup says which readings are repetitions of others.
	//
	//	type Dedup struct {
	//		Within int64 // ms; 0 for no dedup
	//	}
	Dedup = job.Dedup
	// MaxBad is how many readings of a partition may be refused in a while before its task stops.
	//
	//	type MaxBad struct {
	//		Readings int64
	//		Per      int64 // ms
	//	}
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
	//
	//	type Processor interface {
	//		// Aggregations names the aggregations with their fingerprints, in the order of their indexes. The task matches
	//		// them with the commit record by name.
	//		Aggregations() []Aggregation
	//		// Process judges one record and folds its readings into the View. It reports what it did through the View: touched
	//		// entries, stream time, counters, outputs. An error is a failed assertion, never bad input: bad input is counted
	//		// and dead-lettered.
	//		Process(v *View, in *Input) error
	//		// Load makes the working form of a slot from an entry's value below the open overlay; value is nil for an entry
	//		// that does not exist. It is called when the slot is made, and again with nil when a deleted entry is touched. Key
	//		// and value are valid during the call only.
	//		Load(slot Slot, key, value []byte) error
	//		// Encode appends the full value of a slot's working form. It is called once per dirty entry and commit.
	//		Encode(slot Slot, dst []byte) []byte
	//		// Close emits the result of a due entry through the View. Its working form is in the slot. The task deletes the
	//		// entry afterwards.
	//		Close(v *View, slot Slot, key []byte, place Place) error
	//		// Place tells where an entry stands in time, from its key and value: asked when entries are loaded, replayed, first
	//		// touched since a commit, and found due. An entry whose aggregation is not configured has Aggregation Removed and any Start and End.
	//		Place(key, value []byte) (Place, error)
	//	}
	Processor = task.Processor
	// View is a task's state as the next record sees it.
	//
	//	// AdvanceStreamTime raises the stream time to t if that is later; key and offset name the record that did it.
	//	func (*View) AdvanceStreamTime(t int64, key []byte, offset int64)
	//	// Aggregation is the state of one aggregation; its counters are to be added to, the rest has methods of its own.
	//	func (*View) Aggregation(aggregation int) *record.AggregationState
	//	// Around finds the neighbours of a time among the live entries of one key of an ordered aggregation: the last one that starts at t or before, and the first one that starts after it.
	//	func (*View) Around(head []byte, t int64) (before, after Place, err error)
	//	// CloseKey makes the windows of one key due that end after the one time and up to the other.
	//	func (*View) CloseKey(aggregation int, head []byte, after, upTo int64) error
	//	// ClosedEnd returns the end up to which windows of an aggregation are due and out of reach, in ms.
	//	func (*View) ClosedEnd(aggregation int) int64
	//	// Counters are the task's counters (I9), to be added to.
	//	func (*View) Counters() *record.Counters
	//	// Delete removes the entry of a slot without a result: a tombstone in the commit, or nothing at all for an entry born since the last one.
	//	func (*View) Delete(slot Slot)
	//	// Emit writes a record to a sink with the commit of this batch.
	//	func (*View) Emit(sink Sink, aggregation int, key, value []byte, headers []Header)
	//	// Find tells where the entry of a key stands, and whether there is one, without touching it.
	//	func (*View) Find(key []byte) (place Place, ok bool, err error)
	//	// Forget keeps the n devices of a quorum that have reached the latest times.
	//	func (*View) Forget(n int)
	//	// Move changes the end of a dirty entry of an ordered aggregation; its start stays.
	//	func (*View) Move(slot Slot, end int64)
	//	// RaiseClosedEnd raises the closed end of an aggregation, if that is later: from here on every window with end <= end is due, whether it has been emitted or not.
	//	func (*View) RaiseClosedEnd(aggregation int, end int64)
	//	// RaiseKeyClosedEnd raises the closed end of one key of a Keyed aggregation to end, if that is later than what is closed of it already; head is the changelog key without the start.
	//	func (*View) RaiseKeyClosedEnd(aggregation int, head []byte, end int64) (closed int64, slot Slot, before int64, err error)
	//	// StreamTime returns the task's stream time in ms, record.NoTime before the first reading.
	//	func (*View) StreamTime() int64
	//	// Touch makes the entry of a key dirty and returns its slot.
	//	func (*View) Touch(key []byte, place Place) (slot Slot, fresh bool, err error)
	//	// Touched is how much the present input record has touched so far: the records that its entries are in a commit, and their keys with PerRecord bytes for each.
	//	func (*View) Touched() (records, bytes int)
	//	// Vouch notes that a device has reached a time, and raises the stream time to what quorum devices have reached, if that is later: to the quorum-th largest of the latest times of all devices (R11).
	//	func (*View) Vouch(quorum int, device record.Digest, t int64, key []byte, offset int64)
	//	// Vouched is how many devices are kept for a quorum; Forget lets them go down to n, the latest first.
	//	func (*View) Vouched() int
	View = task.View
	// Input is one consumed record.
	//
	//	type Input struct {
	//		Offset    int64
	//		Epoch     int32 // leader epoch, -1 unknown
	//		Timestamp int64 // ms since the epoch; -1 when the record has none
	//		Key       []byte
	//		Value     []byte
	//		Headers   []Header
	//	}
	Input = task.Input
	// Slot is the number of a dirty entry.
	Slot = task.Slot
	// Place is where an entry stands in time.
	//
	//	type Place struct {
	//		Aggregation int   // index into the Processor's aggregations; Removed for one that is not configured any more
	//		Start, End  int64 // ms
	//	}
	Place = task.Place
	// Aggregation names one aggregation and the fingerprint of its meaning.
	//
	//	type Aggregation struct {
	//		Name        string
	//		Fingerprint uint64
	//		Ordered     bool // the entries of a key are found by their starts (Around), and their ends may grow (Move)
	//		Keyed       bool // it is Ordered too, and windows of a key are due by the key's own clock (RaiseKeyClosedEnd)
	//		Updates     bool // each commit tells its dirty entries; the Processor is an Updater
	//		Silent      bool // it never emits a result, and needs no topic for any
	//	}
	Aggregation = task.Aggregation
	// Header is one header of a record.
	//
	//	type Header struct {
	//		Key   string
	//		Value []byte
	//	}
	Header = task.Header
	// EntryKey is the key of an entry, taken apart.
	//
	//	type EntryKey struct {
	//		Aggregation string
	//		Fields      []string
	//		Start       int64 // ms since the epoch
	//	}
	EntryKey = record.EntryKey
	// Limits are the largest records that the brokers accept.
	//
	//	type Limits struct {
	//		Changelog  record.Bytes
	//		Result     record.Bytes
	//		Late       record.Bytes
	//		DeadLetter record.Bytes
	//	}
	Limits = job.Limits
	// RecoveryReport says what one recovery did, phase by phase.
	//
	//	type RecoveryReport struct {
	//		Partition  int32
	//		From       string // birth | live base | checkpoint | full replay
	//		Checkpoint string
	//		Why        string // why from there and not from something newer
	//		Aside      []Aside
	//		Phases     Phases
	//		Loaded     record.Count
	//		Records    record.Count
	//		Bytes      record.Bytes // on the wire
	//		Kept       int          // of a long replay, for the one after an interruption
	//		Commit     uint64       // number of the last commit
	//		Birth      string
	//		Digest     string
	//		Live       record.Count
	//		Input      int64
	//		Anchor     string // proved | unproved | none | other, where that loss was accepted
	//		Warnings   []string
	//	}
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
	//
	//	type Error struct {
	//		Class     Class
	//		Op        string // what was being done, for example "end transaction"
	//		Topic     string // "" when no topic is concerned
	//		Partition int32  // meaningful with Topic; -1 for the whole topic
	//		Offset    int64  // -1 when none is known
	//		Size      int    // bytes of key, value and headers of the record concerned, 0 for none
	//		Hint      string // what to do next, "" for nothing
	//		Away      bool   // a certificate or a login is what it is about: TurnedAway
	//		Err       error
	//	}
	Error = kafka.Error
	// BadError says that more readings were refused than MaxBad allows.
	//
	//	type BadError struct {
	//		Limit  MaxBad
	//		Start  int64 // of the period, ms
	//		Record int64 // offset of the one that is too much
	//	}
	BadError = job.BadError
)
