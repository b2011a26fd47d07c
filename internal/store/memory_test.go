package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
)

var _ task.Base = (*Memory)(nil)

// fewShards is a pool of keys that all live in the same three shards, so that small models grow and compact them.
var fewShards = func() (keys []string) {
	for i := 0; len(keys) < 600; i++ {
		key := fmt.Sprintf("\x01key-%d%s", i, strings.Repeat("x", i%40))
		if shardOf(record.Hash([]byte(key)))%341 == 1 {
			keys = append(keys, key)
		}
	}
	return keys
}()

// digestOf is the digest of a model, with a hash of its own per entry made from a copy.
func digestOf(model map[string]string) (d record.Digest) {
	for k, v := range model {
		d = d.Add(record.EntryDigest([]byte(k+v), len(k)))
	}
	return d
}

func diff(key, old string, had bool, fresh string, has bool) (d record.Digest) {
	if has {
		d = d.Add(record.EntryDigest([]byte(key+fresh), len(key)))
	}
	if had {
		d = d.Sub(record.EntryDigest([]byte(key+old), len(key)))
	}
	return d
}

// pair is a Memory and a map that takes the same changes.
type pair struct {
	m     *Memory
	model map[string]string
	hash  func(key []byte) uint64
}

func newPair(t testing.TB, expected record.Count) *pair {
	p := &pair{m: NewMemory(expected), model: map[string]string{}, hash: record.Hash}
	t.Cleanup(func() { p.close(t) })
	return p
}

func (p *pair) close(t testing.TB) {
	if err := p.m.Close(); err != nil {
		t.Error(err)
	}
}

func (p *pair) put(key, value string) {
	old, had := p.model[key]
	p.m.Put(p.hash([]byte(key)), []byte(key), []byte(value), diff(key, old, had, value, true))
	p.model[key] = value
}

func (p *pair) delete(key string) {
	p.m.Delete(p.hash([]byte(key)), []byte(key), diff(key, p.model[key], true, "", false))
	delete(p.model, key)
}

// check compares everything that can be asked of both.
func (p *pair) check(t interface{ Fatalf(string, ...any) }) {
	if got, want := p.m.Live(), record.Count(len(p.model)); got != want {
		t.Fatalf("live is %d, want %d", got, want)
	}
	if got, want := p.m.Digest(), digestOf(p.model); got != want {
		t.Fatalf("digest is %v, want %v", got, want)
	}
	all, raw := map[string]string{}, 0
	p.m.All(func(hash uint64, key, value []byte) bool {
		if _, twice := all[string(key)]; twice || hash != record.Hash(key) {
			t.Fatalf("All: key %q twice, or with the wrong hash %x", key, hash)
		}
		all[string(key)] = string(value)
		raw += len(key) + len(value)
		return true
	})
	if !maps.Equal(all, p.model) {
		t.Fatalf("All gives %d entries that differ from the model's %d", len(all), len(p.model))
	}
	for key, want := range p.model {
		p.m.Touch([]uint64{p.hash([]byte(key)), ^p.hash([]byte(key))})
		if got, ok := p.m.Get(p.hash([]byte(key)), []byte(key)); !ok || string(got) != want {
			t.Fatalf("Get(%q) is %q, %v; want %q", key, got, ok, want)
		}
	}
	u := p.m.Usage()
	if u.Entries != p.m.Live() || u.Raw != record.Bytes(raw) || u.Used > u.Mapped {
		t.Fatalf("usage %+v, want %d entries, %d raw bytes, and no more used than mapped", u, p.m.Live(), raw)
	}
	for i := range p.m.shards {
		if err := p.m.shards[i].sound(&p.m.arena); err != nil {
			t.Fatalf("shard %d: %v", i, err)
		}
	}
	live := Sum{p.m.Digest(), p.m.Live()}
	if p.m.scan == nil {
		if d, n := p.m.Prove(); (Sum{d, n}) != live {
			t.Fatalf("Prove says %v and %d, running are %v", d, n, live)
		}
	}
}

