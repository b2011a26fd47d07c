// Package kafkarun runs Apache Kafka for tests and benchmarks: KRaft, one broker or a cluster of several processes, on free
// loopback ports, in directories that are deleted at the end. Compaction, markers, fencing, elections and time-outs are
// tested on it, for the embedded broker does not keep those promises (R1).
//
// It needs java (17 or later), and mvn the first time. The jars come from Maven Central once and stay in the user's cache
// directory. A machine without java or mvn is a failure that says what to install, never a skip: a skipped test looks
// like a pass.
package kafkarun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Version is the Apache Kafka that is run.
const Version = "4.4.0"

// readyLimit is how long a broker may take until it answers and has made a topic.
const readyLimit = 90 * time.Second

// Options say how brokers are set up. The zero value is a plain one.
type Options struct {
	Settings []string // lines of server.properties; they go before our own
	Features []string // NAME=LEVEL, finalized when the data are formatted; the others at their newest level
	Logins   []string // SCRAM-SHA-256=[name=NAME,password=PASSWORD], known from the start
	// Secure is the security protocol of a second listener, named SECURE: SSL, SASL_SSL or SASL_PLAINTEXT; "" for none.
	// Its settings are lines of Settings that begin with listener.name.secure.
	Secure string
	// Address is the broker's own, host:port, for one that others have to find; "" for a free port.
	Address string
	// Addressed is called when a broker's addresses are known and it is about to be started; may be nil.
	Addressed func(*Broker)
}

// Broker is a running broker.
type Broker struct {
	Addr   string // host:port, plain text
	Secure string // host:port of the second listener, "" for none

	id         int32
	controller string // host:port
	dir        string
	jars       string
	size       int // of the cluster
	cmd        *exec.Cmd
	done       chan struct{} // closed when the process has ended
}

// Start runs a broker for a test and stops it at the test's end. settings are lines of server.properties.
func Start(t testing.TB, settings ...string) *Broker {
	t.Helper()
	return StartWith(t, Options{Settings: settings})
}

// StartWith is Start with all options.
func StartWith(t testing.TB, options Options) *Broker {
	t.Helper()
	c, err := RunCluster(t.Context(), 1, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c.Brokers[0]
}

// Run formats a directory, starts a broker in it and returns when the broker answers. Remove has to be called.
func Run(ctx context.Context, settings ...string) (*Broker, error) {
	c, err := RunCluster(ctx, 1, Options{Settings: settings})
	if err != nil {
		return nil, err
	}
	return c.Brokers[0], nil
}

func (b *Broker) path(name string) string { return filepath.Join(b.dir, name) }

func (b *Broker) java(ctx context.Context, args ...string) *exec.Cmd {
	all := append([]string{"-Xms128m", "-Xmx1g", "-cp", filepath.Join(b.jars, "*"),
		"-Dlog4j2.configurationFile=" + b.path("log4j2.properties")}, args...)
	return exec.CommandContext(ctx, "java", all...)
}

// Restart starts the broker again after Kill, Stop or an end of its own, and returns when it answers.
func (b *Broker) Restart(ctx context.Context) error {
	if err := b.launch(ctx); err != nil {
		return err
	}
	return b.ready(ctx)
}

// launch starts the process.
func (b *Broker) launch(ctx context.Context) error {
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
	return nil
}

// ready waits until the broker's peers list it as alive, and a topic has leaders, which needs all of it.
func (b *Broker) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := b.alive(ctx, admin)
		if err == nil {
			return nil
		}
		select {
		case <-b.done:
			return fmt.Errorf("the broker ended at its start:\n%s", b.Log())
		case <-ctx.Done():
			return fmt.Errorf("the broker does not answer at %s: %w\n%s", b.Addr, err, b.Log())
		case <-tick.C:
		}
	}
}

// readyTopic is made by the first broker that is ready.
const readyTopic = "kafkarun-ready"

func (b *Broker) alive(ctx context.Context, admin *kadm.Client) error {
	all, err := admin.ListBrokers(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(all.NodeIDs(), b.id) {
		return fmt.Errorf("broker %d is not among the living %v", b.id, all.NodeIDs())
	}
	if b.size > 1 {
		return nil // with some of the others down, elections may be what is tested
	}
	made, err := admin.CreateTopics(ctx, 1, 1, nil, readyTopic)
	if err == nil {
		err = made[readyTopic].Err
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return err
	}
	return nil
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
