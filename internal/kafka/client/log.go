package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// log reads one partition with fetch requests of its own making. franz-go's consumer is not used, for it hides where
// it stands behind markers (R9) and repairs a cut log by going back in silence (R16). What the broker
// answers at once goes by connections that all logs share. A fetch that may wait blocks its connection, so it has one to
// itself.
type log struct {
	cluster   *Cluster
	cl        *kgo.Client // shared
	own       *kgo.Client // of fetches that may wait, nil before the first
	topic     string
	partition int32
	id        record.TopicID // of the first answer; another one later is another topic
	leader    int32          // -1 when it has to be asked for
	epoch     int32          // of the leader asked last, -1 for none
	reached   reached
	doubted   bool // the leader has changed since: what was reached has to be proved
	decoder   decoder
	patience  time.Duration
	closed    bool
}

// reached is the furthest position that was read from, or up to, and the epoch of the leader that had it. All below was
// committed, so it is in the log for as long as it is retained, whoever leads.
type reached struct {
	position int64
	epoch    int32 // -1 before the first answer
}

// roomPatience is how long a fetch waits for room to unpack what it has: less than a watchdog takes for a broker's silence.
const roomPatience = 5 * time.Second

// maxFetch bounds one fetch, below the 100 MiB that franz-go reads at most.
const maxFetch = 64 << 20

var _ kafka.Log = (*log)(nil)

// Log makes a reader of one partition. It connects at the first call.
func (c *Cluster) Log(topic string, partition int32) (kafka.Log, error) {
	cl, err := c.share()
	if err != nil {
		return nil, err
	}
	return &log{cluster: c, cl: cl, topic: topic, partition: partition, leader: -1, epoch: -1, reached: reached{-1, -1}, decoder: newDecoder(), patience: patience}, nil
}

// Close releases the connections.
func (l *log) Close() {
	if l.closed {
		return
	}
	l.closed = true
	l.drop()
	l.cluster.unshare()
}

// waiting is the client of a fetch that may wait.
func (l *log) waiting() (_ *kgo.Client, err error) {
	if l.own == nil {
		l.own, err = l.cluster.open()
	}
	return l.own, err
}

// drop closes the log's own connection.
func (l *log) drop() {
	if l.own != nil {
		l.own.Close()
		l.own = nil
	}
}

func (l *log) at(offset int64) place { return place{l.topic, l.partition, offset} }

// Fetch is described in package kafka. A fetch that a quota delays comes back empty and the client waits before the
// next one as long as the broker asked.
func (l *log) Fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (kafka.Fetched, error) {
	var out kafka.Fetched
	err := l.persist(ctx, "fetch", position, func(ctx context.Context) error {
		p, err := l.fetch(ctx, position, maxBytes, wait)
		if err != nil {
			return err
		}
		if out, err = l.unpack(ctx, p, position); err == nil {
			l.reached = reached{max(l.reached.position, out.Next), l.epoch}
		}
		return err
	})
	return out, err
}

// unpack decodes an answer when there is room for it. Without room, Next stays: it is fetched again, packed as it is. The turn
// in the room ends with it, also by a panic of what decodes.
func (l *log) unpack(ctx context.Context, p *kmsg.FetchResponseTopicPartition, position int64) (out kafka.Fetched, err error) {
	share := kafka.ShareOf(ctx)
	out = kafka.Fetched{Next: position, Bytes: len(p.RecordBatches), Offsets: offsetsOf(p)}
	if len(p.RecordBatches) == 0 {
		return out, nil
	}
	if !share.Enter(ctx, roomPatience) {
		out.Bytes = 0
		return out, late(ctx, ctx.Err())
	}
	decoded := false
	defer func() {
		if out.Held = share.Leave(l.decoder.unpacked); !decoded {
			out.Held.Give()
		}
	}()
	out.Records, out.Next, err = l.decoder.decode(p.RecordBatches, p.AbortedTransactions, position, out.Stable)
	decoded = err == nil
	return out, err
}

