package repair

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// A skip moves the position, counts the gap (I9), keeps state and anchor, and the next recovery tells of it, once.
func TestSkip(t *testing.T) {
	w := lived(t)
	before, was := w.sane()
	o := w.order(Skip)
	o.To = was.Position + 7
	change := w.do(o)
	after, is := w.sane()
	if !maps.Equal(before, after) {
		t.Error("the state changed")
	}
	equal(t, "position", is.Position, was.Position+7)
	equal(t, "skipped", is.Counters.Skipped, was.Counters.Skipped+7)
	equal(t, "in", is.Counters.In, was.Counters.In+7)
	equal(t, "commit", is.Number, was.Number+1)
	equal(t, "birth", is.Birth, was.Birth)
	equal(t, "mark", is.Mark, record.MarkSkip)
	equal(t, "anchor", is.Anchor, was.Anchor)
	equal(t, "change", fmt.Sprint(change.Done, change.From.Input, change.To.Input, change.To.Skipped), "true 12 19 7")
	for _, want := range []string{"anna@plant: wrong unit", "input position 12 -> 19", "skipped 0 -> 7"} {
		if !strings.Contains(is.Note, want) {
			t.Errorf("note %q does not say %q", is.Note, want)
		}
	}
	r := w.start()
	equal(t, "anchor", r.Report.Anchor, "proved")
	if len(r.Report.Warnings) != 1 || !strings.Contains(r.Report.Warnings[0], is.Note) {
		t.Errorf("warnings %q, want the note", r.Report.Warnings)
	}
	w.commit(r, "a=2")
	w.end(r)
	r = w.start()
	if len(r.Report.Warnings) != 0 {
		t.Errorf("warnings %q: the repair is not the last commit any more", r.Report.Warnings)
	}
	w.end(r)
}

// S27: where the input's retention has passed the position, a skip to the log start is a way on.
func TestSkipToTheLogStart(t *testing.T) {
	w := lived(t)
	w.DeleteRecords(inTopic, 0, 20)
	w.refusedStart("the state goes on at offset 12, the log starts at 20: 8 offsets are gone", "--accept-loss")
	o := w.order(Skip)
	o.To = 20
	w.do(o)
	r := w.start()
	equal(t, "skipped", r.Commit.Counters.Skipped, 8)
	equal(t, "anchor", r.Report.Anchor, "unproved")
	w.end(r)
}

// The stream time goes where it is told, the closed ends follow, and going back is said loudly.
func TestStreamTime(t *testing.T) {
	for name, c := range map[string]struct {
		to     int64
		warned string
	}{
		"back":    {50_000, "PUBLISHED WINDOWS MAY BE PUBLISHED AGAIN: windows of hourly that end after 1970-01-01T00:00:49.000Z (49000) and up to 1970-01-01T00:01:59.000Z (119000)"},
		"forward": {500_000, "windows of hourly that end up to 1970-01-01T00:08:19.000Z (499000) close at once"},
	} {
		t.Run(name, func(t *testing.T) {
			w := lived(t)
			before, was := w.sane()
			o := w.order(Time)
			o.StreamTime = c.to
			change := w.do(o)
			after, is := w.sane()
			if !maps.Equal(before, after) {
				t.Error("the state changed")
			}
			equal(t, "stream time", is.StreamTime, c.to)
			equal(t, "closed end", is.Aggregations[0].ClosedEnd, c.to-grace)
			equal(t, "setter", fmt.Sprintf("%q %d", is.SetterKey, is.SetterOffset), `"" -1`)
			equal(t, "mark", is.Mark, record.MarkTime)
			equal(t, "position", is.Position, was.Position)
			if len(change.Warnings) != 1 || !strings.HasPrefix(change.Warnings[0], c.warned) {
				t.Errorf("warnings %q, want %q", change.Warnings, c.warned)
			}
			w.end(w.start())
			again := w.do(o)
			if !again.Nothing || again.Done {
				t.Errorf("the same again: %+v", again)
			}
		})
	}
}

