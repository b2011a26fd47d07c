package conformance

import (
	"slices"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

var adminTests = map[string]func(*suite){
	"Cluster": func(s *suite) {
		admin := must[kafka.Admin](s)(s.Cluster.Admin())
		defer admin.Close()
		id, version, err := admin.Cluster(s.ctx)
		if err != nil || id == "" || version < 2 != s.Protocol1 {
			s.Fatalf("cluster %q, transaction.version %d, %v", id, version, err)
		}
		if err := admin.Transactions(s.ctx); err != nil {
			s.Error(err)
		}
	},

	"Topics": func(s *suite) {
		admin := must[kafka.Admin](s)(s.Cluster.Admin())
		defer admin.Close()
		none, name := s.name("none"), s.name("topic")
		spec := kafka.TopicSpec{Name: name, Partitions: 3, Configs: map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "7200000"}}
		s.ok(admin.Create(s.ctx, spec))
		before := must[map[string]kafka.TopicInfo](s)(admin.Topics(s.ctx, none, name))
		spec.Partitions = 5 // exists already: no error, no change
		s.ok(admin.Create(s.ctx, spec))
		after := must[map[string]kafka.TopicInfo](s)(admin.Topics(s.ctx, name, none))
		if len(before) != 1 || len(after) != 1 {
			s.Fatalf("topics that do not exist were described: %v, %v", before, after)
		}
		if names := must[[]string](s)(admin.Names(s.ctx)); !slices.Contains(names, name) || slices.Contains(names, none) {
			s.Errorf("topics %q, of which there is %s and not %s", names, name, none)
		}
		b, a := before[name], after[name]
		if !b.ID.Equal(a.ID) || a.Name != name || a.Partitions != 3 || a.ReplicationFactor != 1 || len(a.Leaderless) != 0 {
			s.Errorf("%+v, then %+v", b, a)
		}
		if c := a.Configs; c["cleanup.policy"] != "compact" || c["delete.retention.ms"] != "7200000" || c["max.message.bytes"] == "" {
			s.Errorf("settings %v", c)
		}
		if got := must[map[string]kafka.TopicInfo](s)(admin.Topics(s.ctx)); len(got) != 0 {
			s.Errorf("asked for nothing, got %v", got)
		}
	},

	// Whoever holds the last stable offset can be named (S47).
	"OpenTransactions": func(s *suite) {
		admin := must[kafka.Admin](s)(s.Cluster.Admin())
		defer admin.Close()
		topic := s.topic(2)
		if open := must[[]kafka.OpenTransaction](s)(admin.OpenTransactions(s.ctx, topic, 1)); len(open) != 0 {
			s.Fatalf("nothing was written, open are %+v", open)
		}
		var producers []kafka.Producer
		var writers []kafka.Writer
		for range 2 {
			w := must[kafka.Writer](s)(s.Cluster.Writer(s.name("txn")))
			defer w.Close()
			producers = append(producers, must[kafka.Producer](s)(w.Fence(s.ctx)))
			must[[]int64](s)(w.Send(s.ctx, messages(topic, 1, 0, 3)))
			writers = append(writers, w)
		}
		for first := range 3 {
			var open []kafka.OpenTransaction
			for end := time.Now().Add(limit); ; { // an answered commit stays open until its marker is written (I5)
				open = must[[]kafka.OpenTransaction](s)(admin.OpenTransactions(s.ctx, topic, 1))
				if len(open) == 2-first {
					break
				}
				if len(open) < 2-first || time.Now().After(end) {
					s.Fatalf("%d of 2 are committed, open are %+v", first, open)
				}
			}
			for i, o := range open {
				if at := first + i; o.ID != producers[at].ID || o.Start != int64(3*at) {
					s.Errorf("%d: open is %+v, want producer %+v from offset %d", first, o, producers[at], 3*at)
				}
			}
			if first < 2 {
				s.ok(writers[first].Commit(s.ctx))
			}
		}
		s.fails(second(admin.OpenTransactions(s.ctx, s.name("none"), 0)), kafka.ClassTransient)
	},

	"RefusedTopic": func(s *suite) {
		if s.AnyTopicName {
			return
		}
		admin := must[kafka.Admin](s)(s.Cluster.Admin())
		defer admin.Close()
		s.fails(admin.Create(s.ctx, kafka.TopicSpec{Name: "no spaces allowed", Partitions: 1}), kafka.ClassPermanent)
	},
}

func second[T any](_ T, err error) error { return err }
