package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// create makes topics and waits until every broker knows them and their leaders: one that is busy does not for a while, and a
// job that is started then ends, for it takes what is not known for a mistake.
func (c *chapter) create(ctx context.Context, settings map[string]*string, topics ...string) error {
	made, err := c.admin.CreateTopics(ctx, c.job.Oracle.Partitions, -1, settings, topics...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		return fmt.Errorf("make the topics of the trial: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cleaning, fmt.Errorf("the topics of the trial were made, and not all brokers know them after %s", cleaning))
	defer cancel()
	ticker := time.NewTicker(lookAgain)
	defer ticker.Stop()
	for {
		known, err := c.known(ctx, topics)
		if known || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// known tells whether every broker knows the topics, and leaders of all their partitions.
func (c *chapter) known(ctx context.Context, topics []string) (bool, error) {
	brokers, err := c.admin.ListBrokers(ctx)
	if err != nil {
		return false, err
	}
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	for _, b := range brokers {
		answer, err := c.client.Broker(int(b.NodeID)).RetriableRequest(ctx, request)
		if err != nil {
			return false, err
		}
		for _, topic := range answer.(*kmsg.MetadataResponse).Topics {
			if kerr.ErrorForCode(topic.ErrorCode) != nil || len(topic.Partitions) != int(c.job.Oracle.Partitions) {
				return false, nil
			}
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 || p.Leader < 0 {
					return false, nil
				}
			}
		}
	}
	return true, nil
}

// drop removes topics, as far as they are there.
func (c *chapter) drop(ctx context.Context, topics ...string) error {
	gone, failed := c.admin.DeleteTopics(ctx, topics...)
	for _, g := range gone {
		if !errors.Is(g.Err, kerr.UnknownTopicOrPartition) {
			failed = errors.Join(failed, g.Err)
		}
	}
	return failed
}
