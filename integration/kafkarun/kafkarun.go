// Package kafkarun runs one Apache Kafka broker for tests and benchmarks: KRaft, a single node, on free loopback ports,
// in a directory that is deleted at the end. Compaction, markers, fencing and timeouts are tested on it, for the
// embedded broker does not keep those promises (R1).
//
// It needs java (17 or later) and mvn. The jars come from Maven Central once and stay in the user's cache directory. A
// machine without java or mvn is a failure that says what to install, never a skip: a skipped test looks like a pass.
package kafkarun

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// Version is the Apache Kafka that is run.
const Version = "4.4.0"

//go:embed pom.xml
var pom []byte

// readyLimit is how long a broker may take until it answers and has made a topic.
const readyLimit = 90 * time.Second

// Broker is a running broker.
type Broker struct {
	Addr string // host:port

	dir  string
	jars string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start runs a broker for a test and stops it at the test's end. settings are lines of server.properties.
func Start(t testing.TB, settings ...string) *Broker {
	t.Helper()
	b, err := Run(t.Context(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Remove(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Run formats a directory, starts a broker in it and returns when the broker answers. Remove has to be called.
func Run(ctx context.Context, settings ...string) (*Broker, error) {
	jars, err := Jars(ctx, "kafka-"+Version, pom)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tidemark-kafka-")
	if err != nil {
		return nil, err
	}
	b := &Broker{dir: dir, jars: jars}
	if err := b.format(ctx, settings); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := b.Restart(ctx); err != nil {
		return nil, errors.Join(err, b.Remove())
	}
	return b, nil
}

// Jars returns a directory with the jars that a pom.xml wants at run time. Maven fills it the first time, and it stays in
// the user's cache directory under the name, which must say the version.
func Jars(ctx context.Context, name string, pom []byte) (string, error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%s is needed to run Apache Kafka %s: install a JRE of 17 or later and Maven (Debian: apt-get install openjdk-17-jre-headless maven): %w", tool, Version, err)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = filepath.Join(os.TempDir(), "tidemark-cache") // a machine without HOME
	}
	jars := filepath.Join(cache, "tidemark", name)
	if _, err := os.Stat(jars); err == nil {
		return jars, nil
	}
	if err := os.MkdirAll(filepath.Dir(jars), 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(jars), "fetch-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	mvn := exec.CommandContext(ctx, "mvn", "-q", "-B", "-f", filepath.Join(work, "pom.xml"), "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "jars"))
	if out, err := mvn.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mvn could not fetch the jars of %s: %w\n%s", name, err, tail(out))
	}
	// Whole or not at all: two tests may fetch at once, and one may be ended in the middle.
	if err := os.Rename(filepath.Join(work, "jars"), jars); err != nil && !errors.Is(err, os.ErrExist) {
		if _, there := os.Stat(jars); there != nil {
			return "", err
		}
	}
	return jars, nil
}

// format writes the settings and prepares the data directory.
func (b *Broker) format(ctx context.Context, settings []string) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	b.Addr = fmt.Sprintf("127.0.0.1:%d", ports[0])
	controller := fmt.Sprintf("127.0.0.1:%d", ports[1])
	lines := append([]string{
		"process.roles=broker,controller",
		"node.id=1",
		"controller.quorum.voters=1@" + controller,
		"listeners=PLAINTEXT://" + b.Addr + ",CONTROLLER://" + controller,
		"advertised.listeners=PLAINTEXT://" + b.Addr,
		"controller.listener.names=CONTROLLER",
		"log.dirs=" + filepath.Join(b.dir, "data"),
		"offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=4",
		"transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1",
		"transaction.state.log.num.partitions=4",
		"share.coordinator.state.topic.replication.factor=1",
		"share.coordinator.state.topic.min.isr=1",
		"group.initial.rebalance.delay.ms=0",
		"auto.create.topics.enable=false",
	}, settings...)
	if err := os.WriteFile(b.path("server.properties"), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	const logging = "status=error\nrootLogger.level=warn\nrootLogger.appenderRef.out.ref=out\nappender.out.type=Console\nappender.out.name=out\nappender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%d %p %m (%c)%n\n"
	if err := os.WriteFile(b.path("log4j2.properties"), []byte(logging), 0o644); err != nil {
		return err
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	format := b.java(ctx, "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format",
		"-t", base64.RawURLEncoding.EncodeToString(id[:]), "-c", b.path("server.properties"))
	if out, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("format %s: %w\n%s", b.dir, err, tail(out))
	}
	return nil
}

func (b *Broker) path(name string) string { return filepath.Join(b.dir, name) }

func (b *Broker) java(ctx context.Context, args ...string) *exec.Cmd {
	all := append([]string{"-Xms256m", "-Xmx1g", "-cp", filepath.Join(b.jars, "*"),
		"-Dlog4j2.configurationFile=" + b.path("log4j2.properties")}, args...)
	return exec.CommandContext(ctx, "java", all...)
}

// Restart starts the broker again after Kill, Stop or an end of its own, and returns when it answers.
func (b *Broker) Restart(ctx context.Context) error {
	out, err := os.OpenFile(b.path("broker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // the child has its own
	b.cmd = b.java(context.WithoutCancel(ctx), "kafka.Kafka", b.path("server.properties"))
	b.cmd.Stdout, b.cmd.Stderr = out, out
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // never outlives its tests
	if err := b.cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	b.done = done
	cmd := b.cmd
	go func() {
		_ = cmd.Wait() // how it ended is told by the log
		close(done)
	}()
	return b.ready(ctx)
}

// ready waits until the broker has made a topic, which needs all of it.
func (b *Broker) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	cluster, err := client.New(client.Options{Brokers: []string{b.Addr}})
	if err != nil {
		return err
	}
	admin, err := cluster.Admin()
	if err != nil {
		return err
	}
	defer admin.Close()
	for {
		err := admin.Create(ctx, kafka.TopicSpec{Name: "kafkarun-ready", Partitions: 1})
		if err == nil {
			return nil
		}
		select {
		case <-b.done:
			return fmt.Errorf("the broker ended at its start:\n%s", b.Log())
		default:
		}
		if ctx.Err() != nil {
			return fmt.Errorf("the broker does not answer at %s: %w\n%s", b.Addr, err, b.Log())
		}
	}
}

// PID is the broker's process id.
func (b *Broker) PID() int { return b.cmd.Process.Pid }

// Signal sends a signal to the broker: SIGSTOP and SIGCONT make it hang and go on.
func (b *Broker) Signal(s syscall.Signal) error { return b.cmd.Process.Signal(s) }

// Kill ends the broker as a crash would, and returns when it is gone.
func (b *Broker) Kill() error { return b.end(syscall.SIGKILL) }

// Stop ends the broker cleanly, and returns when it is gone.
func (b *Broker) Stop() error { return b.end(syscall.SIGTERM) }

func (b *Broker) end(s syscall.Signal) error {
	if b.done == nil {
		return nil
	}
	if err := b.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-b.done
	return nil
}

// Remove kills the broker and deletes its data.
func (b *Broker) Remove() error { return errors.Join(b.Kill(), os.RemoveAll(b.dir)) }

// Log is the end of what the broker has printed.
func (b *Broker) Log() string {
	out, err := os.ReadFile(b.path("broker.log"))
	if err != nil {
		return err.Error()
	}
	return tail(out)
}

func tail(out []byte) string {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-30):], []byte("\n")))
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
