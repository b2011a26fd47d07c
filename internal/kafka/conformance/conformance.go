// Package conformance holds the tests that every implementation of package kafka has to pass: kafka/client against the
// embedded broker and against Apache Kafka, and the in-memory fake that other rooms are tested with. What one of them
// does not promise is switched off in its Target, by name, and written in ../DESIGN.md.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// Target is an implementation to be tested.
type Target struct {
	Cluster kafka.Cluster
	// Session is the shortest session that groups may have; the tests of the seat's end wait for it.
	Session time.Duration
	// DeleteTopic and DeleteRecords do what no part of package kafka does. Without one its tests do not run.
	DeleteTopic   func(ctx context.Context, topic string) error
	DeleteRecords func(ctx context.Context, topic string, partition int32, before int64) error
	// NoGroup switches the tests of groups off.
	NoGroup bool
	// AnyClock: record timestamps are not of this machine's clock.
	AnyClock bool
	// AnyTopicName: topics may have names that Apache Kafka refuses.
	AnyTopicName bool
	// Protocol1: the cluster is below transaction.version 2 (R12).
	Protocol1 bool
}

// limit is the longest time any single wait of these tests takes when all is well.
const limit = 20 * time.Second

// Run runs all the tests that the target can be given.
func Run(t *testing.T, target Target) {
	for _, part := range []struct {
		name  string
		tests map[string]func(*suite)
		off   bool
	}{
		{"Admin", adminTests, false},
		{"Log", logTests, false},
		{"LogAfterDeletion", deletionTests, target.DeleteTopic == nil || target.DeleteRecords == nil},
		{"Writer", writerTests, false},
		{"Group", groupTests, target.NoGroup},
	} {
		if part.off {
			continue
		}
		for name, test := range part.tests {
			t.Run(part.name+"/"+name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 4*limit)
				defer cancel()
				test(&suite{T: t, Target: target, ctx: ctx})
			})
		}
	}
}

// suite is one test's tools.
type suite struct {
	*testing.T
	Target
	ctx context.Context
}

// names makes topics, groups and transactional ids of one process unlike each other; begun those of two processes.
var (
	names atomic.Int64
	begun = time.Now().UnixNano() % 1e9
)

func (s *suite) name(kind string) string {
	return fmt.Sprintf("%s-%d-%d", kind, begun, names.Add(1))
}

func must[T any](s *suite) func(T, error) T {
	return func(v T, err error) T {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		return v
	}
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// fails checks that err has a class.
func (s *suite) fails(err error, class kafka.Class) {
	s.Helper()
	if err == nil {
		s.Fatalf("no error, want one of class %v", class)
	}
	if got := kafka.ClassOf(err); got != class {
		s.Fatalf("class %v, want %v: %v", got, class, err)
	}
}

func (s *suite) topic(partitions int32) string {
	s.Helper()
	admin := must[kafka.Admin](s)(s.Cluster.Admin())
	defer admin.Close()
	name := s.name("topic")
	s.ok(admin.Create(s.ctx, kafka.TopicSpec{Name: name, Partitions: partitions, ReplicationFactor: 1}))
	return name
}

func (s *suite) log(topic string, partition int32) kafka.Log {
	s.Helper()
	l := must[kafka.Log](s)(s.Cluster.Log(topic, partition))
	s.Cleanup(l.Close)
	return l
}

// writer makes a writer and fences.
func (s *suite) writer(id string) kafka.Writer {
	s.Helper()
	w := must[kafka.Writer](s)(s.Cluster.Writer(id))
	s.Cleanup(w.Close)
	must[kafka.Producer](s)(w.Fence(s.ctx))
	return w
}

// messages makes n messages with values base, base+1, ...
func messages(topic string, partition int32, base, n int) []kafka.Message {
	m := make([]kafka.Message, n)
	for i := range m {
		m[i] = kafka.Message{Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "k%d", base+i), Value: fmt.Appendf(nil, "v%d", base+i)}
	}
	return m
}

// write sends n messages to partition 0 and commits.
func (s *suite) write(w kafka.Writer, topic string, base, n int) {
	s.Helper()
	must[[]int64](s)(w.Send(s.ctx, messages(topic, 0, base, n)))
	s.ok(w.Commit(s.ctx))
}

// until asks for offsets until they are as wanted: an answered commit may not be visible yet (I5).
func (s *suite) until(l kafka.Log, what string, wanted func(kafka.Offsets) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	for {
		o, err := l.Offsets(ctx)
		if err != nil {
			s.Fatalf("%s did not come: %v", what, err)
		}
		if wanted(o) {
			return
		}
	}
}

// read fetches from position until the fetch position is end, and returns the records.
func (s *suite) read(l kafka.Log, position, end int64, maxBytes int) []kafka.Record {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	var all []kafka.Record
	for position < end {
		f, err := l.Fetch(ctx, position, maxBytes, time.Second)
		if err != nil {
			s.Fatalf("at %d of %d: %v", position, end, err)
		}
		if f.Next < position {
			s.Fatalf("fetch went back from %d to %d", position, f.Next)
		}
		for _, r := range f.Records {
			if r.Offset < position || r.Offset >= f.Next || r.Offset >= f.Stable {
				s.Fatalf("record at %d out of a fetch from %d to %d with stable offset %d", r.Offset, position, f.Next, f.Stable)
			}
		}
		all = append(all, f.Records...)
		position = f.Next
	}
	if position != end {
		s.Fatalf("position %d, want %d", position, end)
	}
	return all
}

// expect compares records with offset and value pairs.
func (s *suite) expect(records []kafka.Record, want ...string) {
	s.Helper()
	var have []string
	for _, r := range records {
		have = append(have, fmt.Sprintf("%d:%s", r.Offset, r.Value))
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		s.Fatalf("records %v, want %v", have, want)
	}
}

// isTransient tells whether err is a plain failure, nothing that stops a task.
func isTransient(err error) bool {
	return err != nil && kafka.ClassOf(err) == kafka.ClassTransient && !errors.Is(err, kafka.ErrAbandoned)
}
