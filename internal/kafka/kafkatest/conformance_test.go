package kafkatest_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka/conformance"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
)

// The fake passes the tests that real brokers pass, but for groups: rebalances take no time here, sessions do not end by
// themselves (Evict), and nobody keeps partitions. group_test.go has what it promises instead.
func TestConformance(t *testing.T) {
	c := kafkatest.New("fake")
	conformance.Run(t, conformance.Target{
		Cluster:      c,
		Session:      time.Second,
		NoGroup:      true,
		AnyClock:     true,
		AnyTopicName: true,
		DeleteTopic:  func(_ context.Context, topic string) error { c.DeleteTopic(topic); return nil },
		DeleteRecords: func(_ context.Context, topic string, p int32, before int64) error {
			c.DeleteRecords(topic, p, before)
			return nil
		},
	})
}
