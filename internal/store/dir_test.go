package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
)

// TestTrace holds the order of operations of the one write path to a golden file: two publications, of which the second
// deletes nothing yet, a third that does, an attempt given up, one whose fsync fails, and a file set aside.
func TestTrace(t *testing.T) {
	var trace bytes.Buffer
	fail := false
	fs := storetest.Hook(vfs.NewMem(), func(op storetest.Op, do func() error) error {
		if op.Changes() || op.Kind == "opendir" || op.Kind == "close" && strings.HasSuffix(op.Path, tmpSuffix) {
			fmt.Fprintln(&trace, op)
		}
		if fail && op.Kind == "sync" {
			return errors.New("no")
		}
		return do()
	})
	l := newLives(t, 4)
	step := func(name string) { fmt.Fprintf(&trace, "# %s\n", name) }
	step("open the directory of a task")
	d := openDir(t, fs, "state/job/p3")
	for n := 1; n <= 3; n++ {
		step(fmt.Sprintf("publish %d", n))
		if _, err := l.publish(d, n); err != nil {
			t.Fatal(err)
		}
	}
	step("give an attempt up")
	w, err := d.Create(sampleHeader())
	if err != nil {
		t.Fatal(err)
	}
	w.Abort()
	step("fsync fails")
	fail = true
	if _, err := l.publish(d, 4); err == nil {
		t.Error("published without fsync")
	}
	fail = false
	step("set 3 aside")
	if _, err := d.SetAside("state/job/p3/0000000003.checkpoint", "digest differs: A, B"); err != nil {
		t.Fatal(err)
	}
	golden(t, "publish.trace", trace.Bytes())
}

// TestList lists what is there, newest first, and says of each file what it is.
func TestList(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, vfs.Default, filepath.Join(dir, "job", "p3"))
	m := smallMemory(t, 5).m
	writeCheckpoint(t, d, m, sampleHeader())
	writeCheckpoint(t, d, m, sampleHeader())
	good := readGolden(t)
	newer := bytes.Clone(good)
	newer[headerLenAt-1] = 7
	for name, b := range map[string][]byte{
		"0000000011.checkpoint":                good[:100],
		"0000000012.checkpoint":                newer,
		"0000000013.checkpoint":                {},
		"0000000099.checkpoint.why.damaged":    good,
		"copy of 0000000002.checkpoint":        good,
		"7.checkpoint":                         good,
		"notes.txt":                            good,
		"0000000500.checkpoint.tmp":            good,
		"99999999999999999999999.checkpoint":   good,
		"18446744073709551615.checkpoint.odd":  good,
		"0000000000.checkpoint":                good,
		"0000000014.checkpoint.tmp.checkpoint": good,
	} {
		if err := os.WriteFile(filepath.Join(d.path, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(d.path, "0000000014.checkpoint"), 0o700); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"0000000014.checkpoint: is a directory",
		"0000000013.checkpoint: has only 0 bytes",
		"0000000012.checkpoint: checkpoint: written by format 7",
		"0000000011.checkpoint: header of",
		"0000000002.checkpoint: 5 entries",
		"0000000001.checkpoint: 5 entries",
		"0000000000.checkpoint: the name is not one",
		"0000000014.checkpoint.tmp.checkpoint: the name is not one",
		"7.checkpoint: the name is not one",
		"99999999999999999999999.checkpoint: the name is not one",
		"copy of 0000000002.checkpoint: the name is not one",
	}
	all, err := d.List()
	if err != nil || len(all) != len(want) {
		t.Fatalf("%d entries, %v; want %d", len(all), err, len(want))
	}
	for i, e := range all {
		got := fmt.Sprintf("%s: %v", filepath.Base(e.Path), e.Err)
		if e.Err == nil {
			got = fmt.Sprintf("%s: %d entries", filepath.Base(e.Path), e.Info.Image.Live)
		} else if _, verr := Verify(vfs.Default, e.Path); verr == nil && !strings.Contains(got, "the name") {
			t.Errorf("%s verifies", e.Path)
		}
		if !strings.Contains(got, want[i]) {
			t.Errorf("entry %d is %q, want %q", i, got, want[i])
		}
	}
	if _, err := List(vfs.Default, filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("list of a directory that is not there: %v", err)
	}
}