// sound walks the pages and compares what lies there with what the shard counts, and with the chain of the dead (M4).
func (s *shard) sound(a *arena) error {
	var live, used, dead uint32
	graves := map[ref]bool{}
	for page, end := s.page, s.fill; page != 0; {
		for at := uint32(1); at < end; {
			head := entry(a.mem(page + ref(at))).head()
			units := headUnits(head)
			if units == 0 {
				break
			}
			used += units
			if headKey(head) == 0 {
				graves[page+ref(at)] = true
				dead += units
			} else {
				live++
				if need := unitsOf(headKey(head), headValue(head)); units > 2*need {
					return fmt.Errorf("an entry of %d units takes the room of %d", need, units)
				}
			}
			at += units
		}
		head := binary.LittleEndian.Uint64(a.mem(page))
		page, end = slotRef(head), 1<<(head>>refBits)/unitBytes
	}
	if live != s.live || used != s.used || dead != s.dead {
		return fmt.Errorf("the pages hold %d entries, %d units and %d dead ones; counted are %d, %d and %d", live, used, dead, s.live, s.used, s.dead)
	}
	for at := s.free; at != 0; at = ref(binary.LittleEndian.Uint64(a.mem(at + 1))) {
		if !graves[at] {
			return fmt.Errorf("place %d is in the chain of the dead, twice or alive", at)
		}
		delete(graves, at)
	}
	if dead >= minDead && dead > (used-dead)/2 {
		return fmt.Errorf("%d of %d units are dead, more than a third", dead, used)
	}
	return nil
}

// TestMemoryModel runs random operations on a Memory and a map.
func TestMemoryModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &pair{m: NewMemory(record.Count(rapid.SampledFrom([]int{0, 10, 100_000}).Draw(t, "expected"))), model: map[string]string{}, hash: record.Hash}
		defer p.m.Close()
		pool := fewShards[:rapid.SampledFrom([]int{5, 60, len(fewShards)}).Draw(t, "pool")]
		key := func() string { return pool[rapid.IntRange(0, len(pool)-1).Draw(t, "key")] }
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				p.put(key(), strings.Repeat("v", rapid.IntRange(0, 60).Draw(t, "size"))+fmt.Sprint(len(p.model)))
			},
			"put many": func(t *rapid.T) {
				size := rapid.SampledFrom([]int{0, 8, 30, 300, 5000}).Draw(t, "size")
				for range rapid.IntRange(1, 200).Draw(t, "n") {
					p.put(key(), strings.Repeat("m", size))
				}
			},
			"delete": func(t *rapid.T) {
				if k := key(); p.model[k] != "" {
					p.delete(k)
				}
			},
			"delete many": func(t *rapid.T) {
				every := rapid.IntRange(1, 4).Draw(t, "every")
				for i, k := range slices.Sorted(maps.Keys(p.model)) {
					if i%every == 0 {
						p.delete(k)
					}
				}
			},
			"set and unset": func(t *rapid.T) {
				k := key()
				p.m.Set(record.Hash([]byte(k)), []byte(k), []byte("set"))
				p.model[k] = "set"
				k = key()
				p.m.Unset(record.Hash([]byte(k)), []byte(k))
				delete(p.model, k)
				p.m.Prove()
			},
			"missing": func(t *rapid.T) {
				k := key()
				if _, ok := p.m.Get(record.Hash([]byte(k)), []byte(k)); ok != has(p.model, k) {
					t.Fatalf("Get(%q) says %v", k, ok)
				}
			},
			"": func(t *rapid.T) { p.check(t) },
		})
	})
}

func has(m map[string]string, k string) bool { _, ok := m[k]; return ok }

// TestHashesThatCollide gives every key one of few hashes, so that index chains are as long as they get and wrap.
func TestHashesThatCollide(t *testing.T) {
	for _, hash := range []func([]byte) uint64{
		func([]byte) uint64 { return 1<<64 - 1 },
		func([]byte) uint64 { return 0 },
		func(key []byte) uint64 { return 7<<54 | (1<<54 - 1) - uint64(len(key)%3)<<26 },
	} {
		p := newPair(t, 0)
		p.hash = hash
		rng := rand.New(rand.NewPCG(1, 2))
		for range 1500 {
			key := fewShards[rng.IntN(100)]
			if has(p.model, key) && rng.IntN(2) == 0 {
				p.delete(key)
			} else {
				p.put(key, strings.Repeat("c", rng.IntN(20)))
			}
			for _, k := range fewShards[:100] {
				got, ok := p.m.Get(hash([]byte(k)), []byte(k))
				if want, has := p.model[k]; ok != has || string(got) != want {
					t.Fatalf("Get(%q) is %q, %v; want %q, %v", k, got, ok, want, has)
				}
			}
		}
		if d := digestOf(p.model); d != p.m.Digest() || len(p.model) == 0 {
			t.Fatalf("digest of %d entries is %v, want %v", len(p.model), p.m.Digest(), d)
		}
	}
}

