package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// flinkVersion is that of flink.xml, the newest that its Kafka connector is made for.
const flinkVersion = "2.2.1"

// flinks are the kinds of Apache Flink, all exactly once with checkpoints each second on local disk, objects reused and
// serializers of their own: state on the heap, or in RocksDB with incremental checkpoints and its timers on the heap.
// The collector for throughput and a heap that need not grow took a sixth of the CPU time away; small fetches, lz4, four
// parallel readers and larger network buffers gave nothing.
var flinks = []*peer{
	{flag: "flink", name: "Flink, heap", recovers: "its newest checkpoint", rate: true, resume: newestCheckpoint,
		java: flink("conf.state.backend.type=hashmap", "conf.taskmanager.memory.managed.size=0")},
	{flag: "flink-rocksdb", name: "Flink, RocksDB", recovers: "its newest checkpoint", rate: true, resume: newestCheckpoint,
		java: flink("conf.state.backend.type=rocksdb", "conf.execution.checkpointing.incremental=true",
			"conf.state.backend.rocksdb.timer-service.factory=HEAP", "conf.taskmanager.memory.managed.size=1g")},
}

// flink is the command of a kind.
func flink(settings ...string) func(*bench, *application) []string {
	return func(b *bench, a *application) []string {
		return slices.Concat([]string{"-Xms3g", "-Xmx3g", "-XX:+UseParallelGC", "--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
			"-cp", b.flink, "FlinkPeer", "group=" + a.name, "brokers=" + b.broker.Addr, "parallelism=2", "names=INCREMENTING",
			"conf.execution.checkpointing.dir=file://" + a.state, "conf.execution.checkpointing.interval=1s",
			"conf.execution.checkpointing.externalized-checkpoint-retention=RETAIN_ON_CANCELLATION", "conf.restart-strategy.type=none",
			"conf.pipeline.object-reuse=true", "conf.pipeline.generic-types=false",
			"conf.taskmanager.memory.network.min=128m", "conf.taskmanager.memory.network.max=128m",
			"source.isolation.level=read_committed", "source.max.poll.records=5000", "source.max.partition.fetch.bytes=4194304",
			"sink.transaction.timeout.ms=600000", "sink.batch.size=262144", "sink.linger.ms=20"}, settings)
	}
}

// newestCheckpoint names the newest complete checkpoint: one that has its metadata, which is written last.
func newestCheckpoint(a *application) ([]string, error) {
	complete, err := filepath.Glob(filepath.Join(a.state, "*", "chk-*", "_metadata"))
	if err != nil {
		return nil, err
	}
	var newest os.FileInfo
	path := ""
	for _, metadata := range complete {
		info, err := os.Stat(metadata)
		if err != nil {
			return nil, err
		}
		if newest == nil || info.ModTime().After(newest.ModTime()) {
			newest, path = info, filepath.Dir(metadata)
		}
	}
	if newest == nil {
		return nil, fmt.Errorf("%s has no complete checkpoint in %s", a.name, a.state)
	}
	return []string{"conf.execution.state-recovery.path=file://" + path}, nil
}
