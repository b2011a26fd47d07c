package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// admin asks about the cluster.
type admin struct {
	cl      *kgo.Client
	cluster *Cluster
}

var _ kafka.Admin = (*admin)(nil)

// Admin makes an Admin. It connects at the first call.
func (c *Cluster) Admin() (kafka.Admin, error) {
	cl, err := c.open(kgo.MaxVersions(byName()))
	if err != nil {
		return nil, err
	}
	return &admin{cl, c}, nil
}

// Close releases the connections.
func (a *admin) Close() { a.cl.Close() }

// Cluster is described in package kafka.
func (a *admin) Cluster(ctx context.Context) (string, int16, error) {
	ctx, cancel := bounded(ctx, patience, "no answer")
	defer cancel()
	meta, err := metadata(ctx, a.cl)
	if err != nil {
		return "", 0, fail("describe the cluster at "+strings.Join(a.cluster.options.Brokers, ", "), nowhere, late(ctx, err))
	}
	id := ""
	if meta.ClusterID != nil {
		id = *meta.ClusterID
	}
	version, err := transactionVersion(ctx, a.cl)
	return id, version, err
}

// transactionVersion is the finalized level of the feature, 0 when the broker does not name it.
func transactionVersion(ctx context.Context, cl *kgo.Client) (int16, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "tidemark", "1"
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return 0, fail("ask for the cluster's features", nowhere, late(ctx, err))
	}
	for _, f := range resp.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel, nil
		}
	}
	return 0, nil
}

// Transactions is described in package kafka.
func (a *admin) Transactions(ctx context.Context) error {
	ctx, cancel := bounded(ctx, patience, "no answer")
	defer cancel()
	_, err := a.cluster.requireTransactions(ctx)
	return err
}

// requireTransactions refuses clusters whose transactions can be torn: below transaction.version 2 a delayed EndTxn may
// commit half of the next transaction, and franz-go hides the moment it is sent twice (R12). It tells whether the old
// protocol is to be used, which the options must allow.
func (c *Cluster) requireTransactions(ctx context.Context) (old bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.admitted {
		return c.old, nil
	}
	cl, err := c.open()
	if err != nil {
		return false, err
	}
	defer cl.Close()
	version, err := transactionVersion(ctx, cl)
	if err != nil {
		return false, err
	}
	if version < 2 {
		if !c.options.AllowTransactionV1 {
			return false, refuse("fence", fmt.Errorf("the cluster's transaction.version is %d, exactly-once needs 2", version),
				"with brokers of 4.0 or later run kafka-features.sh --bootstrap-server HOST:PORT upgrade --feature transaction.version=2 (tidemark check --live prints it with the address of your brokers); "+
					"else kafka.allow_transaction_v1: true goes on with the old protocol, at the price of slower commits")
		}
		if err := requireVerification(ctx, cl); err != nil {
			return false, err
		}
	}
	c.admitted, c.old = true, version < 2
	return c.old, nil
}

// Topics is described in package kafka.
func (a *admin) Topics(ctx context.Context, names ...string) (map[string]kafka.TopicInfo, error) {
	ctx, cancel := bounded(ctx, patience, "no answer")
	defer cancel()
	found := map[string]kafka.TopicInfo{}
	if len(names) == 0 {
		return found, nil
	}
	meta, err := metadata(ctx, a.cl, names...)
	if err != nil {
		return nil, fail("describe topics", nowhere, late(ctx, err))
	}
	configs := kmsg.NewPtrDescribeConfigsRequest()
	for i := range meta.Topics {
		t := &meta.Topics[i]
		name := *t.Topic
		err := kerr.ErrorForCode(t.ErrorCode)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			continue
		}
		if err != nil && (!errors.Is(err, kerr.LeaderNotAvailable) || !record.TopicID(t.TopicID).Known()) { // then it says nothing of the topic
			return nil, fail("describe topic", place{name, -1, -1}, err)
		}
		found[name] = describe(name, t)
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
		configs.Resources = append(configs.Resources, resource)
	}
	if len(found) == 0 {
		return found, nil
	}
	resp, err := configs.RequestWith(ctx, a.cl)
	if err != nil {
		return nil, fail("ask for topic settings", nowhere, late(ctx, err))
	}
	for i := range resp.Resources {
		r := &resp.Resources[i]
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return nil, fail("ask for topic settings", place{r.ResourceName, -1, -1}, err)
		}
		for _, c := range r.Configs {
			if c.Value != nil {
				found[r.ResourceName].Configs[c.Name] = *c.Value
			}
		}
	}
	return found, nil
}

// Names is described in package kafka.
func (a *admin) Names(ctx context.Context) ([]string, error) {
	ctx, cancel := bounded(ctx, patience, "no answer")
	defer cancel()
	names, err := topicNames(ctx, a.cl)
	return names, late(ctx, err)
}

// topicNames lists all topics that are not the brokers' own.
func topicNames(ctx context.Context, cl *kgo.Client) (names []string, err error) {
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl) // which names no topic, and so asks for all
	if err != nil {
		return nil, fail("list the topics", nowhere, err)
	}
	for i := range resp.Topics {
		if t := &resp.Topics[i]; t.Topic != nil && !t.IsInternal {
			names = append(names, *t.Topic)
		}
	}
	return names, nil
}

