package store

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// MaxValueBytes bounds a value. Like record.MaxKeyBytes it is for the caller to check, before the fold: the store
// panics on more.
const MaxValueBytes = 1<<valueLenBits - 1

// maxPresizedBits bounds the index that a shard begins with, whatever count is expected: 100 million entries.
const maxPresizedBits = 17

// Memory is a task's committed state in memory: a task.Base. It is used by one goroutine. Keys and values given to it
// are copied; those it returns point into its arenas and are valid until the next call that changes it. Callbacks must
// not change it.
//
// The running digest is kept by Put and Delete from the differences they are given. Set and Unset keep none: after
// them Prove, or a Load into a new store, makes the digest known again.
//
// Memory is taken from the system directly. When there is none left, Put, Delete, Set and Unset panic with an *Error
// and the store is good for Close only: the limit of section 6 (state.max_bytes) stops the task before.
type Memory struct {
	arena   arena
	shards  [shardCount]shard
	live    record.Count
	raw     record.Bytes
	digest  record.Digest
	unknown bool  // Set or Unset made the digest unknown
	presize uint8 // index size of a shard when it is first used
	scan    *Scan // the scan that runs
}

// Usage is what a store holds and takes.
type Usage struct {
	Entries record.Count
	Raw     record.Bytes // keys and values
	Used    record.Bytes // pages, indexes and the fixed part; what state.max_bytes is compared with
	Mapped  record.Bytes // taken from the system; freed parts are used again and not returned before Close
}

// NewMemory makes an empty store. Shards are made when they are first used; expected, the number of entries the store
// will probably hold, sets the size their indexes begin with, and 0 means not known.
func NewMemory(expected record.Count) *Memory {
	m := &Memory{}
	if expected > 0 {
		mean := float64(expected) / shardCount
		m.presize = min(indexBits(uint64(mean+4*math.Sqrt(mean))), maxPresizedBits)
	}
	return m
}

// Get returns the value of a key; hash is record.Hash(key).
func (m *Memory) Get(hash uint64, key []byte) (value []byte, ok bool) {
	s := &m.shards[shardOf(hash)]
	if s.bits == 0 {
		return nil, false
	}
	_, place := s.find(&m.arena, hash, key)
	if place == 0 {
		return nil, false
	}
	_, value = entry(m.arena.mem(place)).split()
	return value, true
}

// Find calls fn with every entry whose key has this hash until fn returns false.
func (m *Memory) Find(hash uint64, fn func(key, value []byte) bool) {
	s := &m.shards[shardOf(hash)]
	if s.bits == 0 {
		return
	}
	t, tag, mask := s.slots(&m.arena), tagOf(hash), uint64(1)<<s.bits-1
	for at := tag >> (tagBits - s.bits); ; at = (at + 1) & mask {
		slot := t.get(at)
		if slot == 0 {
			return
		}
		if slotTag(slot) != tag {
			continue
		}
		key, value := entry(m.arena.mem(slotRef(slot))).split()
		if record.Hash(key) == hash && !fn(key, value) {
			return
		}
	}
}

// Put inserts or replaces an entry; hash is record.Hash(key). diff is the digest of the new entry less that of the old
// one.
func (m *Memory) Put(hash uint64, key, value []byte, diff record.Digest) {
	added := m.set(hash, key, value)
	m.digest = m.digest.Add(diff)
	if m.scan != nil {
		m.scan.changed(hash, diff, added)
	}
}

// Delete removes an entry; diff is minus the digest of the old one. It panics when the key is missing: the caller's
// view of the state is wrong.
func (m *Memory) Delete(hash uint64, key []byte, diff record.Digest) {
	if !m.unset(hash, key) {
		panic(&Error{Kind: KindCorrupt, Err: fmt.Errorf("delete of key %.64x, which is not there", key)})
	}
	m.digest = m.digest.Add(diff)
	if m.scan != nil {
		m.scan.changed(hash, diff, -1)
	}
}

// Set inserts or replaces an entry for a replay into a store that is proved afterwards: the digest is not kept. No scan
// may run.
func (m *Memory) Set(hash uint64, key, value []byte) {
	m.forgetDigest()
	m.set(hash, key, value)
}

