package kafka

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// Room bounds what the reads of many logs take in memory together where records are packed so tightly that a single batch, which
// is the least that can be read, is far more than was asked for (I13, D15). Who is above his share waits before he unpacks more
// until others have used theirs up. As many batches are unpacked at the same time as there are processors, and by so many
// the limit can be exceeded: what a batch holds is not known before. Safe for concurrent use.
type Room struct {
	limit int64
	turns chan struct{}

	mu    sync.Mutex
	taken int64
	given chan struct{} // closed when some was given back
}

// NewRoom makes a Room of so many bytes.
func NewRoom(bytes int64) *Room {
	return &Room{limit: bytes, turns: make(chan struct{}, runtime.GOMAXPROCS(0)), given: make(chan struct{})}
}

// roomKey is where a context has its share.
type roomKey struct{}

// Share is what one read may take of a Room: nothing for its first bytes, which are planned for elsewhere.
type Share struct {
	room *Room
	free int64
}

// with lets a Fetch under the context unpack within the room. It is the reader's choice and not the Log's: only he knows when the
// records have served.
func (r *Room) with(ctx context.Context, free int64) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, roomKey{}, &Share{r, free})
}

// ShareOf is the share that a Log's Fetch has by its context; nil is one without limits.
func ShareOf(ctx context.Context) *Share {
	s, _ := ctx.Value(roomKey{}).(*Share)
	return s
}

// Enter waits for room, until ctx ends or for so long, and tells whether there is some. Then Leave must follow.
func (s *Share) Enter(ctx context.Context, patience time.Duration) bool {
	if s == nil {
		return true
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case s.room.turns <- struct{}{}:
	case <-ctx.Done():
		return false
	case <-timer.C:
		return false
	}
	for {
		s.room.mu.Lock()
		taken, given := s.room.taken, s.room.given
		s.room.mu.Unlock()
		if taken < s.room.limit {
			return true
		}
		select {
		case <-given:
			continue
		case <-ctx.Done():
		case <-timer.C:
		}
		<-s.room.turns
		return false
	}
}

// Leave takes what was unpacked into account, until Give.
func (s *Share) Leave(bytes int64) *Held {
	if s == nil {
		return nil
	}
	defer func() { <-s.room.turns }()
	if bytes <= s.free {
		return nil
	}
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	s.room.taken += bytes - s.free
	return &Held{s.room, bytes - s.free}
}

// Held is what somebody has taken of a Room. It belongs to one goroutine at a time.
type Held struct {
	room  *Room
	bytes int64
}

// Give gives it back, once: the records that it was taken for have served. Nil holds nothing.
func (h *Held) Give() {
	if h == nil || h.bytes == 0 {
		return
	}
	h.room.mu.Lock()
	defer h.room.mu.Unlock()
	h.room.taken -= h.bytes
	h.bytes = 0
	close(h.room.given)
	h.room.given = make(chan struct{})
}
