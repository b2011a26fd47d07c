package client

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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
		return 0, errors.New("the broker's answer is not about the partition asked for")
	}
	p := &resp.Topics[0].Partitions[0]
	return p.EndOffset, kerr.ErrorForCode(p.ErrorCode)
}
