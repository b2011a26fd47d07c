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

// Members is described in package kafka.
func (a *admin) Members(ctx context.Context, group string) ([]kafka.GroupMember, error) {
	ctx, cancel := bounded(ctx, patience, "no answer")
	defer cancel()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, a.cl)
	if err == nil && len(resp.Groups) != 1 {
		err = errors.New("the broker's answer is not about the group named")
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
func (a *admin) GroupOffsets(ctx context.Context, group, topic string) (map[int32]kafka.GroupOffset, error) {
	ctx, cancel := bounded(ctx, patience, "no answer")
	defer cancel()
	return groupOffsets(ctx, a.cl, group, topic)
}

// Remove is described in package kafka.
func (a *admin) Remove(ctx context.Context, group string, member kafka.GroupMember) error {
	ctx, cancel := bounded(ctx, requestTimeout, "no answer")
	defer cancel()
	return remove(ctx, a.cl, group, kafka.Member{ID: member.ID, Instance: member.Instance})
}
