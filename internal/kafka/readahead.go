package kafka

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// Read is one fetch of a ReadAhead, or the error that ended it.
type Read struct {
	Fetched
	Err error
}

// Served lets go of the records, which must not be used any more, and gives back what they have taken of a Room. Somewhere a
// pointer to r may live on, in the frame of a function that waits for the next one.
func (r *Read) Served() {
	r.Held.Give()
	r.Records, r.Held = nil, nil
}

// Part makes the last record's bytes its own: whoever works on records one after the other may still look at the one he had
// last, and must not keep all that came with it in memory.
func (r *Read) Part() {
	if len(r.Records) == 0 {
		return
	}
	last := &r.Records[len(r.Records)-1]
	last.Key, last.Value = bytes.Clone(last.Key), bytes.Clone(last.Value)
	for i := range last.Headers {
		last.Headers[i].Value = bytes.Clone(last.Headers[i].Value)
	}
}

// ReadAhead fetches from a Log while its consumer works on what was fetched before: one fetch waits to be taken while
// the next one is under way. So at most three fetches are in memory, the consumer's own among them, each of about MaxBytes as
// it comes and twice that decompressed (I13, S71): where records were packed more tightly, less is asked for. It serves input,
// replay and followers alike.
type ReadAhead struct {
	reads chan *Read
	stop  context.CancelFunc
	ended chan struct{}
}

// Pace says how a ReadAhead fetches. Its functions are called before each fetch, by another goroutine than the caller of
// NewReadAhead.
type Pace struct {
	MaxBytes func() int           // of one fetch, as it comes
	Wait     time.Duration        // how long one fetch waits for something to come; it does not delay anything
	Room     *Room                // that unpacked records share with those of others; nil for one without limits
	Apart    func() time.Duration // between the beginnings of a fetch that reached the end of the log and the next one; nil is 0
}

// NewReadAhead starts to read log from position on. Until Stop has returned the log must not be used otherwise; it is
// not closed by it.
func NewReadAhead(log Log, position int64, pace Pace) *ReadAhead {
	ctx, stop := context.WithCancel(context.Background())
	r := &ReadAhead{reads: make(chan *Read, 1), stop: stop, ended: make(chan struct{})}
	go r.run(ctx, log, position, pace)
	return r
}

// Reads delivers the fetches in order. A fetch without records is delivered when it moved the position (markers,
// aborted batches, holes) or when the partition's offsets have changed: the end of a log can be seen in no other way.
// The first error is delivered last; then, and after Stop, the channel is closed.
func (r *ReadAhead) Reads() <-chan *Read { return r.reads }

// Stop ends the reading and waits until the log is free. What was read and not taken is dropped.
func (r *ReadAhead) Stop() {
	r.stop()
	<-r.ended
	for read := range r.reads {
		read.Served()
	}
}

func (r *ReadAhead) run(ctx context.Context, log Log, position int64, pace Pace) {
	defer close(r.ended)
	defer close(r.reads)
	known := Offsets{Start: -1, Stable: -1, HighWatermark: -1}
	packed := packedAtFirst
	for {
		began := time.Now()
		most := pace.MaxBytes()
		f, err := fetch(pace.Room.with(ctx, 2*int64(most)), log, position, max(1, int(float64(most)/packed)), pace.Wait)
		read := &Read{Fetched: f, Err: err}
		if ctx.Err() != nil {
			read.Served()
			return
		}
		if err == nil && len(f.Records) == 0 && f.Next == position && f.Offsets == known {
			continue // nothing happened within wait
		}
		position, known, packed = f.Next, f.Offsets, tightness(&f, packed)
		caughtUp := len(f.Records) > 0 && f.Next >= f.Stable
		f.Records = nil // this frame lives on
		select {
		case r.reads <- read:
		case <-ctx.Done():
			read.Served()
			return
		}
		if err != nil {
			return
		}
		if pace.Apart != nil && caughtUp && !pause(ctx, time.Until(began.Add(pace.Apart()))) {
			return
		}
	}
}

// packedAtFirst is how tightly records are taken to be packed before any were seen.
const packedAtFirst = 8.0

// tightness is how many times more than twice what came the records of a fetch are, 1 at least; a fetch without records says
// nothing new.
func tightness(f *Fetched, before float64) float64 {
	if len(f.Records) == 0 || f.Bytes == 0 {
		return before
	}
	plain := 0
	for i := range f.Records {
		plain += len(f.Records[i].Key) + len(f.Records[i].Value)
	}
	return max(1, float64(plain)/float64(2*f.Bytes))
}

// pause waits for d and tells whether the context is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// fetch makes a panic in the decoding of what was fetched an error of the one who reads it.
func fetch(ctx context.Context, log Log, position int64, maxBytes int, wait time.Duration) (f Fetched, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = Recovered(cause, fmt.Sprintf("read from offset %d", position), "", -1)
		}
	}()
	return log.Fetch(ctx, position, maxBytes, wait)
}
