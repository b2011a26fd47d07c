package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
)

func TestBirthThenLife(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	if r.Report.From != "birth" || r.Commit.Number != 0 || r.Position != 3 {
		t.Fatalf("born by %q, commit %d, position %d; want birth, 0, 3 (fence, marker, commit record)", r.Report.From, r.Commit.Number, r.Position)
	}
	w.commit(r, "x=1", "y=2")
	w.commit(r, "x", "z=3")
	w.crash(r)
	r = w.start()
	if r.Report.From != "full replay" || r.Report.Anchor != "proved" || r.Report.Why != "there is no checkpoint" {
		t.Fatalf("report %+v", r.Report)
	}
	w.commit(r, "y=4")
	w.checkpoint(r)
	w.commit(r, "z", "v=5")
	w.crash(r)
	r = w.start()
	if r.Report.From != "checkpoint" || r.Report.Records != 3 || r.Report.Loaded != 2 {
		t.Fatalf("report %+v; want 3 records after the checkpoint: two updates and the commit record", r.Report)
	}
}

// The steps of a first start and of a recovery, in their order: the heart of section 5.
func TestOrder(t *testing.T) {
	w := newWorld(t)
	var steps []Step
	w.at = func(s Step) error { steps = append(steps, s); return nil }
	r := w.start()
	first := []Step{StepIdentify, StepAsk, StepFence, StepFenceSend, StepFenceCommit, StepTail, StepStart, StepBirthSend, StepBirthCommit, StepDone}
	if diff := cmp.Diff(first, steps); diff != "" {
		t.Fatalf("first start (-want +got):\n%s", diff)
	}
	w.commit(r, "x=1")
	w.crash(r)
	steps = nil
	w.start()
	again := []Step{StepIdentify, StepAsk, StepFence, StepFenceSend, StepFenceCommit, StepTail,
		StepPlan, StepAside, StepLoad, StepReplay, StepProve, StepAnchor, StepDone}
	if diff := cmp.Diff(again, steps); diff != "" {
		t.Fatalf("recovery (-want +got):\n%s", diff)
	}
}

var errCrash = errors.New("crash")

// crashAt makes the n-th step boundary of a run a crash, n from 1; met tells afterwards whether it was reached.
func (w *world) crashAt(n int) (met *bool) {
	met = new(bool)
	w.at = func(Step) error {
		if n--; n == 0 {
			*met = true
			return errCrash
		}
		return nil
	}
	return met
}

// A crash between any two steps of the very first start, twice in a row: the third start is born and right (V1).
func TestCrashBetweenStepsOfTheFirstStart(t *testing.T) {
	runs := 0
	for first := 1; ; first++ {
		reached := true
		for second := 1; reached; second++ {
			w := newWorld(t)
			met := w.crashAt(first)
			if _, err := w.recovery().Run(context.Background()); *met != errors.Is(err, errCrash) {
				t.Fatalf("crash at %d met %v, error %v", first, *met, err)
			}
			if !*met {
				if runs < 50 {
					t.Fatalf("only %d runs: the sweep did not sweep", runs)
				}
				return
			}
			met2 := w.crashAt(second)
			_, err := w.recovery().Run(context.Background())
			reached = *met2
			if *met2 != errors.Is(err, errCrash) {
				t.Fatalf("crashes at %d, %d: %v", first, second, err)
			}
			w.at = nil
			w.lifeGoesOn(fmt.Sprintf("crashes before steps %d, %d", first, second))
			runs++
		}
	}
}

// lifeGoesOn starts, commits, and starts again: one birth in the changelog, and the state of the oracle. A birth is a
// fact of the log, not of the oracle, so it is taken over.
func (w *world) lifeGoesOn(when string) {
	w.t.Helper()
	r, err := w.recovery().Run(context.Background())
	if err != nil {
		w.t.Fatalf("%s: %v", when, err)
	}
	w.wantState(r.Store)
	w.last = r.Commit
	w.commit(r, "x=1", "y=2")
	w.crash(r)
	r = w.start()
	w.commit(r, "x=3")
	births := map[record.BirthID]bool{}
	numbers := []uint64{}
	for _, rec := range w.Committed(logTopic, w.partition) {
		if kind, _ := record.KindOf(rec.Key); kind == record.KindCommit {
			c, err := record.ParseCommit(rec.Value)
			if err != nil {
				w.t.Fatal(err)
			}
			births[c.Birth] = true
			numbers = append(numbers, c.Number)
		}
	}
	if len(births) != 1 || !slices.Equal(numbers, []uint64{0, 1, 2}) {
		w.t.Fatalf("%s: %d births, commit numbers %v; want one birth, 0 1 2", when, len(births), numbers)
	}
	w.crash(r)
}

// The same with every request of the very first start failing: before it took effect, and after it with the answer
// lost, twice in a row.
func TestLostRequestsOfTheFirstStart(t *testing.T) {
	for name, verdict := range map[string]func(error) kafkatest.Verdict{"before": kafkatest.Fail, "after": kafkatest.ApplyThenFail} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			for first, met1 := 1, true; met1; first++ {
				for second, met2 := 1, true; met1 && met2; second++ {
					w := newWorld(t)
					met1 = w.runWithLost(first, verdict)
					met2 = w.runWithLost(second, verdict)
					w.lifeGoesOn(fmt.Sprintf("lost requests %d, %d", first, second))
					runs++
				}
			}
			if runs < 50 {
				t.Fatalf("only %d runs", runs)
			}
		})
	}
}

