//go:build faulty

// Package defect seeds mistakes into this build, one at a time: the one that Variable names.
package defect

import "os"

// Variable names the mistake to make; none when it is not set.
const Variable = "TIDEMARK_FAKE_DEFECT"

// Defect is one mistake.
type Defect struct {
	Name string
	By   string // what must see it: verify, or a test
	Does string
}

// ByVerify is By of those that tidemark verify must see.
const ByVerify = "verify"

// All lists the mistakes.
func All() []Defect { return all }

var all = []Defect{
	{"state-first", ByVerify, "The state is changed before the changelog has the commit."},
	{"group-offset-truth", ByVerify, "A recovery goes on at the group's offset, not at that of the commit record."},
	{"checkpoint-without-commit", ByVerify, "A checkpoint does not say where the input stands: what it was all of is read again."},
	{"no-commit-new-job", ByVerify, "A task without a commit record near the end of its changelog is born again."},
	{"scan-uncommitted", ByVerify, "A checkpoint's scan sees the values of the commit in flight."},
	{"position-off-by-one", ByVerify, "A recovery goes on one offset behind where the input stands."},
	{"flush-ignored", ByVerify, "A commit is ended although its records failed."},
	{"promise-ignored", ByVerify, "A commit is ended although one record, named by the error, failed."},
	{"checkpoint-early", ByVerify, "A checkpoint is published before what it is of is committed."},
	{"no-fsync", "TestPowerLoss", "A checkpoint is renamed without fsync."},
	{"no-dir-fsync", "TestPowerLoss", "Older checkpoints are removed before the directory is synced."},
	{"empty-poll-is-end", ByVerify, "A replay ends at the first fetch that delivers nothing."},
	{"end-before-fence", ByVerify, "The end of a recovery is looked up before the fence."},
	{"no-fencing", ByVerify, "Every process has a transactional id of its own."},
	{"tombstones-skipped", ByVerify, "A replay does not delete."},
	{"stale-checkpoint", ByVerify, "A checkpoint is used however old it is."},
	{"stream-time-lost", ByVerify, "A recovery begins without stream time."},
	{"non-compacted-changelog", ByVerify, "A changelog that deletes by age is accepted."},
	{"float-sums", ByVerify, "Sums are doubles, added one by one."},
	{"last-by-arrival", ByVerify, "First and last go by arrival, not by event time."},
	{"closing-at-commit", ByVerify, "Whether a reading is late is judged by where time stood at the last batch."},
	{"due-twice", ByVerify, "Windows closed in slices keep their entries in the changelog until the last slice."},
	{"abort-is-commit", ByVerify, "An unanswered or refused end of a transaction counts as a commit."},
	{"digest-unchecked", ByVerify, "A recovery does not prove the state."},
}

func chosen(name string) bool { return os.Getenv(Variable) == name }

// The mistakes, of which at most one is made.
var (
	StateFirst              = chosen("state-first")
	GroupOffset             = chosen("group-offset-truth")
	CheckpointWithoutCommit = chosen("checkpoint-without-commit")
	NoCommitIsNew           = chosen("no-commit-new-job")
	ScanUncommitted         = chosen("scan-uncommitted")
	OffByOne                = chosen("position-off-by-one")
	FlushIgnored            = chosen("flush-ignored")
	PromiseIgnored          = chosen("promise-ignored")
	CheckpointEarly         = chosen("checkpoint-early")
	NoFsync                 = chosen("no-fsync")
	NoDirFsync              = chosen("no-dir-fsync")
	EmptyPollIsEnd          = chosen("empty-poll-is-end")
	EndBeforeFence          = chosen("end-before-fence")
	NoFencing               = chosen("no-fencing")
	TombstonesSkipped       = chosen("tombstones-skipped")
	StaleCheckpoint         = chosen("stale-checkpoint")
	StreamTimeLost          = chosen("stream-time-lost")
	NonCompacted            = chosen("non-compacted-changelog")
	FloatSums               = chosen("float-sums")
	LastByArrival           = chosen("last-by-arrival")
	ClosingPerBatch         = chosen("closing-at-commit")
	DueTwice                = chosen("due-twice")
	AbortIsCommit           = chosen("abort-is-commit")
	DigestUnchecked         = chosen("digest-unchecked")
)