// TestNewerIsNotCounted keeps two checkpoints beside one of a newer format, which stays, and beside a damaged one.
func TestNewerIsNotCounted(t *testing.T) {
	fs := vfs.NewMem()
	openDir(t, fs, "p3")
	newer := bytes.Clone(readGolden(t))
	newer[headerLenAt-1] = 2
	for name, b := range map[string][]byte{"0000000050.checkpoint": newer, "0000000040.checkpoint": newer[:30], "0000000051.checkpoint.tmp": newer} {
		f, err := fs.Create("p3/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(bytes.Clone(b)); err != nil {
			t.Fatal(err)
		}
	}
	d := openDir(t, fs, "p3") // sees the numbers
	l := newLives(t, 4)
	for n := 1; n <= 4; n++ {
		if _, err := l.publish(d, n); err != nil {
			t.Fatal(err)
		}
	}
	names, err := fs.List("p3")
	slices.Sort(names)
	if want := []string{"0000000040.checkpoint", "0000000050.checkpoint", "0000000054.checkpoint", "0000000055.checkpoint"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q are there, want %q", names, want)
	}
	if !bytes.Equal(readFile(t, fs, "p3/0000000050.checkpoint"), newer) {
		t.Error("the newer file was changed")
	}
}

// TestBelongs notices a file of another task, and topics or clusters that are not the same any more.
func TestBelongs(t *testing.T) {
	info := &Info{Header: *sampleHeader(), Path: "state/job/p3/0000000001.checkpoint"}
	for name, c := range map[string]struct {
		change func(f *record.Fence)
		want   string
	}{
		"same":          {func(*record.Fence) {}, ""},
		"other outputs": {func(f *record.Fence) { f.Identity.Outputs = nil }, ""},
		"other run":     {func(f *record.Fence) { f.ID, f.PID, f.Host = 1, 1, "x" }, ""},
		"partition":     {func(f *record.Fence) { f.Partition = 1 }, `is of job "boiler-room" partition 3, not of job "boiler-room" partition 1`},
		"job":           {func(f *record.Fence) { f.Job = "other" }, `not of job "other"`},
		"cluster":       {func(f *record.Fence) { f.Identity.ClusterID = "c2" }, `is of cluster "cluster", not of "c2"`},
		"input":         {func(f *record.Fence) { f.Identity.Input.ID = record.TopicID{9} }, "is of input readings (id 01000000000000000000000000000000, 4 partitions)"},
		"input name":    {func(f *record.Fence) { f.Identity.Input.Name = "r" }, "not of r ("},
		"input count":   {func(f *record.Fence) { f.Identity.Input.Partitions = 8 }, "8 partitions"},
		"changelog":     {func(f *record.Fence) { f.Identity.Changelog.ID = record.TopicID{9} }, "is of changelog boiler-room-changelog"},
		"unknown id":    {func(f *record.Fence) { f.Identity.Changelog.ID = record.TopicID{} }, "id unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			f := sampleHeader().Fence
			c.change(&f)
			err := info.Belongs(f.Job, f.Partition, &f.Identity)
			if (err == nil) != (c.want == "") || err != nil && (KindOf(err) != KindForeign || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	info.Fence.Identity.Input.ID = record.TopicID{}
	if err := info.Belongs(info.Fence.Job, info.Fence.Partition, &info.Fence.Identity); KindOf(err) != KindForeign {
		t.Errorf("two unknown ids are taken for the same: %v", err)
	}
}

// TestSwappedFiles puts the file of one partition in the place of another's (S31).
func TestSwappedFiles(t *testing.T) {
	fs, m := vfs.NewMem(), smallMemory(t, 5).m
	for _, partition := range []int32{0, 1} {
		h := sampleHeader()
		h.Fence.Partition = partition
		writeCheckpoint(t, openDir(t, fs, Path(fs, "s", "boiler-room", partition)), m, h)
	}
	if err := fs.Rename("s/boiler-room/p0/"+testFile, "s/boiler-room/p1/"+testFile); err != nil {
		t.Fatal(err)
	}
	all, err := List(fs, Path(fs, "s", "boiler-room", 1))
	if err != nil || len(all) != 1 || all[0].Err != nil {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := all[0].Info.Belongs("boiler-room", 1, &sampleHeader().Fence.Identity); KindOf(err) != KindForeign {
		t.Errorf("not noticed: %v", err)
	}
}

// TestSetAside renames, gives the reason, and never overwrites.
func TestSetAside(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs, "p3")
	l := newLives(t, 3)
	for n, c := range []struct{ reason, want string }{
		{" Too old!", "p3/0000000001.checkpoint.too-old.damaged"},
		{"CRC: \"1\"\x00x/../" + strings.Repeat("long", 100), "p3/0000000002.checkpoint.crc-1-x-" + strings.Repeat("long", 22) + "lon.damaged"},
		{"", "p3/0000000003.checkpoint.unusable.damaged"},
	} {
		p, err := l.publish(d, n+1)
		if err != nil {
			t.Fatal(err)
		}
		aside, err := d.SetAside(p.Path, c.reason)
		if err != nil || aside != c.want {
			t.Errorf("%q, %v; want %q", aside, err, c.want)
		}
		if _, err := Verify(fs, aside); err != nil {
			t.Errorf("its content changed: %v", err)
		}
	}
	if err := fs.Rename("p3/0000000003.checkpoint.unusable.damaged", "p3/0000000003.checkpoint"); err != nil {
		t.Fatal(err)
	}
	if err := fs.MkdirAll("p3/0000000003.checkpoint.too-old.damaged", 0o700); err != nil {
		t.Fatal(err)
	}
	if aside, err := d.SetAside("p3/0000000003.checkpoint", "too old"); err != nil || aside != "p3/0000000003.checkpoint.too-old-2.damaged" {
		t.Errorf("name is taken: %q, %v", aside, err)
	}
	if all, err := d.List(); err != nil || len(all) != 0 {
		t.Errorf("%+v is still listed, %v", all, err)
	}
	if _, err := d.SetAside("p3/none", "x"); KindOf(err) != KindIO || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// What is set aside does not fill the disk (I13): the newest three stay, whatever the order in which they were found to be
// bad, and nothing else is touched.
func TestSetAsideIsBounded(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs, "p3")
	l := newLives(t, 9)
	if err := fs.MkdirAll("p3/mine.damaged", 0o700); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for n := range 9 {
		p, err := l.publish(d, n+1)
		if err != nil {
			t.Fatal(err)
		}
		if paths = append(paths, p.Path); len(paths) == 2 { // the older one last
			for _, path := range []string{paths[1], paths[0]} {
				aside, err := d.SetAside(path, "too old")
				if err != nil {
					t.Fatal(err)
				}
				if !exists(fs, aside) {
					t.Errorf("%s is gone at once", aside)
				}
			}
			paths = nil
		}
	}
	names, err := fs.List("p3")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	want := []string{"0000000006.checkpoint.too-old.damaged", "0000000007.checkpoint.too-old.damaged",
		"0000000008.checkpoint.too-old.damaged", "0000000009.checkpoint", "mine.damaged"}
	if !slices.Equal(names, want) {
		t.Errorf("%q are there, want %q", names, want)
	}
}

// TestSlowAttempt: an attempt that a slow disk holds up refuses others at once; they do not wait for the disk. The simulation
// stood still over one that did.
func TestSlowAttempt(t *testing.T) {
	var d *Dir
	asked := false
	d = openDir(t, storetest.Hook(vfs.NewMem(), func(op storetest.Op, do func() error) error {
		if op.Kind == "list" && d != nil && !asked {
			asked = true
			if _, err := d.Create(sampleHeader()); err == nil || !strings.Contains(err.Error(), "still being written") {
				t.Errorf("a second attempt while the first is held up: %v", err)
			}
		}
		return do()
	}), "p3")
	if _, err := d.Create(sampleHeader()); err != nil || !asked {
		t.Errorf("%v, asked meanwhile: %v", err, asked)
	}
}

// TestAttempts holds Dir to one attempt at a time and a new name for each.
func TestAttempts(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs, "p3")
	p := smallMemory(t, 3)
	w, err := d.Create(sampleHeader())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(sampleHeader()); err == nil || !strings.Contains(err.Error(), "still being written") {
		t.Errorf("second attempt: %v", err)
	}
	w.Abort()
	w.Abort()
	if err := w.WriteBlock([]byte("x")); !errors.Is(err, errAborted) {
		t.Errorf("block after Abort: %v", err)
	}
	if _, err := w.Publish(5000, Sum{}, Sum{}); !errors.Is(err, errAborted) {
		t.Errorf("publication after Abort: %v", err)
	}
	if names, _ := fs.List("p3"); len(names) != 0 {
		t.Errorf("%q left by Abort", names)
	}
	if w, err = d.Create(sampleHeader()); err != nil {
		t.Fatal(err)
	}
	s := p.m.StartScan()
	slice, _ := s.Next(nil)
	before := w.Bytes()
	if err := w.WriteBlock(slice); err != nil || w.Bytes() != before+record.Bytes(blockHead+len(slice)) {
		t.Fatalf("%v, %d bytes", err, w.Bytes())
	}
	published, err := w.Publish(5000, Sum{p.m.Digest(), p.m.Live()}, s.Delta())
	if err != nil || published.Path != "p3/0000000002.checkpoint" {
		t.Fatalf("%+v, %v", published, err)
	}
	w.Abort()
	if _, err := w.Publish(5000, Sum{}, Sum{}); !errors.Is(err, errPublished) {
		t.Errorf("second publication: %v", err)
	}
	if _, err := Verify(fs, published.Path); err != nil {
		t.Error(err)
	}
	bad := sampleHeader()
	bad.Begin = record.NoChangelog
	if _, err := d.Create(bad); KindOf(err) != KindCorrupt {
		t.Errorf("header without a position: %v", err)
	}
}

// TestMemoryContradicts publishes nothing when image and delta are not the state (V9), or a slice makes no sense.
func TestMemoryContradicts(t *testing.T) {
	fs := vfs.NewMem()
	d := openDir(t, fs, "p3")
	p := smallMemory(t, 30)
	state := Sum{p.m.Digest(), p.m.Live()}
	for name, c := range map[string]struct {
		end   record.ChangelogPosition
		state Sum
		delta Sum
		cut   int
	}{
		"digest of the state": {5000, Sum{state.Digest.Add(record.Digest{Lo: 1}), state.Live}, Sum{}, 0},
		"count of the state":  {5000, Sum{state.Digest, state.Live + 1}, Sum{}, 0},
		"digest of the delta": {5000, state, Sum{Digest: record.Digest{Hi: 1}}, 0},
		"count of the delta":  {5000, state, Sum{Live: -1}, 0},
		"end before begin":    {4710, state, Sum{}, 0},
		"slice":               {5000, state, Sum{}, 1},
	} {
		w, err := d.Create(sampleHeader())
		if err != nil {
			t.Fatal(err)
		}
		s := p.m.StartScan()
		slice, _ := s.Next(nil)
		err = w.WriteBlock(slice[:len(slice)-c.cut])
		if (err != nil) != (c.cut > 0) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_, err = w.Publish(c.end, c.state, c.delta)
		}
		if KindOf(err) != KindCorrupt || !strings.Contains(err.Error(), "p3/") {
			t.Errorf("%s: %v error %v", name, KindOf(err), err)
		}
		if names, _ := fs.List("p3"); len(names) != 0 {
			t.Errorf("%s: %q are there", name, names)
		}
	}
}

// TestWriteBesideTheTask scans and changes a store on one goroutine while another writes the slices.
func TestWriteBesideTheTask(t *testing.T) {
	d := openDir(t, vfs.Default, t.TempDir())
	p := smallMemory(t, 20_000)
	w, err := d.Create(sampleHeader())
	if err != nil {
		t.Fatal(err)
	}
	full, empty, result := make(chan []byte), make(chan []byte, 2), make(chan error, 1)
	empty <- nil
	empty <- nil
	go func() {
		var err error
		for slice := range full {
			if err == nil {
				err = w.WriteBlock(slice)
			}
			empty <- slice[:0]
		}
		result <- err
	}()
	s := p.m.StartScan()
	for i, done := 0, false; !done; i++ {
		var slice []byte
		slice, done = s.shards(<-empty, 10_000)
		full <- slice
		for k := 0; k < 50 && !done; k++ {
			p.put(fmt.Sprintf("\x01entry-%d", (i*50+k)*7%20_000), strings.Repeat("n", i%60))
		}
	}
	close(full)
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if s.Delta() == (Sum{}) {
		t.Error("nothing changed behind the scan")
	}
	published, err := w.Publish(5000, Sum{p.m.Digest(), p.m.Live()}, s.Delta())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(vfs.Default, published.Path); err != nil {
		t.Error(err)
	}
}

// TestSlowAttemptRefusesCompany: an attempt that a slow disk holds up before it has a file does not hold up who asks for
// another one; that one is refused.
func TestSlowAttemptRefusesCompany(t *testing.T) {
	slow, listed := make(chan struct{}), make(chan struct{}, 1)
	armed := false
	fs := storetest.Hook(vfs.NewMem(), func(op storetest.Op, do func() error) error {
		if armed && op.Kind == "list" {
			listed <- struct{}{}
			<-slow
		}
		return do()
	})
	d := openDir(t, fs, "p3")
	armed = true
	first := make(chan error, 1)
	go func() {
		w, err := d.Create(sampleHeader())
		if err == nil {
			w.Abort()
		}
		first <- err
	}()
	<-listed
	if _, err := d.Create(sampleHeader()); err == nil || !strings.Contains(err.Error(), "still being written") {
		t.Errorf("company: %v", err)
	}
	armed = false
	close(slow)
	if err := <-first; err != nil {
		t.Errorf("the slow attempt: %v", err)
	}
}
