package kafka

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Class says what an error means for the task that meets it (I8). Which broker answer has which class is a table in
// kafka/client; what a task does about each class is a table in DESIGN.md.
type Class uint8

const (
	// ClassTransient is the class of everything unknown: any failed or ambiguous commit, timeouts, network,
	// coordinator, leader and in-sync troubles. Close the writer, drop the overlays, recover. Never counted.
	ClassTransient Class = iota
	// ClassFenced means that another owner may have taken over. Close, ask the group, go on only if still the owner.
	ClassFenced
	// ClassPermanent is for what trying again cannot cure: refused record, missing rights, unsupported version. The task stops.
	ClassPermanent
	// ClassLost says that the position is outside the log, or the topic is another one. The task stops and says what is gone.
	ClassLost
	// ClassCorrupt says that what was read or held contradicts itself. The base is dropped too.
	ClassCorrupt
)

var classNames = [...]string{"transient", "fenced", "permanent", "lost", "corrupt"}

// String is the class in one word.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return fmt.Sprintf("class %d", uint8(c))
}

// Reasons that callers tell apart with errors.Is.
var (
	// ErrSeatTaken: another process joined the group with our instance id. The process ends with exit code 3; trying
	// again would only fence the other one, for ever (R22).
	ErrSeatTaken = errors.New("another process joined the group with our instance id")
	// ErrClosed: the part was closed.
	ErrClosed = errors.New("closed")
	// ErrAbandoned: the writer met an error before, and only Close may follow.
	ErrAbandoned = errors.New("the writer met an error before and must be closed")
)

// Error is an error with a class and a place.
type Error struct {
	Class     Class
	Op        string // what was being done, for example "end transaction"
	Topic     string // "" when no topic is concerned
	Partition int32  // meaningful with Topic; -1 for the whole topic
	Offset    int64  // -1 when none is known
	Size      int    // bytes of key, value and headers of the record concerned, 0 for none
	Hint      string // what to do next, "" for nothing
	Away      bool   // a certificate or a login is what it is about: TurnedAway
	Err       error
}

// Error says what happened and where.
func (e *Error) Error() string {
	place := ""
	if e.Topic != "" {
		place = " " + e.Topic
		if e.Partition >= 0 {
			place += fmt.Sprintf("/%d", e.Partition)
		}
		if e.Offset >= 0 {
			place += fmt.Sprintf(" at offset %d", e.Offset)
		}
	}
	if e.Size > 0 {
		place += fmt.Sprintf(" (record of %d bytes)", e.Size)
	}
	hint := ""
	if e.Hint != "" {
		hint = ": " + e.Hint
	}
	return fmt.Sprintf("%s%s: %v%s", e.Op, place, e.Err, hint)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of an error: that of the outermost *Error in its chain, ClassTransient for any other
// error, for what is not known is unknown.
func ClassOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return ClassTransient
}

// TurnedAway tells whether err is about a certificate or a login, ours or the brokers'. Such an error is transient to a job
// that runs: what has expired is renewed by somebody, and then it goes on. A start ends with it, for it waits for brokers
// that answer, and these have (D05).
func TurnedAway(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Away
}

// Panic is a panic of a goroutine that works for one task, as the error that ends the task's life: a panic of one task is
// not the end of the process (I8).
type Panic struct {
	Cause any
	Stack []byte
}

// Recovered is called by a deferred function with what recover returned, which is not nil. The error is of class Corrupt:
// what the goroutine was doing is half done.
func Recovered(cause any, op, topic string, partition int32) error {
	return &Error{Class: ClassCorrupt, Op: op, Topic: topic, Partition: partition, Offset: -1, Err: &Panic{cause, debug.Stack()}}
}

// Error tells the cause; the stack is for the log.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Cause) }

// NamesRecord tells whether an error is about one partition's records: the answer to a produce request is one for each.
func NamesRecord(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Topic != ""
}
