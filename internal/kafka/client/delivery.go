package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// delivery brings one Send's batches to their leaders, round by round: in each round every partition's next batch goes
// out, one request per broker, all brokers at once. One batch of a partition is under way at a time, so the order needs
// no care, and one that got no answer is sent again as it is.
type delivery struct {
	*writer
	ctx    context.Context
	tries  int   // rounds in a row that brought nothing
	reason error // the last answer that made a round go wrong
}

// answer is one broker's to one request.
type answer struct {
	leader int32
	parts  []*part
	resp   *kmsg.ProduceResponse
	err    error
}

// run returns when every batch is acknowledged, or at the first error that will not pass by itself.
func (d *delivery) run() error {
	for {
		waiting := d.waiting()
		if len(waiting) == 0 {
			return nil
		}
		if err := d.find(waiting); err != nil {
			return err
		}
		if err := d.enlist(waiting); err != nil {
			return err
		}
		moved := false
		answers := d.round(waiting)
		for range cap(answers) {
			a := <-answers
			m, err := d.judge(&a)
			if err != nil {
				return err // the client is closed next; the other answers find the channel's room and nobody
			}
			moved = moved || m
		}
		if moved {
			d.tries = 0
			continue
		}
		if err := pause(d.ctx, markerPause(d.tries)); err != nil {
			return d.late(err)
		}
		d.tries++
	}
}

// waiting are the partitions with a batch to be sent.
func (d *delivery) waiting() []*part {
	var parts []*part
	for _, p := range d.out.parts {
		if p.acked < len(p.batches) {
			parts = append(parts, p)
		}
	}
	return parts
}

// round sends each part's next batch to its leader. The channel will carry as many answers as it has room for.
func (d *delivery) round(parts []*part) chan answer {
	byLeader := map[int32][]*part{}
	for _, p := range parts {
		if p.leader >= 0 {
			byLeader[p.leader] = append(byLeader[p.leader], p)
		}
	}
	answers := make(chan answer, len(byLeader))
	for leader, parts := range byLeader {
		req := kmsg.NewPtrProduceRequest()
		req.TransactionID = &d.txnID
		req.Acks = -1
		req.TimeoutMillis = int32(requestTimeout.Milliseconds())
		for _, p := range parts {
			partition := kmsg.NewProduceRequestTopicPartition()
			partition.Partition, partition.Records = p.partition, *d.out.seal(p, d.producer).buf
			addTo(req, p, partition)
		}
		go func() {
			resp, err := d.cl.Broker(int(leader)).Request(d.ctx, req)
			produced, _ := resp.(*kmsg.ProduceResponse)
			answers <- answer{leader: leader, parts: parts, resp: produced, err: err}
		}()
	}
	return answers
}

// addTo puts a partition under its topic: a topic may be named once only.
func addTo(req *kmsg.ProduceRequest, p *part, partition kmsg.ProduceRequestTopicPartition) {
	for i := range req.Topics {
		if req.Topics[i].Topic == p.topic {
			req.Topics[i].Partitions = append(req.Topics[i].Partitions, partition)
			return
		}
	}
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = p.topic, p.id
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
}

// judge takes the acknowledgements out of an answer. What may pass is tried again; after the transport failed, too: the
// batch keeps its sequence number, so a broker that has it already says so and appends nothing.
func (d *delivery) judge(a *answer) (moved bool, err error) {
	if a.err != nil {
		if class, _ := classOf(a.err); class != kafka.ClassTransient {
			return false, fail("send", nowhere, a.err)
		}
		d.note(a.err)
		for _, p := range a.parts {
			p.leader = -1
		}
		return false, nil
	}
	for _, p := range a.parts {
		got := find(a.resp, p)
		if got == nil {
			return moved, fail("send", place{p.topic, p.partition, -1}, errors.New("the broker's answer leaves the partition out"))
		}
		err := kerr.ErrorForCode(got.ErrorCode)
		switch {
		case err == nil && got.BaseOffset >= 0:
			p.accept(got.BaseOffset)
			moved = true
			if got.LogAppendTime >= 0 {
				d.clock.hear(got.LogAppendTime)
			}
		case err == nil:
			return moved, fail("send", place{p.topic, p.partition, -1}, errors.New("acknowledged without an offset"))
		case errors.Is(err, kerr.ConcurrentTransactions):
			d.note(err)
		case kerr.IsRetriable(err):
			d.note(fmt.Errorf("%s/%d: %w", p.topic, p.partition, err))
			p.leader = -1
		default:
			return moved, d.refused(p, err, got.ErrorMessage)
		}
	}
	return moved, nil
}

