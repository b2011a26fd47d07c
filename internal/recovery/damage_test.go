package recovery

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/store"
)

// damageStride is TIDEMARK_DAMAGE, how many damages there are to one that is tried: 1 tries all of them (make sweep).
func damageStride(t *testing.T) int {
	text := os.Getenv("TIDEMARK_DAMAGE")
	if text == "" {
		return 13
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("TIDEMARK_DAMAGE=%s: want a number from 1", text)
	}
	return n
}

// Every bit of a small checkpoint is flipped, it is cut at every length, and stretches of it are zeros, or those of the older
// file or of another task's, and so is the whole. A recovery notices each, sets the file aside and has the same state from
// the older one, from the changelog when both are damaged; the next life goes on from there (S31, I6). A file that has become
// one of a newer format is left where it is.
func TestEveryDamageIsSetAside(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1", "y=2")
	older := w.checkpoint(r)
	w.commit(r, "x=3")
	newest := w.checkpoint(r)
	w.commit(r, "x=4", "y")
	w.crash(r)
	old, good := w.content(older), w.content(newest)
	other := otherTask(t, len(good))
	listed, tried, stride := 0, 0, damageStride(t)
	try := func(what string, damage []byte, both bool) {
		if listed++; listed%stride != 0 {
			return
		}
		tried++
		w.tidy()
		want := older
		w.replace(newest, damage)
		w.replace(older, old)
		if both {
			want = ""
			w.replace(older, bytes.Clone(old[:len(old)-1]))
		}
		r := w.start()
		if r.Report.Checkpoint != want || !slices.ContainsFunc(r.Report.Aside, func(a Aside) bool { return a.Name == newest }) {
			t.Errorf("%s: report %+v, want %q", what, r.Report, want)
		}
		left := len(damage) > 23 && binary.BigEndian.Uint32(damage[20:]) > store.Format && bytes.HasPrefix(damage, good[:20])
		if _, err := w.fs.Stat(newest); (err == nil) != left {
			t.Errorf("%s: the file is where it was: %v, want %v", what, err == nil, left)
		}
		w.crash(r)
	}
	for at := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[at] ^= 1 << bit
			try(fmt.Sprintf("bit %d of byte %d", bit, at), b, bit == at%8)
		}
		try(fmt.Sprintf("cut to %d bytes", at), bytes.Clone(good[:at]), at%2 == 0)
	}
	for _, n := range []int{4, 16, 64} {
		for at := 0; at+n <= len(good); at += n {
			for what, with := range map[string][]byte{"zeros": make([]byte, n), "the older file's": old[at : at+n], "another task's": other[at : at+n]} {
				if !bytes.Equal(with, good[at:at+n]) {
					try(fmt.Sprintf("%d bytes at %d are %s", n, at, what), slices.Concat(good[:at], with, good[at+n:]), at%(2*n) == 0)
				}
			}
		}
	}
	try("one byte more", append(bytes.Clone(good), 0), false)
	stride = 1 // this one in any case
	try("the whole file is another task's", other, true)
	if listed < 9*len(good) || len(good) < 300 {
		t.Errorf("%d damages of a file of %d bytes", listed, len(good))
	}
	t.Logf("%d of %d damages of a file of %d bytes, all set aside", tried, listed, len(good))
	w.tidy()
	r = w.start()
	w.commit(r, "v=5")
	w.crash(r)
	w.crash(w.start())
}

// otherTask is a checkpoint of as many bytes of the task of another partition.
func otherTask(t *testing.T, length int) []byte {
	t.Helper()
	w := newWorld(t)
	w.partition--
	r := w.start()
	w.commit(r, "x=5", "y=6")
	w.commit(r, "x=7")
	b := w.content(w.checkpoint(r))
	w.crash(r)
	if len(b) != length {
		t.Fatalf("the other task's checkpoint has %d bytes, not %d: its stretches do not fit", len(b), length)
	}
	return b
}

// tidy deletes what the recoveries before have left: files set aside and checkpoints.
func (w *world) tidy() {
	w.t.Helper()
	dir := store.Path(w.fs, "state", job, w.partition)
	names, err := w.fs.List(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range names {
		if err := w.fs.Remove(w.fs.PathJoin(dir, name)); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) content(path string) []byte {
	w.t.Helper()
	f, err := w.fs.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}
