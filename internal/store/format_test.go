package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/zeebo/xxh3"

	"github.com/tidemark-streams/tidemark/internal/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file under testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs: got %d bytes\n%.2000q\nwant %d bytes\n%.2000q", path, len(got), got, len(want), want)
	}
}

// seal builds a checkpoint of format 1 in code of its own, from the table in DESIGN.md. counts are the numbers in the
// heads of the blocks.
func seal(h *Header, end, live uint64, digest [2]uint64, payloads [][]byte, counts []int) []byte {
	var hi, lo uint64
	piece := func(b []byte, at int) {
		sum := xxh3.Hash128Seed(b, uint64(at))
		hi, lo = hi+sum.Hi, lo+sum.Lo
	}
	be32 := binary.BigEndian.AppendUint32
	be64 := binary.BigEndian.AppendUint64
	crc := func(b ...[]byte) uint32 {
		return crc32.Checksum(bytes.Join(b, nil), crc32.MakeTable(crc32.Castagnoli))
	}
	fence, commit := h.Fence.Append(nil), h.Commit.Append(nil)
	file := append(be32([]byte("tidemark checkpoint\n"), 1), 0, 0, 0, 0)
	file = be64(be64(file, uint64(h.Begin)), uint64(h.BrokerTime))
	file = append(be32(file, uint32(len(fence))), fence...)
	file = append(be32(file, uint32(len(commit))), commit...)
	binary.BigEndian.PutUint32(file[24:], uint32(len(file)-28))
	file = be32(file, crc(file))
	piece(file, 0)
	for i, payload := range payloads {
		head := be32(be32([]byte{'B'}, uint32(len(payload))), uint32(counts[i]))
		head = be32(head, crc(head, payload))
		piece(head, len(file))
		file = append(file, head...)
		piece(payload, len(file))
		file = append(file, payload...)
	}
	tail := be64(be64([]byte{'T'}, end), live)
	tail = be64(be64(tail, digest[0]), digest[1])
	tail = be64(tail, uint64(len(file)+61))
	piece(tail, len(file))
	tail = be64(be64(tail, hi), lo)
	return append(file, be32(tail, crc(tail))...)
}

// goldenState is in the golden file: two entries in one block, one in another.
var goldenState = map[string]string{"\x01alpha": "1", "\x01beta-1879": "", "\x01delta": strings.Repeat("d", 130)}

// blocksOf returns the blocks of a state, one per shard that is not empty.
func blocksOf(state map[string]string) (payloads [][]byte, counts []int, live uint64, digest [2]uint64) {
	shard := func(key string) uint64 { return xxh3.HashString(key) >> 54 }
	keys := slices.SortedFunc(maps.Keys(state), func(a, b string) int {
		return cmp.Or(cmp.Compare(shard(a), shard(b)), strings.Compare(a, b))
	})
	for i, k := range keys {
		if i == 0 || shard(keys[i-1]) != shard(k) {
			payloads, counts = append(payloads, nil), append(counts, 0)
		}
		last := len(payloads) - 1
		payload := binary.AppendUvarint(payloads[last], uint64(len(k)))
		payload = binary.AppendUvarint(payload, uint64(len(state[k])))
		payloads[last] = append(append(payload, k...), state[k]...)
		counts[last]++
		sum := xxh3.HashString128Seed(k+state[k], uint64(len(k)))
		live, digest[0], digest[1] = live+1, digest[0]+sum.Hi, digest[1]+sum.Lo
	}
	return payloads, counts, live, digest
}

// TestGolden holds the writer to the bytes of format 1 and to the table, and the reader to both.
func TestGolden(t *testing.T) {
	p := newPair(t, 0)
	for _, k := range slices.Sorted(maps.Keys(goldenState)) {
		p.put(k, goldenState[k])
	}
	fs := vfs.NewMem()
	published, err := tryCheckpoint(openDir(t, fs, "s/job/p3"), p.m, sampleHeader(), 1)
	if err != nil {
		t.Fatal(err)
	}
	file := readFile(t, fs, published.Path)
	golden(t, "v1.checkpoint", file)
	payloads, counts, live, digest := blocksOf(goldenState)
	if sealed := seal(sampleHeader(), uint64(sampleHeader().Begin+100), live, digest, payloads, counts); !bytes.Equal(file, sealed) {
		t.Errorf("the writer's bytes differ from the table's:\n%q\n%q", file, sealed)
	}
}

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, stat.Size())
	if _, err := f.ReadAt(b, 0); err != nil && len(b) > 0 {
		t.Fatal(err)
	}
	return b
}

const testFile = "0000000001.checkpoint"

