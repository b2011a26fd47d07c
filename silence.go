package tidemark

import (
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// silence measures for how long nothing has come, on the monotonic clock: steps of the wall clock close nothing (W20).
type silence struct {
	after time.Duration // 0: not measured
	timer *time.Timer
}

// newSilence begins to measure. A run that ends when it is idle never closes anything by silence.
func newSilence(o *Options) *silence {
	s := &silence{after: o.IdleClose}
	if o.UntilIdle {
		s.after = 0
	}
	s.timer = time.NewTimer(max(s.after, 1))
	if s.after == 0 {
		s.timer.Stop()
	}
	return s
}

// lasts fires each time that it has lasted for another while.
func (s *silence) lasts() <-chan time.Time {
	if s.after == 0 {
		return nil
	}
	return s.timer.C
}

// broken begins to measure anew.
func (s *silence) broken() {
	if s.after > 0 {
		s.timer.Reset(s.after)
	}
}

// silent moves the stream time on by how long the silence has lasted, if the task stands at the end of the input and the
// broker has said so just now: what cannot be reached is not silent, nor is what was fetched while the task was held up
// and waits to be taken (I11: a reading must not be late because a process got no CPU).
func (l *life) silent() error {
	l.silence.broken()
	log := l.log.(*watchedLog)
	fetched := time.Duration(log.fetched.Load()) // first: it is stored last, so what is seen next is at least as new
	seen := log.seen.Load()
	if len(l.pending) > 0 || seen == nil || int64(l.next) < seen.next || seen.next < seen.HighWatermark || now()-fetched > 2*inputWait {
		return nil
	}
	ticked, err := l.task.Tick(l.silence.after.Milliseconds())
	if err != nil {
		return l.corrupt("tick", err)
	}
	if ticked {
		l.r.log.Info("no input: stream time moved on", "by_ms", l.silence.after.Milliseconds(), "to_ms", l.task.StreamTime())
	}
	return nil
}

// read takes what was fetched.
func (l *life) read(read *kafka.Read) error {
	if read.Err != nil {
		return read.Err
	}
	if len(read.Records) > 0 {
		l.silence.broken()
	}
	read.Part()
	l.fetched, l.pending, l.next = read, read.Records, record.InputPosition(read.Next)
	l.passed()
	return nil
}
