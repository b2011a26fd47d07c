// Package task is one task as a step machine: its state as base and overlays under one View, the order of a commit, and
// the slices of due windows. It knows no broker, no clock, no file and no goroutine; the driver feeds it records and
// carries out the effects it asks for, one after the other. What it computes depends on its input alone (I11).
//
// A task is used by one goroutine.
package task

import "github.com/tidemark-streams/tidemark/internal/record"

// Header is one record header.
type Header = record.Header

// Input is one consumed record. Its slices are valid during Process only.
type Input = record.Consumed

// Slot is the dense number of a dirty entry in the open overlay: 0, 1, 2 ... in the order in which keys were first
// touched since the last commit. A Processor keeps the working form of each dirty entry in an array of its own, indexed
// by Slot, so that folding a reading neither allocates nor encodes.
type Slot int32

// Place is where an entry stands in time. Due windows are emitted in the order (End, Start, Aggregation, hash, key).
type Place struct {
	Aggregation int   // index into the Processor's aggregations; Removed for one that is not configured any more
	Start, End  int64 // ms
}

// Removed is the aggregation index of entries whose aggregation is not configured any more. They are tombstoned in
// slices and publish nothing.
const Removed = -1

// Processor is the logic of a job: it judges records, folds readings and encodes entries. It must be deterministic:
// its results depend on the input, the View and its configuration only, never on clocks, maps' order or chance (I11).
// The same Processor value is used by one task only.
type Processor interface {
	// Aggregations names the aggregations with their fingerprints, in the order of their indexes. The task matches
	// them with the commit record by name.
	Aggregations() []Aggregation

	// Process judges one record and folds its readings into the View. It reports what it did through the View: touched
	// entries, stream time, counters, outputs. An error is a failed assertion, never bad input: bad input is counted
	// and dead-lettered.
	Process(v *View, in *Input) error

	// Load makes the working form of a slot from an entry's value below the open overlay; value is nil for an entry
	// that does not exist. It is called when the slot is made, and again with nil when a deleted entry is touched. Key
	// and value are valid during the call only.
	Load(slot Slot, key, value []byte) error

	// Encode appends the full value of a slot's working form. It is called once per dirty entry and commit.
	Encode(slot Slot, dst []byte) []byte

	// Close emits the result of a due entry through the View. Its working form is in the slot. The task deletes the
	// entry afterwards.
	Close(v *View, slot Slot, key []byte, place Place) error

	// Place tells where an entry stands in time, from its key and value: asked when entries are loaded, replayed, first
	// touched since a commit, and found due. An entry whose aggregation is not configured has Aggregation Removed and any Start and End.
	Place(key, value []byte) (Place, error)
}

// Aggregation names one aggregation and the fingerprint of all that gives its entries their meaning, and says what the
// View must offer for it.
type Aggregation struct {
	Name        string
	Fingerprint uint64
	Ordered     bool // the entries of a key are found by their starts (Around), and their ends may grow (Move)
	Keyed       bool // it is Ordered too, and windows of a key are due by the key's own clock (RaiseKeyClosedEnd)
	Updates     bool // each commit tells its dirty entries; the Processor is an Updater
	Silent      bool // it never emits a result, and needs no topic for any
}

// Preparer is a Processor that looks at records before their turn.
type Preparer interface {
	// Prepare is told the next records to be processed, a few of them, and appends the hashes of keys that they will touch, as
	// many of them as it cares to. Not all of the records need follow: what was prepared before is void. It changes nothing
	// that anybody could see, and a fault that it meets is for Process to meet again.
	Prepare(in []Input, hashes []uint64) []uint64
}

// Updater is a Processor that tells how entries stand before they close.
type Updater interface {
	// Update emits how a dirty entry stands, through the View: once for each entry and commit, and not for those that are
	// closed in it. gone tells that the entry, which an earlier commit may have told, was deleted without a result.
	Update(v *View, slot Slot, key []byte, place Place, gone bool) error
}

// Ticker is a Processor whose windows can be closed by silence.
type Ticker interface {
	// Ticked raises the closed ends to what follows from the stream time, which has been moved without a record.
	Ticked(v *View) error
}

// Sink is where a record of a commit goes.
type Sink uint8

// The sinks of a task. Results go to the topic of their aggregation.
const (
	SinkChangelog Sink = iota
	SinkResult
	SinkLate
	SinkDead
)

// Base is a task's committed state (I1). Values it returns are valid until the next call that changes it. The memory
// store and the disk store satisfy it.
type Base interface {
	// Get returns the value of a key; hash is record.Hash(key).
	Get(hash uint64, key []byte) (value []byte, ok bool)
	// Find calls fn with every entry whose key has this hash until fn returns false.
	Find(hash uint64, fn func(key, value []byte) bool)
	// Put inserts or replaces an entry. diff is the digest of the new entry less that of the old one.
	Put(hash uint64, key, value []byte, diff record.Digest)
	// Delete removes an entry; diff is minus the digest of the old one. A missing key is a programmer's error.
	Delete(hash uint64, key []byte, diff record.Digest)
	// Touch reads what the other methods will look at for keys with these hashes, so that their cache misses wait side by
	// side. It changes nothing, and its result has no meaning.
	Touch(hashes []uint64) uint64
	// Live is the number of entries and Digest the running digest.
	Live() record.Count
	Digest() record.Digest
	// All calls fn with every entry, in any order, until fn returns false.
	All(fn func(hash uint64, key, value []byte) bool)
}