// R35: clocks of keys that are ahead of the time that is set are forgotten, in slices no larger than a commit; what a
// crash in their middle leaves is a state like any other, and the same order once more does the rest.
func TestStreamTimeForgetsClocks(t *testing.T) {
	ahead := func(_, value []byte, streamTime int64) (bool, error) {
		n, err := strconv.ParseInt(string(value), 10, 64)
		return n*10_000 > streamTime, err
	}
	for _, at := range []crash{{}, {2, 0}, {4, 2}, {5, 2}, {7, 2}} {
		w := lived(t)
		before, was := w.sane()
		o := w.order(Time)
		o.StreamTime, o.Ahead, o.MaxRecords = 30_000, ahead, 3
		if at.n > 0 {
			met := w.dieAt(at)
			if _, err := Do(context.Background(), w.recovery(), o); err == nil || !*met {
				t.Fatalf("death at %+v: %v, %v", at, *met, err)
			}
			w.Inject(nil)
			if _, c := w.sane(); at.n >= 5 && (c.StreamTime != o.StreamTime || c.Live == was.Live) {
				t.Errorf("death at %+v: the time is %d", at, c.StreamTime)
			}
			w.end(w.start())
		}
		change := w.do(o)
		after, is := w.sane()
		maps.DeleteFunc(before, func(_, value string) bool { n, _ := strconv.Atoi(value); return n > 3 })
		if !maps.Equal(before, after) || is.StreamTime != o.StreamTime || is.Mark != record.MarkTime || is.Live != 3 {
			t.Errorf("death at %+v: %v, want %v; %+v", at, after, before, is)
		}
		if at.n == 0 && (is.Number != was.Number+4 || len(change.Warnings) != 2 || !strings.HasPrefix(change.Warnings[1], "7 clocks of keys")) {
			t.Errorf("commit %d after %d, warned %q", is.Number, was.Number, change.Warnings)
		}
		w.end(w.start())
		if again := w.do(o); !again.Nothing {
			t.Errorf("the same again: %+v", again)
		}
	}
}

// R6: a digest that is wrong for good stops every start; reseal is the way on, and both values are kept.
func TestReseal(t *testing.T) {
	w := lived(t)
	r := w.start()
	r.Store.Set(record.Hash(entryKey("x")), entryKey("x"), []byte("never written")) // an error in memory
	w.commit(r, "a=2")
	w.end(r)
	_, wrong := w.folded()
	w.refusedStart(wrong.Digest.String(), "of 10 entries", "of 11", "tidemark reseal")
	change := w.do(w.order(Reseal))
	_, is := w.sane()
	equal(t, "mark", is.Mark, record.MarkReseal)
	equal(t, "position", is.Position, wrong.Position)
	equal(t, "commit", is.Number, wrong.Number+1)
	for _, want := range []string{wrong.Digest.String(), is.Digest.String(), "live entries 11 -> 10"} {
		if !strings.Contains(is.Note, want) {
			t.Errorf("note %q does not say %q", is.Note, want)
		}
	}
	equal(t, "change", change.From.Digest+change.To.Digest, wrong.Digest.String()+is.Digest.String())
	r = w.start()
	w.commit(r, "a=3")
	w.end(r)
	w.end(w.start())
	if again := w.do(w.order(Reseal)); !again.Nothing {
		t.Errorf("a state that is proved was sealed again: %+v", again)
	}
}

// An update that nobody of ours wrote behind the last commit stops every start; reseal takes it into the state.
func TestResealTakesAStrangersUpdate(t *testing.T) {
	w := lived(t)
	w.Append(logTopic, 0, kafka.Record{Key: entryKey("stranger"), Value: []byte("1")})
	w.refusedStart("an update behind the last commit record", "tidemark reseal")
	w.do(w.order(Reseal))
	state, _ := w.sane()
	equal(t, "stranger", state[string(entryKey("stranger"))], "1")
	w.fs = vfs.NewMem() // a replay of everything
	w.end(w.start())
}

// A changelog whose commits contradict each other is not resealed: the next full replay would stop at the same place.
func TestResealRefusesABrokenLedger(t *testing.T) {
	w := lived(t)
	_, last := w.folded()
	r := w.start()
	r.Commit = last.Clone()
	r.Commit.Number += 3
	w.commit(r, "a=2")
	w.end(r)
	_, err := Do(context.Background(), w.recovery(), w.order(Reseal))
	w.says(err, "commit number 6 follows 2")
	equal(t, "class", kafka.ClassOf(err), kafka.ClassPermanent)
}

