package kafkarun

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster is several brokers, each a process of its own and a voter of the controllers' quorum. With less than half of
// them alive nothing is elected any more.
type Cluster struct {
	Brokers []*Broker
	dir     string
}

// StartCluster runs a cluster for a test and stops it at the test's end. Topics of its own have a replica on each broker
// and need all but one of them. A broker that is gone is noticed after three seconds.
func StartCluster(t testing.TB, brokers int, options Options) *Cluster {
	t.Helper()
	c, err := RunCluster(t.Context(), brokers, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, b := range c.Brokers {
				t.Logf("broker %d:\n%s", b.id, b.Log())
			}
		}
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// RunCluster is StartCluster without a test: Remove has to be called.
func RunCluster(ctx context.Context, brokers int, options Options) (*Cluster, error) {
	jars, err := Jars(ctx, "kafka-"+Version, pom)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tidemark-kafka-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir}
	for i := range brokers {
		b := &Broker{id: int32(i + 1), dir: dir, jars: jars, size: brokers}
		if brokers > 1 {
			b.dir = filepath.Join(dir, fmt.Sprint("broker-", i+1))
		}
		c.Brokers = append(c.Brokers, b)
	}
	err = c.format(ctx, options)
	for _, b := range c.Brokers {
		if err == nil {
			err = b.launch(ctx)
		}
	}
	for _, b := range c.Brokers {
		if err == nil {
			err = b.ready(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Remove())
	}
	return c, nil
}

// Addrs are the brokers' addresses.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Brokers))
	for i, b := range c.Brokers {
		addrs[i] = b.Addr
	}
	return addrs
}

// Broker is the broker with that node id.
func (c *Cluster) Broker(id int32) *Broker { return c.Brokers[id-1] }

// Remove kills all brokers and deletes their data.
func (c *Cluster) Remove() error {
	var failed error
	for _, b := range c.Brokers {
		failed = errors.Join(failed, b.Remove())
	}
	return errors.Join(failed, os.RemoveAll(c.dir))
}

// format gives every broker its ports and prepares its data directory.
func (c *Cluster) format(ctx context.Context, options Options) error {
	ports, err := freePorts(3 * len(c.Brokers))
	if err != nil {
		return err
	}
	var voters []string
	for i, b := range c.Brokers {
		at := func(n int) string { return fmt.Sprintf("127.0.0.1:%d", ports[3*i+n]) }
		b.Addr, b.controller = cmp.Or(options.Address, at(0)), at(1)
		if options.Secure != "" {
			b.Secure = at(2)
		}
		voters = append(voters, fmt.Sprintf("%d@%s", b.id, b.controller))
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	random[0] &= 0x7f // an id that begins with "-" would be taken for an option
	id := base64.RawURLEncoding.EncodeToString(random[:])
	for _, b := range c.Brokers {
		if err := b.format(ctx, id, strings.Join(voters, ","), options); err != nil {
			return err
		}
		if options.Addressed != nil {
			options.Addressed(b)
		}
	}
	return nil
}

// format writes the settings and prepares the data directory.
func (b *Broker) format(ctx context.Context, cluster, voters string, options Options) error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	lines := append(b.settings(voters, options), options.Settings...)
	if err := os.WriteFile(b.path("server.properties"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	const logging = "status=error\nrootLogger.level=warn\nrootLogger.appenderRef.out.ref=out\nappender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%d %p %m (%c)%n\n"
	if err := os.WriteFile(b.path("log4j2.properties"), []byte(logging), 0o644); err != nil {
		return err
	}
	args := []string{"-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format", "-t", cluster, "-c", b.path("server.properties")}
	for _, f := range options.Features {
		args = append(args, "--feature", f)
	}
	for _, l := range options.Logins {
		args = append(args, "--add-scram", l)
	}
	if out, err := b.java(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("format %s: %w\n%s", b.dir, err, tail(out))
	}
	return nil
}

// settings are the lines that make the broker one of its cluster.
func (b *Broker) settings(voters string, options Options) []string {
	listeners, advertised, protocols := "PLAINTEXT://"+b.Addr, "PLAINTEXT://"+b.Addr, "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
	if b.Secure != "" {
		listeners, advertised = listeners+",SECURE://"+b.Secure, advertised+",SECURE://"+b.Secure
		protocols += ",SECURE:" + options.Secure
	}
	replicas, insync := b.size, max(b.size-1, 1)
	return []string{
		"process.roles=broker,controller",
		fmt.Sprintf("node.id=%d", b.id),
		"controller.quorum.voters=" + voters,
		"listeners=" + listeners + ",CONTROLLER://" + b.controller,
		"advertised.listeners=" + advertised,
		"listener.security.protocol.map=" + protocols,
		"inter.broker.listener.name=PLAINTEXT",
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + b.path("data"),
		fmt.Sprintf("default.replication.factor=%d", replicas),
		fmt.Sprintf("min.insync.replicas=%d", insync),
		fmt.Sprintf("offsets.topic.replication.factor=%d", replicas),
		"offsets.topic.num.partitions=4",
		fmt.Sprintf("transaction.state.log.replication.factor=%d", replicas),
		fmt.Sprintf("transaction.state.log.min.isr=%d", insync),
		"transaction.state.log.num.partitions=4",
		fmt.Sprintf("share.coordinator.state.topic.replication.factor=%d", replicas),
		fmt.Sprintf("share.coordinator.state.topic.min.isr=%d", insync),
		"broker.session.timeout.ms=3000",
		"broker.heartbeat.interval.ms=500",
		"group.initial.rebalance.delay.ms=0",
		"auto.create.topics.enable=false",
	}
}

// Settled waits until every partition of the topics has a leader and all its replicas in sync.
func (c *Cluster) Settled(ctx context.Context, topics ...string) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		behind, err := outOfSync(ctx, admin, topics)
		if err == nil && behind == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("replicas not in sync: %s: %w", behind, errors.Join(err, context.Cause(ctx)))
		case <-tick.C:
		}
	}
}

// outOfSync names a partition whose replicas are not all in sync, or that has no leader.
func outOfSync(ctx context.Context, admin *kadm.Client, topics []string) (string, error) {
	described, err := admin.Metadata(ctx, topics...)
	if err != nil {
		return "", err
	}
	behind := ""
	for _, name := range topics {
		t := described.Topics[name]
		if t.Err != nil {
			return "", t.Err
		}
		for _, p := range t.Partitions.Sorted() {
			if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
				behind = fmt.Sprintf("%s/%d has leader %d and in sync %v of %v", name, p.Partition, p.Leader, p.ISR, p.Replicas)
			}
		}
	}
	return behind, nil
}

// freePorts returns ports that nobody listens on at the moment.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all are held until all are known
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