// withFile returns a file system that holds one file of these bytes.
func withFile(t testing.TB, b []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem()
	f, err := fs.Create(testFile, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(b)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return fs
}

// loadBytes loads a file of these bytes, verifies it too, and returns what is in the store.
func loadBytes(t testing.TB, b []byte) (map[string]string, error) {
	t.Helper()
	fs, m := withFile(t, b), NewMemory(0)
	defer m.Close()
	_, err := Load(fs, testFile, m, 2)
	if _, verr := Verify(fs, testFile); (err == nil) != (verr == nil) {
		t.Errorf("Load says %v, Verify %v", err, verr)
	}
	if err != nil && (m.Live() != 0 || m.Digest() != record.Digest{} || m.Usage().Raw != 0) {
		t.Errorf("store holds %+v after %v", m.Usage(), err)
	}
	state := map[string]string{}
	m.All(func(_ uint64, key, value []byte) bool {
		state[string(key)] = string(value)
		return true
	})
	return state, err
}

// TestDamage flips every bit of a small checkpoint, cuts it at every length, appends bytes, and overwrites whole
// stretches. All of it is noticed, and called damage, except where the format version itself is made a newer one.
func TestDamage(t *testing.T) {
	good := readGolden(t)
	if state, err := loadBytes(t, good); err != nil || !maps.Equal(state, goldenState) {
		t.Fatalf("golden file: %v, %q", err, state)
	}
	noticed := func(what string, b []byte, want Kind) {
		t.Helper()
		if _, err := loadBytes(t, b); err == nil {
			t.Errorf("%s: not noticed", what)
		} else if KindOf(err) != want || !strings.Contains(err.Error(), testFile) {
			t.Errorf("%s: %v error %v, want %v", what, KindOf(err), err, want)
		}
	}
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			want := KindDamaged
			if binary.BigEndian.Uint32(b[20:]) > 1 {
				want = KindNewer
			}
			noticed(fmt.Sprintf("bit %d of byte %d", bit, i), b, want)
		}
		noticed(fmt.Sprintf("cut to %d bytes", i), good[:i], KindDamaged)
		for _, n := range []int{2, 16, 61} {
			if i+n <= len(good) && !bytes.Equal(good[i:i+n], make([]byte, n)) {
				b := bytes.Clone(good)
				clear(b[i : i+n])
				if binary.BigEndian.Uint32(b[formatAt:]) <= Format {
					noticed(fmt.Sprintf("%d zeros at %d", n, i), b, KindDamaged)
				}
			}
		}
	}
	for _, more := range [][]byte{{0}, {'T'}, make([]byte, 61), make([]byte, 4096), good[len(good)-61:], good} {
		noticed(fmt.Sprintf("%d bytes appended", len(more)), slices.Concat(good, more), KindDamaged)
	}
	noticed("a block taken out", dropBlock(good), KindDamaged)
}

func readGolden(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "v1.checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// dropBlock takes the first block out.
func dropBlock(b []byte) []byte {
	at := headerAt + int(binary.BigEndian.Uint32(b[headerLenAt:])) + crcBytes
	n := blockHead + int(binary.BigEndian.Uint32(b[at+1:]))
	return slices.Concat(b[:at], b[at+n:])
}

// TestContradictions seals files with correct checksums whose content contradicts itself.
func TestContradictions(t *testing.T) {
	payloads, counts, live, digest := blocksOf(goldenState)
	h := sampleHeader()
	end := uint64(h.Begin) + 5
	entry := func(k, v string) []byte {
		return slices.Concat(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(k))), uint64(len(v))), []byte(k), []byte(v))
	}
	one := func(b []byte, count int) []byte { return seal(h, end, 1, [2]uint64{}, [][]byte{b}, []int{count}) }
	if len(payloads) != 2 {
		t.Fatalf("the golden state has %d blocks, want 2", len(payloads))
	}
	swapped := [][]byte{payloads[1], payloads[0]}
	both := slices.Concat(payloads[1], payloads[0])
	for want, b := range map[string][]byte{
		"":                              seal(h, end, live, digest, payloads, counts),
		"before its begin":              seal(h, uint64(h.Begin)-1, live, digest, payloads, counts),
		"none may be negative":          seal(h, 1<<63, live, digest, payloads, counts),
		"entries and length":            seal(h, end, 1<<63, digest, payloads, counts),
		"trailer says 4":                seal(h, end, 4, digest, payloads, counts),
		"with digest":                   seal(h, end, live, [2]uint64{1, 2}, payloads, counts),
		"its head says 9":               seal(h, end, live, digest, payloads, []int{9, 9}),
		"comes after shard":             seal(h, end, live, digest, [][]byte{both}, []int{counts[0] + counts[1]}),
		"is there twice":                seal(h, end, live+1, digest, append(payloads[:len(payloads):len(payloads)], payloads[0]), append(counts[:len(counts):len(counts)], counts[0])),
		"key 0161 is there twice":       one(slices.Concat(entry("\x01a", "1"), entry("\x01a", "2")), 2),
		"entry with a key of 0":         one(entry("", "v"), 1),
		"and a value of 16777216":       one(entry("\x01k", string(make([]byte, MaxValueBytes+1))), 1),
		"a key of 65536":                one(entry(string(make([]byte, record.MaxKeyBytes+1)), ""), 1),
		"entry ends early":              one(entry("\x01k", "value")[:6], 1),
		"entry 1: entry ends early":     one(slices.Concat(entry("\x01k", "v"), []byte{0x80}), 2),
		"0: entry ends early":           one([]byte{0x80, 0x80}, 1),
		"mark 0x42 and 0 bytes":         one(nil, 0),
		"neither may be negative":       seal(&Header{Begin: -1, Fence: h.Fence, Commit: h.Commit}, end, 0, [2]uint64{}, nil, nil),
		"position 4711 and broker time": seal(&Header{Begin: h.Begin, BrokerTime: -5, Fence: h.Fence, Commit: h.Commit}, end, 0, [2]uint64{}, nil, nil),
	} {
		_, err := loadBytes(t, b)
		if want == "" {
			if err != nil {
				t.Errorf("sealed file: %v", err)
			}
		} else if err == nil || KindOf(err) != KindDamaged || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want damage: %q", err, want)
		}
	}
	// Blocks in another order are another file, but no contradiction: each is whole shards.
	if _, err := loadBytes(t, seal(h, end, live, digest, swapped, []int{counts[1], counts[0]})); err != nil {
		t.Error(err)
	}
}

