package tidemark

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// The bounds that this package keeps (section 4, Timeouts). No option changes them.
const (
	Heartbeat = heartbeat      // between two heartbeats of the group
	Session   = session        // without one the group gives our partitions away
	Watchdog  = watchdog       // for one answer to a task
	Restore   = status.Restore // for a restore to move
)

// Start says where a task that is born begins to read. It is asked once in a task's life.
type Start struct {
	Latest bool
	Time   time.Time // zero: from the earliest record, unless Latest
}

// Changelog names the changelog topic and how it is made when it is missing.
type Changelog struct {
	Topic             string
	ReplicationFactor int16 // 0: the broker's default
	MinInsync         int   // 0: the broker's default
}

// Commit paces and bounds commits. The zero Commit stands for DefaultCommit.
type Commit struct {
	Interval     time.Duration // a commit that is not full starts no earlier than this after the last one started
	MaxRecords   int           // records of one commit
	MaxBytes     int           // bytes of one commit
	MaxPerSecond int           // commits of the whole instance; stretches the interval; 0 for no limit
}

// DefaultCommit is what the command does by default too.
var DefaultCommit = Commit{Interval: 100 * time.Millisecond, MaxRecords: 50_000, MaxBytes: 16 << 20}

// DefaultCheckpoint is the bound between checkpoints when Options name none.
const DefaultCheckpoint = 30 * time.Second

// Relay makes an App hand records on under another key, for a job whose input is not partitioned by the keys of its
// aggregations (R3): the one result topic is an internal one, which the App makes itself, and a result goes to the
// partition that murmur2 gives its key. Partitions may be added to the input of a relay (R34): Run then ends with
// ErrInputGrown, and a new App goes on with all of them.
type Relay struct {
	Partitions        int32 // of the internal topic when it is made; 0: as many as the input has then
	ReplicationFactor int16 // 0: the broker's default
	MinInsync         int   // 0: the broker's default
}

// TopicDefaults says how missing topics are made. Only the embedded broker makes input and output topics.
type TopicDefaults struct {
	Create     bool  // make missing input and output topics
	InputLater bool  // but not the input, which somebody else makes and which is waited for
	Partitions int32 // their partition count
}

// Options configure an App. All fields without a stated default are required.
type Options struct {
	Job     string
	Cluster Cluster // where the topics are; Connect makes one from broker addresses

	Input      string
	Start      Start
	Results    []string // result topic of each aggregation, in the Processor's order, the last Silent ones left out; the one internal topic of a Relay
	Compacted  []string // those of them that hold current values: made with cleanup.policy=compact
	Late       string   // "": late readings are counted only
	DeadLetter string
	Changelog  Changelog
	Topics     TopicDefaults
	Relay      *Relay // nil: results are what the job is for

	// Processor makes the Processor of one input partition. Limits tell what its records must not exceed.
	Processor func(partition, partitions int32, limits Limits) (Processor, error)

	StateDir   string
	Files      store.FS // what checkpoints are written to, for crash tests; nil: the disk
	Commit     Commit
	IdleClose  time.Duration // silence that moves a task's stream time on by its length: whole milliseconds; 0 for never
	Checkpoint time.Duration // upper bound between the checkpoints of a task that commits; 0 for DefaultCheckpoint
	Leave      bool          // give the seat in the group up on a clean stop
	AcceptLoss string        // who goes on without committed data or input that is gone, and why; "" to stop there (I6)
	UntilIdle  bool          // stop when all input that was there at the start is committed
	MaxBytes   int64         // of the state in memory of all tasks together; 0: 60 % of what MemoryLimit says
	Listen     string        // loopback address of the status page and the other answers over HTTP; "" for none
	TZData     string        // version of the time zone data in use, "" for none
	Version    string        // of the program, for people

	Log *slog.Logger // nil: discard
	// Progress is called whenever something worth showing has happened: on the task's goroutine, with EventClosed on one that
	// Run waits for. It may ask for the Status. The task, and with EventClosed all of them, waits for it, and where it does not
	// come back Run ends with an error, as for a task that hangs; may be nil.
	Progress func(Event)
	// At is called before named steps of a task, for crash tests; may be nil. An error is treated like a failure of
	// that step.
	At func(ctx context.Context, partition int32, step string) error
}

// faults says all that is wrong with options whose defaults are filled in.
func (o *Options) faults() (faults []string) {
	if missing := o.missing(); len(missing) > 0 {
		faults = append(faults, "options without "+strings.Join(missing, ", "))
	}
	if c := o.Commit; c.MaxRecords < 4 || c.MaxBytes < 1024 {
		faults = append(faults, fmt.Sprintf("Commit.MaxRecords %d and MaxBytes %d are too small: at least 4 records and 1024 bytes", c.MaxRecords, c.MaxBytes))
	}
	if o.IdleClose%time.Millisecond != 0 {
		faults = append(faults, fmt.Sprintf("IdleClose is %s: stream time moves by whole milliseconds", o.IdleClose))
	}
	if r := o.Relay; r != nil && len(o.Results) != 1 {
		faults = append(faults, fmt.Sprintf("%d Results: a Relay has one, its internal topic", len(o.Results)))
	}
	for _, field := range []struct {
		name  string
		value int64
		shown any
	}{
		{"Commit.Interval", int64(o.Commit.Interval), o.Commit.Interval}, {"Commit.MaxPerSecond", int64(o.Commit.MaxPerSecond), o.Commit.MaxPerSecond},
		{"IdleClose", int64(o.IdleClose), o.IdleClose}, {"Checkpoint", int64(o.Checkpoint), o.Checkpoint}, {"MaxBytes", o.MaxBytes, o.MaxBytes},
	} {
		if field.value < 0 {
			faults = append(faults, fmt.Sprintf("%s is %v, which is below 0", field.name, field.shown))
		}
	}
	return faults
}

// missing names the fields that are required and not there.
func (o *Options) missing() (names []string) {
	for _, field := range []struct {
		name  string
		there bool
	}{
		{"Job", o.Job != ""}, {"Cluster", o.Cluster != nil}, {"Input", o.Input != ""}, {"DeadLetter", o.DeadLetter != ""},
		{"Changelog.Topic", o.Changelog.Topic != ""}, {"Processor", o.Processor != nil}, {"StateDir", o.StateDir != ""},
	} {
		if !field.there {
			names = append(names, field.name)
		}
	}
	return names
}

// Event tells what a task has just done.
type Event struct {
	Partition int32
	Kind      EventKind
	Recovery  *RecoveryReport    // EventRecovered
	Progress  *recovery.Progress // EventProgress
	Commit    *record.Commit     // EventCommitted, EventRecovered; not to be modified
	Inputs    int                // EventCommitted: records consumed
	Closed    int                // EventCommitted: windows closed
	Waiting   int                // due windows not yet emitted
	Bytes     record.Bytes       // EventCheckpoint: size of the file
	Path      string             // EventCheckpoint
	Took      time.Duration      // EventCommitted, EventCheckpoint
	Err       error              // EventFailed; EventClosed: why, nil where it was asked for
}

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	EventRecovering EventKind = iota // the task has begun to recover
	EventProgress                    // of a recovery
	EventRecovered
	EventCommitted
	EventCheckpoint
	EventFailed // the task goes through recovery or stops; Err says why
	EventClosed // the task has been given up
)
