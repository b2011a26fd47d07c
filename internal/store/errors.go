package store

import (
	"errors"
	"fmt"
)

// Kind says what an error means for whoever has to go on without the checkpoint.
type Kind uint8

const (
	// KindIO means that the file system refused an operation. An attempt to write is over, what was there before is untouched;
	// a file that could not be read may be in order.
	KindIO Kind = iota
	// KindDamaged means that the bytes of a checkpoint contradict its checksums or its format. Set the file aside.
	KindDamaged
	// KindNewer means that a newer program wrote the file. It may be in perfect order: leave it where it is.
	KindNewer
	// KindForeign means that the checkpoint belongs to another task, topic or cluster. Set the file aside.
	KindForeign
	// KindCorrupt means that the task's memory contradicts itself: what a scan copied is not what the running digest says.
	// Nothing was published, and the store is not to be trusted (class Corrupt of I8).
	KindCorrupt
)

// String is the kind in one word.
func (k Kind) String() string {
	return [...]string{"i/o", "damaged", "newer", "foreign", "corrupt"}[k]
}

// Error is an error of a checkpoint file, or of a store's memory.
type Error struct {
	Kind Kind
	Path string // the file or directory, "" when the store's memory is concerned
	Err  error
}

// Error says what happened and where.
func (e *Error) Error() string {
	if e.Path == "" {
		return "store: " + e.Err.Error()
	}
	return fmt.Sprintf("checkpoint %s: %v", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost *Error in err's chain, and KindIO for any other error.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindIO
}
