package recovery

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// maxRounds bounds the attempts of one recovery. Each round but those that follow a moving log start uses up an image;
// a log start that moves this often under a replay is an operator's to explain.
const maxRounds = 100

// listImages lists what the state may be made of: checkpoint files and the live base.
func (s *sequence) listImages() error {
	if l := s.Live; l != nil {
		s.images = append(s.images, image{live: true, Entry: store.Entry{Path: "the live base", Info: &store.Info{Header: store.Header{
			Begin: l.Position, BrokerTime: l.TimeMS, Commit: *l.Commit,
			Fence: record.Fence{Job: s.Job, Partition: s.Partition, Identity: s.Identity},
		}}}})
	}
	if s.Checkpoints == nil {
		return nil
	}
	files, err := s.Checkpoints.List()
	if err != nil {
		s.warn("checkpoints are not readable, going on without: %v", err) // they are never needed (I6)
		return nil
	}
	for _, file := range files {
		s.images = append(s.images, image{Entry: file})
	}
	return nil
}

// plan chooses what to load.
func (s *sequence) plan(context.Context) error {
	s.choice = choose(s.end, s.images)
	if s.choice.lost != nil {
		return s.fail(kafka.ClassLost, "plan", s.end.lastAt, "restore the changelog, or tidemark run --accept-loss", "%w", s.choice.lost)
	}
	for _, a := range s.choice.aside {
		if a.Word == wordLost {
			s.loseCommits(s.end.last.Number, a.Reason)
		}
	}
	s.source, s.report.Why = nil, s.choice.why
	switch {
	case s.choice.use >= 0:
		img := s.images[s.choice.use]
		s.source = &img
		if len(s.report.Aside) > 0 {
			s.report.Why = whyUsable
		}
	case s.excuse != "":
		s.report.Why = s.excuse
	}
	return nil
}

// setAside takes what the plan refused out of the way, with its reason.
func (s *sequence) setAside(context.Context) error {
	for i, at := range s.choice.at {
		s.putAside(&s.images[at], s.choice.aside[i])
	}
	kept := s.images[:0]
	for i := range s.images {
		if !slices.Contains(s.choice.at, i) {
			kept = append(kept, s.images[i])
		}
	}
	s.images = kept
	return nil
}

func (s *sequence) putAside(img *image, a Aside) {
	s.report.Aside = append(s.report.Aside, a)
	if img.live || a.Left {
		return
	}
	if _, err := s.Checkpoints.SetAside(img.Path, a.Word); err != nil {
		s.warn("%v", err)
	}
}

// load makes the store that the replay goes on from: the live base, a checkpoint, or an empty one, never an old one to
// replay everything onto (I6).
func (s *sequence) load(context.Context) error {
	s.report.From, s.report.Checkpoint = "full replay", ""
	switch {
	case s.source == nil:
		s.store = store.NewMemory(s.end.last.Live)
	case s.source.live:
		s.report.From = "live base"
		s.store = s.Live.Store
	default:
		s.report.From, s.report.Checkpoint = "checkpoint", s.source.Path
		s.store = store.NewMemory(s.end.last.Live)
		if _, err := s.Checkpoints.Load(s.source.Path, s.store, runtime.GOMAXPROCS(0)); err != nil {
			return &badImageError{err}
		}
		s.report.Loaded += s.store.Live()
	}
	return nil
}

// badImageError is the failure of a load: the next older image is tried.
type badImageError struct{ err error }

func (e *badImageError) Error() string { return e.err.Error() }
func (e *badImageError) Unwrap() error { return e.err }

// replay goes from the image's position to the last commit record; from there to F there is nothing for the state.
func (s *sequence) replay(ctx context.Context) error {
	from, commit := s.end.start, (*record.Commit)(nil)
	var to applier = bulk{s.store}
	if s.source != nil {
		from = int64(s.source.Info.Begin)
		if !s.source.isPart() {
			commit = &s.source.Info.Commit
		}
		if s.source.live {
			to = &onto{Live: s.Live}
		}
	}
	p := &replayer{ledger: newLedger(&s.changelog, from, commit, s.end.last.Birth), to: to, end: s.end.lastAt, reached: from, size: s.FetchBytes}
	keeper := s.newKeeper()
	err := p.run(ctx, func(o kafka.Offsets) {
		keeper.passed(ctx, p, func() { s.progress(p, from, -1) })
		waiting := int64(-1)
		if p.reached >= o.Stable && !p.done {
			waiting = o.Stable
		}
		s.progress(p, from, waiting)
	})
	s.report.Records += p.records
	s.report.Bytes += p.bytes
	if err == nil {
		err = s.sameEnd(p)
	}
	s.position = record.ChangelogPosition(s.end.fenceAt + 1)
	return err
}

// sameEnd checks that the replay ended at the very commit record that the tail read had found.
func (s *sequence) sameEnd(p *replayer) error {
	last := &s.end
	if !p.known || p.last.Number != last.last.Number || p.last.Birth != last.last.Birth || p.lastAt >= 0 && p.lastAt != last.lastAt {
		return s.fail(kafka.ClassCorrupt, "replay", p.lastAt, "",
			"the replay ends with commit %d of birth %v at offset %d, the tail read found commit %d of birth %v at offset %d",
			p.last.Number, p.last.Birth, p.lastAt, last.last.Number, last.last.Birth, last.lastAt)
	}
	return nil
}

// giveUp decides what a failed attempt leaves to try; it returns the error that ends the recovery, nil to plan again.
func (s *sequence) giveUp(ctx context.Context, failed error, round int) error {
	used := s.source
	s.closeStore()
	var bad *badImageError
	var deleted *deletedError
	switch {
	case round >= maxRounds:
		return s.fail(kafka.ClassTransient, "recover", -1, "", "still not recovered after %d attempts: %w", round, failed)
	case errors.As(failed, &bad) && ctx.Err() == nil:
		s.dropImage(used, store.KindOf(bad.err).String(), bad.err, left(bad.err))
	case errors.As(failed, &deleted):
		s.end.start = deleted.start
		s.excuse = deleted.Error()
	case kafka.ClassOf(failed) != kafka.ClassCorrupt:
		return failed
	case used == nil:
		return s.final(failed)
	case used.live:
		s.dropImage(used, "digest", failed, false)
	default:
		// A checkpoint that leads to another state than the changelog's is not to be explained by its age or by
		// damage, so no other one is trusted either (I7).
		s.dropImage(used, "digest", failed, false)
		s.images = nil
	}
	return nil
}

// final makes the failure of a full replay a stop: there is nothing left that could be tried.
func (s *sequence) final(failed error) error {
	var e *kafka.Error
	if !errors.As(failed, &e) {
		return failed
	}
	stop := *e
	stop.Class = kafka.ClassPermanent
	if s.end.start > 0 {
		stop.Err = fmt.Errorf("%w; the log starts at offset %d, not 0: records were deleted", stop.Err, s.end.start)
		stop.Hint = "restore the topic"
	}
	return &stop
}

func (s *sequence) dropImage(img *image, word string, failed error, left bool) {
	s.images = slices.DeleteFunc(s.images, func(o image) bool { return o.Path == img.Path })
	s.putAside(img, Aside{Name: img.Path, Word: word, Reason: failed.Error(), Left: left})
	s.excuse = failed.Error()
}
