package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// checkpointed makes a state directory with a checkpoint of each of two tasks, and returns the job's file and the
// checkpoints.
func checkpointed(t *testing.T) (config string, files [2]string) {
	t.Helper()
	dir := t.TempDir()
	config = filepath.Join(dir, "job.yaml")
	text, err := os.ReadFile("testdata/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, fmt.Appendf(text, "\nstate: {dir: %q}\n", filepath.Join(dir, "state")), 0o600); err != nil {
		t.Fatal(err)
	}
	for partition := range files {
		m := store.NewMemory(0)
		for i := range 3 {
			key, value := record.AppendStart(record.AppendField(record.EntryPrefix(nil, "hourly"), fmt.Appendf(nil, "d%d-%d", partition, i)), 0), []byte("value")
			m.Put(record.Hash(key), key, value, record.EntryDigest(append(bytes.Clone(key), value...), len(key)))
		}
		files[partition] = writeCheckpoint(t, filepath.Join(dir, "state"), int32(partition), m)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return config, files
}

func writeCheckpoint(t *testing.T, stateDir string, partition int32, m *store.Memory) string {
	t.Helper()
	d, err := store.OpenDir(store.Disk, store.Path(store.Disk, stateDir, "plant", partition))
	if err != nil {
		t.Fatal(err)
	}
	h := store.Header{Begin: 100, BrokerTime: 1_700_000_000_000,
		Fence:  record.Fence{ID: 7, Birth: 5, Job: "plant", Partition: partition, Host: "h", Version: "v"},
		Commit: record.Commit{Birth: 5, Number: 9, Fence: 7, Position: 20, Anchor: record.Anchor{Offset: -1}, StreamTime: record.NoTime, SetterOffset: -1}}
	w, err := d.Create(&h)
	if err != nil {
		t.Fatal(err)
	}
	scan := m.StartScan()
	for slice, done := []byte(nil), false; !done; {
		slice, done = scan.Next(slice[:0])
		if err := w.WriteBlock(slice); err != nil {
			t.Fatal(err)
		}
	}
	published, err := w.Publish(100, store.Sum{Digest: m.Digest(), Live: m.Live()}, scan.Delta())
	if err != nil {
		t.Fatal(err)
	}
	return published.Path
}

// TestCheckpointVerify finds a flipped bit in any byte, any cut, zeros, stretches of another task's file, an appended byte and
// a file of another task, without a broker, changes nothing, and ends with exit code 1.
func TestCheckpointVerify(t *testing.T) {
	config, files := checkpointed(t)
	verify := func() (int, string) {
		var said bytes.Buffer
		code := newEnv([]string{"checkpoint", "verify", "-c", config}, strings.NewReader(""), io.Discard, &said).run(t.Context())
		return code, said.String()
	}
	if code, said := verify(); code != done {
		t.Fatalf("exit code %d: %s", code, said)
	}
	good, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	damages := 0
	try := func(what string, b []byte) {
		t.Helper()
		damages++
		if err := os.WriteFile(files[1], b, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, said := verify(); code != refused || !strings.Contains(said, files[1]) {
			t.Errorf("%s: exit code %d: %s", what, code, said)
		}
		if left, err := os.ReadFile(files[1]); err != nil || !bytes.Equal(left, b) {
			t.Errorf("%s: the file was changed (%v)", what, err)
		}
	}
	for at := range good {
		b := bytes.Clone(good)
		b[at] ^= 1 << (at % 8) // every bit is flipped where the command gets its answer: TestDamage of package store
		try(fmt.Sprintf("bit %d of byte %d", at%8, at), b)
		try(fmt.Sprintf("cut to %d bytes", at), good[:at])
	}
	for at := 0; at+16 <= len(good); at += 16 {
		for what, with := range map[string][]byte{"zeros": make([]byte, 16), "the other task's": other[at : at+16]} {
			if !bytes.Equal(with, good[at:at+16]) {
				try(fmt.Sprintf("16 bytes at %d are %s", at, what), slices.Concat(good[:at], with, good[at+16:]))
			}
		}
	}
	try("one byte more", append(bytes.Clone(good), 0))
	try("of the other task", other)
	t.Logf("%d damages, all found", damages)
}

// TestCheckpointShow prints what a checkpoint says of itself, of the newest one of each task or of those named.
func TestCheckpointShow(t *testing.T) {
	config, files := checkpointed(t)
	show := func(args ...string) (int, string, string) {
		var out, said bytes.Buffer
		code := newEnv(append([]string{"checkpoint", "show", "-c", config}, args...), strings.NewReader(""), &out, &said).run(t.Context())
		return code, out.String(), said.String()
	}
	code, out, said := show()
	if code != done || strings.Count(out, `"path":`) != 2 || !strings.Contains(out, `"number": 9`) || !strings.Contains(out, `"stream_time": null`) {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	if code, out, _ := show(files[1]); code != done || strings.Count(out, `"path":`) != 1 || !strings.Contains(out, `"partition": 1`) {
		t.Errorf("one file: exit code %d: %s", code, out)
	}
	if err := os.Truncate(files[1], 30); err != nil {
		t.Fatal(err)
	}
	if code, out, said := show(files[0], files[1]); code != refused || strings.Count(out, `"path":`) != 1 || !strings.Contains(said, "in a file of 30") {
		t.Errorf("a damaged file: exit code %d: %s%s", code, out, said)
	}
}
