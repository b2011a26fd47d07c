package proof

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/aggregate"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
	"github.com/tidemark-streams/tidemark/internal/task"
)

var (
	deepFlag   = flag.Int("sweep.deep", 150, "triples of strikes, and as many with a repair among them, drawn by the three-deep sweeps")
	seedFlag   = flag.Uint64("sweep.seed", 0, "of what the three-deep sweeps draw; 0 for a fresh one")
	strideFlag = flag.Int("sweep.stride", 151, "every which pair of strikes is tried; 1 for all")
)

// tell runs a world through strikes, then to its end, and judges it. It returns how many of the strikes happened; after one
// that did not there are no more.
func (w *sweepWorld) tell(machine int, strikes ...blow) (happened int, err error) {
	if len(strikes) == 0 {
		return 0, w.end(machine)
	}
	s, rest := strikes[0], strikes[1:]
	later := 0 // strikes that happen while it sleeps
	elsewhere := (machine + 1) % sweepMachines
	var meanwhile func() error
	switch s.how {
	case bySleep:
		meanwhile = func() error {
			var other blow
			if len(rest) > 0 && rest[0].how != bySleep && rest[0].how != byOversleep {
				other, rest = rest[0], rest[1:]
			}
			l, err := w.live(elsewhere, other, nil, (*sweepLife).run)
			if l.struck {
				later++
			}
			return l.must(err)
		}
	case byOversleep:
		meanwhile = func() (err error) {
			later, err = w.tell(elsewhere, rest...)
			return err
		}
	}
	l, err := w.live(machine, s, meanwhile, (*sweepLife).run)
	if err := l.must(err); err != nil {
		return 0, err
	}
	if !l.struck {
		return 0, w.end(machine)
	}
	happened = 1 + later
	switch s.how {
	case byOversleep:
		if err := w.judge(); err != nil { // once more: it changed nothing
			return happened, fmt.Errorf("after %v woke up: %w", s, err)
		}
		return happened, nil
	case byLoss:
		machine = elsewhere
	}
	later, err = w.tell(machine, rest...)
	return happened + later, err
}

// must lets pass what may come of a process: its death, and that it was fenced by one that came later.
func (l *sweepLife) must(err error) error {
	switch {
	case l.disturbed != nil:
		return l.disturbed
	case errors.Is(err, errCrash) && l.dead:
		return nil
	case kafka.ClassOf(err) == kafka.ClassFenced && l.fence < l.fences:
		l.outlived++
		return nil
	case err != nil:
		return fmt.Errorf("%s, after %d effects: %w", l.doing, l.effects, err)
	}
	return nil
}

// end runs a world to its end and judges it, twice: a restart changes nothing.
func (w *sweepWorld) end(machine int) error {
	for _, which := range []string{"the last process", "the restart"} {
		_, err := w.live(machine, blow{}, nil, (*sweepLife).run)
		if err == nil {
			err = w.judge()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", which, err)
		}
	}
	return nil
}

// sweepStory tells one story in a world of its own.
func sweepStory(scene sweepScene, seed uint64, strikes ...blow) (happened, outlived int, err error) {
	w := newSweepWorld(scene, seed)
	happened, err = w.tell(0, strikes...)
	if err != nil {
		err = fmt.Errorf("%+v, seed %d, %v: %w", scene, seed, strikes, err)
	}
	return happened, w.outlived, err
}

// sweepEffects are the effects of a process that nothing strikes, in a world that is new.
func sweepEffects(t *testing.T, scene sweepScene) []string {
	t.Helper()
	l, err := newSweepWorld(scene, 0).live(0, blow{}, nil, (*sweepLife).run)
	if err != nil {
		t.Fatal(err)
	}
	return l.names
}

// TestSweepEveryEffect strikes at every effect of a first start and run.
func TestSweepEveryEffect(t *testing.T) {
	if _, _, err := sweepStory(sweepUsual, 0); err != nil {
		t.Fatal(err)
	}
	names := sweepEffects(t, sweepUsual)
	for _, how := range sweepHows {
		for at := range names {
			if how != byKill && at%min(*strideFlag, 8) != 0 {
				continue
			}
			happened, _, err := sweepStory(sweepUsual, uint64(at), blow{at + 1, how})
			if err != nil || happened != 1 {
				t.Fatalf("%s: %d strikes: %v", names[at], happened, err)
			}
		}
	}
	for _, want := range []string{"start: file mkdir", "fence: fence", "birth-send: send", "birth-commit: commit", "commit: half sent",
		"commit: ended, not merged", "commit: offset", "checkpoint: file create", "checkpoint: file sync", "checkpoint: file rename",
		"checkpoint: file remove"} {
		if !slices.Contains(names, want) {
			t.Errorf("effect %q was never met: %s", want, strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", "))
		}
	}
	t.Logf("%d effects", len(names))
}

