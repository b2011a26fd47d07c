package embedded

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestMain makes the test binary the broker that Ensure starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "broker" {
		os.Exit(serve(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func serve(args []string) int {
	o := Options{Log: os.Stderr}
	flags := flag.NewFlagSet("broker", flag.ExitOnError)
	flags.StringVar(&o.Dir, "dir", "", "")
	flags.IntVar(&o.Partitions, "partitions", 0, "")
	flags.DurationVar(&o.Linger, "linger", 0, "")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := Serve(ctx, o, func(string) {}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// place is a broker's directory in a test. Whatever runs there ends with the test.
func place(t *testing.T) Options {
	o := Options{Dir: filepath.Join(t.TempDir(), "broker"), Partitions: 3, Linger: time.Minute, Log: t.Output()}
	t.Cleanup(func() { kill(t, o, syscall.SIGTERM) })
	return o
}

// kill sends a signal to the broker and returns when it is gone: then its lock is free.
func kill(t *testing.T, o Options, signal syscall.Signal) {
	t.Helper()
	if pid, err := strconv.Atoi(read(filepath.Join(o.Dir, "lock"))); err == nil {
		if lock, err := tryLock(filepath.Join(o.Dir, "lock")); lock != nil || err != nil {
			return // it ended before
		}
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
		gone(t, o)
	}
}

// gone waits until no broker runs.
func gone(t *testing.T, o Options) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	lock, err := waitLock(ctx, filepath.Join(o.Dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	lock.release()
}

func ensure(t *testing.T, o Options) *Lease {
	t.Helper()
	lease, err := Ensure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lease.Close)
	return lease
}

func connect(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func produce(t *testing.T, addr, value string) {
	t.Helper()
	client := connect(t, addr)
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), -1, -1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, addr string) string {
	t.Helper()
	client := connect(t, addr, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	fetches := client.PollFetches(t.Context())
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	return string(fetches.Records()[0].Value)
}

// TestManyCommandsStartOneBroker lets eight commands ask at once.
func TestManyCommandsStartOneBroker(t *testing.T) {
	o := place(t)
	leases := make([]*Lease, 8)
	var wait sync.WaitGroup
	for i := range leases {
		wait.Go(func() { leases[i] = ensure(t, o) })
	}
	wait.Wait()
	started := 0
	for _, lease := range leases {
		if lease.Started {
			started++
		}
		if lease.Addr != leases[0].Addr {
			t.Errorf("two brokers: %s and %s", leases[0].Addr, lease.Addr)
		}
	}
	if started != 1 {
		t.Errorf("%d brokers were started, want 1", started)
	}
}

// TestBrokerEndsByItselfAndComesBack also shows that a lease keeps the broker, and that it comes back with its data, its
// cluster id and its port.
func TestBrokerEndsByItselfAndComesBack(t *testing.T) {
	o := place(t)
	o.Linger = 300 * time.Millisecond
	lease := ensure(t, o)
	produce(t, lease.Addr, "kept")
	id := read(filepath.Join(o.Dir, "id"))
	ctx, cancel := context.WithTimeout(t.Context(), 4*o.Linger)
	defer cancel()
	if lock, err := waitLock(ctx, filepath.Join(o.Dir, "lock")); lock != nil {
		t.Fatal("the broker ended although a command held it", err)
	}
	lease.Close()
	gone(t, o)
	again := ensure(t, o)
	if !again.Started || again.Addr != lease.Addr {
		t.Errorf("started %v at %s, want a new broker at %s", again.Started, again.Addr, lease.Addr)
	}
	if got := consume(t, again.Addr); got != "kept" {
		t.Errorf("the topic holds %q, want %q", got, "kept")
	}
	if got := read(filepath.Join(o.Dir, "id")); got != id {
		t.Errorf("cluster id is %q, was %q", got, id)
	}
}

// TestBrokerKilled shows that what was acknowledged is on disk, and that the address it left is not believed.
func TestBrokerKilled(t *testing.T) {
	o := place(t)
	produce(t, ensure(t, o).Addr, "synced")
	kill(t, o, syscall.SIGKILL)
	again := ensure(t, o)
	if !again.Started {
		t.Error("the dead broker was found alive")
	}
	if got := consume(t, again.Addr); got != "synced" {
		t.Errorf("the topic holds %q, want %q", got, "synced")
	}
}

// TestStrangerOnThePort lets another program take the port of a broker that was killed.
func TestStrangerOnThePort(t *testing.T) {
	o := place(t)
	addr := ensure(t, o).Addr
	kill(t, o, syscall.SIGKILL)
	stranger, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	go func() {
		for {
			conn, err := stranger.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "220 stranger ready\r\n")
			conn.Close()
		}
	}()
	again := ensure(t, o)
	if again.Addr == addr || !again.Started {
		t.Errorf("broker at %s (started %v), want a new one elsewhere", again.Addr, again.Started)
	}
}

// TestTwoClusters shows that brokers of two directories are two clusters.
func TestTwoClusters(t *testing.T) {
	a, b := place(t), place(t)
	ensure(t, a)
	ensure(t, b)
	if x, y := read(filepath.Join(a.Dir, "id")), read(filepath.Join(b.Dir, "id")); x == y || x == "" {
		t.Errorf("cluster ids are %q and %q", x, y)
	}
}

// TestBrokerThatCannotStart passes on what the child said before it died.
func TestBrokerThatCannotStart(t *testing.T) {
	o := place(t)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "data"), []byte("in the way"), 0o644); err != nil {
		t.Fatal(err)
	}
	lease, err := Ensure(t.Context(), o)
	if err == nil {
		lease.Close()
		t.Fatal("a broker started on top of a file")
	}
	for _, want := range []string{"exit status 1", "not a directory", filepath.Join(o.Dir, "log")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// TestSecondBrokerIsRefused starts one by hand where one runs.
func TestSecondBrokerIsRefused(t *testing.T) {
	o := place(t)
	lease := ensure(t, o)
	err := Serve(t.Context(), o, func(string) { t.Error("a second broker runs") })
	if err == nil || !strings.Contains(err.Error(), "already runs") || !strings.Contains(err.Error(), lease.Addr) {
		t.Errorf("error is %v, want one that names %s", err, lease.Addr)
	}
}

// TestSettings shows that the cleaner is ten years away and that a topic without numbers gets the configured count.
func TestSettings(t *testing.T) {
	o := place(t)
	lease := ensure(t, o)
	produce(t, lease.Addr, "x")
	admin := kadm.NewClient(connect(t, lease.Addr))
	configs, err := admin.DescribeBrokerConfigs(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, c := range configs[0].Configs {
		if c.Key == "log.cleaner.backoff.ms" {
			found = c.MaybeValue()
		}
	}
	if found != "315360000000" {
		t.Errorf("log.cleaner.backoff.ms is %q, want ten years", found)
	}
	topics, err := admin.ListTopics(t.Context(), "t")
	if err != nil || len(topics["t"].Partitions) != o.Partitions {
		t.Errorf("topic has %d partitions (%v), want %d", len(topics["t"].Partitions), err, o.Partitions)
	}
}

// TestLogIsBounded shows that the log of a broker that is started for years does not grow for ever.
func TestLogIsBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log"), bytes.Repeat([]byte("x"), maxLog+1), 0o644); err != nil {
		t.Fatal(err)
	}
	log, size, err := openLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := os.Stat(filepath.Join(dir, "log.old")); err != nil || size != 0 {
		t.Errorf("log of %d bytes goes on (%v)", size, err)
	}
}
