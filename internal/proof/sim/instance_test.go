package sim

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
)

// instance is a machine: a disk, and one process after the other on it.
type instance struct {
	w      *world
	number int
	path   string // state.dir
	random *rand.Rand
	disk   *storetest.Strict
	life   *life       // the present one, nil while there is none
	unsure atomic.Bool // names of directories above, made by an earlier process, may have been lost for good

	mu        sync.Mutex
	ops       map[string]int   // operations of the disk so far, by kind
	published map[int32]string // of each partition: the newest checkpoint that must survive
	damaged   map[string]bool  // files that were damaged by hand
}

// newDisk puts another disk in, as it is after a power failure or a loss.
func (i *instance) newDisk(disk *storetest.Strict) {
	i.disk = disk
	lost := map[int]bool{}
	for _, d := range i.w.s.Disks {
		if d.Instance == i.number && d.How == "lost" {
			lost[d.N] = true
		}
	}
	disk.FailSyncs(func(n int) bool {
		failed := lost[n] && !i.w.isCalm()
		if failed {
			i.unsure.Store(true)
			i.w.count(func(t *tally) { t.broken++ })
		}
		return failed
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ops = map[string]int{}
	if i.published == nil {
		i.published, i.damaged = map[int32]string{}, map[string]bool{}
	}
}

func (w *world) isCalm() bool {
	select {
	case <-w.calm:
		return true
	default:
		return false
	}
}

// files is the disk as a process reaches it: with the faults of the scenario, and for as long as it lives.
func (i *instance) files(l *life) vfs.FS {
	disk := vfs.FS(i.disk)
	if i.w.plant.disk != nil {
		disk = i.w.plant.disk(disk)
	}
	return storetest.Hook(disk, func(op storetest.Op, do func() error) error {
		return l.pass(context.Background(), "file "+op.Kind, func() error {
			if op.Kind == "rename" && strings.HasSuffix(op.To, ".damaged") {
				i.forgo(op.Path)
			}
			return i.operate(l, op, do)
		})
	})
}

// operate carries an operation out, or what the scenario makes of it.
func (i *instance) operate(l *life, op storetest.Op, do func() error) error {
	if i.w.isCalm() {
		return do()
	}
	i.mu.Lock()
	i.ops[op.Kind]++
	n := i.ops[op.Kind]
	i.mu.Unlock()
	for _, d := range i.w.s.Disks {
		if d.Instance != i.number || d.Op != op.Kind || d.N != n || d.How == "lost" {
			continue
		}
		i.w.count(func(t *tally) { t.broken++ })
		if !strings.HasPrefix(op.Path, i.path) {
			i.unsure.Store(true) // above state.dir names are made durable where that can be done, and no more is promised
		}
		switch {
		case d.How == "slow":
			if !l.sleep(10 * time.Second) {
				return errDead
			}
			return do()
		case d.How == "short":
			return &storetest.Short{Bytes: op.Size / 2, Err: map[bool]error{true: syscall.ENOSPC}[d.Done]}
		case d.Done:
			if err := do(); err != nil {
				return err
			}
		}
		return map[string]error{"eio": syscall.EIO, "enospc": syscall.ENOSPC}[d.How]
	}
	return do()
}

// forgo expects a checkpoint no more: it is set aside, or damaged.
func (i *instance) forgo(path string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.published, func(_ int32, published string) bool { return published == path })
}

// progress notes what a process has published, and counts.
func (i *instance) progress(e tidemark.Event) {
	switch e.Kind {
	case tidemark.EventCheckpoint:
		i.mu.Lock()
		defer i.mu.Unlock()
		i.published[e.Partition] = e.Path
		delete(i.damaged, e.Path) // this is another file
	case tidemark.EventRecovered:
		i.w.count(func(t *tally) {
			t.recovered[e.Recovery.From]++
			t.kept += e.Recovery.Kept
		})
	}
}

// start starts a process.
func (i *instance) start() *life {
	ctx, cancel := context.WithCancel(context.Background())
	l := newLife(cancel)
	go func() { _ = i.run(ctx, l, false) }()
	return l
}

// direct lets everything happen to the instance that the scenario has for it, and leaves it with a process at work.
func (i *instance) direct() {
	i.life = i.start()
	for _, h := range i.w.s.Hurts[i.number] {
		struck := i.life.arm(&h)
		timer := time.NewTimer(time.Duration(h.Within) * time.Millisecond)
		for waiting := true; waiting; {
			select {
			case <-struck:
				waiting = false
				i.w.count(func(t *tally) { t.met++ })
			case <-timer.C:
				waiting = false
				i.life.strikeNow()
			case <-i.life.ended:
				select {
				case <-struck: // it has ended because of that
				default:
					i.restarted()
					struck = i.life.arm(&h)
				}
			}
		}
		timer.Stop()
		i.suffer(&h)
	}
}

// restarted starts a process that ended by itself again, as whatever keeps a service running does. Only brokers that
// were away for too long are a reason to end.
func (i *instance) restarted() {
	if err := i.life.err; !errors.Is(err, tidemark.ErrUnreachable) {
		i.w.fault("instance %d ended by itself: %v", i.number, err)
	}
	i.leave(i.life)
	<-time.After(time.Second)
	i.life = i.start()
}

// suffer carries out what has struck.
func (i *instance) suffer(h *hurt) {
	if h.Kind == "pause" {
		i.w.count(func(t *tally) { t.pauses++ })
		i.evictLater(i.life, session)
		<-time.After(time.Duration(h.Down) * time.Millisecond)
		i.life.wake()
		return
	}
	if h.Kind == "stop" {
		i.w.count(func(t *tally) { t.stops++ })
		i.end()
	} else {
		i.w.count(func(t *tally) {
			t.crashes++
			t.points[strings.TrimSpace(h.Op)]++
			if h.Kind == "power" {
				t.powers++
			}
		})
		i.life.kill()
		i.leave(i.life)
	}
	if h.Kind == "power" {
		i.powerFails()
	}
	i.spoil(h)
	<-time.After(time.Duration(h.Down) * time.Millisecond)
	i.life = i.start()
}

// end ends the present process as a planned stop does.
func (i *instance) end() {
	i.life.wake()
	i.life.cancel()
	select {
	case <-i.life.ended:
		if err := i.life.err; err != nil && !errors.Is(err, tidemark.ErrUnreachable) {
			i.w.fault("instance %d did not stop cleanly: %v", i.number, err)
		}
	case <-time.After(limit):
		i.w.fault("instance %d did not stop within %v", i.number, limit)
		i.life.kill()
	}
	i.leave(i.life)
}

// leave lets the group notice in a session's time that a process is gone.
func (i *instance) leave(l *life) { i.evictLater(l, session) }

func (i *instance) evictLater(l *life, after time.Duration) {
	l.mu.Lock()
	members := maps.Clone(l.members)
	l.mu.Unlock()
	time.AfterFunc(after, func() {
		l.mu.Lock()
		asleep := l.awake != nil
		l.mu.Unlock()
		select {
		case <-l.ended:
		default:
			if !asleep {
				return // it woke in time
			}
		}
		for group, member := range members {
			i.w.cluster.Evict(group, member)
		}
	})
}

// powerFails takes away what the disk had not made durable, and looks whether what must be there is (C1, C2): every file
// with the name of a checkpoint is whole, and what was published is there, or something newer.
func (i *instance) powerFails() {
	i.newDisk(i.disk.Crash(func(_ string, n int) int { return i.random.IntN(n) }))
	for p := range i.w.s.tasks() {
		dir := store.Path(i.disk, i.path, jobName, p)
		files, err := store.List(i.disk, dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			i.w.fault("instance %d: %v", i.number, err)
		}
		newest := ""
		for _, f := range files {
			if i.damaged[f.Path] {
				continue
			}
			if _, err := store.Verify(i.disk, f.Path); err != nil {
				i.w.fault("instance %d, after a power failure: %v", i.number, err)
			}
			newest = max(newest, f.Path)
		}
		if want := i.published[p]; want > newest && !i.unsure.Load() {
			i.w.fault("instance %d: %s was published; after a power failure %q is the newest", i.number, want, newest)
		}
	}
}

// spoil does to the disk what happens while nothing runs on it.
func (i *instance) spoil(h *hurt) {
	switch h.Wipe {
	case "directory":
		if err := os.RemoveAll(i.path); err != nil {
			i.w.fault("%v", err)
		}
		fallthrough
	case "checkpoints":
		clear(i.published)
		clear(i.damaged)
		i.newDisk(storetest.NewStrict())
		return
	}
	if h.Damage != 0 {
		i.damage(rand.New(rand.NewPCG(h.Damage, 3)))
	}
}

// damage flips a bit of a checkpoint, cuts it, or zeroes a part of it.
func (i *instance) damage(r *rand.Rand) {
	dir := store.Path(i.disk, i.path, jobName, r.Int32N(i.w.s.tasks()))
	files, err := store.List(i.disk, dir)
	if err != nil || len(files) == 0 {
		return
	}
	path := files[r.IntN(len(files))].Path
	text, err := read(i.disk, path)
	switch {
	case err != nil || len(text) == 0 && !i.damaged[path]:
		i.w.fault("damage %s of %d bytes: %v", path, len(text), err)
		return
	case len(text) == 0:
		return // an earlier damage, whose fsync failed, has left nothing to do
	}
	at := r.IntN(len(text))
	switch r.IntN(3) {
	case 0:
		text[at] ^= 1 << r.IntN(8)
	case 1:
		text = text[:at]
	default:
		clear(text[at:min(len(text), at+40)])
	}
	if err := write(i.disk, path, text); err != nil {
		i.w.fault("%v", err)
	}
	i.damaged[path] = true
	i.forgo(path)
}

func read(disk vfs.FS, path string) ([]byte, error) {
	f, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text := make([]byte, info.Size())
	_, err = f.ReadAt(text, 0)
	return text, errors.Join(err, f.Close())
}

// write puts other bytes in the place of a file's. Its fsync may be one that the scenario makes fail: what a power failure
// leaves of the file then is damaged all the same.
func write(disk vfs.FS, path string, text []byte) error {
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	_ = f.Sync()
	err = errors.Join(err, f.Close())
	if d, failed := disk.OpenDir(filepath.Dir(path)); failed == nil {
		_ = d.Sync()
	}
	return err
}
