// Command peers measures tidemark beside Kafka Streams on one broker of Apache Kafka, in one run, and prints the tables of
// docs/performance.md: readings per second, the time from SIGKILL to the first commit, latency and rate of commits with
// many tasks, and memory. Only ratios of one run mean anything; what the two do not do alike is printed with them.
//
// It starts the broker by itself (kafkarun) and needs a JDK of 17 or later and Maven. `make bench-kafka` runs it.
package main
