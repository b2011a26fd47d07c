package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
)

// streams is an application of Kafka Streams.
type streams struct {
	name, kind string
	args       []string
	state      string
}

// kinds are the settings of the peer, all exactly once (v2) with two threads, commits each second, large polls and a
// static member: what one would tune first. "local" has the default store and a large cache; "transactional" also the
// transactional state stores of 4.4, which are off by default; "memory" the store without disk.
var kinds = map[string][]string{
	"local":         {"store=local", "conf.statestore.cache.max.bytes=536870912"},
	"transactional": {"store=local", "conf.statestore.cache.max.bytes=536870912", "conf.enable.transactional.statestores=true"},
	"memory":        {"store=memory", "conf.statestore.cache.max.bytes=0"},
}

// application makes the topic of a new application.
func (b *bench) application(kind, input string, partitions int32, target int) (*streams, error) {
	name := b.name("streams")
	s := &streams{name: name, kind: kind, state: filepath.Join(b.dir, name+".state")}
	s.args = slices.Concat([]string{"-Xmx2g", "-cp", b.classes, "Peer", "input=" + input, "output=" + name + "-hourly",
		"target=" + strconv.Itoa(target), "conf.application.id=" + name, "conf.bootstrap.servers=" + b.broker.Addr,
		"conf.state.dir=" + s.state, "conf.num.stream.threads=2", "conf.commit.interval.ms=1000",
		"conf.group.instance.id=one", "conf.restore.consumer.max.poll.records=10000", "conf.consumer.max.poll.records=5000"}, kinds[kind])
	return s, b.topics(partitions, name+"-hourly")
}

func (b *bench) stream(s *streams) (*process, error) { return b.start("java", s.args...) }

// offsets are the offsets that the application has committed, by input partition; missing where none is.
func (b *bench) offsets(s *streams, input string) (map[int32]int64, error) {
	all, err := b.admin.FetchOffsets(b.ctx, s.name)
	if err != nil {
		return nil, fmt.Errorf("offsets of %s: %w", s.name, err)
	}
	at := map[int32]int64{}
	for p, o := range all[input] {
		at[p] = o.At
	}
	return at, nil
}
