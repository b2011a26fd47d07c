package repair

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// The sweep lets the process die before each effect of a repair, in the middle of it, and after it but before the answer
// came; the next process is given the same order and dies too, at every one of its effects (at some of them by default;
// `make sweep` tries all); the third one is left alone.
// After each death an ordinary start may be tried: it must find the state from before the repair,
// the one after it, or refuse with the way on.

// crash makes the n-th effect the last thing a process does: mode 0 before it, 1 in the middle, 2 after it.
type crash struct{ n, mode int }

var strideFlag = flag.Int("sweep.stride", 4, "every which second death is tried; 1 for all")

var errDeath = &kafka.Error{Class: kafka.ClassTransient, Op: "die", Offset: -1, Err: errors.New("the process died")}

// dieAt injects a crash and tells whether it was met.
func (w *world) dieAt(c crash) (met *bool) {
	met = new(bool)
	left := c.n
	w.Inject(func(call kafkatest.Call) kafkatest.Verdict {
		if call.Op != kafkatest.OpFence && call.Op != kafkatest.OpSend && call.Op != kafkatest.OpCommit {
			return kafkatest.Verdict{}
		}
		if left--; left != 0 {
			return kafkatest.Verdict{}
		}
		*met = true
		switch {
		case c.mode == 0:
			return kafkatest.Fail(errDeath)
		case c.mode == 1 && call.Op == kafkatest.OpSend:
			return kafkatest.ApplyPart(len(call.Messages)/2, errDeath)
		}
		return kafkatest.ApplyThenFail(errDeath)
	})
	return met
}

// swept is one repair under the sweep.
type swept struct {
	name string
	make func(w *world)              // what there is to repair
	do   func(w *world) error        // the repair, once
	end  func(*record.Commit) string // what the last commit record must come to
}

func sweptRepairs() []swept {
	ordered := func(kind Kind, set func(*Order)) func(*world) error {
		return func(w *world) error {
			o := w.order(kind)
			set(&o)
			_, err := Do(context.Background(), w.recovery(), o)
			return err
		}
	}
	number := func(c *record.Commit) string {
		return fmt.Sprint(c.Number > 0, c.Position, c.Counters.In, c.Counters.Skipped, c.StreamTime, c.Aggregations[0].ClosedEnd, c.Live)
	}
	lost := func(w *world) error {
		r, _, err := w.acceptLoss()
		if err == nil {
			w.end(r)
		}
		return err
	}
	nothing := func(*world) {}
	return []swept{
		{"skip", nothing, ordered(Skip, func(o *Order) { o.To = 20 }), number},
		{"reset of the stream time", nothing, ordered(Time, func(o *Order) { o.StreamTime = 60_000 }), number},
		{"reset", nothing, ordered(Reset, func(*Order) {}), func(c *record.Commit) string {
			return fmt.Sprint(c.Number, c.Position, c.Mark, c.Live, c.Digest)
		}},
		{"reset without a commit record", func(w *world) {
			for _, e := range w.Entries(logTopic, 0) {
				if string(e.Key) == string(record.CommitKey) {
					w.Remove(logTopic, 0, e.Offset, e.Offset+1)
				}
			}
		}, ordered(Reset, func(*Order) {}), func(c *record.Commit) string {
			return fmt.Sprint(c.Number, c.Position, c.Mark, c.Live, c.Digest)
		}},
		{"reseal", func(w *world) {
			w.Append(logTopic, 0, kafka.Record{Key: entryKey("stranger"), Value: []byte("1")})
		}, ordered(Reseal, func(*Order) {}), number},
		{"accepted loss", (*world).loseTail, lost, func(c *record.Commit) string {
			return fmt.Sprint(c.Number, c.Position, c.Counters, c.Live, c.Digest, c.Mark)
		}},
		{"accepted loss of input", func(w *world) { w.DeleteRecords(inTopic, 0, 23) }, lost, number},
	}
}

func TestSweepEveryEffectTwice(t *testing.T) {
	for _, s := range sweptRepairs() {
		t.Run(s.name, func(t *testing.T) {
			clean := lived(t)
			s.make(clean)
			if err := s.do(clean); err != nil {
				t.Fatal(err)
			}
			wantState, last := clean.sane()
			want := s.end(last)
			pairs := 0
			for first := range crashes(0, 1) {
				if !s.sweepFrom(t, first, wantState, want, &pairs) {
					break
				}
			}
			if pairs < 100 / *strideFlag {
				t.Errorf("%d pairs of deaths: the sweep did not sweep", pairs)
			}
			t.Logf("%d pairs of deaths", pairs)
		})
	}
}

// sweepFrom dies at first, then at every effect of the next process, with and without a start between. It tells whether
// first was met.
func (s *swept) sweepFrom(t *testing.T, first crash, wantState map[string]string, want string, pairs *int) (met bool) {
	for second := range crashes((3*first.n+first.mode)%*strideFlag, *strideFlag) {
		again := false
		for _, started := range []bool{false, true} {
			when := fmt.Sprintf("death at %+v, then at %+v, starts between: %v", first, second, started)
			w := lived(t)
			s.make(w)
			before, _ := w.folded()
			if met = w.dies(s, first, when); !met {
				return false
			}
			w.tryStart(started, when, before, wantState)
			again = w.dies(s, second, when)
			w.tryStart(started, when, before, wantState)
			if err := s.do(w); err != nil {
				t.Fatalf("%s: the third try: %v", when, err)
			}
			state, last := w.sane()
			if got := s.end(last); got != want || !maps.Equal(state, wantState) {
				t.Fatalf("%s: ends at %s with %d entries, want %s with %d", when, got, len(state), want, len(wantState))
			}
			w.end(w.start())
			*pairs++
		}
		if !again {
			break
		}
	}
	return met
}

// crashes yields the places to die at in order, every stride-th from the given one on. Whoever ranges over it stops at the
// first that was not met.
func crashes(from, stride int) func(func(crash) bool) {
	return func(yield func(crash) bool) {
		for at := from; yield(crash{1 + at/3, at % 3}); at += stride {
		}
	}
}

// dies runs the repair into a crash and tells whether it was met.
func (w *world) dies(s *swept, c crash, when string) bool {
	w.t.Helper()
	met := w.dieAt(c)
	err := s.do(w)
	w.Inject(nil)
	if *met != errors.Is(err, errDeath.Err) {
		w.t.Fatalf("%s: met %v, error %v", when, *met, err)
	}
	return *met
}

// tryStart is an ordinary start between two tries. It finds no third state.
func (w *world) tryStart(try bool, when string, before, after map[string]string) {
	w.t.Helper()
	if !try {
		return
	}
	r, err := w.recovery().Run(context.Background())
	if err != nil {
		if kafka.ClassOf(err) == kafka.ClassTransient || !strings.Contains(err.Error(), "tidemark re") && !strings.Contains(err.Error(), "--accept-loss") {
			w.t.Fatalf("%s: a start refuses without a way on: %v", when, err)
		}
		return
	}
	state := map[string]string{}
	r.Store.All(func(_ uint64, key, value []byte) bool {
		state[string(key)] = string(value)
		return true
	})
	if !maps.Equal(state, before) && !maps.Equal(state, after) {
		w.t.Fatalf("%s: a start finds %d entries, neither the %d from before nor the %d from after", when, len(state), len(before), len(after))
	}
	w.end(r)
}
