package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

var _ kafka.Surveyor = (*Cluster)(nil)

// Survey is described in package kafka.
func (c *Cluster) Survey(ctx context.Context, topics []string, group, transactionalID string) (*kafka.Survey, error) {
	ctx, cancel := bounded(ctx, 3*patience, "no answer")
	defer cancel()
	cl, err := c.open(kgo.MaxVersions(byName()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	s := &kafka.Survey{Topics: map[string]kafka.SurveyedTopic{}}
	for _, ask := range []func() error{
		func() error { return surveyCluster(ctx, cl, s) },
		func() error { return surveyTopics(ctx, cl, s, topics) },
		func() error { return surveyGroup(ctx, cl, s, group) },
		func() error { return surveyTransactions(ctx, cl, s, transactionalID) },
	} {
		if err := ask(); err != nil {
			return nil, err
		}
	}
	if s.TransactionVersion < 2 {
		s.Unverified, s.VerificationErr = unverified(ctx, cl)
	}
	return s, nil
}

func surveyCluster(ctx context.Context, cl *kgo.Client, s *kafka.Survey) (err error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeClusterAuthorizedOperations = true
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fail("describe the cluster", nowhere, late(ctx, err))
	}
	s.ClusterID = resp.ClusterID
	for _, b := range resp.Brokers {
		s.Brokers = append(s.Brokers, b.NodeID)
	}
	s.MakeTopics = rights(resp.ClusterAuthorizedOperations)&kafka.RightCreate != 0
	s.TransactionVersion, err = transactionVersion(ctx, cl)
	return err
}

// operations are the protocol's numbers of operations.
var operations = []struct {
	bit   int
	right kafka.Rights
}{{3, kafka.RightRead}, {4, kafka.RightWrite}, {5, kafka.RightCreate}, {8, kafka.RightDescribe}, {10, kafka.RightDescribeConfigs}}

// unasked stands for a broker that does not tell rights.
const unasked = math.MinInt32

// rights reads a set of operations. A broker that tells nothing is taken to allow everything: the job finds out.
func rights(bits int32) (r kafka.Rights) {
	if bits == unasked {
		return kafka.AllRights
	}
	for _, o := range operations {
		if bits&(1<<o.bit) != 0 {
			r |= o.right
		}
	}
	return r
}

func surveyTopics(ctx context.Context, cl *kgo.Client, s *kafka.Survey, names []string) error {
	req := kmsg.NewPtrMetadataRequest()
	req.IncludeTopicAuthorizedOperations = true
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	meta, err := req.RequestWith(ctx, cl)
	if err != nil {
		return fail("describe topics", nowhere, late(ctx, err))
	}
	missing := false
	for i := range meta.Topics {
		t := &meta.Topics[i]
		name := *t.Topic
		found := kafka.SurveyedTopic{TopicInfo: describe(name, t), Rights: rights(t.AuthorizedOperations)}
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			found.Missing = true
		case err != nil && !errors.Is(err, kerr.LeaderNotAvailable):
			found.DescribeErr = fail("describe topic", place{name, -1, -1}, err)
		}
		found.Partitions = make([]kafka.PartitionState, len(t.Partitions))
		for _, p := range t.Partitions {
			if p.Partition < int32(len(t.Partitions)) {
				found.Partitions[p.Partition] = kafka.PartitionState{Leader: p.Leader, Replicas: p.Replicas, InSync: p.ISR}
			}
		}
		if !found.Missing && found.DescribeErr == nil {
			found.ConfigsErr = surveyConfigs(ctx, cl, name, found.Configs)
		}
		s.Topics[name] = found
		missing = missing || found.Missing
	}
	if !missing {
		return nil
	}
	all, err := topicNames(ctx, cl)
	s.Others = slices.DeleteFunc(all, func(name string) bool { return slices.Contains(names, name) })
	return err
}

