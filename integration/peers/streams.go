package main

import "slices"

// streams are the kinds of Kafka Streams, all exactly once (v2) with two threads, commits each second, large polls and a
// static member: what one would tune first. One has the default store and a large cache, one also the transactional
// state stores of 4.4, which are off by default, one the store without disk.
var streams = []*peer{
	{flag: "streams-transactional", name: "Kafka Streams, transactional store", recovers: "local store as it was left", updates: true,
		java: kafkaStreams("store=local", "conf.statestore.cache.max.bytes=536870912", "conf.enable.transactional.statestores=true")},
	{flag: "streams", name: "Kafka Streams, local store", recovers: "local store as it was left", rate: true, lost: true, updates: true,
		java: kafkaStreams("store=local", "conf.statestore.cache.max.bytes=536870912")},
	{flag: "streams-memory", name: "Kafka Streams, memory store", recovers: "changelog", rate: true, updates: true,
		java: kafkaStreams("store=memory", "conf.statestore.cache.max.bytes=0")},
}

// kafkaStreams is the command of a kind.
func kafkaStreams(settings ...string) func(*bench, *application) []string {
	return func(b *bench, a *application) []string {
		return slices.Concat([]string{"-Xmx2g", "-cp", b.streams, "Peer", "conf.application.id=" + a.name, "conf.bootstrap.servers=" + b.broker.Addr,
			"conf.state.dir=" + a.state, "conf.num.stream.threads=2", "conf.commit.interval.ms=1000",
			"conf.group.instance.id=one", "conf.restore.consumer.max.poll.records=10000", "conf.consumer.max.poll.records=5000"}, settings)
	}
}
