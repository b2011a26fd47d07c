// Command kafkaup runs one Apache Kafka broker for trying tidemark out (make kafka-up), until it is told to stop (make
// kafka-down). Its topics are gone then. It listens on a fixed loopback address.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
)

// address is where the broker listens: not Kafka's own port, which somebody may use.
const address = "127.0.0.1:19092"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "kafkaup PIDFILE TOPIC...: runs a broker in the foreground, makes topics, and writes its process id to the file")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "kafkaup:", err)
		os.Exit(1)
	}
}

// partitions is how many each topic has: enough for two instances to share.
const partitions = 4

// run serves until a signal. The pid file is there exactly while the broker answers and has its topics.
func run(pidFile string, topics []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if running(pidFile) {
		return fmt.Errorf("a broker is running already at %s: make kafka-down stops it", address)
	}
	cluster, err := kafkarun.RunCluster(ctx, 1, kafkarun.Options{Address: address})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Remove()) }()
	if err := create(ctx, topics); err != nil {
		return err
	}
	if err := cluster.Settled(ctx, topics...); err != nil { // a topic that was made may still be unknown to whoever asks at once
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(pidFile)) }()
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// create makes the topics.
func create(ctx context.Context, topics []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	made, err := kadm.NewClient(client).CreateTopics(ctx, partitions, 1, nil, topics...)
	if err != nil {
		return err
	}
	return made.Error()
}

// running tells whether the process of a pid file lives.
func running(pidFile string) bool {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && syscall.Kill(pid, 0) == nil
}
