package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
)

// lives is a series of states of one task, each with its own header: position Begin is 100 times the number of the
// state, from 1.
type lives struct {
	pairs []*pair
	where string // in the sweep, for failures
}

func newLives(t *testing.T, n int) *lives {
	l := &lives{}
	for i := range n {
		p := newPair(t, 0)
		for e := range 4 {
			p.put(fmt.Sprintf("\x01entry-%d", e), fmt.Sprintf("state %d", i+1))
		}
		p.put(fmt.Sprintf("\x01only in %d", i+1), strings.Repeat("x", i))
		l.pairs = append(l.pairs, p)
	}
	return l
}

// large gives each state an entry within which sectors can be lost.
func (l *lives) large() *lives {
	for i, p := range l.pairs {
		p.put("\x01large", strings.Repeat(string(rune('a'+i)), 3*storetest.Sector))
	}
	return l
}

// publish writes state n, in many blocks.
func (l *lives) publish(d *Dir, n int) (Published, error) {
	h := sampleHeader()
	h.Begin = record.ChangelogPosition(100 * n)
	return tryCheckpoint(d, l.pairs[n-1].m, h, 1)
}

// judge looks at what is in the directory as a recovery would. Every file that has the name of a checkpoint must verify
// and hold the state it names, the newest must be at least state floor and at most state top, and beside the two there may
// be one just named and one whose removal is not durable. It returns the states found, newest first.
func (l *lives) judge(t *testing.T, fs vfs.FS, floor, top int) []int {
	t.Helper()
	all, err := List(fs, "state/job/p3")
	if err != nil {
		if floor == 0 {
			return nil
		}
		t.Fatalf("%s: state %d was published, and the directory is gone: %v", l.where, floor, err)
	}
	var found []int
	for _, e := range all {
		m := NewMemory(0)
		info, err := Load(fs, e.Path, m, 1)
		if err != nil {
			t.Fatalf("%s: published states up to %d; %v", l.where, floor, err)
		}
		n := int(info.Begin / 100)
		if got, want := (Sum{m.Digest(), m.Live()}), (Sum{digestOf(l.pairs[n-1].model), record.Count(len(l.pairs[n-1].model))}); got != want {
			t.Fatalf("%s: %s holds %v, state %d is %v", l.where, e.Path, got, n, want)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		found = append(found, n)
	}
	if floor > 0 && (len(found) == 0 || found[0] < floor) || len(found) > 0 && found[0] > top || len(found) > kept+2 {
		t.Fatalf("%s: states %d are there; the newest must be %d to %d", l.where, found, floor, top)
	}
	return found
}

var errPower = errors.New("power lost")

// power lets the operations happen up to number n, and the n-th itself only if done is set.
type power struct {
	n, ops int
	done   bool
}

func (p *power) hook(_ storetest.Op, do func() error) error {
	switch p.ops++; {
	case p.ops < p.n:
		return do()
	case p.ops == p.n && p.done:
		_ = do()
	}
	return errPower
}

func (p *power) lost() bool { return p.ops >= p.n }

// run opens the directory and publishes some states until the power is lost. It returns the last one acknowledged, 0
// for none, and the last one tried.
func (l *lives) run(t *testing.T, fs vfs.FS, p *power, first, n int) (acked, tried int) {
	d, err := OpenDir(storetest.Hook(fs, p.hook), "state/job/p3")
	if err != nil && !p.lost() {
		t.Fatalf("power is on: %v", err)
	}
	tried = first - 1
	for state := first; err == nil && state < first+n; state++ {
		tried = state
		if _, err = l.publish(d, state); err == nil {
			acked = state
		} else if !p.lost() {
			t.Fatalf("power is on: %v", err)
		}
	}
	return acked, tried
}

// chances returns what a crash decides, by seed: nothing unsynced is there, all of it, only removals, all sizes and names but
// any sectors, anything.
func chances(seed uint64) storetest.Chance {
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(what string, n int) int {
		switch {
		case seed == 0 || seed == 2 && what != "remove":
			return 0
		case seed == 1 || seed == 2:
			return n - 1
		case seed == 3 && what != "sector":
			return n - 1
		}
		return rng.IntN(n)
	}
}

// TestPowerLoss cuts the power before and after every operation of three publications, three lives deep: the second and
// third life begin on what the one before left and lose the power somewhere too.
func TestPowerLoss(t *testing.T) {
	_, seeds := scanSeeds(t, 8)
	l := newLives(t, 9).large()
	for n, ended := 1, false; !ended; n++ {
		for _, done := range []bool{false, true} {
			for seed := range seeds {
				rng := rand.New(rand.NewPCG(seed, uint64(n)))
				l.where = fmt.Sprintf("power lost at operation %d, done %v, seed %d (TIDEMARK_SWEEP=%d go test -run TestPowerLoss ./internal/store)", n, done, seed, seed+1)
				fs := storetest.NewStrict()
				first := &power{n: n, done: done}
				floor, tried := l.run(t, fs, first, 1, 3)
				ended = !first.lost()
				for range 2 {
					fs = fs.Crash(chances(seed))
					if found := l.judge(t, fs, floor, tried); len(found) > 0 {
						floor = found[0] // it was there, so it is durable
					}
					acked, last := l.run(t, fs, &power{n: 1 + rng.IntN(60), done: done}, tried+1, 2)
					floor, tried = max(floor, acked), last
				}
				fs = fs.Crash(chances(seed))
				l.judge(t, fs, floor, tried)
				if _, last := l.run(t, fs, &power{n: 1 << 30}, tried+1, 2); len(l.judge(t, fs, last, last)) != kept {
					t.Fatalf("%s: after two more publications there are not %d checkpoints", l.where, kept)
				}
			}
		}
	}
}

// TestCrashClone takes a clone of a crashed file system, as Pebble's own tests model it, after every operation of three
// publications.
func TestCrashClone(t *testing.T) {
	l := newLives(t, 3)
	rng := rand.New(rand.NewPCG(1, 1))
	fs := vfs.NewCrashableMem()
	acked, tried, clones := 0, 0, 0
	hooked := storetest.Hook(fs, func(op storetest.Op, do func() error) error {
		err := do()
		if op.Changes() {
			for _, percent := range []int{0, 30, 70, 100} {
				clones++
				l.judge(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rng}), acked, tried)
			}
		}
		return err
	})
	d := openDir(t, hooked, "state/job/p3")
	for tried = 1; tried <= 3; tried++ {
		if _, err := l.publish(d, tried); err != nil {
			t.Fatal(err)
		}
		acked = tried
	}
	if clones < 4*3*10 {
		t.Errorf("only %d clones looked at", clones)
	}
}

