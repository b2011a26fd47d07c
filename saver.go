package tidemark

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// saver writes a task's checkpoints while the task works (section 6). The task's goroutine copies one slice of the base
// after the other, when it is asked to; everything that touches the disk happens on a goroutine of the checkpoint. A
// failed attempt is only that: it is told, and the next one comes after the usual interval (I8).
type saver struct {
	l       *life
	saved   uint64    // commit number in the newest checkpoint
	last    time.Time // when the last attempt began
	due     *time.Timer
	armed   bool     // due will fire
	attempt *attempt // nil when none is under way
}

// attempt is one checkpoint on its way.
type attempt struct {
	scan    *store.Scan
	begun   time.Time
	number  uint64 // of the commit record in force at B
	begin   record.ChangelogPosition
	wants   chan struct{} // the writing goroutine is ready for a slice
	slices  chan slice
	outcome chan outcome
}

// slice is what the task hands over: a copy of some shards, and with the last one what the state is there.
type slice struct {
	bytes []byte
	done  bool
	end   record.ChangelogPosition
	state store.Sum
	delta store.Sum
}

type outcome struct {
	published store.Published
	err       error
}

func newSaver(l *life) *saver {
	s := &saver{l: l, last: time.Now(), due: time.NewTimer(0), armed: true}
	if name := l.recovered.Report.Checkpoint; name != "" && l.recovered.Report.Records == 0 {
		s.saved = l.recovered.Commit.Number
	}
	return s
}

// startIfDue begins a checkpoint when the interval has passed and something was committed since the last one. Otherwise
// the timer due wakes the task when it will have passed: a task whose input has ended has its checkpoint too.
func (s *saver) startIfDue() {
	if s.attempt != nil || s.l.task.Committed().Number == s.saved {
		return
	}
	if left := s.l.r.app.options.Checkpoint - time.Since(s.last); left > 0 {
		if !s.armed {
			s.due.Reset(left)
			s.armed = true
		}
		return
	}
	s.armed = false
	s.start()
}

func (s *saver) start() {
	s.last = time.Now()
	dir := s.l.r.dir
	if dir == nil {
		return // told when it could not be opened
	}
	held := s.l.r.held
	a := &attempt{scan: held.store.StartScan(), begun: s.last, number: held.committed.Number, begin: held.position,
		wants: make(chan struct{}, 1), slices: make(chan slice, 1), outcome: make(chan outcome, 1)}
	header := store.Header{Fence: s.l.recovered.Fence, Commit: *held.committed, Begin: held.position, BrokerTime: held.timeMS}
	s.attempt = a
	at := s.l.r
	if defect.CheckpointEarly && s.l.task.InFlight() {
		header.Commit.Number++
	}
	if defect.ScanUncommitted && s.l.task.InFlight() {
		for _, m := range s.l.batch.Messages {
			if kind, _ := record.KindOf(m.Key); m.Sink == task.SinkChangelog && kind == record.KindEntry && m.Value != nil {
				held.store.Set(record.Hash(m.Key), m.Key, m.Value)
			}
		}
	}
	go func() {
		var o outcome
		defer func() {
			if cause := recover(); cause != nil {
				o.err = kafka.Recovered(cause, "write checkpoint", at.app.options.Changelog.Topic, at.partition)
			}
			a.outcome <- o
		}()
		o.published, o.err = write(dir, &header, a, &at.board.disk, at.at)
	}()
}

// write is the life of the writing goroutine. Each time the disk is asked for something it shows that on disk.
func write(dir *store.Dir, header *store.Header, a *attempt, disk *op, at func(context.Context, string) error) (store.Published, error) {
	defer disk.end()
	disk.begin(&opCreate, -1)
	w, err := dir.Create(header)
	if err != nil {
		return store.Published{}, err
	}
	defer w.Abort() // does nothing after Publish
	for {
		disk.end()
		a.wants <- struct{}{}
		piece, ok := <-a.slices
		if !ok {
			return store.Published{}, nil
		}
		if err := at(context.Background(), "checkpoint.slice"); err != nil {
			return store.Published{}, err
		}
		disk.begin(&opWrite, -1)
		if err := w.WriteBlock(piece.bytes); err != nil {
			return store.Published{}, err
		}
		if piece.done {
			if err := at(context.Background(), "checkpoint.publish"); err != nil {
				return store.Published{}, err
			}
			disk.begin(&opPublish, -1)
			return w.Publish(piece.end, piece.state, piece.delta)
		}
	}
}

// wants is ready when the checkpoint under way can take a slice.
func (s *saver) wants() <-chan struct{} {
	if s.attempt == nil {
		return nil
	}
	return s.attempt.wants
}

// outcome delivers the end of the checkpoint under way.
func (s *saver) outcome() <-chan outcome {
	if s.attempt == nil {
		return nil
	}
	return s.attempt.outcome
}