// surveyConfigs asks for the settings of one topic: the rights on one say nothing about another's.
func surveyConfigs(ctx context.Context, cl *kgo.Client, name string, into map[string]string) error {
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil && len(resp.Resources) != 1 {
		err = errors.New("the broker's answer is not about the topic named")
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Resources[0].ErrorCode)
	}
	if err != nil {
		return fail("ask for topic settings", place{name, -1, -1}, late(ctx, err))
	}
	for _, c := range resp.Resources[0].Configs {
		if c.Value != nil {
			into[c.Name] = *c.Value
		}
	}
	return nil
}

func surveyGroup(ctx context.Context, cl *kgo.Client, s *kafka.Survey, group string) error {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups, req.IncludeAuthorizedOperations = []string{group}, true
	return settled(ctx, func(ctx context.Context) error {
		resp, err := req.RequestWith(ctx, cl)
		if err == nil && len(resp.Groups) != 1 {
			err = errOtherGroup
		}
		if err != nil {
			return fail("describe group "+group, nowhere, late(ctx, err))
		}
		s.Group.Rights = rights(resp.Groups[0].AuthorizedOperations)
		err = kerr.ErrorForCode(resp.Groups[0].ErrorCode)
		if errors.Is(err, kerr.GroupIDNotFound) { // nobody was ever in it, and nothing is said of rights: they are those of reading its offsets
			s.Group = groupRights(ctx, cl, group)
			return nil
		}
		if err = classify("describe group "+group, err); kafka.ClassOf(err) == kafka.ClassPermanent {
			s.Group.Err = err
			return nil
		}
		return err
	})
}

// classify is fail for an answer that may be good.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	return fail(op, nowhere, err)
}

// groupRights finds the right to read a group by asking for a seat that is not there: a heartbeat of nobody.
func groupRights(ctx context.Context, cl *kgo.Client, group string) kafka.Access {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, "tidemark-check", 0
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if errors.Is(err, kerr.GroupAuthorizationFailed) {
		return kafka.Access{Rights: kafka.RightDescribe}
	}
	return kafka.Access{Rights: kafka.RightRead | kafka.RightDescribe}
}

// nobody is a producer id that no broker gives out.
const nobody = math.MaxInt64

// surveyTransactions finds the right to write transactions by ending one in the name of a producer that cannot be: a
// broker looks at rights first, and then finds that the id is not its producer's.
func surveyTransactions(ctx context.Context, cl *kgo.Client, s *kafka.Survey, id string) error {
	return settled(ctx, func(ctx context.Context) error {
		req := kmsg.NewPtrEndTxnRequest()
		req.TransactionalID, req.ProducerID = id, nobody
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		switch {
		case err == nil || errors.Is(err, kerr.InvalidProducerIDMapping) || errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidTxnState) || errors.Is(err, kerr.InvalidProducerEpoch):
			s.Transactions = kafka.Access{Rights: kafka.RightWrite | kafka.RightDescribe}
			return nil
		case errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
			s.Transactions = kafka.Access{}
			return nil
		}
		err = fail("ask about the transactional id "+id, nowhere, late(ctx, err))
		if kafka.ClassOf(err) == kafka.ClassTransient {
			return err
		}
		s.Transactions.Err = err
		return nil
	})
}

// unverified lists the brokers that append to a transaction without asking its coordinator, with what they say.
func unverified(ctx context.Context, cl *kgo.Client) (map[int32]string, error) {
	op := "ask for the brokers' " + verification
	meta, err := metadata(ctx, cl)
	if err != nil {
		return nil, fail(op, nowhere, late(ctx, err))
	}
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, b := range meta.Brokers {
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBroker, fmt.Sprint(b.NodeID)
		resource.ConfigNames = []string{verification}
		req.Resources = append(req.Resources, resource)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, fail(op, nowhere, late(ctx, err))
	}
	found := map[int32]string{}
	for _, r := range resp.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, fail(op, nowhere, err)
		}
		value := "absent"
		for _, c := range r.Configs {
			if c.Name == verification && c.Value != nil {
				value = *c.Value
			}
		}
		var id int32
		if _, err := fmt.Sscan(r.ResourceName, &id); err == nil && value != "true" {
			found[id] = value
		}
	}
	return found, nil
}