// refused is the error of a batch that the broker does not take, with the size of its largest record.
func (d *delivery) refused(p *part, err error, message *string) error {
	class, hint := classOf(err)
	b := &p.batches[p.acked]
	if message != nil && *message != "" {
		err = fmt.Errorf("%w (%s)", err, *message)
	}
	if b.count > 1 {
		err = fmt.Errorf("batch of %d records and %d bytes: %w", b.count, len(*b.buf), err)
	}
	return &kafka.Error{Class: class, Op: "send", Topic: p.topic, Partition: p.partition, Offset: -1, Size: b.largest, Hint: hint, Err: err}
}

// find is a partition's part of an answer; topics come by name or, from version 13 on, by id.
func find(resp *kmsg.ProduceResponse, p *part) *kmsg.ProduceResponseTopicPartition {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if resp.Version >= 13 && record.TopicID(t.TopicID) != p.id || resp.Version < 13 && t.Topic != p.topic {
			continue
		}
		for j := range t.Partitions {
			if t.Partitions[j].Partition == p.partition {
				return &t.Partitions[j]
			}
		}
	}
	return nil
}

// find learns the leaders that are not known. Parts without one keep waiting; it returns only errors that end the Send.
func (d *delivery) find(parts []*part) error {
	var topics []string
	for _, p := range parts {
		if p.leader < 0 && !slices.Contains(topics, p.topic) { // of a relay, parts of one topic lie between those of others
			topics = append(topics, p.topic)
		}
	}
	if len(topics) == 0 {
		return nil
	}
	meta, err := metadata(d.ctx, d.cl, topics...)
	if err != nil {
		if class, _ := classOf(err); class != kafka.ClassTransient {
			return fail("send", nowhere, err)
		}
		d.note(err)
		return nil
	}
	for _, p := range parts {
		for i := range meta.Topics {
			if t := &meta.Topics[i]; *t.Topic == p.topic {
				if err := d.lead(p, t); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// lead takes one partition's leader out of the metadata.
func (d *delivery) lead(p *part, t *kmsg.MetadataResponseTopic) error {
	at := place{p.topic, p.partition, -1}
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		d.note(fmt.Errorf("%s: %w", p.topic, err))
		if !kerr.IsRetriable(err) {
			return fail("send", at, err)
		}
		return nil
	}
	if id := record.TopicID(t.TopicID); !p.id.Known() {
		p.id = id
	} else if !p.id.Equal(id) {
		return &kafka.Error{Class: kafka.ClassLost, Op: "send", Topic: p.topic, Partition: p.partition, Offset: -1,
			Err: fmt.Errorf("topic id was %v and is now %v", p.id, id), Hint: "the topic was deleted and made again"}
	}
	for i := range t.Partitions {
		if m := &t.Partitions[i]; m.Partition == p.partition {
			if p.leader = m.Leader; m.Leader < 0 {
				d.note(fmt.Errorf("%s/%d: %w", p.topic, p.partition, kerr.LeaderNotAvailable))
			}
			return nil
		}
	}
	return fail("send", at, fmt.Errorf("%w: the topic has %d partitions", kerr.UnknownTopicOrPartition, len(t.Partitions)))
}

// note keeps what went wrong, for the error of a Send whose time runs out; that it did is said anyway.
func (d *delivery) note(err error) {
	if d.ctx.Err() == nil {
		d.reason = err
	}
}

// late is the error of a Send whose time is over, with the last thing that went wrong.
func (d *delivery) late(cause error) error {
	err := cause
	if d.reason != nil {
		err = fmt.Errorf("%w, last answer: %w", cause, d.reason)
	}
	for _, p := range d.out.parts {
		if p.acked < len(p.batches) {
			return fail("send", place{p.topic, p.partition, -1}, err)
		}
	}
	return fail("send", nowhere, err)
}