// TestRefusedOperations lets operation 1, 2, 3 ... of a publication fail, before or after it was done, until none fails.
// The attempt is over, the older checkpoints are untouched, and the next attempt has a new name and succeeds.
func TestRefusedOperations(t *testing.T) {
	l := newLives(t, 4)
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for _, done := range []bool{false, true} {
			refused := 0
			for n := 1; l.refuse(t, n, errno, done); n++ {
				refused++
			}
			if refused < 30 {
				t.Errorf("only %d operations refused", refused)
			}
		}
	}
}

// refuse returns whether there was an operation n to refuse.
func (l *lives) refuse(t *testing.T, n int, errno syscall.Errno, done bool) bool {
	fs, ops := storetest.NewStrict(), 0
	var what storetest.Op
	hooked := storetest.Hook(fs, func(op storetest.Op, do func() error) error {
		if ops++; ops != n {
			return do()
		}
		if what = op; done {
			_ = do()
		}
		return errno
	})
	l.run(t, fs, &power{n: 1 << 30}, 1, 2)
	d, err := OpenDir(hooked, "state/job/p3")
	var p Published
	if err == nil {
		p, err = l.publish(d, 3)
	}
	name := fmt.Sprintf("operation %d (%v) refused, done %v", n, what, done)
	l.where = name
	if ops < n {
		if err != nil || p.Kept != nil {
			t.Fatalf("nothing refused: %v, %v", err, p.Kept)
		}
		return false
	}
	want := "[3 2]"
	if err != nil {
		want = "[2 1]"
		if !errors.Is(err, errno) || KindOf(err) != KindIO || !strings.Contains(err.Error(), "state/job") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	if p.Kept != nil && (err != nil || !errors.Is(p.Kept, errno)) {
		t.Errorf("%s: kept %v, err %v", name, p.Kept, err)
	} else if p.Kept != nil {
		want = "[3 2 1]"
		if done && what.Kind == "remove" {
			want = "[3 2]"
		}
	}
	if found := fmt.Sprint(l.judge(t, fs, 2, 3)); found != want {
		t.Errorf("%s: states %s are there, want %s (%v, %v)", name, found, want, err, p.Kept)
	}
	l.afterRefusal(t, name, fs, d)
	return true
}

// TestShortWrites lets write 1, 2, 3 ... of a publication write only a part, with an error and, as write(2) may on a full
// disk, without one. The attempt is over, nothing of it is published, and the next one succeeds.
func TestShortWrites(t *testing.T) {
	l := newLives(t, 4)
	for _, errno := range []error{nil, syscall.ENOSPC} {
		for n, short := 1, true; short; n++ {
			fs, writes := storetest.NewStrict(), 0
			l.run(t, fs, &power{n: 1 << 30}, 1, 2)
			short = false
			d := openDir(t, storetest.Hook(fs, func(op storetest.Op, do func() error) error {
				if op.Kind != "write" {
					return do()
				}
				if writes++; writes != n {
					return do()
				}
				short = true
				return &storetest.Short{Bytes: op.Size / 2, Err: errno}
			}), "state/job/p3")
			_, err := l.publish(d, 3)
			if (err != nil) != short || err != nil && KindOf(err) != KindIO {
				t.Fatalf("write %d is short, %v: %v", n, errno, err)
			}
			if short {
				l.where = fmt.Sprintf("write %d is short (%v)", n, errno)
				l.judge(t, fs, 2, 2)
				l.afterRefusal(t, l.where, fs, d)
			} else if n < 5 {
				t.Errorf("only %d writes", n-1)
			}
		}
	}
}

// afterRefusal publishes once more, in the directory as it was opened.
func (l *lives) afterRefusal(t *testing.T, name string, fs *storetest.Strict, d *Dir) {
	if d == nil {
		d = openDir(t, fs, "state/job/p3")
	}
	if _, err := l.publish(d, 4); err != nil {
		t.Fatalf("%s: the next attempt: %v", name, err)
	}
	names, err := fs.List("state/job/p3")
	if err != nil || len(names) != kept {
		t.Errorf("%s: after the next attempt there are %q, %v", name, names, err)
	}
	for seed := range uint64(8) {
		l.judge(t, fs.Crash(chances(seed)), 4, 4)
	}
}

// TestFsyncFailsOnce lets each fsync fail once and drop its data; the one after it succeeds. Nothing is published that
// was not synced, and what is published later survives a crash (S32).
func TestFsyncFailsOnce(t *testing.T) {
	l := newLives(t, 8).large()
	for n := 1; ; n++ {
		fs, failed := storetest.NewStrict(), 0
		fs.FailSyncs(func(i int) bool {
			if i == n {
				failed++
			}
			return i == n
		})
		acked, lastFailed := 0, 0
		for state := 1; state <= 4; state++ {
			d, err := OpenDir(fs, "state/job/p3")
			if err == nil {
				_, err = l.publish(d, state)
			}
			if err == nil {
				acked = state
			} else if lastFailed = state; !errors.Is(err, syscall.EIO) {
				t.Fatal(err)
			}
			for seed := range uint64(10) {
				l.where = fmt.Sprintf("fsync %d failed, state %d, seed %d", n, state, seed)
				l.judge(t, fs.Crash(chances(seed)), acked, state)
			}
		}
		if failed == 0 {
			if n < 10 {
				t.Errorf("only %d fsyncs", n-1)
			}
			return
		}
		if acked != 4 && lastFailed != 4 {
			t.Fatalf("fsync %d failed once, in attempt %d, and so did the last attempt", n, lastFailed)
		}
	}
}

// TestStateDirectoryIsDurable lets a first process die after each operation of opening a directory whose parents it made
// too. What the next one publishes survives a power failure: it makes all the names above durable, not only its own (C2).
func TestStateDirectoryIsDurable(t *testing.T) {
	l, path := newLives(t, 1), "/var/lib/tidemark/state/job/p3"
	for n := 1; ; n++ {
		fs, p := storetest.NewStrict(), &power{n: n}
		_, err := OpenDir(storetest.Hook(fs, p.hook), path)
		if !p.lost() {
			if err != nil || n < 10 {
				t.Errorf("%d operations: %v", n, err)
			}
			return
		}
		d := openDir(t, fs, path)
		if _, err := l.publish(d, 1); err != nil {
			t.Fatal(err)
		}
		left := fs.Crash(chances(0)) // nothing that was not synced
		if all, err := List(left, path); err != nil || len(all) != 1 || all[0].Err != nil {
			t.Fatalf("the first process died before operation %d; after a power failure: %+v, %v", n, all, err)
		}
	}
}

// TestThousandFailures fails a thousand attempts in a row, with removals failing too: the disk holds no more than the
// two checkpoints and one attempt (S38).
func TestThousandFailures(t *testing.T) {
	l := newLives(t, 3)
	fs, fail := storetest.NewStrict(), false
	rng := rand.New(rand.NewPCG(3, 3))
	d := openDir(t, storetest.Hook(fs, func(op storetest.Op, do func() error) error {
		if fail && (op.Kind == "sync" || op.Kind == "write" && rng.IntN(4) == 0 || op.Kind == "remove" && rng.IntN(2) == 0) {
			return syscall.ENOSPC
		}
		return do()
	}), "state/job/p3")
	for state := 1; state <= 2; state++ {
		if _, err := l.publish(d, state); err != nil {
			t.Fatal(err)
		}
	}
	fail = true
	for i := range 1000 {
		if _, err := l.publish(d, 3); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("attempt %d: %v", i, err)
		}
		if names, _ := fs.List("state/job/p3"); len(names) > kept+1 {
			t.Fatalf("attempt %d: %q are there", i, names)
		}
	}
	l.judge(t, fs, 2, 2)
	fail = false
	if _, err := l.publish(d, 3); err != nil {
		t.Fatal(err)
	}
	l.judge(t, fs, 3, 3)
}

