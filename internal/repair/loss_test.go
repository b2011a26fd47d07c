package repair

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
)

// acceptLoss recovers as run --accept-loss does.
func (w *world) acceptLoss() (*recovery.Recovered, *Change, error) {
	r := w.recovery()
	r.Accept = recovery.AcceptLoss
	got, err := r.Run(context.Background())
	if err != nil {
		return nil, nil, err
	}
	change, err := AcceptLoss(context.Background(), r, got, "anna@plant: unclean election")
	if err != nil {
		got.Writer.Close()
		return nil, nil, err
	}
	return got, change, nil
}

// What is gone, what a start says of it, and where it goes on once that was accepted (R15, S26, S27, S28).
var losses = map[string]struct {
	make      func(w *world)
	start     string // words of the refusal
	newBirth  bool
	position  record.InputPosition
	skipped   record.Count
	live      int
	noAnchor  bool
	mentioned string // in the note
}{
	"tail of the changelog, by the group": {func(w *world) {
		w.forgetResults()
		w.loseTail()
	}, "the group's offset 12", true, 7, 0, 7, false, "knows commit 2"},
	"tail of the changelog, by a result": {func(w *world) {
		w.DeleteGroupOffset(jobName, 0)
		w.loseTail()
	}, "the result at offset", true, 7, 0, 7, false, "knows commit 2"},
	"tail of the changelog, by a checkpoint": {func(w *world) {
		r := w.start()
		w.checkpoint(r)
		w.end(r)
		w.DeleteGroupOffset(jobName, 0)
		w.forgetResults()
		w.loseTail()
	}, "0000000002.checkpoint knows commit 2", true, 7, 0, 7, false, "checkpoint"},
	"head of the input": {func(w *world) { w.DeleteRecords(inTopic, 0, 23) }, "11 offsets are gone", false, 23, 11, 10, false,
		"the log starts at 23"},
	"end of the input": {func(w *world) { w.Truncate(inTopic, 0, 7) }, "the last 5 offsets are gone", false, 7, 0, 10, true,
		"the log ends at 7"},
	"another input": {func(w *world) { w.Overwrite(inTopic, 0, 11, []byte("other")) }, "the input is another log", false, 12, 0, 10, true,
		"another log"},
	"both": {func(w *world) {
		w.loseTail()
		w.DeleteRecords(inTopic, 0, 23)
	}, "knows commit 2", true, 23, 16, 7, false, "16 offsets"},
}

// A loss stops every start; accepted, it is committed before anything else, with its range counted and its cause named,
// and from then on the normal rules hold: no flag is needed again, and another loss is a stop again.
func TestAcceptLoss(t *testing.T) {
	for name, c := range losses {
		t.Run(name, func(t *testing.T) {
			w := lived(t)
			c.make(w)
			_, was := w.folded()
			w.refusedStart(c.start, "--accept-loss")
			r, change, err := w.acceptLoss()
			if err != nil {
				t.Fatal(err)
			}
			state, is := w.sane()
			equal(t, "mark", is.Mark, record.MarkLoss)
			equal(t, "position", is.Position, c.position)
			equal(t, "skipped", is.Counters.Skipped, c.skipped)
			equal(t, "live", len(state), c.live)
			equal(t, "new birth", fmt.Sprint(is.Birth != was.Birth, is.Number == 0), fmt.Sprint(c.newBirth, c.newBirth))
			equal(t, "anchor given up", is.Anchor.Offset < 0, c.noAnchor)
			equal(t, "digest", is.Digest, was.Digest)
			equal(t, "recovered", fmt.Sprint(r.Commit.Number, r.Commit.Birth, r.Report.Input), fmt.Sprint(is.Number, is.Birth, int64(is.Position)))
			if !change.Done || !strings.Contains(is.Note, c.mentioned) || !strings.HasPrefix(is.Note, "anna@plant: unclean election") {
				t.Errorf("done %v, note %q, want %q", change.Done, is.Note, c.mentioned)
			}
			if !strings.Contains(strings.Join(r.Report.Warnings, "\n"), c.mentioned) {
				t.Errorf("the report says %q, want %q", r.Report.Warnings, c.mentioned)
			}
			for range 5 {
				w.Append(inTopic, 0, kafka.Record{Value: []byte("new")})
			}
			w.commit(r, "a=2")
			w.end(r)
			w.end(w.start())
			if r, change, err := w.acceptLoss(); err != nil || change != nil {
				t.Errorf("accepted again: %+v, %v", change, err)
			} else {
				w.end(r)
			}
			w.DeleteRecords(inTopic, 0, w.Offsets(inTopic, 0).HighWatermark)
			w.Append(inTopic, 0, kafka.Record{Value: []byte("x")})
			if w.Offsets(inTopic, 0).Start > int64(is.Position)+5 {
				w.refusedStart("offsets are gone")
			}
		})
	}
}

// S28 (b): an unclean election cuts the input below the position and others fill it again, so that no offset tells; the
// anchor does. Accepted, the job goes on where it stood, with a new anchor from the first record it consumes.
func TestS28InputTruncatedAndFilledAgain(t *testing.T) {
	w := lived(t)
	w.Truncate(inTopic, 0, 9)
	for i := range 20 {
		w.Append(inTopic, 0, kafka.Record{Key: []byte("k"), Value: fmt.Appendf(nil, "other %d", i)})
	}
	w.refusedStart("check input readings/0 at offset 11", "the input is another log", "--accept-loss")
	r, _, err := w.acceptLoss()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "position", r.Commit.Position, 12)
	w.commit(r, "a=2")
	w.end(r)
	r = w.start()
	equal(t, "anchor", r.Report.Anchor, "proved")
	w.end(r)
}

// A start that could not know of a loss finds nothing to accept, and no flag makes a stop of another kind pass.
func TestAcceptLossAcceptsNothingElse(t *testing.T) {
	w := lived(t)
	r, change, err := w.acceptLoss()
	if err != nil || change != nil {
		t.Fatalf("%+v, %v", change, err)
	}
	if _, is := w.sane(); is.Mark != record.MarkNone {
		t.Errorf("commit record %+v", is)
	}
	w.end(r)
	for _, e := range w.Entries(logTopic, 0) {
		if string(e.Key) == string(entryKey("h")) {
			w.Overwrite(logTopic, 0, e.Offset, []byte("flipped"))
		}
	}
	_, _, err = w.acceptLoss()
	w.says(err, "the state is not that of commit 2", "tidemark reseal")
}

// forgetResults makes the results unknown.
func (w *world) forgetResults() {
	w.DeleteRecords(outTopic, 0, w.Offsets(outTopic, 0).HighWatermark)
}
