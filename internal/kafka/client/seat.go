package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// What is said to the group's coordinator beside joining and heartbeats.

// byName keeps offset requests at the versions that name a topic instead of giving its id: the group's offset is a
// courtesy to lag tools, who look for the name, and nothing is judged by it (V4).
func byName() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 9)
	v.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 9)
	return v
}

// Ask is described in package kafka. Every answer that is about the seat (a rebalance, a generation that is over, a
// removed member, a taken instance id) means that what this process knows is old: franz-go hears the same at its next
// heartbeat, and what comes after that, an assignment or the end, is what is asked about.
func (g *group) Ask(ctx context.Context, partition int32) (bool, error) {
	const op = "ask the group"
	at := place{g.options.Topic, partition, -1}
	for {
		g.mu.Lock()
		seat, list, holding, changed, over := g.seat, g.list, g.holding, g.changed, g.over
		g.mu.Unlock()
		if over != nil {
			return false, over
		}
		if holding {
			err := g.heartbeat(ctx, seat)
			if err == nil {
				select {
				case <-changed: // the answer was about a generation that is over
					continue
				default:
					return slices.Contains(list, partition), nil
				}
			}
			if class, _ := classOf(err); class != kafka.ClassFenced && !errors.Is(err, kerr.FencedInstanceID) {
				return false, fail(op, at, late(ctx, err))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, fail(op, at, fmt.Errorf("%w while waiting for the group %s to agree", context.Cause(ctx), g.options.Group))
		}
	}
}

// heartbeat sends one of our own and returns the coordinator's answer.
func (g *group) heartbeat(ctx context.Context, seat kafka.Member) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = g.options.Group, seat.ID, seat.Generation
	req.InstanceID = instanceOf(seat)
	resp, err := req.RequestWith(ctx, g.ops)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func instanceOf(seat kafka.Member) *string {
	if seat.Instance == "" {
		return nil
	}
	return &seat.Instance
}

// evict removes the member of a former life. One that is gone already is what was wanted.
func (g *group) evict(member string) error {
	ctx, cancel := bounded(context.Background(), requestTimeout, "no answer")
	defer cancel()
	return remove(ctx, g.ops, g.options.Group, kafka.Member{ID: member})
}

// remove takes a seat away.
func remove(ctx context.Context, cl *kgo.Client, group string, seat kafka.Member) error {
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID, member.InstanceID = seat.ID, instanceOf(seat)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, seat.ID
	req.Members = append(req.Members, member)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil && len(resp.Members) == 1 {
		err = kerr.ErrorForCode(resp.Members[0].ErrorCode)
	}
	if err == nil || errors.Is(err, kerr.UnknownMemberID) || errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	return fail("leave group "+group, nowhere, late(ctx, err))
}

// SetOffset is described in package kafka.
func (g *group) SetOffset(ctx context.Context, partition int32, next record.InputPosition, metadata string) error {
	return setOffset(ctx, g.ops, g.options.Group, g.Member(), place{g.options.Topic, partition, int64(next)}, metadata)
}

// setOffset sets the offset of a group as the holder of a seat, or as nobody. The client is one of byName.
func setOffset(ctx context.Context, cl *kgo.Client, group string, seat kafka.Member, at place, metadata string) error {
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = at.partition, at.offset, &metadata
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = at.topic
	topic.Partitions = append(topic.Partitions, p)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, seat.ID, seat.Generation
	req.InstanceID = instanceOf(seat)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && (len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1) {
		err = errOtherPartition
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return fail("set the offset of group "+group, at, late(ctx, err))
	}
	return nil
}

// Offsets is described in package kafka.
func (g *group) Offsets(ctx context.Context) (map[int32]kafka.GroupOffset, error) {
	return groupOffsets(ctx, g.ops, g.options.Group, g.options.Topic)
}

// groupOffsets asks for what a group knows of a topic. The client is one of byName.
func groupOffsets(ctx context.Context, cl *kgo.Client, group, topic string) (map[int32]kafka.GroupOffset, error) {
	op, at := "ask for the offsets of group "+group, place{topic, -1, -1}
	of := kmsg.NewOffsetFetchRequestGroup()
	of.Group = group
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = append(req.Groups, of) // without topics: all of them
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Groups) != 1 {
		err = errOtherGroup
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil // nobody was ever in it
	}
	if err != nil {
		return nil, fail(op, at, late(ctx, err))
	}
	offsets := map[int32]kafka.GroupOffset{}
	for _, t := range resp.Groups[0].Topics {
		if t.Topic != topic {
			continue
		}
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fail(op, place{t.Topic, p.Partition, -1}, err)
			}
			if p.Offset < 0 {
				continue
			}
			o := kafka.GroupOffset{Next: record.InputPosition(p.Offset)}
			if p.Metadata != nil {
				o.Metadata = *p.Metadata
			}
			offsets[p.Partition] = o
		}
	}
	return offsets, nil
}
