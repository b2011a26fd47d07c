package store

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A ref is a place in an arena in units of 8 bytes: the chunk's number, then the place within it. The zero ref is no
// place.
type ref uint64

// Sizes of the arena. A ref of 36 bits reaches 512 GiB.
const (
	unitBytes     = 8
	refBits       = 36
	chunkBits     = 25 // log2 of the largest chunk: no block is larger
	chunkUnitBits = chunkBits - 3
	minBlockBits  = 6 // log2 of the smallest block
	minChunkBits  = 16
	maxChunks     = 1 << (refBits - chunkUnitBits)
)

// arena hands out blocks whose sizes are powers of two, cut out of chunks of anonymous memory outside the Go heap: the
// collector never looks at them. Few large chunks, because the number of mappings of a process is limited. Freed
// blocks are kept by size and used again, whole or halved; they are never joined, and chunks are returned to the system
// by close only, so what is mapped is bounded by the peaks of each size.
//
// The mutex and the published chunk table are there for a load, which fills shards from several goroutines.
type arena struct {
	system func(bytes int) ([]byte, error) // where chunks come from; nil: mapChunk

	chunks atomic.Pointer[[][]byte] // grows only; read without the mutex

	mu     sync.Mutex
	free   [chunkBits + 1]ref // by log2 of the size: first of a chain, each block holds the next one's ref
	bump   ref                // first place never handed out in the newest chunk
	left   int64              // bytes from bump to the end of that chunk
	mapped int64              // bytes of all chunks
	used   int64              // bytes of blocks handed out and not freed
}

// mem returns the chunk from a place to its end.
func (a *arena) mem(r ref) []byte {
	return (*a.chunks.Load())[r>>chunkUnitBits][r%(1<<chunkUnitBits)*unitBytes:]
}

// block returns the n bytes at a place.
func (a *arena) block(r ref, n int64) []byte { return a.mem(r)[:n:n] }

// alloc hands out a block of 1<<class bytes. Its content is undefined.
func (a *arena) alloc(class uint8) (ref, error) {
	class = max(class, minBlockBits)
	if class > chunkBits {
		return 0, &Error{Kind: KindIO, Err: fmt.Errorf("a block of 1<<%d bytes is larger than a chunk of 1<<%d: one task holds too much, use more partitions", class, chunkBits)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.reuse(class)
	if r == 0 {
		if err := a.extend(class); err != nil {
			return 0, err
		}
		r = a.bump
		a.cut(class)
	}
	a.used += 1 << class
	return r, nil
}

// release takes a block back.
func (a *arena) release(r ref, class uint8) {
	class = max(class, minBlockBits)
	a.mu.Lock()
	a.push(r, class)
	a.used -= 1 << class
	a.mu.Unlock()
}

// reuse takes a freed block, halving a larger one if need be; 0 when there is none.
func (a *arena) reuse(class uint8) ref {
	for c := class; int(c) < len(a.free); c++ {
		r := a.free[c]
		if r == 0 {
			continue
		}
		a.free[c] = ref(binary.LittleEndian.Uint64(a.mem(r)))
		for c > class {
			c--
			a.push(r+ref(1)<<c/unitBytes, c)
		}
		return r
	}
	return 0
}

func (a *arena) push(r ref, class uint8) {
	binary.LittleEndian.PutUint64(a.mem(r), uint64(a.free[class]))
	a.free[class] = r
}

// cut moves the bump past a block.
func (a *arena) cut(class uint8) {
	a.bump += ref(1) << class / unitBytes
	a.left -= 1 << class
}

// extend makes room for a block at the bump, mapping a chunk when the newest one has not enough left. The first chunks
// are small, for small tasks; later ones are an eighth of what is mapped.
func (a *arena) extend(class uint8) error {
	if a.left >= 1<<class {
		return nil
	}
	for a.left > 0 {
		c := uint8(bits.Len64(uint64(a.left)) - 1)
		a.push(a.bump, c)
		a.cut(c)
	}
	chunkClass := min(max(bits.Len64(uint64(a.mapped/8)), minChunkBits, int(class)), chunkBits)
	table := a.table()
	if len(table) == maxChunks {
		return &Error{Kind: KindIO, Err: fmt.Errorf("memory is full at %d bytes mapped, the most that one task can hold: spread the input over more partitions", a.mapped)}
	}
	system := a.system
	if system == nil {
		system = mapChunk
	}
	chunk, err := system(1 << chunkClass)
	if err != nil {
		return &Error{Kind: KindIO, Err: fmt.Errorf("no memory for %d bytes more than the %d mapped: %w: raise the memory limit, or run more instances", 1<<chunkClass, a.mapped, err)}
	}
	a.bump, a.left = ref(len(table))<<chunkUnitBits, 1<<chunkClass
	a.mapped += 1 << chunkClass
	table = append(table, chunk)
	a.chunks.Store(&table)
	if len(table) == 1 {
		a.cut(minBlockBits) // the zero ref stands for no place
	}
	return a.extend(class)
}

// mapChunk takes zeroed memory from the system.
func mapChunk(bytes int) ([]byte, error) {
	return unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func (a *arena) table() [][]byte {
	if t := a.chunks.Load(); t != nil {
		return *t
	}
	return nil
}

// close gives all memory back to the system. The arena is empty afterwards and can be used again.
func (a *arena) close() error {
	var failed error
	for _, chunk := range a.table() {
		if err := unix.Munmap(chunk); err != nil && failed == nil {
			failed = fmt.Errorf("store: unmap %d bytes: %w", len(chunk), err)
		}
	}
	a.chunks.Store(nil)
	a.free, a.bump, a.left, a.mapped, a.used = [chunkBits + 1]ref{}, 0, 0, 0, 0
	return failed
}