func describe(name string, t *kmsg.MetadataResponseTopic) kafka.TopicInfo {
	info := kafka.TopicInfo{
		Topic:   record.Topic{Name: name, ID: t.TopicID, Partitions: int32(len(t.Partitions))},
		Configs: map[string]string{},
		InSync:  make([]int, len(t.Partitions)),
	}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if int(p.Partition) < len(info.InSync) {
			info.InSync[p.Partition] = len(p.ISR)
		}
		if n := len(p.Replicas); i == 0 || n < info.ReplicationFactor {
			info.ReplicationFactor = n
		}
		if p.Leader < 0 {
			info.Leaderless = append(info.Leaderless, p.Partition)
		}
	}
	return info
}

// Create is described in package kafka.
func (a *admin) Create(ctx context.Context, spec kafka.TopicSpec) error {
	ctx, cancel := bounded(ctx, patience, "the topic was not made, or has no leaders,")
	defer cancel()
	at := place{spec.Name, -1, -1}
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = spec.Name, spec.Partitions, spec.ReplicationFactor
	if topic.ReplicationFactor == 0 {
		topic.ReplicationFactor = -1 // the broker's default
	}
	for name, value := range spec.Configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, kmsg.StringPtr(value)
		topic.Configs = append(topic.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(requestTimeout.Milliseconds())
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, a.cl)
	if err == nil && len(resp.Topics) != 1 {
		err = fmt.Errorf("asked for 1 topic, the broker answered about %d", len(resp.Topics))
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		if message := resp.Topics[0].ErrorMessage; err != nil && message != nil {
			err = fmt.Errorf("%w (%s)", err, *message)
		}
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fail("create topic", at, late(ctx, err))
	}
	return a.settle(ctx, at, 1)
}

// AddPartitions is described in package kafka.
func (a *admin) AddPartitions(ctx context.Context, topic string, count int32) error {
	ctx, cancel := bounded(ctx, patience, "the partitions were not made, or have no leaders,")
	defer cancel()
	at := place{topic, -1, -1}
	meta, err := metadata(ctx, a.cl, topic)
	if err != nil {
		return fail("add partitions", at, late(ctx, err))
	}
	if int32(len(meta.Topics[0].Partitions)) < count {
		raise := kmsg.NewCreatePartitionsRequestTopic()
		raise.Topic, raise.Count = topic, count
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis = int32(requestTimeout.Milliseconds())
		req.Topics = append(req.Topics, raise)
		resp, err := req.RequestWith(ctx, a.cl)
		if err == nil && len(resp.Topics) != 1 {
			err = fmt.Errorf("asked for 1 topic, the broker answered about %d", len(resp.Topics))
		}
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		}
		if err != nil && !errors.Is(err, kerr.InvalidPartitions) { // somebody else was faster: settle sees
			return fail("add partitions", at, late(ctx, err))
		}
	}
	return a.settle(ctx, at, int(count))
}

// OpenTransactions is described in package kafka.
func (a *admin) OpenTransactions(ctx context.Context, topic string, partition int32) ([]kafka.OpenTransaction, error) {
	ctx, cancel := bounded(ctx, requestTimeout, "no answer")
	defer cancel()
	of := kmsg.NewDescribeProducersRequestTopic()
	of.Topic, of.Partitions = topic, []int32{partition}
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = append(req.Topics, of)
	resp, err := req.RequestWith(ctx, a.cl)
	if err == nil && (len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1) {
		err = errOtherPartition
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return nil, fail("describe producers", place{topic, partition, -1}, late(ctx, err))
	}
	var open []kafka.OpenTransaction
	for _, p := range resp.Topics[0].Partitions[0].ActiveProducers {
		if p.CurrentTxnStartOffset >= 0 {
			open = append(open, kafka.OpenTransaction{Producer: kafka.Producer{ID: p.ProducerID, Epoch: int16(p.ProducerEpoch)},
				Start: p.CurrentTxnStartOffset, LastTimestamp: p.LastTimestamp})
		}
	}
	slices.SortFunc(open, func(a, b kafka.OpenTransaction) int { return cmp.Compare(a.Start, b.Start) })
	return open, nil
}

// settle asks until the topic has at least so many partitions and a leader for each. Brokers do not tell when; the pause
// grows.
func (a *admin) settle(ctx context.Context, at place, least int) error {
	for n := 0; ; n++ {
		meta, err := metadata(ctx, a.cl, at.topic)
		if err != nil {
			return fail("create topic", at, late(ctx, err))
		}
		t := &meta.Topics[0]
		err = kerr.ErrorForCode(t.ErrorCode)
		if err == nil && len(t.Partitions) >= least && len(describe(at.topic, t).Leaderless) == 0 {
			return nil
		}
		if err := pause(ctx, backoff(n)); err != nil {
			return fail("create topic", at, err)
		}
	}
}
