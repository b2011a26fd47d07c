package kafka

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka/conformance"
)

// TestConformance holds kafka/client to the contract of package kafka on Apache Kafka.
func TestConformance(t *testing.T) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	conformance.Run(t, conformance.Target{
		Cluster: connect(t, broker.Addr),
		Session: 6 * time.Second,
		DeleteTopic: func(ctx context.Context, topic string) error {
			resp, err := admin.DeleteTopic(ctx, topic)
			if err == nil {
				err = resp.Err
			}
			return err
		},
		DeleteRecords: func(ctx context.Context, topic string, partition int32, before int64) error {
			var offsets kadm.Offsets
			offsets.AddOffset(topic, partition, before, -1)
			resp, err := admin.DeleteRecords(ctx, offsets)
			if err == nil {
				err = resp.Error()
			}
			return err
		},
	})
}
