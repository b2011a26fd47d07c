package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// readSlice takes a slice apart, in code of its own.
func readSlice(t testing.TB, image map[string]string, slice []byte) {
	t.Helper()
	next := func() int {
		n, w := binary.Uvarint(slice)
		if w <= 0 {
			t.Fatalf("slice ends in a length")
		}
		slice = slice[w:]
		return int(n)
	}
	for len(slice) > 0 {
		k, v := next(), next()
		key := string(slice[:k])
		if _, twice := image[key]; twice {
			t.Fatalf("key %q is in the image twice", key)
		}
		image[key] = string(slice[k : k+v])
		slice = slice[k+v:]
	}
}

// scanSeeds is how many random schedules a test runs: more with TIDEMARK_SWEEP=n.
func scanSeeds(t *testing.T, most uint64) (first, end uint64) {
	if s := os.Getenv("TIDEMARK_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return seed, seed + 1
	}
	if s := os.Getenv("TIDEMARK_SWEEP"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return 0, n
	}
	return 0, most
}

// TestScanSchedules runs scans with changes between the slices on random schedules and holds them to section 6: the
// image with the changes since B replayed over it is the state at P, and digest(image) + delta is its digest.
func TestScanSchedules(t *testing.T) {
	first, end := scanSeeds(t, 2000)
	dirty := 0
	for seed := first; seed < end; seed++ {
		if scanSchedule(t, seed) {
			dirty++
		}
		if t.Failed() {
			t.Fatalf("seed %d: TIDEMARK_SEED=%d go test -run TestScanSchedules ./internal/store", seed, seed)
		}
	}
	if end-first > 100 && dirty < int(end-first)/4 {
		t.Errorf("only %d of %d schedules changed shards already passed: the test tests little", dirty, end-first)
	}
}

// scanSchedule returns whether the scan had a delta.
func scanSchedule(t *testing.T, seed uint64) bool {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := newPair(t, 0)
	defer p.close(t)
	pool := make([]string, 1+rng.IntN(400))
	for i := range pool {
		pool[i] = fmt.Sprintf("\x01%d-%d", rng.Uint32(), i)
		if rng.IntN(2) == 0 {
			pool[i] = fewShards[rng.IntN(len(fewShards))]
		}
	}
	changed := map[string]bool{}
	change := func(n int) {
		for range n {
			k := pool[rng.IntN(len(pool))]
			changed[k] = true
			if has(p.model, k) && rng.IntN(3) == 0 {
				p.delete(k)
			} else {
				p.put(k, strings.Repeat("s", rng.IntN(100)))
			}
		}
	}
	change(rng.IntN(3 * len(pool)))
	if rng.IntN(4) == 0 { // a scan that is dropped leaves nothing behind
		s := p.m.StartScan()
		s.shards(nil, 1+rng.IntN(1000))
		change(rng.IntN(10))
		s.Drop()
		change(rng.IntN(10))
	}
	clear(changed)
	s, image, size := p.m.StartScan(), map[string]string{}, 1+rng.IntN(3000)
	for done := false; !done; {
		var slice []byte
		slice, done = s.shards([]byte("kept"), size)
		if string(slice[:4]) != "kept" {
			t.Fatalf("slice does not begin with what was in the buffer")
		}
		readSlice(t, image, slice[4:])
		if !done {
			change(rng.IntN(8))
		}
	}
	sum := Sum{digestOf(image), record.Count(len(image))}
	if got, want := sum.Add(s.Delta()), (Sum{p.m.Digest(), p.m.Live()}); got != want {
		t.Errorf("image + delta is %v, state is %v", got, want)
	}
	for k := range changed { // the replay from B: full values and tombstones
		if v, ok := p.model[k]; ok {
			image[k] = v
		} else {
			delete(image, k)
		}
	}
	if !maps.Equal(image, p.model) {
		t.Errorf("image with the replay has %d entries that differ from the state's %d", len(image), len(p.model))
	}
	delta := s.Delta()
	change(10)
	if s.Delta() != delta {
		t.Errorf("delta changed after the scan's end")
	}
	p.check(t)
	return delta != Sum{}
}

// TestScanOrder holds the scan to the order of hashes by shard, and to slices that end with a shard.
func TestScanOrder(t *testing.T) {
	p := newPair(t, 0)
	for i := range 5000 {
		p.put(fmt.Sprintf("\x01order-%d", i), strings.Repeat("o", 300))
	}
	s, last, n := p.m.StartScan(), -1, 0
	for done := false; !done; n++ {
		var slice []byte
		slice, done = s.Next(nil)
		image := map[string]string{}
		readSlice(t, image, slice)
		var shards []int
		for k := range image {
			shards = append(shards, int(shardOf(record.Hash([]byte(k)))))
		}
		slices.Sort(shards)
		if len(shards) > 0 && shards[0] <= last {
			t.Fatalf("slice begins with shard %d, the one before ended with %d", shards[0], last)
		}
		last = shards[len(shards)-1]
		if len(slice) > 300<<10 {
			t.Errorf("slice of %d bytes", len(slice))
		}
	}
	if n < 5 {
		t.Errorf("only %d slices", n)
	}
}
