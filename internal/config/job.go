package config

import (
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/reading"
)

// Job is a checked configuration: every field holds what is in force, defaults included. It is not modified after Load.
type Job struct {
	Name         string
	Kafka        Kafka
	Input        Input
	Aggregations []Aggregation
	Dedup        int64  // ms for which readings are remembered; 0 without dedup
	Late         string // topic; "" when late readings are only counted
	DeadLetter   string // topic
	MaxBad       job.MaxBad
	Changelog    Changelog
	State        State
	Commit       Commit
	IdleClose    time.Duration // 0: off
	Checkpoint   time.Duration // upper bound between the checkpoints of a task that commits
	Leave        bool          // shutdown: leave
	Listen       string        // "": 127.0.0.1 and a free port, written to http.addr in the state directory
	Timeouts     Timeouts

	Part    job.Part // job.Whole, or of one of the Parts what it does
	Between string   // topic that a Relay hands readings on to
	HandOn  []string // key fields that it hands them on under; nil: all
	Quiet   bool     // it only counts what it refuses

	// Warnings are what is allowed and still deserves a look, by file and line.
	Warnings []Fault

	settings []Setting
}

// Kafka says which brokers to use: those of Brokers, or the embedded one.
type Kafka struct {
	Brokers            []string // HOST:PORT; empty with the embedded broker
	Embedded           bool
	EmbeddedDir        string // where the embedded broker keeps its data
	EmbeddedPartitions int    // of topics that the embedded broker makes
	TLS                *TLS   // nil: plain text
	SASL               *SASL
	AllowTransactionV1 bool // brokers below transaction.version 2 too (R12)
}

// SASL is how to sign in.
type SASL struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	User      string
	Password  Secret
}

// Input is the topic that is read, and how.
type Input struct {
	Topic         string
	Format        reading.Format // JSON is the only format of this version
	PartitionedBy []string       // key fields that the record key is made of
	Partitioner   job.Partitioner
	Rekey         Rekey
	Start         Start
	Quorum        int   // how many devices must have reached a time before stream time does
	MaxLag        int64 // ms by which the stream time that each key has may be behind; 0: keys have none of their own
}

// Start says where a task that is born begins to read.
type Start struct {
	Latest bool
	Time   time.Time // zero: from the earliest record, unless Latest
}

// Aggregation is one aggregation over the input.
type Aggregation struct {
	job.Aggregation
	Key    []string // names of fields of input.key; nil: all of them
	Output string   // topic
}

// Changelog is the topic that holds the state.
type Changelog struct {
	Topic             string
	ReplicationFactor int // 0: the broker's default
	MinInsyncReplicas int // 0: the broker's default
}

// State is where a machine keeps what makes a restart quick. The memory store is the only one of this version.
type State struct {
	Dir      string // as written; relative to the working directory
	MaxBytes int64  // 0: 60 % of the memory limit
}

// Commit paces and bounds commits.
type Commit struct {
	Interval     time.Duration
	MaxRecords   int
	MaxBytes     int64
	MaxPerSecond int // of the whole instance; 0: no limit
}
