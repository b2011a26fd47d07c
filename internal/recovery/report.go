package recovery

import (
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// Report says what one recovery did, for the log and for scripts. Its JSON form is stable.
type Report struct {
	Partition  int32        `json:"partition"`
	From       string       `json:"from"` // birth | live base | checkpoint | full replay
	Checkpoint string       `json:"checkpoint,omitempty"`
	Why        string       `json:"why"` // why from there and not from something newer
	Aside      []Aside      `json:"aside,omitempty"`
	Phases     Phases       `json:"phases_ms"`
	Loaded     record.Count `json:"entries_loaded"`
	Records    record.Count `json:"records_replayed"`
	Bytes      record.Bytes `json:"bytes_replayed"`       // on the wire
	Kept       int          `json:"parts_kept,omitempty"` // of a long replay, for the one after an interruption
	Commit     uint64       `json:"commit"`               // number of the last commit
	Birth      string       `json:"birth"`
	Digest     string       `json:"digest"`
	Live       record.Count `json:"live_entries"`
	Input      int64        `json:"input_position"`
	Anchor     string       `json:"anchor"` // proved | unproved | none | other, where that loss was accepted
	Warnings   []string     `json:"warnings,omitempty"`
}

// Aside is a checkpoint, or a live base, that was not used.
type Aside struct {
	Name   string `json:"name"`   // its path
	Word   string `json:"word"`   // damaged, newer, i/o, foreign, log-start, too-old, digest
	Reason string `json:"reason"` // in full
	Left   bool   `json:"left"`   // where it is: a newer program wrote it, or it could not be read just now
}

// Phases are the durations of a recovery in ms. Join and FirstCommit are the driver's to fill in. A phase that was not
// reached is 0; one that ran twice, because a checkpoint turned out to be bad, is the sum.
type Phases struct {
	Join        float64 `json:"join"`
	Identify    float64 `json:"identify"`
	Ask         float64 `json:"ask"`
	Fence       float64 `json:"fence"`
	FenceRecord float64 `json:"fence_record"`
	Tail        float64 `json:"tail"`
	Load        float64 `json:"load"`
	Replay      float64 `json:"replay"`
	Prove       float64 `json:"prove"`
	Anchor      float64 `json:"anchor"`
	Birth       float64 `json:"birth"`
	FirstCommit float64 `json:"first_commit"`
}

// Progress tells how far a step that reads the changelog has come. Done and Total count offsets, so they are true with
// markers, aborted runs and holes.
type Progress struct {
	Step    Step
	Done    int64
	Total   int64
	Records record.Count
	Bytes   record.Bytes
	Kept    record.Bytes  // written to the disk so far to keep parts of the replay
	Used    record.Bytes  // memory that the state takes so far
	Elapsed time.Duration // since the step began
	// Waiting is the last stable offset while an open transaction of another producer holds the reader back, else -1.
	Waiting int64
}

// Rate is the number of records per second so far, 0 before anything is known.
func (p Progress) Rate() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Records) / p.Elapsed.Seconds()
}

// Left estimates the time until the step is done from the offsets passed so far; ok is false before anything is known.
func (p Progress) Left() (left time.Duration, ok bool) {
	if p.Done <= 0 || p.Elapsed <= 0 {
		return 0, false
	}
	return time.Duration(float64(p.Elapsed) / float64(p.Done) * float64(p.Total-p.Done)), true
}

// Step names one step of a recovery. Recovery.At is called with it before the step begins.
type Step string

// The steps in their order. A birth goes on from StepFenceTail to StepStart.
const (
	StepIdentify    Step = "identify"
	StepAsk         Step = "ask"
	StepFence       Step = "fence"
	StepFenceSend   Step = "fence-send"
	StepFenceCommit Step = "fence-commit"
	StepTail        Step = "tail"
	StepPlan        Step = "plan"
	StepAside       Step = "aside"
	StepLoad        Step = "load"
	StepReplay      Step = "replay"
	StepProve       Step = "prove"
	StepAnchor      Step = "anchor"
	StepStart       Step = "start"
	StepBirthSend   Step = "birth-send"
	StepFold        Step = "fold" // of a repair
	StepBirthCommit Step = "birth-commit"
	StepDone        Step = "done"
)
