package client

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// prove asks a new leader whether it has what was read from the one before it. An election that was not clean cuts the log,
// and once the log has been filled again nothing else would tell (R15, R16, S28): no offset is out of range, and epochs go up.
func (l *log) prove(ctx context.Context) error {
	if !l.doubted || l.reached.epoch < 0 {
		l.doubted = false
		return nil
	}
	end, err := l.epochEnd(ctx, l.reached.epoch)
	if err != nil {
		return err
	}
	if at := l.reached.position; end >= 0 && end < at {
		start, err := l.list(ctx, -2)
		if err != nil {
			return err
		}
		if start < at { // else it is deleted anyway, and what is said of its epoch means nothing
			return &kafka.Error{Class: kafka.ClassLost, Op: "fetch", Topic: l.topic, Partition: l.partition, Offset: end,
				Hint: "the next start says what is gone, and how to go on without it",
				Err: fmt.Errorf("the log was read up to offset %d under leader epoch %d, and the new leader's ends that epoch at offset %d: "+
					"%d offsets were cut off at a change of leader", at, l.reached.epoch, end, at-end)}
		}
	}
	l.doubted = false
	return nil
}

// EpochEnd is described in package kafka.
func (l *log) EpochEnd(ctx context.Context, epoch int32) (end int64, known bool, err error) {
	if epoch < 0 {
		return 0, false, nil
	}
	err = l.persist(ctx, "ask for the end of a leader epoch", -1, func(ctx context.Context) (err error) {
		end, err = l.epochEnd(ctx, epoch)
		return err
	})
	return end, end >= 0, err
}

// epochEnd asks the leader once; -1 means that it does not know so old an epoch.
func (l *log) epochEnd(ctx context.Context, epoch int32) (int64, error) {
	if err := l.find(ctx); err != nil {
		return 0, err
	}
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	part := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	part.Partition, part.CurrentLeaderEpoch, part.LeaderEpoch = l.partition, l.epoch, epoch
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic = l.topic
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	answer, err := l.cl.Broker(int(l.leader)).Request(ctx, req)
	if err != nil {
		return 0, err
	}
	resp := answer.(*kmsg.OffsetForLeaderEpochResponse)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errOtherPartition
	}
	p := &resp.Topics[0].Partitions[0]
	return p.EndOffset, kerr.ErrorForCode(p.ErrorCode)
}
