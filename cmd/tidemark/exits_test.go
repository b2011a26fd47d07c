package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// TestCodeOf is the table of exit codes.
func TestCodeOf(t *testing.T) {
	classed := func(class kafka.Class) error {
		return fmt.Errorf("job: %w", &kafka.Error{Class: class, Op: "commit", Offset: -1, Err: io.ErrUnexpectedEOF})
	}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, done},
		{io.ErrUnexpectedEOF, refused},
		{usage(io.ErrUnexpectedEOF), misused},
		{unreached(io.ErrUnexpectedEOF), unreachable},
		{fmt.Errorf("start: %w", tidemark.ErrUnreachable), unreachable},
		{classed(kafka.ClassFenced), stopped},
		{classed(kafka.ClassPermanent), refused},
		{classed(kafka.ClassLost), refused},
		{classed(kafka.ClassCorrupt), refused},
		{errors.Join(io.EOF, classed(kafka.ClassFenced)), stopped},
		{&kafka.Error{Class: kafka.ClassPermanent, Err: fmt.Errorf("input offset 6: %w", &job.BadError{})}, stopped},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("exit code of %v is %d, want %d", c.err, got, c.want)
		}
	}
}

// topic starts a broker with the job's input topic and points the job of testdata at it.
func topic(t *testing.T) (*kfake.Cluster, *kadm.Client) {
	t.Helper()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "readings"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	t.Setenv("TIDEMARK_KAFKA_BROKERS", broker.ListenAddrs()[0])
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return broker, kadm.NewClient(client)
}

// records waits until the topic holds so many records.
func records(t *testing.T, admin *kadm.Client, want int64) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		ends, err := admin.ListEndOffsets(t.Context(), "readings")
		if err != nil {
			t.Fatal(err)
		}
		held := int64(0)
		ends.Each(func(o kadm.ListedOffset) { held += o.Offset })
		if held == want {
			return
		}
	}
}

// TestProduceInterrupted stops a producer whose source says nothing: what was sent is acknowledged, and the exit code
// says that the source was not at its end.
func TestProduceInterrupted(t *testing.T) {
	_, admin := topic(t)
	lines, write := io.Pipe()
	var said bytes.Buffer
	e := newEnv([]string{"produce", "-c", "testdata/job.yaml", "-"}, lines, io.Discard, &said)
	ctx, interrupt := context.WithCancel(t.Context())
	var code int
	var running sync.WaitGroup
	running.Go(func() { code = e.run(ctx) })
	for i := range 3 {
		if _, err := fmt.Fprintf(write, `{"device":"d%d","ts":1,"v":1}`+"\n", i); err != nil {
			t.Fatal(err)
		}
	}
	records(t, admin, 3)
	interrupt()
	running.Wait()
	write.Close()
	if code != refused || !strings.Contains(said.String(), "produced 3 records") || !strings.Contains(said.String(), "tidemark: interrupted\n") {
		t.Errorf("exit code %d; it said:\n%s", code, said.String())
	}
}

// TestProduceNotAcknowledged shows that a record that a broker refuses is no success.
func TestProduceNotAcknowledged(t *testing.T) {
	broker, _ := topic(t)
	broker.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		broker.KeepControl()
		asked := request.(*kmsg.ProduceRequest)
		answer := asked.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range asked.Topics {
			refused := kmsg.NewProduceResponseTopic()
			refused.Topic, refused.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				one := kmsg.NewProduceResponseTopicPartition()
				one.Partition, one.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				refused.Partitions = append(refused.Partitions, one)
			}
			answer.Topics = append(answer.Topics, refused)
		}
		return answer, nil, true
	})
	var said bytes.Buffer
	e := newEnv([]string{"produce", "-c", "testdata/job.yaml", "-"}, strings.NewReader(`{"device":"d"}`), io.Discard, &said)
	if code := e.run(t.Context()); code != refused || !strings.Contains(said.String(), "of 1 records sent 0 are acknowledged") ||
		!strings.Contains(said.String(), "no rights on the topic") {
		t.Errorf("exit code %d; it said:\n%s", code, said.String())
	}
}

// TestProduceRate shows that the rate is an upper bound.
func TestProduceRate(t *testing.T) {
	_, admin := topic(t)
	const lines, rate = 40, 200
	e := newEnv([]string{"produce", "-c", "testdata/job.yaml", "--rate", fmt.Sprint(rate), "-"},
		strings.NewReader(strings.Repeat(`{"device":"d"}`+"\n", lines)), io.Discard, io.Discard)
	begun := time.Now()
	if code := e.run(t.Context()); code != done {
		t.Fatalf("exit code %d", code)
	}
	if took, least := time.Since(begun), time.Second*(lines-1)/rate-time.Millisecond; took < least {
		t.Errorf("%d lines took %s, at %d a second they must take %s", lines, took, rate, least)
	}
	records(t, admin, lines)
}

// TestConsumeFollows prints records as they come and ends with code 0 when it is told to.
func TestConsumeFollows(t *testing.T) {
	topic(t)
	produce := func(value string) {
		e := newEnv([]string{"produce", "-c", "testdata/job.yaml", "-"}, strings.NewReader(value+"\n"), io.Discard, io.Discard)
		if code := e.run(t.Context()); code != done {
			t.Fatalf("exit code %d", code)
		}
	}
	produce(`{"device":"a"}`)
	out, lines := io.Pipe()
	var said bytes.Buffer
	e := newEnv([]string{"consume", "-c", "testdata/job.yaml", "--topic", "readings"}, nil, lines, &said)
	ctx, stop := context.WithCancel(t.Context())
	var code int
	var running sync.WaitGroup
	running.Go(func() { code = e.run(ctx) })
	read := func(want string) {
		got := make([]byte, len(want)+1)
		if _, err := io.ReadFull(out, got); err != nil || string(got) != want+"\n" {
			t.Fatalf("consume prints %q (%v), want %q", got, err, want)
		}
	}
	read(`{"device":"a"}`)
	produce(`{"device":"b"}`)
	read(`{"device":"b"}`)
	stop()
	running.Wait()
	if code != done || said.Len() > 0 {
		t.Errorf("exit code %d; it said:\n%s", code, said.String())
	}
}

// TestDefaultsAreTheEngines: a file that says nothing of commits and checkpoints gives what Options without them give.
func TestDefaultsAreTheEngines(t *testing.T) {
	defined, err := config.Parse("job.yaml", []byte(`job: job
kafka: embedded
input: {topic: in, key: [k], values: [v], time: {field: t}}
aggregations: [{name: a, window: {tumbling: 1h}, functions: [count], output: {topic: out}}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := jobOptions(defined); o.Commit != tidemark.DefaultCommit || o.Checkpoint != tidemark.DefaultCheckpoint {
		t.Errorf("%+v and %s", o.Commit, o.Checkpoint)
	}
}
