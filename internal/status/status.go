// Package status is a job as it is seen from outside: the form of what is told (Status), the verdict on it (I12), and
// its forms for people and machines: a page, a table, JSON, metrics, two health answers.
//
// It is pure: it is given facts with their times and a present moment, and knows no broker, no task and no clock. That
// every task either moves, waits for a named thing or is stopped with an error is decided in judge.go and nowhere else.
// The fields and metrics are described in docs/reference/status.md; a test holds the page to the code.
package status

import "time"

// Format is the version of the JSON form. Fields may be added without a new one; a reader ignores what it does not know.
const Format = 1

// Health is a verdict in one word.
type Health string

// The verdicts. Green: everything moves or has nothing to do. Amber: something is recovering or waiting, and may be.
// Red: somebody should look.
const (
	Green Health = "green"
	Amber Health = "amber"
	Red   Health = "red"
)

// worse orders verdicts.
func (h Health) worse(than Health) bool { return h.rank() > than.rank() }

func (h Health) rank() int {
	switch h {
	case Red:
		return 2
	case Amber:
		return 1
	}
	return 0
}

// State says what a task does.
type State string

// The states of a task. Waiting names what for; Stuck is what I12 forbids, found by the watchdog.
const (
	Recovering State = "recovering"
	Running    State = "running"
	Waiting    State = "waiting"
	Stuck      State = "stuck"
	Stopped    State = "stopped"
)

// States are all states, in the order in which they are shown.
var States = []State{Running, Recovering, Waiting, Stuck, Stopped}

// Status is one process of a job. Event times are ms since 1970-01-01T00:00:00Z; all other times are those of this
// machine's clock.
type Status struct {
	Format    int       `json:"format"`
	Job       string    `json:"job"`
	Version   string    `json:"version"`
	Instance  string    `json:"instance"` // the id of the state directory
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	StateDir  string    `json:"state_dir"` // absolute
	Started   time.Time `json:"started"`
	At        time.Time `json:"at"`
	Input     string    `json:"input"`
	Changelog string    `json:"changelog"`

	Health  Health   `json:"health"`
	Live    bool     `json:"live"`
	Ready   bool     `json:"ready"`
	Reasons []Reason `json:"reasons"` // all that is not green, the worst first

	Waiting           *Wait   `json:"waiting"`     // what the process as a whole waits for; null once it has its tasks
	Lag               *int64  `json:"lag_records"` // of all tasks; null while that of one is not known, or there is none
	EstimatedRecovery float64 `json:"estimated_recovery_seconds"`
	Memory            Memory  `json:"memory"`
	Totals            Totals  `json:"totals"`
	Tasks             []Task  `json:"tasks"` // by partition
}

// Reason says why something is not green.
type Reason struct {
	Partition *int32    `json:"partition"` // null: the process as a whole
	Code      string    `json:"code"`
	What      string    `json:"what"`
	Since     time.Time `json:"since"`
	Health    Health    `json:"health"`
	Live      bool      `json:"live"` // false: /livez fails for it
}

// Memory is what the state takes, against what it may take.
type Memory struct {
	Used   int64  `json:"used_bytes"`   // what the limit is compared with
	Mapped int64  `json:"mapped_bytes"` // taken from the system
	Max    int64  `json:"max_bytes"`    // state.max_bytes in force
	From   string `json:"max_from"`     // where the limit comes from, in words
}

// Task is one task: one input partition, its state and its changelog partition.
type Task struct {
	Partition     int32     `json:"partition"`
	State         State     `json:"state"`
	Since         time.Time `json:"since"` // of the state
	Health        Health    `json:"health"`
	Reasons       []Reason  `json:"reasons"`
	Waiting       *Wait     `json:"waiting"`
	Recovery      *Recovery `json:"recovery"` // the one under way
	SinceProgress float64   `json:"seconds_since_progress"`

	Position   *int64  `json:"position"`       // input offset to read next, committed
	End        *int64  `json:"high_watermark"` // of the input partition, as of the last fetch
	Lag        *int64  `json:"lag_records"`    // End - Position; null while either is not known
	StreamTime *int64  `json:"stream_time_ms"`
	Setter     *Setter `json:"stream_time_set_by"`

	OpenWindows  int64         `json:"open_windows"`
	DueWindows   int64         `json:"due_windows"`
	KeyClocks    int64         `json:"key_clocks"`
	LiveEntries  int64         `json:"live_entries"`
	MemoryUsed   int64         `json:"memory_used_bytes"`
	Aggregations []Aggregation `json:"aggregations"`
	Readings     Readings      `json:"readings"`

	Birth      string      `json:"birth"`
	Commit     *Commit     `json:"last_commit"`
	Checkpoint *Checkpoint `json:"checkpoint"`         // the newest; null: none
	SaveFailed *Failure    `json:"checkpoint_failure"` // of the last attempt; null when it succeeded
	LastError  *Failure    `json:"last_error"`

	Anchor            string     `json:"anchor"` // proved, unproved or none, by the last recovery
	Recoveries        Recoveries `json:"recoveries"`
	Recovered         *Recovered `json:"last_recovery"`
	EstimatedRecovery float64    `json:"estimated_recovery_seconds"`
	EstimateMeasured  bool       `json:"estimate_measured"` // false: from assumed rates, for nothing was measured yet
}

// Wait names what a task, or the process, waits for.
type Wait struct {
	For   string    `json:"for"`
	What  string    `json:"what"`
	Since time.Time `json:"since"`
}