// Offsets is described in package kafka. The three offsets are those of one moment: the answer to a fetch at the end.
func (l *log) Offsets(ctx context.Context) (kafka.Offsets, error) {
	var out kafka.Offsets
	err := l.persist(ctx, "ask for offsets", -1, func(ctx context.Context) error {
		end, err := l.list(ctx, -1)
		if err != nil {
			return err
		}
		p, err := l.fetch(ctx, end, 1, 0)
		if err != nil {
			return err
		}
		out = offsetsOf(p)
		return nil
	})
	return out, err
}

func offsetsOf(p *kmsg.FetchResponseTopicPartition) kafka.Offsets {
	o := kafka.Offsets{Start: p.LogStartOffset, Stable: p.LastStableOffset, HighWatermark: p.HighWatermark}
	if o.Stable < 0 { // a partition that has never seen a transaction, on some brokers
		o.Stable = o.HighWatermark
	}
	return o
}

// persist repeats try until it succeeds, meets an error that will not pass, or has only failed for as long as patience lasts.
// After each failure the leader is asked for again.
func (l *log) persist(ctx context.Context, op string, offset int64, try func(context.Context) error) error {
	if l.closed {
		return fail(op, l.at(offset), kafka.ErrClosed)
	}
	var (
		failing time.Time // since
		last    error
	)
	for n := 0; ; n++ {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			if last == nil {
				return fail(op, l.at(offset), late(ctx, err))
			}
			return fail(op, l.at(offset), fmt.Errorf("%w, last answer: %w", context.Cause(ctx), last))
		}
		last = err
		l.leader = -1
		l.drop() // it learns addresses anew, as find does
		if n == 0 {
			failing = time.Now()
		}
		if !l.mayPass(err) || time.Since(failing) > l.patience {
			var broken *damage
			if errors.As(err, &broken) {
				return &kafka.Error{Class: kafka.ClassCorrupt, Op: op, Topic: l.topic, Partition: l.partition, Offset: broken.first, Err: err,
					Hint: "compare the partition's replicas; see the broker's log for disk errors"}
			}
			return fail(op, l.at(offset), err)
		}
		_ = pause(ctx, backoff(n)) // when ctx ends, the next try says so
	}
}

// mayPass tells whether trying again can help. An unknown topic id is also what a broker answers that has not heard of
// a new topic yet: the next look at the metadata tells which it is.
func (l *log) mayPass(err error) bool {
	if errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID) {
		return true
	}
	var broken *damage
	if errors.As(err, &broken) {
		return true
	}
	var classed *kafka.Error
	if errors.As(err, &classed) {
		return classed.Class == kafka.ClassTransient
	}
	class, _ := classOf(err)
	return class == kafka.ClassTransient
}

// fetch asks the leader once.
func (l *log) fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (*kmsg.FetchResponseTopicPartition, error) {
	if err := l.find(ctx); err != nil {
		return nil, err
	}
	if err := l.prove(ctx); err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis = int32(min(wait, time.Minute).Milliseconds())
	req.MinBytes = 1
	// The size is bounded by the partition's limit alone: the embedded broker leaves the list of aborted transactions
	// out of an answer that it cut at the request's limit, and with it shows their records (DESIGN.md).
	req.MaxBytes = math.MaxInt32
	req.IsolationLevel = 1 // read_committed
	req.SessionEpoch = -1  // no fetch session
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition = l.partition
	part.CurrentLeaderEpoch = l.epoch
	part.FetchOffset = position
	part.PartitionMaxBytes = int32(min(maxBytes, maxFetch))
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = l.topic, l.id
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)

	cl := l.cl
	if wait > 0 {
		var err error
		if cl, err = l.waiting(); err != nil {
			return nil, err
		}
	}
	answer, err := cl.Broker(int(l.leader)).Request(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].Partition != l.partition {
		return nil, errOtherPartition
	}
	p := &resp.Topics[0].Partitions[0]
	switch err := kerr.ErrorForCode(p.ErrorCode); {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return nil, l.outOfRange(ctx, position)
	case err != nil:
		return nil, err
	}
	return p, nil
}

