// Package kafka holds the tests and benchmarks that need an Apache Kafka broker (kafkarun). They are
// slow, so they are in no other package.
package kafka

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// broker is shared by the tests of this package that do not harm it.
var broker *kafkarun.Broker

func TestMain(m *testing.M) {
	var err error
	if broker, err = kafkarun.Run(context.Background(), soakSettings()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := broker.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func connect(t testing.TB, addr string) *client.Cluster {
	t.Helper()
	c, err := client.New(client.Options{Brokers: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