// What may be waited for.
const (
	ForBroker      = "broker"      // a request failed and is tried again
	ForTransaction = "transaction" // an open transaction of another producer holds a reader back
	ForGroup       = "group"       // the group has not said who owns the partition
	ForRetry       = "retry"       // the task failed, and is tried again up to three times at one position
	ForTurn        = "turn"        // other tasks of this process load their state
	ForInputTopic  = "input_topic" // the input topic does not exist
	ForTasks       = "tasks"       // tasks have not ended, and the job stops
)

// Recovery is how far a recovery is. Done and Total count offsets of the changelog, of the step under way.
type Recovery struct {
	Step  string    `json:"step"`
	Since time.Time `json:"since"` // of the recovery
	Done  int64     `json:"done"`
	Total int64     `json:"total"`
	Rate  float64   `json:"records_per_second"`
	Left  *float64  `json:"left_seconds"` // null before anything is known
}

// Setter names the reading that set the stream time: its record's key, as far as the commit record keeps it, and
// offset.
type Setter struct {
	Key    string `json:"key"` // bytes that are no text as \xNN
	Offset int64  `json:"offset"`
}

// Aggregation is one aggregation of a task. Accepted readings since it exists = folded + partly late + late (I9).
type Aggregation struct {
	Name       string `json:"name"`
	ClosedEnd  *int64 `json:"closed_end_ms"`
	NextClose  *int64 `json:"next_close_ms"` // the stream time at which the next open window closes; null: none is open
	Folded     int64  `json:"folded"`
	PartlyLate int64  `json:"partly_late"`
	Late       int64  `json:"late"`
	Missed     int64  `json:"missed_windows"`
	Results    int64  `json:"results"`
}

// Readings are what became of readings: in = accepted + dead-lettered + filtered + skipped +
// duplicates (I9).
type Readings struct {
	In           int64 `json:"in"`
	Accepted     int64 `json:"accepted"`
	DeadLettered int64 `json:"dead_lettered"`
	Filtered     int64 `json:"filtered"`
	Skipped      int64 `json:"skipped"`
	Repeated     int64 `json:"repeated_records"`
	Ahead        int64 `json:"ahead_of_record"`
	Untimed      int64 `json:"without_record_time"`
	Duplicates   int64 `json:"duplicates"`
}

// Commit is the last commit. At and Latency are null for one that another process made.
type Commit struct {
	Number  uint64     `json:"number"`
	At      *time.Time `json:"at"`
	Latency *float64   `json:"latency_seconds"`
}

// Checkpoint is the newest checkpoint of a task on this machine.
type Checkpoint struct {
	Path   string  `json:"path"`
	Bytes  int64   `json:"bytes"`
	Commit uint64  `json:"commit"`      // number of the commit in force where it begins
	Age    float64 `json:"age_seconds"` // of that moment, by the broker's clock
}

// Failure is an error with its time.
type Failure struct {
	At    time.Time `json:"at"`
	Class string    `json:"class"`
	What  string    `json:"what"`
}

// Recovered is what the last recovery did.
type Recovered struct {
	From     string  `json:"from"` // birth, live base, checkpoint or full replay
	Why      string  `json:"why"`
	Seconds  float64 `json:"seconds"`
	Loaded   int64   `json:"entries_loaded"`
	Replayed int64   `json:"records_replayed"`
}

// Recoveries counts recoveries by where they began.
type Recoveries struct {
	Birth      int64 `json:"birth"`
	LiveBase   int64 `json:"live_base"`
	Checkpoint int64 `json:"checkpoint"`
	FullReplay int64 `json:"full_replay"`
}

// Failures counts failures of tasks by class.
type Failures struct {
	Transient int64 `json:"transient"`
	Fenced    int64 `json:"fenced"`
	Permanent int64 `json:"permanent"`
	Lost      int64 `json:"lost"`
	Corrupt   int64 `json:"corrupt"`
}

// Totals count what this process has committed and done since it started, over all the tasks it has had.
type Totals struct {
	Records            int64               `json:"records"` // consumed
	Commits            int64               `json:"commits"`
	Readings           Readings            `json:"readings"`
	Inexact            int64               `json:"inexact_values"` // values of accepted readings, not readings
	Aggregations       []AggregationTotals `json:"aggregations"`
	DeadLetters        []Letters           `json:"dead_letters"` // by reason, those that never came up too
	Recoveries         Recoveries          `json:"recoveries"`
	Replayed           int64               `json:"records_replayed"`
	Unproved           int64               `json:"anchors_unproved"`
	Failures           Failures            `json:"failures"`
	Checkpoints        int64               `json:"checkpoints"`
	CheckpointFailures int64               `json:"checkpoint_failures"`
	CommitSeconds      Distribution        `json:"commit_seconds"`
}

// AggregationTotals are the totals of one aggregation.
type AggregationTotals struct {
	Name       string `json:"name"`
	Folded     int64  `json:"folded"`
	PartlyLate int64  `json:"partly_late"`
	Late       int64  `json:"late"`
	Missed     int64  `json:"missed_windows"`
	Results    int64  `json:"results"`
}

// Letters are the dead letters of one reason. A record is one letter, however many of its readings were refused.
type Letters struct {
	Reason  string `json:"reason"`
	Letters int64  `json:"letters"`
}

// Distribution counts observations by upper bound. AtMost[i] counts those not above Bounds[i]; the rest is Count less
// the last of them.
type Distribution struct {
	Bounds []float64 `json:"bounds"`
	AtMost []int64   `json:"at_most"`
	Count  int64     `json:"count"`
	Sum    float64   `json:"sum"`
}
