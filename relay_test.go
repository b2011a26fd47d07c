package tidemark

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// handOn is a Processor without state that hands each record on under its value.
type handOn struct{}

func (handOn) Aggregations() []Aggregation { return nil }

func (handOn) Process(v *View, in *Input) error {
	v.Counters().In++
	v.Counters().Accepted++
	v.Emit(task.SinkResult, 0, in.Value, fmt.Appendf(nil, "%s@%d", in.Value, in.Offset), []kafka.Header{})
	return nil
}

func (handOn) Load(Slot, []byte, []byte) error        { return errors.New("a relay has no state") }
func (handOn) Encode(Slot, []byte) []byte             { panic("a relay has no state") }
func (handOn) Close(*View, Slot, []byte, Place) error { return errors.New("a relay has no state") }
func (handOn) Place(key, value []byte) (p Place, _ error) {
	return p, errors.New("a relay has no state")
}

// relay are the options of a relay between the topics "in" and "keyed".
func (w *world) relay() Options {
	o := w.options()
	o.Results, o.Relay, o.Topics = []string{"keyed"}, &Relay{Partitions: 3}, TopicDefaults{}
	o.Processor = func(int32, int32, Limits) (Processor, error) { return handOn{}, nil }
	return o
}

// feed appends one record without a key for each of n names, and returns the names.
func (w *world) feed(partition int32, n int) {
	for range n {
		w.cluster.Append("in", partition, kafka.Record{Value: fmt.Appendf(nil, "device-%d", w.offset)})
		w.offset++
	}
}

// keyed checks that everything fed was handed on once, each name to the partition that murmur2 gives it.
func (w *world) keyed() {
	w.t.Helper()
	seen := map[string]int{}
	for p := range int32(3) {
		records := w.cluster.Committed("keyed", p)
		if len(records) == 0 {
			w.t.Errorf("partition %d of the internal topic is empty", p)
		}
		for _, r := range records {
			seen[string(r.Key)]++
			if want := job.Murmur2.Partition(r.Key, 3); want != p {
				w.t.Errorf("%s is in partition %d, murmur2 says %d", r.Key, p, want)
			}
		}
	}
	for i := range w.offset {
		if name := fmt.Sprintf("device-%d", i); seen[name] != 1 {
			w.t.Errorf("%s was handed on %d times", name, seen[name])
		}
	}
}

// partitions is how many partitions a topic has.
func (w *world) partitions(topic string) int32 {
	w.t.Helper()
	admin, err := w.cluster.Admin()
	if err != nil {
		w.t.Fatal(err)
	}
	found, err := admin.Topics(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	return found[topic].Partitions
}

// TestRelay hands records without a key on by key (R3).
func TestRelay(t *testing.T) {
	w := newWorld(t, 2)
	w.cluster.CreateTopic("dead", 2, nil)
	w.feed(0, 900)
	w.feed(1, 700)
	w.run(w.relay())
	w.keyed()
	if n := w.partitions("changelog"); n != 2 {
		t.Errorf("the changelog has %d partitions, the input 2", n)
	}
}

// TestRelayGrows adds partitions to the input of a running relay: it ends, and the next App hands on what is in all of
// them, each record once (R34). A job that is no relay stops for good there, which TestNewPartitionsAreNotRead holds.
func TestRelayGrows(t *testing.T) {
	w := newWorld(t, 2)
	w.cluster.CreateTopic("dead", 2, nil)
	w.feed(0, 300)
	options := w.relay()
	options.UntilIdle = false
	handed := make(chan struct{}, 1)
	options.Progress = func(e Event) {
		if e.Kind == EventCommitted && e.Inputs > 0 {
			select {
			case handed <- struct{}{}:
			default:
			}
		}
	}
	app, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	<-handed
	w.cluster.AddPartitions("in", 5)
	w.feed(4, 200)
	if err := <-ended; !errors.Is(err, ErrInputGrown) {
		t.Fatalf("Run: %v, want ErrInputGrown", err)
	}
	w.run(w.relay())
	w.keyed()
	if n := w.partitions("changelog"); n != 5 {
		t.Errorf("the changelog has %d partitions, the input 5", n)
	}
}
