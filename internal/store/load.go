package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// Verify reads a whole checkpoint and verifies everything that Load does. It writes nothing, and holds a few blocks and
// one shard in memory.
func Verify(fs vfs.FS, path string) (*Info, error) {
	scratch := NewMemory(0)
	info, err := readAll(fs, path, scratch, 1, false)
	return info, errors.Join(err, scratch.Close())
}

// Load reads a checkpoint into an empty store with this many goroutines, beside one that reads the file. It returns
// only when everything is verified, the hash of the whole file included, and the store then has the image's digest and
// live count. After an error the store is empty again. It holds a few blocks per worker in memory.
//
// The image is fuzzy: the store is no state before the changelog has been replayed from Begin to End at least.
func Load(fs vfs.FS, path string, m *Memory, workers int) (*Info, error) {
	if m.live != 0 || m.unknown || m.scan != nil {
		panic(&Error{Kind: KindCorrupt, Path: path, Err: fmt.Errorf("load into a store that holds %d entries or is in use", m.live)})
	}
	info, err := readAll(fs, path, m, max(1, workers), true)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return info, nil
}

// Load is the function Load for a checkpoint of this directory, by the path that List gives.
func (d *Dir) Load(path string, m *Memory, workers int) (*Info, error) {
	return Load(d.fs, path, m, workers)
}

// readAll reads and verifies a checkpoint through m, which keeps the entries or only shows that they fit together.
func readAll(fs vfs.FS, path string, m *Memory, workers int, keep bool) (*Info, error) {
	r, err := openReader(fs, path)
	if err != nil {
		return nil, err
	}
	l := &load{m: m, keep: keep, blocks: make(chan *block), empty: make(chan *block, workers+1)}
	for range workers + 1 {
		l.empty <- new(block)
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(l.work)
	}
	err = l.feed(r)
	close(l.blocks)
	group.Wait()
	if err == nil && l.err != nil {
		err = r.damaged(l.err)
		if memory := (*Error)(nil); errors.As(l.err, &memory) {
			err = memory
		}
	}
	if err == nil {
		err = r.end(l.image, l.payloads)
	}
	if err := r.close(err); err != nil {
		return nil, err
	}
	if keep {
		m.live, m.digest, m.raw = l.image.Live, l.image.Digest, l.raw
	}
	return &r.info, nil
}

// load is a checkpoint being read by several goroutines. Each takes whole blocks, and blocks are whole shards: no two
// of them touch the same shard.
type load struct {
	m       *Memory
	keep    bool // entries stay in m; otherwise each shard is emptied again
	blocks  chan *block
	empty   chan *block // buffers to read into
	claimed [shardCount]atomic.Bool
	failed  atomic.Bool

	mu       sync.Mutex
	err      error // the first one
	image    Sum
	payloads record.Digest
	raw      record.Bytes
}

// feed reads the blocks one after the other.
func (l *load) feed(r *reader) error {
	for !l.failed.Load() {
		b := <-l.empty
		more, err := r.next(b)
		if err != nil || !more {
			return err
		}
		l.blocks <- b
	}
	return nil
}

// work verifies blocks and puts their entries into the store.
func (l *load) work() {
	var entries []loaded
	for b := range l.blocks {
		entries = entries[:0]
		image, piece, err := b.verify(func(keyValue []byte, keyLen int) error {
			entries = append(entries, loaded{record.Hash(keyValue[:keyLen]), keyValue, keyLen})
			return nil
		})
		raw := record.Bytes(0)
		if err == nil {
			raw, err = l.fill(entries)
		}
		l.mu.Lock()
		if err != nil && l.err == nil {
			l.err = err
			l.failed.Store(true)
		}
		l.image, l.payloads, l.raw = l.image.Add(image), l.payloads.Add(piece), l.raw+raw
		l.mu.Unlock()
		l.empty <- b
	}
}

// loaded is an entry of a block.
type loaded struct {
	hash     uint64
	keyValue []byte
	keyLen   int
}

// fill puts the entries of a block into their shards, each made in the size it needs.
func (l *load) fill(entries []loaded) (raw record.Bytes, err error) {
	for last := uint64(0); len(entries) > 0; {
		number := shardOf(entries[0].hash)
		if number < last {
			return 0, fmt.Errorf("shard %d comes after shard %d", number, last)
		}
		last = number
		if l.claimed[number].Swap(true) {
			return 0, fmt.Errorf("shard %d is there twice", number)
		}
		n, units := 0, uint32(0)
		for n < len(entries) && shardOf(entries[n].hash) == number {
			e := &entries[n]
			units += unitsOf(e.keyLen, len(e.keyValue)-e.keyLen)
			raw += record.Bytes(len(e.keyValue))
			n++
		}
		if err := l.fillShard(&l.m.shards[number], entries[:n], units); err != nil {
			return 0, err
		}
		entries = entries[n:]
	}
	return raw, nil
}

func (l *load) fillShard(s *shard, entries []loaded, units uint32) error {
	if err := s.reserve(&l.m.arena, uint32(len(entries)), units); err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		old, err := s.put(&l.m.arena, e.hash, e.keyValue[:e.keyLen], e.keyValue[e.keyLen:])
		if err != nil {
			return err
		}
		if old >= 0 {
			return fmt.Errorf("key %.64x is there twice", e.keyValue[:e.keyLen])
		}
	}
	if !l.keep {
		s.empty(&l.m.arena)
	}
	return nil
}
