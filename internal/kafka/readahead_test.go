package kafka_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// script is a Log that answers what it is told to, and then waits.
type script struct {
	kafka.Log
	answers []kafka.Read
	asked   chan int64 // positions, in order
	sizes   chan int   // what each fetch asks for, where that is of interest
	busy    atomic.Int32
}

func (s *script) Fetch(ctx context.Context, position int64, maxBytes int, _ time.Duration) (kafka.Fetched, error) {
	if s.busy.Add(1) != 1 {
		panic("two fetches of one log at once")
	}
	defer s.busy.Add(-1)
	s.asked <- position
	if s.sizes != nil {
		s.sizes <- maxBytes
	}
	if len(s.answers) == 0 {
		<-ctx.Done()
		return kafka.Fetched{}, ctx.Err()
	}
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a.Fetched, a.Err
}

func told(next int64, records int, high int64) kafka.Read {
	return kafka.Read{Fetched: kafka.Fetched{Records: make([]kafka.Record, records), Next: next, Offsets: kafka.Offsets{Stable: high, HighWatermark: high}}}
}

func begin(answers ...kafka.Read) (*script, *kafka.ReadAhead) {
	s := &script{answers: answers, asked: make(chan int64, 100)}
	return s, kafka.NewReadAhead(s, 5, kafka.Pace{MaxBytes: func() int { return 1000 }, Wait: time.Second})
}

// Positions follow each other, and a fetch that tells nothing is not delivered; one that moves over markers or sees a
// new end is.
func TestReadAheadDeliversWhatHappens(t *testing.T) {
	_, r := begin(
		told(5, 0, 5), // the first always tells something
		told(5, 0, 5), // nothing
		told(8, 3, 9),
		told(9, 0, 9),  // over a marker
		told(9, 0, 9),  // nothing
		told(9, 0, 12), // something open has been written
		told(12, 2, 12),
	)
	defer r.Stop()
	for i, want := range []kafka.Read{told(5, 0, 5), told(8, 3, 9), told(9, 0, 9), told(9, 0, 12), told(12, 2, 12)} {
		got := <-r.Reads()
		if got.Err != nil || got.Next != want.Next || len(got.Records) != len(want.Records) || got.Offsets != want.Offsets {
			t.Fatalf("read %d: %+v, want %+v", i, got, want)
		}
	}
}

// I13: no more than one fetch waits while one is under way.
func TestReadAheadIsBounded(t *testing.T) {
	s, r := begin(told(6, 1, 9), told(7, 1, 9), told(8, 1, 9), told(9, 1, 9))
	defer r.Stop()
	for _, want := range []int64{5, 6} { // the first waits to be taken, the second to be delivered
		if at := <-s.asked; at != want {
			t.Fatalf("fetched at %d, want %d", at, want)
		}
	}
	select {
	case at := <-s.asked:
		t.Fatalf("fetched at %d while two fetches wait", at)
	case <-time.After(50 * time.Millisecond): // nothing may come, so there is nothing to wait for
	}
	if got := <-r.Reads(); got.Next != 6 {
		t.Fatal(got)
	}
	if at := <-s.asked; at != 7 {
		t.Fatalf("fetched at %d, want 7", at)
	}
}

// What is asked for follows from how tightly the last records were packed: in memory a fetch takes about twice MaxBytes, with
// whatever it is compressed (S71).
func TestReadAheadBoundsWhatIsDecompressed(t *testing.T) {
	packed := func(next int64, wire, plain int) kafka.Read {
		r := told(next, 1, 99)
		r.Bytes, r.Records[0].Value = wire, make([]byte, plain)
		return r
	}
	s := &script{asked: make(chan int64, 100), sizes: make(chan int, 100),
		answers: []kafka.Read{packed(6, 125, 125), packed(7, 1000, 8000), told(8, 0, 99), packed(9, 250, 500), packed(10, 1000, 2000), told(11, 0, 99)}}
	r := kafka.NewReadAhead(s, 5, kafka.Pace{MaxBytes: func() int { return 1000 }, Wait: time.Second})
	defer r.Stop()
	for i, want := range []int{125, 1000, 250, 250, 1000, 1000} {
		if got := <-s.sizes; got != want {
			t.Errorf("fetch %d asks for %d bytes, want %d", i, got, want)
		}
		<-r.Reads()
	}
}

func TestReadAheadEndsWithItsError(t *testing.T) {
	lost := &kafka.Error{Class: kafka.ClassLost, Err: errors.New("gone")}
	_, r := begin(told(6, 1, 9), kafka.Read{Err: lost})
	defer r.Stop()
	if got := <-r.Reads(); got.Err != nil || got.Next != 6 {
		t.Fatal(got)
	}
	if got := <-r.Reads(); !errors.Is(got.Err, lost) {
		t.Fatal(got)
	}
	if got, open := <-r.Reads(); open {
		t.Fatal(got)
	}
}

func TestReadAheadStops(t *testing.T) {
	for taken := range 3 {
		s, r := begin(told(6, 1, 9), told(7, 1, 9), told(8, 1, 9))
		for range taken {
			<-r.Reads()
		}
		r.Stop()
		if s.busy.Load() != 0 {
			t.Fatal("a fetch is still under way")
		}
		for range r.Reads() { // ends
		}
		r.Stop()
	}
}

// A fetch that reached the end of the log is followed by the next one when its time has come, one that did not, or
// brought nothing, at once.
func TestReadAheadKeepsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{asked: make(chan int64, 100), answers: []kafka.Read{told(7, 2, 9), told(9, 2, 9), told(10, 0, 10), told(12, 2, 12)}}
		r := kafka.NewReadAhead(s, 5, kafka.Pace{MaxBytes: func() int { return 1000 }, Wait: time.Second,
			Apart: func() time.Duration { return 50 * time.Millisecond }})
		defer r.Stop()
		began := time.Now()
		for i, want := range []struct {
			position int64
			at       time.Duration
		}{{5, 0}, {7, 0}, {9, 50 * time.Millisecond}, {10, 50 * time.Millisecond}, {12, 100 * time.Millisecond}} {
			if i > 0 {
				<-r.Reads()
			}
			if position, at := <-s.asked, time.Since(began); position != want.position || at != want.at {
				t.Errorf("fetch %d from %d after %s, want from %d after %s", i, position, at, want.position, want.at)
			}
		}
	})
}
