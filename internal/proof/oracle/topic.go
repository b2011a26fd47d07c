package oracle

import (
	"context"
	"errors"
	"fmt"
	"math"

	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Message is one committed record of any topic.
type Message struct {
	Record
	Partition int32
}

// End says where a reader of a partition ends.
type End bool

const (
	// AtHighWatermark ends at the high watermark of the start: everything that was committed before the call is
	// delivered. While a transaction is open below it, the reader waits (I5).
	AtHighWatermark End = false
	// AtStable ends at the last stable offset of the start. It never waits, and may miss what was committed behind an
	// open transaction: good enough to see progress, never to judge a result.
	AtStable End = true
)

// Reader reads topics as read_committed, without joining a group. It is for one goroutine.
type Reader struct {
	client *kgo.Client
	admin  *kadm.Client
}

// NewReader makes a reader for a cluster. Nothing is sent before the first call.
func NewReader(brokers ...string) (*Reader, error) { return NewReaderWith(kgo.SeedBrokers(brokers...)) }

// NewReaderWith is NewReader for a cluster that takes more to reach than addresses.
func NewReaderWith(options ...kgo.Opt) (*Reader, error) {
	client, err := kgo.NewClient(append(options[:len(options):len(options)], kgo.MetadataMinAge(20*time.Millisecond))...)
	if err != nil {
		return nil, err
	}
	return &Reader{client: client, admin: kadm.NewClient(client)}, nil
}

// Close ends the connections.
func (r *Reader) Close() { r.client.Close() }

// ErrNoTopic is wrapped by the errors of a topic that does not exist.
var ErrNoTopic = errors.New("there is no such topic")

// place is where one partition is read.
type place struct {
	topic      string
	id         [16]byte
	partition  int32
	leader     int32
	start, end int64
}

// Read returns every committed record of a topic by partition.
func (r *Reader) Read(ctx context.Context, topic string, end End) ([][]Message, error) {
	return r.ReadFrom(ctx, topic, nil, end)
}

// ReadFrom is Read from the given offsets on; a nil slice stands for the beginning. An offset below the beginning of
// the log is an error: records are gone that the caller counts on.
func (r *Reader) ReadFrom(ctx context.Context, topic string, from []int64, end End) ([][]Message, error) {
	places, err := r.places(ctx, topic, end)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	out := make([][]Message, len(places))
	for i := range places {
		p := &places[i]
		if from != nil {
			if from[i] < p.start {
				return nil, fmt.Errorf("read %s/%d: offset %d wanted, the log begins at %d", topic, i, from[i], p.start)
			}
			p.start = from[i]
		}
		if out[i], err = r.partition(ctx, p); err != nil {
			return nil, fmt.Errorf("read %s/%d: %w", topic, i, err)
		}
	}
	return out, nil
}

// Last returns about the last n committed records of a topic by partition: as many offsets of each partition, markers and
// holes among them.
func (r *Reader) Last(ctx context.Context, topic string, n int64) ([][]Message, error) {
	places, err := r.places(ctx, topic, AtHighWatermark)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	from := make([]int64, len(places))
	for i, p := range places {
		from[i] = max(p.start, p.end-n/int64(len(places)))
	}
	return r.ReadFrom(ctx, topic, from, AtHighWatermark)
}

// Ends returns the high watermark of each partition of a topic.
func (r *Reader) Ends(ctx context.Context, topic string) ([]int64, error) {
	places, err := r.places(ctx, topic, AtHighWatermark)
	if err != nil {
		return nil, fmt.Errorf("ends of %s: %w", topic, err)
	}
	ends := make([]int64, len(places))
	for i, p := range places {
		ends[i] = p.end
	}
	return ends, nil
}

// GroupOffsets returns the committed offsets of a group on a topic by partition; -1 for none.
func (r *Reader) GroupOffsets(ctx context.Context, group, topic string, partitions int) ([]int64, error) {
	all, err := r.admin.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("offsets of group %s: %w", group, err)
	}
	out := make([]int64, partitions)
	for i := range out {
		out[i] = -1
		if o, ok := all.Lookup(topic, int32(i)); ok {
			out[i] = o.At
		}
	}
	return out, nil
}

