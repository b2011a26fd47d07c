package record

import "fmt"

// CommitFormat is the version of the commit record that this program writes.
const CommitFormat = 1

// Anchor names one input record by its offset and the hash of its key and value (not timestamp, not headers): the last
// one consumed. Reading it again proves that the input is still the same log.
type Anchor struct {
	Offset int64 // -1: no record consumed yet
	Hash   Digest
}

// Mark says what kind of commit a commit record belongs to.
type Mark byte

// The marks of format 1.
const (
	MarkNone      Mark = 0
	MarkResetting Mark = 1 // a reset is under way; run refuses
	MarkReset     Mark = 2 // first commit of a life begun by reset
	MarkSkip      Mark = 3
	MarkReseal    Mark = 4
	MarkLoss      Mark = 5 // accepted loss
	MarkTime      Mark = 6 // stream time and closed ends set by hand
	MarkPart      Mark = 7 // of a checkpoint of a replay that was under way; never in a changelog
)

var markNames = [...]string{"no repair", "unfinished reset", "reset", "skip", "reseal", "accepted loss", "reset of the stream time", "part of a replay"}

// String is the mark in words.
func (m Mark) String() string {
	if int(m) < len(markNames) {
		return markNames[m]
	}
	return fmt.Sprintf("mark %d", byte(m))
}

// Counters are the readings a task has seen, for ever (I9): In = Accepted + DeadLettered + Filtered + Skipped +
// Duplicates.
type Counters struct {
	In           Count // readings; a record that cannot be split counts as one
	Accepted     Count
	DeadLettered Count
	Filtered     Count
	Skipped      Count
	Repeated     Count // records below the expected offset, dropped
	Ahead        Count // accepted readings whose event time lies after their record's
	Untimed      Count // records without a usable record timestamp
	Duplicates   Count // readings that dedup knew already

	// For dead_letter.max_bad: the latest period of record time in which readings were refused, and how many were.
	RefusedPeriod Count
	RefusedInIt   Count

	// Inexact are the values of accepted readings that are another number than the one written (C03). They are counted with
	// the commit that holds them, but are not in the record: a record that was read says 0, and what was seen is seen since
	// this process took the task.
	Inexact Count
}

// AggregationState is what the commit record keeps for each aggregation. Accepted readings of the task since this
// aggregation exists = Folded + PartlyLate + Late.
type AggregationState struct {
	Name        string
	Fingerprint uint64
	ClosedEnd   int64 // ms; windows with end <= ClosedEnd are due and out of reach; never falls
	Since       Count // the task's Accepted counter when this aggregation was added
	Folded      Count
	PartlyLate  Count
	Late        Count
	Missed      Count // windows missed by partly late and late readings
	Results     Count // final results committed
}

// Commit is the commit record: where the task stands after the transaction it ends.
type Commit struct {
	Birth        BirthID
	Number       uint64 // 0 is the birth
	Fence        FenceID
	SourceHash   uint64
	OutputHash   uint64
	Position     InputPosition
	Epoch        int32 // leader epoch of the last consumed record, -1 unknown
	Anchor       Anchor
	StreamTime   int64  // ms; NoTime before the first reading
	SetterKey    []byte // record key of the reading that set StreamTime, at most MaxSetterKey bytes
	SetterOffset int64
	Counters     Counters
	Aggregations []AggregationState
	Digest       Digest
	Live         Count
	Records      Count // changelog records of this commit, the commit record not counted
	MinRetention int64 // smallest delete.retention.ms ever seen, ms
	TZData       string
	Mark         Mark
	Note         string  // who and why, for repairs
	Quorum       []Vouch // with time.quorum: the devices that have reached the latest times, in no order
}

// Vouch is how far a device has moved its own time.
type Vouch struct {
	Device Digest // hash of its key
	Time   int64  // ms
}

// MaxQuorum bounds the devices in a commit record.
const MaxQuorum = 64

// NoTime is the stream time before any reading: lower than any event time.
const NoTime int64 = -1 << 63

// MaxSetterKey bounds the key kept in the commit record; longer keys are cut.
const MaxSetterKey = 64

// FenceFormat is the version of the fence record that this program writes.
const FenceFormat = 1

// Fence is the fence record: what a new owner commits right after fencing. It is no commit.
type Fence struct {
	ID            FenceID
	Birth         BirthID // zero when not known
	Job           string
	Partition     int32
	Host          string
	PID           int64
	Version       string
	ProducerID    int64
	ProducerEpoch int16
	Identity      Identity
}