// runWithLost runs a recovery that loses its n-th request, and tells whether there was one.
func (w *world) runWithLost(n int, verdict func(error) kafkatest.Verdict) bool {
	var (
		lost kafkatest.Op
		left atomic.Int64 // several requests are on their way at a time
	)
	left.Store(int64(n))
	w.Inject(func(c kafkatest.Call) kafkatest.Verdict {
		if c.Op == kafkatest.OpJoin || c.Op == kafkatest.OpTopics || c.Op == kafkatest.OpCluster {
			return kafkatest.Verdict{} // the test's own
		}
		if left.Add(-1) == 0 {
			lost = c.Op
			return verdict(errCrash)
		}
		return kafkatest.Verdict{}
	})
	got, err := w.recovery().Run(context.Background())
	w.Inject(nil)
	// What a replay reads ahead beyond its end may fail unnoticed.
	if noticed := errors.Is(err, errCrash); noticed != (lost != "") && lost != kafkatest.OpFetch || err != nil && !noticed {
		w.t.Fatalf("request %q lost, error %v", lost, err)
	}
	if err == nil {
		w.crash(got)
	}
	return lost != ""
}

// Crashes between any two steps of a recovery with state, three deep, with and without a checkpoint.
func TestCrashBetweenStepsOfARecovery(t *testing.T) {
	for _, checkpoint := range []bool{false, true} {
		t.Run(fmt.Sprintf("checkpoint=%v", checkpoint), func(t *testing.T) {
			for n := 1; ; n++ {
				w := newWorld(t)
				r := w.start()
				w.commit(r, "x=1", "y=2", "z=3")
				if checkpoint {
					w.checkpoint(r)
				}
				w.commit(r, "x", "y=4")
				if _, _, _, err := w.send(r, "y=99", "u=99"); err != nil { // in the middle of a commit
					t.Fatal(err)
				}
				w.crash(r)
				for depth := range 3 {
					met := w.crashAt(n + depth)
					_, err := w.recovery().Run(context.Background())
					if *met != errors.Is(err, errCrash) {
						t.Fatalf("crash %d, depth %d: %v", n, depth, err)
					}
					if !*met && depth == 0 {
						if n < 12 {
							t.Fatalf("only %d steps", n)
						}
						return
					}
				}
				w.at = nil
				r = w.start()
				w.commit(r, "z=5")
				w.crash(r)
				w.crash(w.start())
			}
		})
	}
}

func TestNotAssignedIsFencedAndFencesNobody(t *testing.T) {
	w := newWorld(t)
	r := w.recovery()
	r.Ask = func(context.Context) (bool, error) { return false, nil }
	if err := w.refused(r, kafka.ClassFenced, "does not assign"); !errors.Is(err, ErrNotAssigned) {
		t.Fatal(err)
	}
}

// A process that was suspended between the group's answer and its fence has an answer of yesterday: it asks again, and
// fences nobody when the task is not its own any more (R8).
func TestOldAnswerIsAskedForAgain(t *testing.T) {
	for _, still := range []bool{true, false} {
		w := newWorld(t)
		asked := 0
		w.at = func(s Step) error {
			if s == StepFence {
				w.clock += time.Minute
			}
			return nil
		}
		r := w.recovery()
		r.Ask = func(context.Context) (bool, error) {
			asked++
			return asked == 1 || still, nil
		}
		if still {
			w.started(r)
		} else if err := w.refused(r, kafka.ClassFenced, "does not assign"); !errors.Is(err, ErrNotAssigned) {
			t.Fatal(err)
		}
		if asked != 2 {
			t.Errorf("asked %d times, want twice", asked)
		}
	}
}

func TestReplayOntoTheLiveBase(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1", "y=2", "z=3")
	live := &Live{Store: r.Store, Position: r.Position, TimeMS: w.Now(), Commit: r.Commit}
	// The answer to a commit is lost: it was committed (S12 a).
	c, state, _, err := w.send(r, "x", "y=4", "v=5")
	if err != nil {
		t.Fatal(err)
	}
	w.Inject(func(c kafkatest.Call) kafkatest.Verdict {
		if c.Op == kafkatest.OpCommit {
			return kafkatest.ApplyThenFail(errors.New("connection reset"))
		}
		return kafkatest.Verdict{}
	})
	if r.Writer.Commit(context.Background()) == nil || w.Injected(kafkatest.OpCommit) != 1 {
		t.Fatal("the answer was not lost")
	}
	w.Inject(nil)
	r.Writer.Close()
	w.last, w.state = c, state
	var changes []string
	live.Changed = func(_ uint64, key, old, value []byte) error {
		parsed, _ := record.ParseEntryKey(key)
		changes = append(changes, fmt.Sprintf("%s:%s->%s", parsed.Fields[0], old, value))
		return nil
	}
	again := w.recovery()
	again.Live = live
	got := w.started(again)
	if got.Store != live.Store || got.Report.From != "live base" || got.Report.Records != 4 {
		t.Fatalf("report %+v; want the live base and 4 records: three updates and the commit record", got.Report)
	}
	if want := []string{"x:1->", "y:2->4", "v:->5"}; !slices.Equal(changes, want) {
		t.Fatalf("changes %v, want %v", changes, want)
	}
	w.commit(got, "v=6")
	w.crash(got)
	w.crash(w.start())
}

// A live base whose memory is wrong is dropped, and the checkpoint or the whole changelog is replayed (I8, Corrupt).
func TestWrongLiveBaseIsDropped(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1", "y=2")
	w.merge(r.Store, "x=damage")
	again := w.recovery()
	again.Live = &Live{Store: r.Store, Position: r.Position, TimeMS: w.Now(), Commit: r.Commit}
	got := w.started(again)
	if got.Report.From != "full replay" || got.Store == r.Store {
		t.Fatalf("report %+v", got.Report)
	}
	w.wantAside(got.Report, "the live base", "digest")
}