// outOfRange says what is gone. A position that the leader's own bounds allow is only a leader that lags.
func (l *log) outOfRange(ctx context.Context, position int64) error {
	start, end, err := l.bounds(ctx)
	if err != nil {
		return err
	}
	var hint string
	switch {
	case position < start:
		hint = fmt.Sprintf("offsets %d to %d are gone: deleted by retention or by hand", position, start-1)
	case position > end:
		hint = fmt.Sprintf("the log ends %d offsets earlier: its tail was lost, or the topic was made again", position-end)
	default:
		return fmt.Errorf("%w, yet the leader holds [%d, %d)", kerr.OffsetNotAvailable, start, end)
	}
	return &kafka.Error{
		Class: kafka.ClassLost, Op: "fetch", Topic: l.topic, Partition: l.partition, Offset: position, Hint: hint,
		Err: fmt.Errorf("position %d is outside the log [%d, %d)", position, start, end),
	}
}

// bounds asks the leader for log start and high watermark.
func (l *log) bounds(ctx context.Context) (start, end int64, err error) {
	if start, err = l.list(ctx, -2); err != nil {
		return 0, 0, err
	}
	end, err = l.list(ctx, -1)
	return start, end, err
}

// list asks for the offset of a timestamp: -2 is the log start, -1 the high watermark.
func (l *log) list(ctx context.Context, timestamp int64) (int64, error) {
	if err := l.find(ctx); err != nil {
		return 0, err
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition = l.partition
	part.CurrentLeaderEpoch = l.epoch
	part.Timestamp = timestamp
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = l.topic
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	answer, err := l.cl.Broker(int(l.leader)).Request(ctx, req)
	if err != nil {
		return 0, err
	}
	resp := answer.(*kmsg.ListOffsetsResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errOtherPartition
	}
	p := &resp.Topics[0].Partitions[0]
	return p.Offset, kerr.ErrorForCode(p.ErrorCode)
}

// find learns the partition's leader, and that the topic is still the one it was.
func (l *log) find(ctx context.Context) error {
	if l.leader >= 0 {
		return nil
	}
	meta, err := metadata(ctx, l.cl, l.topic)
	if err != nil {
		return err
	}
	topic := &meta.Topics[0]
	if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
		if errors.Is(err, kerr.UnknownTopicOrPartition) && l.id.Known() {
			return fmt.Errorf("topic id %v is gone: %w", l.id, kerr.UnknownTopicID)
		}
		return err
	}
	if id := record.TopicID(topic.TopicID); !l.id.Known() {
		l.id = id
	} else if !l.id.Equal(id) {
		return &kafka.Error{
			Class: kafka.ClassLost, Op: "fetch", Topic: l.topic, Partition: l.partition, Offset: -1,
			Err:  fmt.Errorf("topic id was %v and is now %v", l.id, id),
			Hint: "the topic was deleted and made again; positions of the old one mean nothing in it",
		}
	}
	for i := range topic.Partitions {
		p := &topic.Partitions[i]
		if p.Partition != l.partition {
			continue
		}
		if p.Leader < 0 {
			return kerr.LeaderNotAvailable
		}
		l.doubted = l.doubted || l.epoch >= 0 && p.LeaderEpoch != l.epoch
		l.leader, l.epoch = p.Leader, p.LeaderEpoch
		return nil
	}
	return fmt.Errorf("%w: the topic has %d partitions", kerr.UnknownTopicOrPartition, len(topic.Partitions))
}

// metadata asks about topics by name, never creating one; the answer has one entry per name.
func metadata(ctx context.Context, cl *kgo.Client, names ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	if len(resp.Topics) != len(names) {
		return nil, fmt.Errorf("asked about %d topics, the broker answered about %d", len(names), len(resp.Topics))
	}
	return resp, nil
}
