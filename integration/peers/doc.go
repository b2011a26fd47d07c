// Command peers measures tidemark beside Kafka Streams and Apache Flink on one broker of Apache Kafka, in one run, and prints the
// tables of docs/performance.md: readings per second, the time from SIGKILL to the first commit, latency and rate of
// commits with many tasks, and memory. Only ratios of one run mean anything; what the programs do not do alike is said in
// docs/performance.md. The results of each run for the rate, and of each restored run of Flink, are read back and must hold
// every reading once.
//
// It starts the broker by itself (kafkarun) and needs a JDK of 17 or later and Maven. `make bench-kafka` runs it.
package main
