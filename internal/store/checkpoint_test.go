package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// sampleHeader is a header with every field set.
func sampleHeader() *Header {
	return &Header{
		Begin:      4711,
		BrokerTime: 1_700_000_000_123,
		Fence: record.Fence{
			ID: 0xfe, Birth: 0xb1, Job: "boiler-room", Partition: 3, Host: "host", PID: 42, Version: "1.0", ProducerID: 7, ProducerEpoch: 1,
			Identity: record.Identity{
				ClusterID: "cluster",
				Input:     record.Topic{Name: "readings", ID: record.TopicID{1}, Partitions: 4},
				Changelog: record.Topic{Name: "boiler-room-changelog", ID: record.TopicID{2}, Partitions: 4},
				Outputs:   []record.Topic{{Name: "hourly", ID: record.TopicID{3}, Partitions: 4}},
			},
		},
		Commit: record.Commit{
			Birth: 0xb1, Number: 17, Fence: 0xfe, SourceHash: 5, OutputHash: 6, Position: 1000, Epoch: 2,
			Anchor: record.Anchor{Offset: 999, Hash: record.Digest{Hi: 1, Lo: 2}}, StreamTime: 1_699_999_999_000,
			SetterKey: []byte("d1"), SetterOffset: 998, Live: 3, Records: 2, MinRetention: 7_200_000, TZData: "2026a",
		},
	}
}

// writeCheckpoint scans m and publishes the image.
func writeCheckpoint(t testing.TB, d *Dir, m *Memory, h *Header) Published {
	t.Helper()
	p, err := tryCheckpoint(d, m, h, sliceBytes)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tryCheckpoint(d *Dir, m *Memory, h *Header, size int) (Published, error) {
	w, err := d.Create(h)
	if err != nil {
		return Published{}, err
	}
	s := m.StartScan()
	defer s.Drop()
	var buf []byte
	for done := false; !done; {
		buf, done = s.shards(buf[:0], size)
		if err := w.WriteBlock(buf); err != nil {
			return Published{}, err
		}
	}
	return w.Publish(h.Begin+100, Sum{m.Digest(), m.Live()}, s.Delta())
}

// smallMemory holds n entries in several shards.
func smallMemory(t testing.TB, n int) *pair {
	p := newPair(t, 0)
	for i := range n {
		p.put(fmt.Sprintf("\x01entry-%d", i), strings.Repeat("v", i%20))
	}
	return p
}

func openDir(t testing.TB, fs vfs.FS, path string) *Dir {
	t.Helper()
	d, err := OpenDir(fs, path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestWriteAndLoad writes checkpoints of several sizes on the real file system and loads them with one and two workers.
func TestWriteAndLoad(t *testing.T) {
	for _, n := range []int{0, 1, 50, 20_000} {
		for _, workers := range []int{0, 1, 2} {
			d := openDir(t, vfs.Default, Path(vfs.Default, t.TempDir(), "job", 3))
			p := smallMemory(t, n)
			h := sampleHeader()
			published := writeCheckpoint(t, d, p.m, h)
			loaded := newPair(t, 0)
			loaded.model = p.model
			info, err := Load(vfs.Default, published.Path, loaded.m, workers)
			if err != nil {
				t.Fatal(err)
			}
			loaded.check(t)
			want := &Info{Header: *h, Path: published.Path, Number: 1, End: h.Begin + 100, Image: Sum{p.m.Digest(), p.m.Live()}, Length: published.Length}
			if diff := cmp.Diff(want, info); diff != "" {
				t.Errorf("info differs: %s", diff)
			}
			verified, err := Verify(vfs.Default, published.Path)
			if diff := cmp.Diff(want, verified); err != nil || diff != "" {
				t.Errorf("Verify: %v, %s", err, diff)
			}
			if stat, err := os.Stat(published.Path); err != nil || stat.Size() != int64(published.Length) || stat.Mode() != 0o600 {
				t.Errorf("file is %v, %v; want %d bytes, mode 0600", stat, err, published.Length)
			}
			if stat, err := os.Stat(filepath.Dir(published.Path)); err != nil || stat.Mode().Perm() != 0o700 {
				t.Errorf("directory is %v, %v; want mode 0700", stat, err)
			}
		}
	}
}
