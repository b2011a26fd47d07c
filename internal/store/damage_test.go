package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fileOf publishes a state in many blocks and returns the file's bytes.
func fileOf(t *testing.T, h *Header, state map[string]string) []byte {
	t.Helper()
	p := newPair(t, 0)
	for _, k := range slices.Sorted(maps.Keys(state)) {
		p.put(k, state[k])
	}
	fs := vfs.NewMem()
	published, err := tryCheckpoint(openDir(t, fs, "s"), p.m, h, 1)
	if err != nil {
		t.Fatal(err)
	}
	return readFile(t, fs, published.Path)
}

// span is where a piece of a file lies.
type span struct{ from, to int }

// blocksIn finds the blocks of a file by the table in DESIGN.md.
func blocksIn(b []byte) (blocks []span) {
	at := headerAt + int(binary.BigEndian.Uint32(b[headerLenAt:])) + crcBytes
	for at < len(b)-trailerBytes {
		end := at + blockHead + int(binary.BigEndian.Uint32(b[at+1:]))
		blocks = append(blocks, span{at, end})
		at = end
	}
	return blocks
}

// TestBlockDamage zeroes whole blocks and puts others in their place, each of them whole and with the right checksum: of the same
// file, of an older file of this task, of a file of another task. Every one is noticed, by the whole-file hash at the
// latest, and called damage (S31).
func TestBlockDamage(t *testing.T) {
	state, before, others := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range 24 {
		key := fmt.Sprintf("\x01entry-%02d", i)
		state[key], before[key], others[key] = fmt.Sprintf("now %02d", i), fmt.Sprintf("old %02d", i), fmt.Sprintf("her %02d", i)
	}
	older, other := sampleHeader(), sampleHeader()
	older.Begin, older.Commit.Number = older.Begin-100, older.Commit.Number-1
	other.Fence.Partition = 2
	good := fileOf(t, sampleHeader(), state)
	if found, err := loadBytes(t, good); err != nil || !maps.Equal(found, state) {
		t.Fatalf("%v, %q", err, found)
	}
	blocks := blocksIn(good)
	if len(blocks) < 20 {
		t.Fatalf("only %d blocks", len(blocks))
	}
	noticed := 0
	notice := func(what string, b []byte) {
		t.Helper()
		if _, err := loadBytes(t, b); err == nil || KindOf(err) != KindDamaged || !strings.Contains(err.Error(), testFile) {
			t.Errorf("%s: %v error %v, want damage", what, KindOf(err), err)
		}
		noticed++
	}
	put := func(into, piece []byte, at span) []byte {
		return slices.Concat(into[:at.from], piece, into[at.to:])
	}
	for i, at := range blocks {
		notice(fmt.Sprintf("block %d zeroed", i), put(good, make([]byte, at.to-at.from), at))
		notice(fmt.Sprintf("entries of block %d zeroed", i), put(good, make([]byte, at.to-at.from-blockHead), span{at.from + blockHead, at.to}))
		notice(fmt.Sprintf("block %d taken out", i), put(good, nil, at))
		notice(fmt.Sprintf("block %d twice", i), put(good, bytes.Repeat(good[at.from:at.to], 2), at))
		for j, from := range blocks[:i] {
			a, b := good[from.from:from.to], good[at.from:at.to]
			if len(a) == len(b) {
				notice(fmt.Sprintf("blocks %d and %d swapped", j, i), put(put(good, b, from), a, at))
			}
		}
	}
	for name, file := range map[string][]byte{"older file": fileOf(t, older, before), "another task": fileOf(t, other, others)} {
		theirs := blocksIn(file)
		if !slices.Equal(theirs, blocks) || len(file) != len(good) {
			t.Fatalf("%s: blocks at %v, want %v: it does not fit", name, theirs, blocks)
		}
		for i, at := range blocks {
			notice(fmt.Sprintf("%s: block %d from there", name, i), put(good, file[at.from:at.to], at))
		}
		tail := len(good) - trailerBytes
		notice(name+": header from there", put(good, file[:blocks[0].from], span{0, blocks[0].from}))
		notice(name+": trailer from there", put(good, file[tail:], span{tail, len(good)}))
		for _, page := range []int{64, 512} {
			for at := 0; at+page < len(good); at += page {
				if !bytes.Equal(good[at:at+page], file[at:at+page]) {
					notice(fmt.Sprintf("%s: %d bytes at %d from there", name, page, at), put(good, file[at:at+page], span{at, at + page}))
				}
			}
		}
	}
	t.Logf("%d damages, all noticed", noticed)
}