// TestFind finds an entry by the hash of its key, and does not confuse two keys whose hashes agree in the bits that the
// index holds.
func TestFind(t *testing.T) {
	p := newPair(t, 0)
	a, b := "\x01347515", "\x01618859" // found by trying
	if known := func(key string) uint64 { return record.Hash([]byte(key)) >> (64 - shardBits - tagBits) }; known(a) != known(b) {
		t.Fatal("the index can tell the two keys apart by their hashes")
	}
	p.put(a, "first")
	p.put(b, "second")
	p.put("\x01other", "third")
	for key, want := range p.model {
		var found []string
		p.m.Find(record.Hash([]byte(key)), func(k, v []byte) bool {
			found = append(found, string(k)+"="+string(v))
			return true
		})
		if !slices.Equal(found, []string{key + "=" + want}) {
			t.Errorf("Find(%q) finds %q", key, found)
		}
	}
	p.m.Find(record.Hash([]byte("\x01absent")), func(k, _ []byte) bool {
		t.Errorf("Find of an absent key finds %q", k)
		return true
	})
}

// TestSizes puts keys and values of all sizes that matter, the largest included, and reads them back.
func TestSizes(t *testing.T) {
	p := newPair(t, 0)
	sizes := []int{0, 1, 7, 8, 9, 200, 255, 256, 4095, 4096, 1 << 16, 1<<20 + 1, MaxValueBytes - 1, MaxValueBytes}
	for i, size := range sizes {
		p.put(fewShards[i], strings.Repeat("s", size))
		p.put(strings.Repeat("k", record.MaxKeyBytes-i), strings.Repeat("s", size/64))
	}
	p.check(t)
	for i := range sizes {
		p.put(fewShards[i], "shrunk")
	}
	p.check(t)
	if got, most := p.m.Usage().Used, 4*p.m.Usage().Raw; got > most {
		t.Errorf("%d bytes used after shrinking to %d raw, want at most %d", got, p.m.Usage().Raw, most)
	}
	for _, bad := range []struct{ key, value int }{{0, 1}, {record.MaxKeyBytes + 1, 1}, {1, MaxValueBytes + 1}} {
		mustPanic(t, "1 to 65535", func() { p.m.Put(0, make([]byte, bad.key), make([]byte, bad.value), record.Digest{}) })
	}
}

// TestGrowthStaysInPlace holds the promise that a value growing within 8 bytes is not moved.
func TestGrowthStaysInPlace(t *testing.T) {
	p := newPair(t, 0)
	key := "\x01abcdefg"
	p.put(key, "1")
	used := p.m.shards[shardOf(record.Hash([]byte(key)))].used
	for _, v := range []string{"12", "1234567", "12345678", "123"} {
		p.put(key, v)
	}
	if s := p.m.shards[shardOf(record.Hash([]byte(key)))]; s.used != used || s.dead != 0 {
		t.Errorf("%d units used and %d dead after growing from 1 to 8 bytes, want %d and 0", s.used, s.dead, used)
	}
}

// TestReuse fills and empties a store again and again: what is mapped must not grow.
func TestReuse(t *testing.T) {
	p := newPair(t, 0)
	var first record.Bytes
	for round := range 4 {
		for i := range 10_000 {
			p.put(fmt.Sprintf("\x01round-%d-key-%d", round, i), strings.Repeat("r", i%50))
		}
		p.check(t)
		if mapped := p.m.Usage().Mapped; round == 0 {
			first = mapped
		} else if mapped > first*5/4 {
			t.Fatalf("round %d: %d bytes mapped, %d after the first", round, mapped, first)
		}
		for _, k := range slices.Sorted(maps.Keys(p.model)) {
			p.delete(k)
		}
		if p.m.Live() != 0 || p.m.Digest() != (record.Digest{}) || p.m.arena.used != 0 {
			t.Fatalf("empty store: live %d, digest %v, %d bytes used", p.m.Live(), p.m.Digest(), p.m.arena.used)
		}
	}
}

// TestSteadyChurn replaces entries by others for a long time, as windows open and close: the dead share stays bounded.
func TestSteadyChurn(t *testing.T) {
	p := newPair(t, 0)
	const live = 30_000
	key := func(i int) string { return fmt.Sprintf("\x01churn-%032d", i) }
	for i := range 4 * live {
		p.put(key(i), strings.Repeat("c", 50+i%17))
		if i >= live {
			p.delete(key(i - live))
		}
	}
	if u := p.m.Usage(); u.Used > u.Raw*19/10 {
		t.Errorf("%d bytes used for %d raw after churn: %.2fx", u.Used, u.Raw, float64(u.Used)/float64(u.Raw))
	}
	p.check(t)
}