// TestSweepEveryPair strikes at effects of a first start and run, and then at effects of the process that comes after it, or
// takes over while the first one sleeps. `make sweep` tries every pair.
func TestSweepEveryPair(t *testing.T) {
	kinds := [][2]string{{byKill, byKill}, {byPower, byPower}, {bySleep, byKill}, {byOversleep, byKill}}
	for n, kind := range kinds {
		sweepPairs(t, sweepUsual, kind, n, len(kinds))
	}
}

// TestSweepKeysWithClocks is that with keys that have times of their own (R35), and kills only.
func TestSweepKeysWithClocks(t *testing.T) {
	sweepPairs(t, sweepClocks, [2]string{byKill, byKill}, 0, 4)
	clocks, o := 0, newSweepWorld(sweepClocks, 0).expected(nil).Outcomes[0]
	for id := range o.Remembered {
		if strings.HasSuffix(id, fmt.Sprint(" ", task.ClockStart)) {
			clocks++
		}
	}
	if len(o.Late) == 0 || clocks == 0 || clocks == 9 {
		t.Errorf("%d late, %d clocks of 3 keys in 3 aggregations at the end: the input does not show what clocks do", len(o.Late), clocks)
	}
}

// sweepPairs strikes at effects of a first process, and at effects of the next one: unless all are tried, at every of-th of the
// first, beginning with number n, and then at every stride-th.
func sweepPairs(t *testing.T, scene sweepScene, kind [2]string, n, of int) {
	t.Helper()
	stride, pairs, outlived := *strideFlag, 0, 0
	for first := range sweepEffects(t, scene) {
		if stride > 1 && first%of != n {
			continue
		}
		for second := 1 + 37*first%stride; ; second += stride {
			happened, refused, err := sweepStory(scene, uint64(second), blow{first + 1, kind[0]}, blow{second, kind[1]})
			if err != nil {
				t.Fatal(err)
			}
			if happened < 2 {
				break
			}
			pairs++
			outlived += refused
		}
	}
	t.Logf("%d pairs of %s and %s; %d processes woke up and were refused", pairs, kind[0], kind[1], outlived)
	if sleeps := kind[0] == bySleep || kind[0] == byOversleep; pairs == 0 || sleeps != (outlived > 0) {
		t.Error("the sweep did not sweep")
	}
}

// TestSweepEveryTriple kills a process, the one after it and the one after that, in a world that is small enough to try them
// all (`make sweep` does).
func TestSweepEveryTriple(t *testing.T) {
	effects, stride, triples := len(sweepEffects(t, sweepSmall)), *strideFlag, 0
	for first := 1; first <= effects; first++ {
		met := 2
		for second := 1 + first%stride; met > 1; second += stride {
			for third := 1 + (first+second)%stride; ; third += stride {
				var err error
				met, _, err = sweepStory(sweepSmall, 0, blow{first, byKill}, blow{second, byKill}, blow{third, byKill})
				if err != nil {
					t.Fatal(err)
				}
				if met < 3 {
					break
				}
				triples++
			}
		}
	}
	t.Logf("%d effects, %d triples", effects, triples)
	if triples == 0 {
		t.Error("no triple: the sweep did not sweep")
	}
}

// sweepDraw is the source of a three-deep sweep.
func sweepDraw(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: go test -run '^%s$' ./internal/proof -args -sweep.seed %d -sweep.deep %d", seed, t.Name(), seed, *deepFlag)
	return rand.New(rand.NewPCG(seed, 3))
}

