package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

var errDead = errors.New("this process is dead")

// life is one process: from its start until it has ended or was ended. All its effects pass gate, which holds them back
// while it is paused and lets none happen after its death.
type life struct {
	cancel context.CancelFunc
	ended  chan struct{} // closed when App.Run has returned and nothing of it runs any more
	err    error         // of Run; valid when ended is closed

	mu      sync.Mutex
	dead    bool
	death   chan struct{} // closed at the death
	over    chan struct{} // closed when the process has come to its end
	awake   chan struct{} // nil, or closed when a pause ends
	hurt    *hurt         // what is to happen to it next; nil for nothing
	struck  chan struct{} // closed when its point was met
	counts  map[string]int
	members map[string]string // of the groups
}

func newLife(cancel context.CancelFunc) *life {
	return &life{cancel: cancel, ended: make(chan struct{}), death: make(chan struct{}), over: make(chan struct{}), struck: make(chan struct{}), counts: map[string]int{}, members: map[string]string{}}
}

// arm says what is to happen next. Effects are counted from here.
func (l *life) arm(h *hurt) (struck <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hurt, l.struck, l.counts = h, make(chan struct{}), map[string]int{}
	return l.struck
}

// pass carries an effect out, unless the process dies before it. When it dies after it nobody learns of it.
func (l *life) pass(ctx context.Context, op string, do func() error) error {
	if err := l.gate(ctx, op, false); err != nil {
		return err
	}
	err := do()
	if dead := l.gate(ctx, op, true); dead != nil {
		return dead
	}
	return err
}

// gate is where hurts strike. An error means that the process is dead, or that its patience is over.
func (l *life) gate(ctx context.Context, op string, done bool) error {
	l.mu.Lock()
	if !done {
		l.counts[op]++
	}
	if h := l.hurt; h != nil && !l.dead && h.Op == op && h.N == l.counts[op] && h.Done == done {
		l.strike()
	}
	awake := l.awake
	l.mu.Unlock()
	if awake != nil {
		select {
		case <-awake:
		case <-l.death:
		case <-ctx.Done():
			return &kafka.Error{Class: kafka.ClassTransient, Op: op, Offset: -1, Err: ctx.Err()}
		}
	}
	select {
	case <-l.death:
		return &kafka.Error{Class: kafka.ClassTransient, Op: op, Offset: -1, Err: errDead}
	case <-l.over:
		return &kafka.Error{Class: kafka.ClassTransient, Op: op, Offset: -1, Err: errDead}
	default:
		return nil
	}
}

// strike does what is armed; mu is held.
func (l *life) strike() {
	switch l.hurt.Kind {
	case "crash", "power":
		l.dead = true
		close(l.death)
		l.cancel()
	case "pause":
		l.awake = make(chan struct{})
	}
	l.hurt = nil
	close(l.struck)
}

// strikeNow is for hurts whose point did not come in time.
func (l *life) strikeNow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hurt != nil && !l.dead {
		l.strike()
	}
}

// wake ends a pause.
func (l *life) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.awake != nil {
		close(l.awake)
		l.awake = nil
	}
}

// kill ends the process without anything that it could still do, and waits until nothing of it runs any more.
func (l *life) kill() {
	l.mu.Lock()
	l.hurt = nil
	if !l.dead {
		l.dead = true
		close(l.death)
		l.cancel()
	}
	l.mu.Unlock()
	<-l.ended
}

// sleep waits on virtual time; false when the process died meanwhile.
func (l *life) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.death:
		return false
	case <-l.over:
		return false
	}
}