// Unset removes an entry, or nothing when it is missing, as a replayed tombstone does. Otherwise it is like Set.
func (m *Memory) Unset(hash uint64, key []byte) {
	m.forgetDigest()
	m.unset(hash, key)
}

var errScanRuns = errors.New("a scan runs: it must be dropped before a replay or a proof")

func (m *Memory) forgetDigest() {
	if m.scan != nil {
		panic(&Error{Kind: KindCorrupt, Err: errScanRuns})
	}
	m.unknown = true
}

// set returns the change of the number of entries.
func (m *Memory) set(hash uint64, key, value []byte) record.Count {
	if len(key) == 0 || len(key) > record.MaxKeyBytes || len(value) > MaxValueBytes {
		panic(&Error{Kind: KindCorrupt, Err: fmt.Errorf("entry with a key of %d and a value of %d bytes; keys have 1 to %d, values up to %d: sizes are checked before the fold",
			len(key), len(value), record.MaxKeyBytes, MaxValueBytes)})
	}
	s := &m.shards[shardOf(hash)]
	if s.bits == 0 && m.presize != 0 {
		check(s.resize(&m.arena, m.presize))
	}
	old, err := s.put(&m.arena, hash, key, value)
	check(err)
	m.raw += record.Bytes(len(value))
	if old >= 0 {
		m.raw -= record.Bytes(old)
		return 0
	}
	m.raw += record.Bytes(len(key))
	m.live++
	return 1
}

func (m *Memory) unset(hash uint64, key []byte) bool {
	old, err := m.shards[shardOf(hash)].remove(&m.arena, hash, key)
	check(err)
	if old < 0 {
		return false
	}
	m.raw -= record.Bytes(len(key) + old)
	m.live--
	return true
}

// check panics when there is no memory left: the Base of a task has no errors.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Live is the number of entries.
func (m *Memory) Live() record.Count { return m.live }

// Digest is the running digest. It panics after Set or Unset when Prove has not been called since: it is not known.
func (m *Memory) Digest() record.Digest {
	if m.unknown {
		panic(&Error{Kind: KindCorrupt, Err: errors.New("digest asked for after a replay without a proof")})
	}
	return m.digest
}

// All calls fn with every entry, in the order of the shards, until fn returns false.
func (m *Memory) All(fn func(hash uint64, key, value []byte) bool) {
	for i := range m.shards {
		if !m.shards[i].each(&m.arena, func(keyValue []byte, keyLen int) bool {
			key := keyValue[:keyLen:keyLen]
			return fn(record.Hash(key), key, keyValue[keyLen:len(keyValue):len(keyValue)])
		}) {
			return
		}
	}
}

// Prove recomputes digest and live count from all entries, makes them the running ones and returns them, for I7. No
// scan may run.
func (m *Memory) Prove() (record.Digest, record.Count) {
	m.forgetDigest()
	var digest record.Digest
	var live record.Count
	for i := range m.shards {
		m.shards[i].each(&m.arena, func(keyValue []byte, keyLen int) bool {
			digest = digest.Add(record.EntryDigest(keyValue, keyLen))
			live++
			return true
		})
	}
	m.digest, m.live, m.unknown = digest, live, false
	return digest, live
}

// Usage tells what the store holds and takes.
func (m *Memory) Usage() Usage {
	fixed := record.Bytes(unsafe.Sizeof(*m))
	return Usage{
		Entries: m.live,
		Raw:     m.raw,
		Used:    fixed + record.Bytes(m.arena.used),
		Mapped:  fixed + record.Bytes(m.arena.mapped),
	}
}

// Close gives the memory back to the system. The store is empty afterwards and may be used again; slices it returned
// before must not be touched any more. A running scan is dropped.
func (m *Memory) Close() error {
	presize := m.presize
	if m.scan != nil {
		m.scan.Drop()
	}
	err := m.arena.close()
	m.shards, m.live, m.raw, m.digest, m.unknown, m.presize = [shardCount]shard{}, 0, 0, record.Digest{}, false, presize
	return err
}
