// Package sim is a simulation: whole instances of the real App, with their real tasks, recovery and checkpoint code, live
// over the fake cluster (kafkatest) and crash file systems (storetest) on virtual time (testing/synctest), and are hurt
// as a scenario says. A scenario is drawn from a seed: partitions, instances, windows of every kind, functions, updates,
// quorum, dedup, a relay that hands readings on by key, what is fed when, and every fault. At the end everything that was
// committed is compared with the oracle.
//
// What is simulated. A crash ends an instance before or after a named effect, its n-th request of a kind, file
// operation, or step: nothing of it happens afterwards, and its goroutines are made to end. A power failure takes away
// in addition what its disk had not made durable. A pause holds every effect back until the others have taken over. The
// cluster fails requests before and after they took effect, is away, holds markers back, ends transactions, compacts,
// and its clock jumps. A disk fails, fills up, loses what an fsync was to save, is slow.
//
// What is not. The state directory's own small files (lock, id) are on the real disk. A group rebalances in no time.
// Goroutines run in an order that the Go scheduler chooses, so a seed fixes the scenario, not every interleaving: faults
// are placed by counting effects of one kind, which hardly depends on it, and a replay tries a seed many times.
//
// The code is in the tests. make sim SEED=.. RUNS=..
package sim
