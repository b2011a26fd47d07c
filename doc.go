// Package tidemark runs stateful stream processing on Kafka whose state survives any crash exactly and proves it.
//
// An App reads one input topic and keeps one task per input partition: its state, its changelog partition, its
// transactional writer. Every change of state is written to the changelog in the same transaction as the results it
// leads to (I3) and counts as applied only when that transaction is known to have committed (I2); whatever is unknown is
// treated as a crash and goes through the one recovery path (I8). The rules are numbered in ARCHITECTURE.md.
//
// A job is a Processor. Windows makes one of windowed aggregates, the job that the tidemark command reads out of a file; a
// program may bring its own. Connect reaches the brokers, and package tidemarktest has brokers in memory for tests.
package tidemark