// slice copies the next shards for the writing goroutine.
func (s *saver) slice() error {
	a, held := s.attempt, s.l.r.held
	piece := slice{}
	piece.bytes, piece.done = a.scan.Next(nil)
	if piece.done {
		piece.end, piece.delta = held.position, a.scan.Delta()
		piece.state = store.Sum{Digest: held.store.Digest(), Live: held.store.Live()}
	}
	a.slices <- piece
	return nil
}

// ended takes the outcome of an attempt. Only a state that contradicts itself ends the life.
func (s *saver) ended(o outcome) error {
	a := s.attempt
	s.attempt = nil
	a.scan.Drop()
	r := s.l.r
	var panicked *kafka.Panic
	switch {
	case errors.As(o.err, &panicked):
		return o.err
	case o.err != nil && store.KindOf(o.err) == store.KindCorrupt:
		return s.l.corrupt("write checkpoint", o.err)
	case o.err != nil:
		r.app.totals.saveFailed.Add(1)
		r.board.saved(nil, o.err)
		r.log.Error("checkpoint not written, the one before it stays", "error", o.err)
		return nil
	}
	r.app.totals.saved.Add(1)
	r.board.saved(&image{path: o.published.Path, bytes: o.published.Length, entries: o.published.Image.Live, begin: a.begin,
		commit: a.number, at: a.begun}, nil)
	s.saved = a.number
	if o.published.Kept != nil {
		r.log.Warn("older checkpoint not removed, tried again with the next one", "error", o.published.Kept)
	}
	r.emit(Event{Partition: r.partition, Kind: EventCheckpoint, Path: o.published.Path, Bytes: o.published.Length,
		Took: time.Since(a.begun)})
	return nil
}

// stopPatience is how long a stop waits for its last checkpoint, however large: whoever stops a process kills it soon after
// (D08).
const stopPatience = 5 * time.Second

// finish writes a last checkpoint at a clean stop: of everything committed since the last one if all is set, otherwise
// if one is due and it takes no longer than stopPatience. It begins one attempt at most, and gives up on a disk that has not
// answered for as long as a broker may take: no disk must hold up the stop for ever, for a checkpoint is never needed (I6, I12).
func (s *saver) finish(all bool) error {
	patience := time.NewTimer(s.l.r.app.diskPatience)
	defer patience.Stop()
	var over <-chan time.Time // never
	if !all {
		limit := time.NewTimer(stopPatience)
		defer limit.Stop()
		over = limit.C
	}
	work := &s.l.r.board.work
	for tried := false; ; patience.Reset(s.l.r.app.diskPatience) {
		if s.attempt == nil {
			due := all || time.Since(s.last) >= s.l.r.app.options.Checkpoint
			if tried || !due || s.l.task.Committed().Number == s.saved || s.l.r.dir == nil {
				return nil
			}
			tried = true
			s.start()
		}
		work.end()
		select {
		case <-s.attempt.wants:
			work.begin(&opWork, -1)
			if err := s.slice(); err != nil {
				return err
			}
		case o := <-s.attempt.outcome:
			if err := s.ended(o); err != nil {
				return err
			}
		case <-over:
			s.l.r.log.Info("the last checkpoint is given up, the one before it stays: a stop waits no longer", "waited_seconds", stopPatience.Seconds())
			s.drop()
			return nil
		case <-patience.C:
			close(s.attempt.slices) // for the disk may still answer, and the writer ask for more
			return s.ended(outcome{err: fmt.Errorf("the disk has not answered for %s", s.l.r.app.diskPatience)})
		}
	}
}

// drop gives an attempt under way up: its image belongs to a fence that is over. A disk that hangs is left alone after a
// moment: the attempt has copies of its own, no other one begins before it has ended, and what it may still publish is a
// true image.
func (s *saver) drop() {
	s.due.Stop()
	if s.attempt == nil {
		return
	}
	s.attempt.scan.Drop()
	close(s.attempt.slices)
	patience := time.NewTimer(dropPatience)
	defer patience.Stop()
	select {
	case <-s.attempt.outcome:
	case <-patience.C:
		s.l.r.log.Warn("a checkpoint is left to a disk that does not answer", "waited_seconds", dropPatience.Seconds())
	}
	s.attempt = nil
}

// dropPatience is how long an attempt that is given up is waited for.
const dropPatience = time.Second

// openDir opens the task's checkpoint directory. Checkpoints are never needed: when it cannot be opened the task works
// without, and says so.
func (r *runner) openDir() {
	if r.dir != nil || r.app.options.Relay != nil { // a relay has no state
		return
	}
	files := r.app.options.Files
	dir, err := store.OpenDir(files, store.Path(files, r.app.options.StateDir, r.app.options.Job, r.partition))
	if err != nil {
		r.board.saved(nil, err)
		r.log.Error("no checkpoints: a restart will replay the whole changelog", "error", err)
		return
	}
	r.dir = dir
}
