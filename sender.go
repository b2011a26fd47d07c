package tidemark

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// sender carries out the effects of one commit after the other on the task's writer, while the task folds the next
// batch: send, then end the transaction (section 4). It never produces a batch before the one before it is known, for
// the task begins none. After its first error it is of no more use.
type sender struct {
	writer   kafka.Writer
	topics   sinkTopics
	next     record.ChangelogPosition // what was committed lies below
	at       func(ctx context.Context, step string) error
	batches  chan *task.Batch
	results  chan sent
	stop     context.CancelFunc
	ended    chan struct{} // closed when nothing of a batch is read any more
	messages []kafka.Message
}

// sent is the outcome of one commit: nil means committed, anything else means unknown (I8).
type sent struct {
	position record.ChangelogPosition // after the commit record
	took     time.Duration
	err      error
}

// sinkTopics is where the sinks of a task lead.
type sinkTopics struct {
	changelog, late, dead target
	results               []target
}

// target is the partition of a topic that a task writes: its own number, modulo where the topic has fewer (R20).
type target struct {
	topic     string
	partition int32
	keyed     int32 // of a relay: how many partitions there are to choose from by key
}

func startSender(writer kafka.Writer, topics sinkTopics, next record.ChangelogPosition, at func(context.Context, string) error) *sender {
	ctx, stop := context.WithCancel(context.Background())
	s := &sender{writer: writer, topics: topics, next: next, at: at, batches: make(chan *task.Batch, 1), results: make(chan sent, 1), stop: stop,
		ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		for batch := range s.batches {
			begun := time.Now()
			position, err := s.attempt(ctx, batch)
			s.results <- sent{position, time.Since(begun), err}
		}
		writer.Close()
	}()
	return s
}

// attempt is commit, where a panic is a failure of the task and not the end of the process.
func (s *sender) attempt(ctx context.Context, batch *task.Batch) (position record.ChangelogPosition, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = kafka.Recovered(cause, "commit", s.topics.changelog.topic, s.topics.changelog.partition)
		}
	}()
	return s.commit(ctx, batch)
}

// commit is the order of section 4, steps 2 and 3.
func (s *sender) commit(ctx context.Context, batch *task.Batch) (record.ChangelogPosition, error) {
	ctx, cancel := context.WithTimeout(ctx, watchdog)
	defer cancel()
	if err := s.at(ctx, "commit.send"); err != nil {
		return 0, err
	}
	offsets, err := s.writer.Send(ctx, s.address(batch))
	if defect.FlushIgnored && err != nil || defect.PromiseIgnored && kafka.NamesRecord(err) {
		offsets, err = []int64{0}, nil
	}
	if err != nil {
		return 0, err
	}
	if err := s.follows(offsets); err != nil {
		return 0, err
	}
	position := record.ChangelogPosition(offsets[len(offsets)-1] + 1)
	if err := s.at(ctx, "commit.end"); err != nil {
		return 0, err
	}
	if err := s.writer.Commit(ctx); err != nil && !defect.AbortIsCommit {
		return 0, err
	}
	s.next = position
	return position, s.at(ctx, "commit.ended")
}

// follows refuses to commit behind a hole: a changelog that takes records below what it had acknowledged has lost its end
// (R15, an unclean election), and with this commit it would look whole until the next recovery.
func (s *sender) follows(offsets []int64) error {
	for i := range s.messages {
		m := &s.messages[i]
		if m.Topic != s.topics.changelog.topic {
			continue
		}
		if at := record.ChangelogPosition(offsets[i]); at < s.next {
			return &kafka.Error{Class: kafka.ClassLost, Op: "send", Topic: m.Topic, Partition: m.Partition, Offset: int64(at),
				Err:  fmt.Errorf("the next record lies at offset %d, and everything below %d was committed: the end of the changelog is gone", at, s.next),
				Hint: "restore the changelog, or tidemark run --accept-loss"}
		}
		break // the others follow it
	}
	return nil
}

// address turns a batch into messages with topics and partitions. Late readings without a topic are only counted.
func (s *sender) address(batch *task.Batch) []kafka.Message {
	s.messages = s.messages[:0]
	for i := range batch.Messages {
		m := &batch.Messages[i]
		to := s.topics.of(m)
		if to.topic == "" {
			continue
		}
		partition := to.partition
		if to.keyed > 0 {
			partition = job.Murmur2.Partition(m.Key, to.keyed)
		}
		s.messages = append(s.messages, kafka.Message{Topic: to.topic, Partition: partition, Key: m.Key, Value: m.Value, Headers: m.Headers})
	}
	return s.messages
}

func (t *sinkTopics) of(m *task.Message) target {
	switch m.Sink {
	case task.SinkResult:
		return t.results[m.Aggregation]
	case task.SinkLate:
		return t.late
	case task.SinkDead:
		return t.dead
	}
	return t.changelog
}

// close gives the commit up that the sender may be carrying out, its outcome unknown (I8), closes the writer and waits
// until both are done: the task may then drop the batch.
func (s *sender) close() {
	s.stop()
	close(s.batches)
	<-s.ended
}