// TestSweepThreeDeep draws triples of strikes of all kinds.
func TestSweepThreeDeep(t *testing.T) {
	rng := sweepDraw(t)
	effects := len(sweepEffects(t, sweepUsual))
	three, hows := 0, map[string]int{}
	for range *deepFlag {
		strikes := make([]blow, 3)
		for i := range strikes {
			strikes[i] = blow{1 + rng.IntN(effects/(i+1)), sweepHows[rng.IntN(len(sweepHows))]}
		}
		scene := []sweepScene{sweepUsual, sweepClocks}[rng.IntN(2)]
		happened, _, err := sweepStory(scene, rng.Uint64(), strikes...)
		if err != nil {
			t.Fatal(err)
		}
		if happened == 3 {
			three++
			for _, s := range strikes {
				hows[s.how]++
			}
		}
	}
	t.Logf("%d of %d stories have three strikes: %v", three, *deepFlag, hows)
	if three == 0 || len(hows) < len(sweepHows) {
		t.Fatal("the sweep did not sweep")
	}
}

// TestFleetHasEveryFunction: the kill loops run all functions there are.
func TestFleetHasEveryFunction(t *testing.T) {
	for _, name := range aggregate.All.Names() {
		if !slices.Contains(every, name) {
			t.Errorf("no %s", name)
		}
	}
	if !slices.Contains(every, "p50") || !slices.Contains(every, "p99") {
		t.Error("no percentiles")
	}
}

// sweepExpectations are what inputs are worth; that of most worlds is the same.
var sweepExpectations = map[string]*Expected{}

// gap is a range of offsets that a task did not read.
type gap struct{ from, to int64 }

// expected is what the oracle makes of the input without gaps. What lies in them counts as skipped (I9).
func (w *sweepWorld) expected(gaps []gap) *Expected {
	name := fmt.Sprint(w.scene, gaps)
	if sweepExpectations[name] == nil {
		skipped := int64(0)
		read := slices.DeleteFunc(slices.Clone(w.input), func(m oracle.Message) bool {
			return slices.ContainsFunc(gaps, func(g gap) bool { return g.from <= m.Offset && m.Offset < g.to })
		})
		for _, g := range gaps {
			skipped += g.to - g.from
		}
		e := Expect(w.scene.oracle(), [][]oracle.Message{w.scene.plain(read)})
		w.scene.original(e.Outcomes[0], read)
		e.Outcomes[0].Counters.In += skipped
		e.Outcomes[0].Counters.Skipped += skipped
		sweepExpectations[name] = e
	}
	return sweepExpectations[name]
}

// judgeWhole expects that all of the input was read.
func (w *sweepWorld) judgeWhole() error {
	got, err := w.observe()
	if err != nil {
		return err
	}
	return w.compare(nil, got)
}

func (w *sweepWorld) compare(gaps []gap, got *Observed) error {
	if anomalies := Compare(w.expected(gaps), got); len(anomalies) > 0 {
		return errors.New(Report(anomalies, 5))
	}
	return nil
}

// sweepLines are results that were read before, as most worlds have the same.
var sweepLines = map[string]Line{}

// observe reads everything that was committed.
func (w *sweepWorld) observe() (*Observed, error) {
	fold, err := oracle.FoldChangelog(w.messages(sweepLog))
	if err != nil {
		return nil, err
	}
	if fold.Last == nil {
		return nil, errors.New("no commit record")
	}
	got := &Observed{Live: []oracle.Entry{}, Results: []Line{}, Late: []Output{}, Dead: []Output{},
		Counters: []Counters{{Task: fold.Last.Counters, Aggregations: fold.Last.Aggregations, StreamTime: fold.Last.StreamTime}}}
	for _, e := range fold.Live {
		got.Live = append(got.Live, e)
	}
	for _, m := range w.messages(sweepOut) {
		l, known := sweepLines[string(m.Value)]
		if !known {
			if l, err = ParseLine(m.Value, ""); err != nil {
				return nil, err
			}
			sweepLines[string(m.Value)] = l
		}
		l.Place = fmt.Sprintf("out at offset %d", m.Offset)
		got.Results = append(got.Results, l)
	}
	for _, to := range []struct {
		topic string
		list  *[]Output
	}{{sweepLate, &got.Late}, {sweepDead, &got.Dead}} {
		for _, m := range w.messages(to.topic) {
			o, err := ParseOutput(m)
			if err != nil {
				return nil, err
			}
			*to.list = append(*to.list, o)
		}
	}
	return got, nil
}
