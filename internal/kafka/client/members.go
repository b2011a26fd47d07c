package client

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// What an admin asks of a group without a seat in it: repairs must know that nobody works (R37).

// settled asks again while the answer is transient: a coordinator that is loading, or has moved.
func settled(ctx context.Context, ask func(ctx context.Context) error) error {
	ctx, cancel := bounded(ctx, patience, "no answer")
	defer cancel()
	for n := 0; ; n++ {
		err := ask(ctx)
		if err == nil || kafka.ClassOf(err) != kafka.ClassTransient || pause(ctx, backoff(n)) != nil {
			return err
		}
	}
}

// Members is described in package kafka.
func (a *admin) Members(ctx context.Context, group string) (members []kafka.GroupMember, err error) {
	err = settled(ctx, func(ctx context.Context) (err error) {
		members, err = a.members(ctx, group)
		return err
	})
	return members, err
}

func (a *admin) members(ctx context.Context, group string) ([]kafka.GroupMember, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, a.cl)
	if err == nil && len(resp.Groups) != 1 {
		err = errOtherGroup
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fail("ask for the members of group "+group, nowhere, late(ctx, err))
	}
	var members []kafka.GroupMember
	for i := range resp.Groups[0].Members {
		m := &resp.Groups[0].Members[i]
		member := kafka.GroupMember{ID: m.MemberID, Host: strings.TrimPrefix(m.ClientHost, "/")}
		if m.InstanceID != nil {
			member.Instance = *m.InstanceID
		}
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b kafka.GroupMember) int { return strings.Compare(a.ID, b.ID) })
	return members, nil
}

// GroupOffsets is described in package kafka.
func (a *admin) GroupOffsets(ctx context.Context, group, topic string) (offsets map[int32]kafka.GroupOffset, err error) {
	err = settled(ctx, func(ctx context.Context) (err error) {
		offsets, err = groupOffsets(ctx, a.cl, group, topic)
		return err
	})
	return offsets, err
}

// SetGroupOffset is described in package kafka.
func (a *admin) SetGroupOffset(ctx context.Context, group, topic string, partition int32, offset kafka.GroupOffset) error {
	nobody := kafka.Member{Generation: -1}
	return settled(ctx, func(ctx context.Context) error {
		return setOffset(ctx, a.cl, group, nobody, place{topic, partition, int64(offset.Next)}, offset.Metadata)
	})
}

// Remove is described in package kafka.
func (a *admin) Remove(ctx context.Context, group string, member kafka.GroupMember) error {
	return settled(ctx, func(ctx context.Context) error {
		return remove(ctx, a.cl, group, kafka.Member{ID: member.ID, Instance: member.Instance})
	})
}