// TestUnreadable lets each operation of a list, a verification and a load fail. The error is one of reading, not of
// damage, and a store that could not be loaded is empty.
func TestUnreadable(t *testing.T) {
	fs, ops, n := storetest.NewStrict(), 0, 0
	l := newLives(t, 1)
	l.run(t, fs, &power{n: 1 << 30}, 1, 1)
	hooked := storetest.Hook(fs, func(_ storetest.Op, do func() error) error {
		if ops++; ops != n {
			return do()
		}
		return syscall.EIO
	})
	m := NewMemory(0)
	defer m.Close()
	for what, read := range map[string]func() error{
		"list": func() error {
			all, err := List(hooked, "state/job/p3")
			if err == nil {
				err = all[0].Err
			}
			return err
		},
		"verify": func() error { _, err := Verify(hooked, "state/job/p3/"+testFile); return err },
		"load":   func() error { _, err := Load(hooked, "state/job/p3/"+testFile, m, 2); return err },
	} {
		for n = 1; ; n++ {
			ops = 0
			err := read()
			if ops < n {
				if err != nil || n < 5 {
					t.Errorf("%s: %v after %d operations", what, err, n-1)
				}
				if err := m.Close(); err != nil {
					t.Error(err)
				}
				break
			}
			if !errors.Is(err, syscall.EIO) || KindOf(err) != KindIO || m.Live() != 0 || m.Usage().Raw != 0 {
				t.Errorf("%s: operation %d refused: %v error %v, %d entries", what, n, KindOf(err), err, m.Live())
			}
		}
	}
}
