package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/tidemark-streams/tidemark/internal/kafka/client"
	"github.com/tidemark-streams/tidemark/internal/kafka/conformance"
)

// embedded starts a broker like the one of `tidemark broker` in this process.
func embedded(t testing.TB, opts ...kfake.Opt) (*kfake.Cluster, *client.Cluster) {
	t.Helper()
	opts = append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(time.Second),
	}, opts...)
	broker, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	c, err := client.New(client.Options{Brokers: broker.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	return broker, c
}

func TestConformance(t *testing.T) {
	broker, cluster := embedded(t)
	conformance.Run(t, conformance.Target{
		Cluster:      cluster,
		Session:      time.Second,
		AnyTopicName: true,
		DeleteTopic:  func(_ context.Context, topic string) error { return broker.DeleteTopic(topic) },
		DeleteRecords: func(_ context.Context, topic string, p int32, before int64) error {
			return broker.DeleteRecords(topic, p, before)
		},
	})
}
