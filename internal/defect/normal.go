//go:build !faulty

// Package defect seeds mistakes into a build that is made to be caught: make faulty, with the build tag faulty. Each
// stands for one that is easily made, and the tests that must see it say so (docs/internals/faulty.md).
//
// It promises: in every other build each is the constant false. The compiler leaves nothing of them, which a test holds
// against the binary.
package defect

// The mistakes; faulty.go says what each does.
const (
	StateFirst              = false
	GroupOffset             = false
	CheckpointWithoutCommit = false
	NoCommitIsNew           = false
	ScanUncommitted         = false
	OffByOne                = false
	FlushIgnored            = false
	PromiseIgnored          = false
	CheckpointEarly         = false
	NoFsync                 = false
	NoDirFsync              = false
	EmptyPollIsEnd          = false
	EndBeforeFence          = false
	NoFencing               = false
	TombstonesSkipped       = false
	StaleCheckpoint         = false
	StreamTimeLost          = false
	NonCompacted            = false
	FloatSums               = false
	LastByArrival           = false
	ClosingPerBatch         = false
	DueTwice                = false
	AbortIsCommit           = false
	DigestUnchecked         = false
)
