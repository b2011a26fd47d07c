package crash

import "slices"

// Points are the names of all points, sorted. docs/reference/verify.md says of each what is done and what is not.
func Points() []string { return slices.Sorted(slices.Values(points)) }

var points = slices.Concat(steps, filePoints, groupPoints, wirePoints)

// steps are the points between the steps of a task; the root package names them to Options.At.
var steps = []string{
	"commit.send", pointHalf, pointRecord, "commit.end", pointRefused, "commit.ended",
	"checkpoint.slice", "checkpoint.publish",
	"recover.identify", "recover.ask", "recover.fence", "recover.fence-send", "recover.fence-commit", "recover.tail",
	"recover.start", "recover.birth-send", "recover.birth-commit",
	"recover.plan", "recover.aside", "recover.load", "recover.replay", "recover.prove", "recover.anchor", "recover.done",
	"repair.identify", "repair.ask", "repair.fence", "repair.fence-send", "repair.fence-commit", "repair.tail", "repair.fold",
	"repair.send", "repair.commit", "repair.committed",
}

// The points inside of a commit's calls. The two failures are different ones: half of a commit that fails names no record,
// and a commit record that fails does.
const (
	pointHalf    = "commit.half"    // the first half of a commit's records is acknowledged
	pointRecord  = "commit.record"  // all of them but the commit record
	pointRefused = "commit.refused" // EndTxn is about to be sent; when that fails the writer is gone
)

// filePoints are before and after the operations on checkpoint files.
var filePoints = []string{
	"checkpoint.make-dir", "checkpoint.made-dir", "checkpoint.sync-parent",
	"checkpoint.create", "checkpoint.created", "checkpoint.write", "checkpoint.sync", "checkpoint.synced",
	"checkpoint.rename", "checkpoint.renamed", "checkpoint.sync-dir", "checkpoint.synced-dir",
	"checkpoint.remove-old", "checkpoint.removed-old", "checkpoint.sweep", "checkpoint.swept",
	"checkpoint.set-aside", "checkpoint.is-aside", "checkpoint.read",
}

// groupPoints are before and after what is asked of the group.
var groupPoints = []string{
	"group.join", "group.joined", "group.ask", "group.asked", "group.offset", "group.offset-set", "group.leave", "group.left",
}

// wirePoints are reached when a request is on its way to a broker and not yet answered.
var wirePoints = []string{
	"wire.produce", "wire.end-txn", "wire.init-producer-id", "wire.fetch", "wire.list-offsets", "wire.join-group", "wire.sync-group",
	"wire.heartbeat", "wire.offset-commit", "wire.leave-group",
}
