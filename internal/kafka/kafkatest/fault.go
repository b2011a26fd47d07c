package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// Op names an operation of the cluster.
type Op string

// The operations that pass the hook.
const (
	OpFence        Op = "fence"
	OpSend         Op = "send"
	OpCommit       Op = "commit"
	OpOffsets      Op = "offsets"
	OpFetch        Op = "fetch"
	OpJoin         Op = "join"
	OpAsk          Op = "ask"
	OpSetOffset    Op = "set-offset"
	OpGroupOffsets Op = "group-offsets"
	OpLeave        Op = "leave"
	OpCluster      Op = "cluster"
	OpTopics       Op = "topics"
	OpCreate       Op = "create"
	OpOpen         Op = "open-transactions"
	OpMembers      Op = "members"
)

// Call is one operation about to happen.
type Call struct {
	Seq             int // counts all calls, from 1
	N               int // counts the calls of this Op, from 1
	Op              Op
	Topic           string
	Partition       int32
	Position        int64 // of OpFetch
	TransactionalID string
	Group           string
	Messages        []kafka.Message // of OpSend; not to be kept
}

// Verdict is what shall become of a call. The zero Verdict lets it proceed.
type Verdict struct {
	action action
	err    error
	part   int
	delay  time.Duration
}

type action uint8

const (
	proceed action = iota
	failBefore
	failAfter
	hang
	slow
)

// Fail makes the call fail with err before it has any effect.
func Fail(err error) Verdict { return Verdict{action: failBefore, err: err} }

// ApplyThenFail lets the call take effect and loses the answer: the ambiguous outcome of I8.
func ApplyThenFail(err error) Verdict { return Verdict{action: failAfter, err: err, part: -1} }

// ApplyPart writes the first n messages of a send and then fails with err.
func ApplyPart(n int, err error) Verdict { return Verdict{action: failAfter, err: err, part: n} }

// Hang makes the call wait until its context ends, without any effect.
func Hang() Verdict { return Verdict{action: hang} }

// Slow lets the call proceed after d, or fail if its context ends before that.
func Slow(d time.Duration) Verdict { return Verdict{action: slow, delay: d} }

// faults holds the hook and counts.
type faults struct {
	hook     func(Call) Verdict
	seq      int
	calls    map[Op]int
	injected map[Op]int
}

// Inject sets the hook that every operation passes before it happens; nil removes it. The hook is asked
// about one call at a time, however many are made side by side, so it may keep what it likes. It may use the cluster's
// controls (moving the log start between two requests is done here), but no operation that passes a hook, and it must not
// wait: that is what Hang and Slow are for.
func (c *Cluster) Inject(hook func(Call) Verdict) {
	if hook == nil {
		c.InjectReentrant(nil)
		return
	}
	var turn sync.Mutex
	c.InjectReentrant(func(call Call) Verdict {
		turn.Lock()
		defer turn.Unlock()
		return hook(call)
	})
}

// InjectReentrant is Inject for a hook that makes calls itself: it is asked about each as it comes, also side by side.
func (c *Cluster) InjectReentrant(hook func(Call) Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults.hook = hook
}

// Injected returns how many calls of an operation did not just proceed. A fault test asserts that it is not zero: a
// fault that was never met proves nothing.
func (c *Cluster) Injected(op Op) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults.injected[op]
}

// Calls returns how many calls of an operation there have been.
func (c *Cluster) Calls(op Op) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults.calls[op]
}

// pass takes a call through the hook. apply is run with the lock held unless the call fails before it; part bounds how
// much of it takes effect, -1 for all.
func (c *Cluster) pass(ctx context.Context, call Call, apply func(part int) error) error {
	op := string(call.Op)
	if err := ctx.Err(); err != nil {
		return fail(kafka.ClassTransient, op, call.Topic, call.Partition, -1, err)
	}
	v := c.judge(call)
	switch v.action {
	case failBefore:
		return v.err
	case hang:
		<-ctx.Done()
		return fail(kafka.ClassTransient, op, call.Topic, call.Partition, -1, ctx.Err())
	case slow:
		select {
		case <-ctx.Done():
			return fail(kafka.ClassTransient, op, call.Topic, call.Partition, -1, ctx.Err())
		case <-time.After(v.delay):
		}
	}
	part := -1
	if v.action == failAfter {
		part = v.part
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := apply(part); err != nil {
		return err
	}
	if v.action == failAfter {
		return v.err
	}
	return nil
}

// judge asks the hook and counts.
func (c *Cluster) judge(call Call) Verdict {
	c.mu.Lock()
	f := &c.faults
	if f.calls == nil {
		f.calls, f.injected = map[Op]int{}, map[Op]int{}
	}
	f.seq++
	f.calls[call.Op]++
	call.Seq, call.N = f.seq, f.calls[call.Op]
	hook := f.hook
	c.mu.Unlock()
	if hook == nil {
		return Verdict{}
	}
	v := hook(call)
	if v.action != proceed {
		c.mu.Lock()
		f.injected[call.Op]++
		c.mu.Unlock()
	}
	return v
}

// Causes of the errors that the cluster gives by itself, named as brokers name them.
var (
	errUnknownTopic  = errors.New("UNKNOWN_TOPIC_OR_PARTITION")
	errTopicID       = errors.New("INCONSISTENT_TOPIC_ID")
	errProducerEpoch = errors.New("INVALID_PRODUCER_EPOCH")
	errFenced        = errors.New("PRODUCER_FENCED")
	errMember        = errors.New("UNKNOWN_MEMBER_ID")
	errOrder         = errors.New("not fenced, fenced already, or no transaction open")
)

func fail(class kafka.Class, op, topic string, partition int32, offset int64, err error) error {
	return &kafka.Error{Class: class, Op: op, Topic: topic, Partition: partition, Offset: offset, Err: err}
}

func outOfRange(op, topic string, partition int32, position int64, o kafka.Offsets) error {
	return &kafka.Error{
		Class: kafka.ClassLost, Op: op, Topic: topic, Partition: partition, Offset: position,
		Err: fmt.Errorf("OFFSET_OUT_OF_RANGE: position %d is outside the log's [%d, %d)", position, o.Start, o.HighWatermark),
	}
}
