package config

import (
	"errors"
	"fmt"
	"time"
)

// Timeouts are the bounds of design section 4. They are one table because each must be longer than those before it.
type Timeouts struct {
	Heartbeat   time.Duration // between heartbeats of the group
	Session     time.Duration // without a heartbeat: the group gives our partitions away
	Delivery    time.Duration // without an answer from a broker: the request has failed
	Transaction time.Duration // the broker ends what a dead writer left open
	Watchdog    time.Duration // a step of a task without an end: the task is stuck
	Restore     time.Duration // a restore without progress: health is red
}

// DefaultTimeouts are the timeouts of this version; no key changes them.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Heartbeat:   250 * time.Millisecond,
		Session:     6 * time.Second,
		Delivery:    10 * time.Second,
		Transaction: 15 * time.Second,
		Watchdog:    20 * time.Second,
		Restore:     30 * time.Second,
	}
}

// Check returns every inequality that does not hold, joined, or nil. A delivery that outlives its transaction would
// write into the next one; a watchdog that barks before the transaction's end would stop a task that only waits.
func (t Timeouts) Check() error {
	var faults []error
	for _, pair := range []struct {
		short, long string
		a, b        time.Duration
	}{
		{"0", "heartbeat", 0, t.Heartbeat},
		{"heartbeat", "session", t.Heartbeat, t.Session},
		{"0", "delivery", 0, t.Delivery},
		{"delivery", "transaction", t.Delivery, t.Transaction},
		{"transaction", "watchdog", t.Transaction, t.Watchdog},
		{"0", "restore", 0, t.Restore},
	} {
		if pair.a >= pair.b {
			faults = append(faults, fmt.Errorf("timeouts: %s (%v) must be less than %s (%v)", pair.short, pair.a, pair.long, pair.b))
		}
	}
	return errors.Join(faults...)
}