// TestRoomOfTheDead deletes an eighth of the entries at a time and puts as many of the same sizes into the same shards:
// they take the room of those that died. No page is added and no live entry is moved, but in the few shards of which
// more than a third died.
func TestRoomOfTheDead(t *testing.T) {
	p := newPair(t, 0)
	const live, burst = 32_000, 4_000
	key := func(i int) string { return fmt.Sprintf("\x01burst-%032d", i) }
	for i := range live {
		p.put(key(i), strings.Repeat("c", 60))
	}
	before := p.m.shards
	for first := 0; first < live; first += burst {
		for i := range burst {
			p.delete(key(first + i))
		}
		for i := range burst {
			p.put(key(first+i), strings.Repeat("d", 60))
		}
	}
	p.check(t)
	same := 0
	for i := range before {
		if s := &p.m.shards[i]; s.page == before[i].page && s.used == before[i].used && s.dead == 0 {
			same++
		}
	}
	if same < shardCount*9/10 {
		t.Errorf("%d of %d shards have the pages that they began with", same, shardCount)
	}
}

// TestSmallTask holds the limit of 256 KiB fixed for a small task.
func TestSmallTask(t *testing.T) {
	for _, n := range []int{0, 1, 10, 100, 1000} {
		p := newPair(t, record.Count(n))
		for i := range n {
			p.put(fmt.Sprintf("\x01small-task-key-%022d", i), strings.Repeat("s", 62))
		}
		u := p.m.Usage()
		if most := 256<<10 + u.Raw*16/10; u.Mapped > most || u.Raw != record.Bytes(100*n) {
			t.Errorf("%d entries, %d raw: %d bytes mapped, want at most %d", n, u.Raw, u.Mapped, most)
		}
	}
}

// TestMemoryRefuses names the misuse it panics on.
func TestMemoryRefuses(t *testing.T) {
	p := newPair(t, 0)
	p.put("\x01a", "b")
	mustPanic(t, "which is not there", func() { p.m.Delete(1, []byte("\x01c"), record.Digest{}) })
	s := p.m.StartScan()
	mustPanic(t, "runs already", func() { p.m.StartScan() })
	mustPanic(t, "must be dropped", func() { p.m.Set(1, []byte("\x01c"), nil) })
	mustPanic(t, "must be dropped", func() { p.m.Unset(1, []byte("\x01c")) })
	mustPanic(t, "must be dropped", func() { p.m.Prove() })
	s.Drop()
	mustPanic(t, "has ended or was dropped", func() { s.Next(nil) })
	p.m.Set(1, []byte("\x01c"), nil)
	mustPanic(t, "without a proof", func() { p.m.Digest() })
	mustPanic(t, "without a proof", func() { p.m.StartScan() })
}

func mustPanic(t *testing.T, want string, fn func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("panic is %v, want %q", err, want)
		}
	}()
	fn()
}

// TestNoMemory lets the system run out of memory at each chunk, for changes and for a load. The error says so, and a
// store that could not be loaded is empty.
func TestNoMemory(t *testing.T) {
	full := smallMemory(t, 20_000)
	fs := vfs.NewMem()
	path := writeCheckpoint(t, openDir(t, fs, "p3"), full.m, sampleHeader()).Path
	for chunks := range len(full.m.arena.table()) - 1 {
		limited := func(p *pair) {
			left := chunks
			p.m.arena.system = func(bytes int) ([]byte, error) {
				if left--; left < 0 {
					return nil, syscall.ENOMEM
				}
				return mapChunk(bytes)
			}
		}
		p := newPair(t, 0)
		limited(p)
		mustPanic(t, "no memory for", func() {
			for k, v := range full.model {
				p.put(k, v)
			}
		})
		p.close(t)
		limited(p)
		if _, err := Load(fs, path, p.m, 2); !errors.Is(err, syscall.ENOMEM) || KindOf(err) != KindIO {
			t.Errorf("load with %d chunks: %v", chunks, err)
		}
		p.model = map[string]string{}
		p.m.arena.system = nil
		p.check(t)
	}
}

// TestClose empties a store and leaves it usable.
func TestClose(t *testing.T) {
	p := newPair(t, 100)
	p.put("\x01a", "b")
	scan := p.m.StartScan()
	p.close(t)
	mustPanic(t, "dropped", func() { scan.Next(nil) })
	p.model = map[string]string{}
	p.check(t)
	p.put("\x01a", "again")
	p.check(t)
}

// TestNoAllocation holds the hot paths to no allocation.
func TestNoAllocation(t *testing.T) {
	p := newPair(t, 1000)
	for _, k := range fewShards {
		p.put(k, strings.Repeat("v", 40))
	}
	key, value := []byte(fewShards[7]), bytes.Repeat([]byte("w"), 40)
	hash := record.Hash(key)
	ahead := []uint64{hash, hash + 1}
	if n := testing.AllocsPerRun(100, func() {
		p.m.Get(hash, key)
		p.m.Touch(ahead)
		p.m.Put(hash, key, value, record.Digest{})
		p.m.Find(hash, func(_, _ []byte) bool { return true })
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
