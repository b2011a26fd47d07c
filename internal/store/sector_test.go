package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/store/storetest"
)

// sectors decides that a crash keeps names and sizes, and any of the sectors, most of them.
func sectors(rng *rand.Rand) storetest.Chance {
	return func(what string, n int) int {
		if (what == "sector" || what == "torn") && rng.IntN(3) == 0 {
			return rng.IntN(n)
		}
		return n - 1
	}
}

// beginnings decides that a crash cuts files, and keeps all that is before the cut.
func beginnings(rng *rand.Rand) storetest.Chance {
	return func(what string, n int) int {
		if what == "size" || what == "bytes" {
			return rng.IntN(n)
		}
		return n - 1
	}
}

// careless reads the entries of a checkpoint as a reader would that believes header, trailer and lengths, and computes no
// checksum over what lies between. It returns nil where it sees that something is wrong.
func careless(fs FS, path string, b []byte) map[string]string {
	if _, err := ReadInfo(fs, path); err != nil {
		return nil
	}
	found := map[string]string{}
	for _, block := range blocksIn(b) {
		if block.to > len(b)-trailerBytes {
			return nil
		}
		for rest := b[block.from+blockHead : block.to]; len(rest) > 0; {
			keyValue, keyLen, after, err := takeEntry(rest)
			if err != nil {
				return nil
			}
			found[string(keyValue[:keyLen])] = string(keyValue[keyLen:])
			rest = after
		}
	}
	return found
}

// TestSectorsOfAnUnsyncedFile leaves the fsync of the file out and cuts the power. Any subset of the sectors is there then, and
// what a reader must not do without is seen: one that looks at header, trailer and lengths takes a file with a hole for whole,
// which no cut file makes it do; Load does not, ever (S32).
func TestSectorsOfAnUnsyncedFile(t *testing.T) {
	first, end := scanSeeds(t, 400)
	l := newLives(t, 2).large()
	whole := l.pairs[1].model
	for name, kind := range map[string]struct {
		chance func(*rand.Rand) storetest.Chance
		fools  bool
	}{"sectors": {sectors, true}, "beginnings": {beginnings, false}} {
		fooled, noticed, loaded := 0, 0, 0
		for seed := first; seed < end; seed++ {
			disk := storetest.NewStrict()
			d := openDir(t, storetest.Hook(disk, func(op storetest.Op, do func() error) error {
				if op.Kind == "sync" && strings.HasPrefix(disk.PathBase(op.Path), fileName(2)) {
					return nil // the defect
				}
				return do()
			}), "state/job/p3")
			for n := 1; n <= 2; n++ {
				if _, err := l.publish(d, n); err != nil {
					t.Fatal(err)
				}
			}
			left := disk.Crash(kind.chance(rand.New(rand.NewPCG(seed, 5))))
			path := "state/job/p3/" + fileName(2)
			b := readFile(t, left, path)
			if found := careless(left, path, b); found != nil && !maps.Equal(found, whole) {
				fooled++
			}
			m := NewMemory(0)
			_, err := Load(left, path, m, 1)
			where := fmt.Sprintf("%s, TIDEMARK_SEED=%d go test -run TestSectorsOfAnUnsyncedFile ./internal/store", name, seed)
			switch {
			case err == nil && m.Digest() != digestOf(whole):
				t.Fatalf("%s: what was loaded is not what was written", where)
			case err == nil:
				loaded++
			case KindOf(err) != KindDamaged && KindOf(err) != KindNewer:
				t.Fatalf("%s: %v", where, err)
			default:
				noticed++
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d noticed, %d whole; %d would have been taken for whole without checksums", name, noticed, loaded, fooled)
		if end-first >= 100 && (noticed == 0 || loaded == 0 || kind.fools != (fooled > 0)) {
			t.Errorf("%s: %d noticed, %d whole, %d fool a careless reader", name, noticed, loaded, fooled)
		}
	}
}

// TestPowerLossSettingAside cuts the power before and after every operation of setting the newest checkpoint aside, and the
// oldest of those set aside before go. Whatever became of it, the older checkpoint is there and whole, the file is not taken
// for a good one, and the next process publishes (I6).
func TestPowerLossSettingAside(t *testing.T) {
	_, seeds := scanSeeds(t, 8)
	l := newLives(t, 6).large()
	for n, ended := 1, false; !ended; n++ {
		for _, done := range []bool{false, true} {
			for seed := range seeds {
				l.where = fmt.Sprintf("power lost at operation %d, done %v, seed %d (TIDEMARK_SWEEP=%d go test -run TestPowerLossSettingAside ./internal/store)", n, done, seed, seed+1)
				disk := storetest.NewStrict()
				d := openDir(t, disk, "state/job/p3")
				for state := 1; state <= 5; state++ {
					published, err := l.publish(d, state)
					if err == nil && state <= keptAside {
						_, err = d.SetAside(published.Path, "tried")
					}
					if err != nil {
						t.Fatalf("%s: %v", l.where, err)
					}
				}
				p := &power{n: n, done: done}
				hurt := openDir(t, disk, "state/job/p3")
				hurt.fs = storetest.Hook(disk, p.hook)
				if _, err := hurt.SetAside("state/job/p3/"+fileName(5), "digest differs"); (err == nil) != !p.lost() {
					t.Fatalf("%s: %v", l.where, err)
				}
				ended = !p.lost()
				left := disk.Crash(chances(seed))
				l.judge(t, left, 4, 5)
				if _, last := l.run(t, left, &power{n: 1 << 30}, 6, 1); last != 6 || len(l.judge(t, left, 6, 6)) < kept {
					t.Fatalf("%s: the next publication left %d", l.where, last)
				}
			}
		}
		if ended && n < 5 {
			t.Errorf("setting aside has only %d operations", n-1)
		}
	}
}