// places finds leaders, beginnings and ends.
func (r *Reader) places(ctx context.Context, topic string, end End) ([]place, error) {
	details, err := r.admin.ListTopics(ctx, topic)
	if err != nil {
		return nil, err
	}
	detail := details[topic]
	if errors.Is(detail.Err, kerr.UnknownTopicOrPartition) {
		return nil, ErrNoTopic
	} else if detail.Err != nil {
		return nil, detail.Err
	}
	starts, err := r.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	list := r.admin.ListEndOffsets
	if end == AtStable {
		list = r.admin.ListCommittedOffsets
	}
	ends, err := list(ctx, topic)
	if err != nil {
		return nil, err
	}
	places := make([]place, len(detail.Partitions))
	for i := range places {
		n := int32(i)
		first, ok1 := starts.Lookup(topic, n)
		last, ok2 := ends.Lookup(topic, n)
		if err := errors.Join(first.Err, last.Err, detail.Partitions[n].Err); err != nil || !ok1 || !ok2 {
			return nil, fmt.Errorf("partition %d: offsets unknown: %w", n, err)
		}
		places[i] = place{topic: topic, id: detail.ID, partition: n, leader: detail.Partitions[n].Leader,
			start: first.Offset, end: last.Offset}
	}
	return places, nil
}

// partition fetches from start until the position of the fetch, which moves past markers, aborted batches and holes,
// reaches the end. It ends for no other reason.
func (r *Reader) partition(ctx context.Context, p *place) ([]Message, error) {
	var out []Message
	for at := p.start; at < p.end; {
		got, next, err := r.fetch(ctx, p, at)
		if err != nil {
			return nil, fmt.Errorf("at offset %d, to read up to %d: %w", at, p.end, err)
		}
		for _, rec := range got {
			if rec.Offset < p.end {
				out = append(out, message(rec))
			}
		}
		at = next
	}
	return out, nil
}

// fetchWait is how long a broker holds a fetch that finds nothing; fetchBytes is how much it gives at once.
const (
	fetchWait  = 250 * time.Millisecond
	fetchBytes = 8 << 20
)

func (r *Reader) fetch(ctx context.Context, p *place, at int64) ([]*kgo.Record, int64, error) {
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis = int32(fetchWait.Milliseconds())
	// The embedded broker leaves the list of aborted transactions out of an answer that it cut at the request's limit, and
	// with it shows their records: the partition's limit must be the one that counts.
	request.MinBytes, request.MaxBytes = 1, math.MaxInt32
	request.IsolationLevel = 1
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = p.partition, at, fetchBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = p.topic, p.id
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	answer, err := r.client.Broker(int(p.leader)).RetriableRequest(ctx, request)
	if err != nil {
		return nil, 0, err
	}
	fetched := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(fetched.ErrorCode); err != nil {
		return nil, 0, err
	}
	if len(fetched.Topics) != 1 || len(fetched.Topics[0].Partitions) != 1 {
		return nil, at, ctx.Err()
	}
	options := kgo.ProcessFetchPartitionOpts{Offset: at, IsolationLevel: kgo.ReadCommitted(), Topic: p.topic,
		Partition: p.partition}
	got, next := kgo.ProcessFetchPartition(options, &fetched.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	if got.Err == nil {
		got.Err = ctx.Err()
	}
	return got.Records, next, got.Err
}

func message(r *kgo.Record) Message {
	m := Message{Partition: r.Partition}
	m.Offset, m.Timestamp, m.Key, m.Value = r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value
	for _, h := range r.Headers {
		m.Headers = append(m.Headers, Header(h))
	}
	return m
}

// Records returns the input records of one partition.
func Records(messages []Message) []Record {
	out := make([]Record, len(messages))
	for i, m := range messages {
		out[i] = m.Record
	}
	return out
}