// TestNewerFormat leaves alone what a newer program wrote, whatever the checksums look like to this one.
func TestNewerFormat(t *testing.T) {
	for _, format := range []uint32{2, 255, 1<<32 - 1} {
		b := []byte("tidemark checkpoint\n")
		b = append(binary.BigEndian.AppendUint32(b, format), "whatever comes"...)
		_, err := loadBytes(t, b)
		want := fmt.Sprintf("written by format %d, this program reads up to 1", format)
		if newer := (*record.FormatError)(nil); KindOf(err) != KindNewer || !errors.As(err, &newer) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v error %v, want %q", KindOf(err), err, want)
		}
	}
	// A record of a newer format within a file of this one.
	h := sampleHeader()
	b := seal(h, uint64(h.Begin), 0, [2]uint64{}, nil, nil)
	at := bytes.Index(b, h.Commit.Append(nil))
	b[at]++
	binary.BigEndian.PutUint32(b[len(b)-trailerBytes-4:], crc(b[:len(b)-trailerBytes-4]))
	if _, err := loadBytes(t, b); KindOf(err) != KindNewer || !strings.Contains(err.Error(), "commit record") {
		t.Errorf("%v error %v, want newer commit record", KindOf(err), err)
	}
}

// FuzzRead feeds the reader any bytes. It must refuse them or find a state that proves itself.
func FuzzRead(f *testing.F) {
	good := readGolden(f)
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(dropBlock(good))
	f.Add([]byte("tidemark checkpoint\n\x00\x00\x00\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		state, err := loadBytes(t, b)
		if err == nil && !maps.Equal(state, goldenState) && !bytes.HasPrefix(b, []byte("tidemark checkpoint\n\x00\x00\x00\x01")) {
			t.Errorf("accepted: %q", b)
		}
	})
}

// FuzzBlock seals any bytes as a block with correct checksums. The reader must refuse them or hold just their entries.
func FuzzBlock(f *testing.F) {
	payloads, counts, _, _ := blocksOf(goldenState)
	for i := range payloads {
		f.Add(payloads[i], counts[i])
	}
	f.Add(slices.Concat(payloads...), 3)
	f.Add([]byte{1, 0, 1}, 1)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}, 1)
	f.Fuzz(func(t *testing.T, payload []byte, count int) {
		want, valid := map[string]string{}, true
		for rest := payload; len(rest) > 0 && valid; {
			k, w := binary.Uvarint(rest)
			v, x := binary.Uvarint(rest[max(w, 0):])
			if valid = w > 0 && x > 0 && k > 0 && k < 1<<16 && v < 1<<24; !valid {
				break
			}
			rest = rest[w+x:]
			if valid = k+v <= uint64(len(rest)) && !has(want, string(rest[:k])); valid {
				want[string(rest[:k])] = string(rest[k : k+v])
				rest = rest[k+v:]
			}
		}
		var digest [2]uint64
		for k, v := range want {
			sum := xxh3.HashString128Seed(k+v, uint64(len(k)))
			digest[0], digest[1] = digest[0]+sum.Hi, digest[1]+sum.Lo
		}
		state, err := loadBytes(t, seal(sampleHeader(), 5000, uint64(len(want)), digest, [][]byte{payload}, []int{count}))
		if err == nil && (!valid || count != len(want) || !maps.Equal(state, want)) {
			t.Errorf("accepted %q as %q", payload, state)
		}
		if err != nil && valid && count == len(want) && len(want) == 1 {
			t.Errorf("refused one entry: %v", err)
		}
	})
}