// Plan writes nothing and fences nobody, whatever the repair, and names both sides.
func TestPlanWritesNothing(t *testing.T) {
	for _, kind := range []Kind{Reset, Time, Skip, Reseal} {
		t.Run(string(kind), func(t *testing.T) {
			w := lived(t)
			if kind == Reseal {
				w.Append(logTopic, 0, kafka.Record{Key: entryKey("stranger"), Value: []byte("1")})
			}
			before, fences := w.everything(), w.Calls(kafkatest.OpFence)
			o := w.order(kind)
			if kind == Skip {
				o.To = 15
			}
			o.StreamTime = 1
			change, err := Plan(context.Background(), w.recovery(), o)
			if err != nil {
				t.Fatal(err)
			}
			if change.Done || change.Nothing || len(change.Differences()) < 2 {
				t.Errorf("plan %+v", change)
			}
			if w.everything() != before || w.Calls(kafkatest.OpFence) != fences {
				t.Error("the plan wrote something")
			}
		})
	}
}

// What cannot be done is refused by Plan, which writes nothing, and by Do, which changes no state.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		kind  Kind
		make  func(w *world, o *Order)
		fence bool // noticed after the fence only, for the order is judged by what the fence has made sure
		words []string
	}{
		"skip back":           {Skip, func(_ *world, o *Order) { o.To = 11 }, true, []string{"readings/0", "offset 12", "back to 11", "forwards only"}},
		"skip past":           {Skip, func(_ *world, o *Order) { o.To = 41 }, true, []string{"ends at offset 40", "go to 41"}},
		"reset to nowhere":    {Reset, func(_ *world, o *Order) { o.To = 41 }, true, []string{"offset 41", "[0, 40]"}},
		"reset below the log": {Reset, func(w *world, o *Order) { w.DeleteRecords(inTopic, 0, 9); o.To = 8 }, true, []string{"offset 8", "[9, 40]"}},
		"skip of a resetting task": {Skip, func(w *world, o *Order) { w.mark(record.MarkResetting); o.To = 20 }, false,
			[]string{"a reset was begun and not finished", "run tidemark reset again"}},
		"reseal of a lost tail": {Reseal, func(w *world, _ *Order) {
			_, last := w.folded()
			w.SetGroupOffset(jobName, 0, kafka.GroupOffset{Next: 12, Metadata: record.Metadata(last.Birth, last.Number+1)})
		}, false, []string{"1 commits are gone", "--accept-loss"}},
		"reset of another job": {Reset, func(w *world, _ *Order) { w.anotherJob() }, false, []string{`belongs to job "other"`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := lived(t)
			o := w.order(c.kind)
			c.make(w, &o)
			before, fences := w.everything(), w.Calls(kafkatest.OpFence)
			_, err := Plan(context.Background(), w.recovery(), o)
			w.says(err, c.words...)
			if w.everything() != before {
				t.Error("the plan wrote something")
			}
			state, _ := w.folded()
			_, err = Do(context.Background(), w.recovery(), o)
			w.says(err, c.words...)
			equal(t, "class", kafka.ClassOf(err) != kafka.ClassTransient, true)
			if got := w.Calls(kafkatest.OpFence) - fences; (got > 0) != c.fence {
				t.Errorf("%d fences", got)
			}
			after, _ := w.folded()
			if !slices.Equal(keysOf(state), keysOf(after)) {
				t.Error("the state changed")
			}
		})
	}
	t.Run("unborn", func(t *testing.T) {
		for _, kind := range []Kind{Time, Skip, Reseal} {
			w := newWorld(t)
			_, err := Plan(context.Background(), w.recovery(), w.order(kind))
			w.says(err, "plant-changelog/0", "has never lived")
		}
	})
}

// mark commits with a mark.
func (w *world) mark(m record.Mark) {
	r := w.start()
	defer w.end(r)
	c := after(r.Commit, m)
	c.Fence, c.Note = r.Fence.ID, "before"
	if _, err := (&writer{r: w.recovery(), to: r.Writer}).commit(context.Background(), c, nil); err != nil {
		w.t.Fatal(err)
	}
}

// anotherJob makes the changelog that of another job, its fence record far from its last commit.
func (w *world) anotherJob() {
	w.DeleteTopic(logTopic)
	w.CreateTopic(logTopic, 1, nil)
	w.DeleteGroupOffset(jobName, 0)
	r := w.recovery()
	r.Job, r.Checkpoints, r.Identity.Outputs = "other", nil, nil
	got, err := r.Run(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range 60 {
		w.commit(got, fmt.Sprintf("a=%d", i), "b=1")
	}
	w.end(got)
}
