package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
)

// plan is what is measured.
type plan struct {
	readings, devices int
	rounds            int
	parts             []int32
	tasks             []int32       // of the paced runs
	paced             time.Duration // one paced run
	keys              int           // of the memory run; 0 leaves it out
	peers             []*peer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	binary := flag.String("tidemark", "bin/tidemark", "path of tidemark")
	p := plan{tasks: []int32{64, 256}}
	parts := flag.String("parts", "4,64", "numbers of partitions the rate is measured with")
	flag.IntVar(&p.readings, "readings", 5_000_000, "readings of the runs for rate and recovery")
	flag.IntVar(&p.devices, "devices", 100_000, "devices of these")
	flag.IntVar(&p.rounds, "rounds", 3, "rounds of the rate; each runs every program once")
	flag.DurationVar(&p.paced, "paced", 20*time.Second, "length of a paced run")
	flag.IntVar(&p.keys, "keys", 10_000_000, "keys of the memory run, 0 for none")
	chosen := flag.String("peers", "", "the programs to measure beside tidemark, separated by commas; empty for all")
	only := flag.String("only", "", "rate, recovery, pace or memory; empty for all")
	flag.Parse()
	if p.peers, err = choose(*chosen); err != nil {
		return err
	}
	for _, text := range strings.Split(*parts, ",") {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 1 {
			return fmt.Errorf("-parts %s: want numbers of partitions, separated by commas", *parts)
		}
		p.parts = append(p.parts, int32(n))
	}
	b, err := prepare(ctx, *binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.note("%s, %s/%s, %d cores, %s; Apache Kafka %s, one broker on the same cores; Apache Flink %s", processor(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), runtime.Version(), kafkarun.Version, flinkVersion)
	for _, part := range []struct {
		name string
		run  func(*bench, plan) error
	}{{"rate", rates}, {"recovery", recoveries}, {"pace", paces}, {"memory", memory}} {
		if *only == "" || *only == part.name {
			if err := part.run(b, p); err != nil {
				return fmt.Errorf("%s: %w", part.name, err)
			}
		}
	}
	return nil
}

// bench is what all measurements share: the broker, clients of it, and where things lie.
type bench struct {
	ctx     context.Context
	broker  *kafkarun.Broker
	client  *kgo.Client
	admin   *kadm.Client
	dir     string
	binary  string
	streams string // class path of each peer
	flink   string
	loaded  map[int32]*input
	runs    int
}

var (
	//go:embed pom.xml
	streamsJars []byte
	//go:embed Peer.java
	streamsJob []byte
	//go:embed flink.xml
	flinkJars []byte
	//go:embed FlinkPeer.java
	flinkJob []byte
)

// prepare starts the broker and compiles the jobs of the peers.
func prepare(ctx context.Context, binary string) (_ *bench, err error) {
	b := &bench{ctx: ctx, loaded: map[int32]*input{}}
	if b.binary, err = filepath.Abs(binary); err != nil {
		return nil, err
	}
	if _, err := os.Stat(b.binary); err != nil {
		return nil, fmt.Errorf("%w: make build makes it", err)
	}
	if b.dir, err = os.MkdirTemp("", "tidemark-peers-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.streams, err = b.compile("kafka-streams-"+kafkarun.Version, streamsJars, "Peer.java", streamsJob); err != nil {
		return nil, err
	}
	if b.flink, err = b.compile("flink-"+flinkVersion, flinkJars, "FlinkPeer.java", flinkJob); err != nil {
		return nil, err
	}
	if b.broker, err = kafkarun.Run(ctx); err != nil {
		return nil, err
	}
	if b.client, err = kgo.NewClient(kgo.SeedBrokers(b.broker.Addr), kgo.ProducerBatchMaxBytes(1<<20), kgo.ProducerLinger(10*time.Millisecond),
		kgo.MaxBufferedRecords(200_000), kgo.ProducerBatchCompression(kgo.NoCompression())); err != nil {
		return nil, err
	}
	b.admin = kadm.NewClient(b.client)
	return b, nil
}

// compile compiles the job of a peer and returns its class path.
func (b *bench) compile(name string, pom []byte, file string, job []byte) (classes string, err error) {
	jars, err := kafkarun.Jars(b.ctx, name, pom)
	if err != nil {
		return "", err
	}
	source := filepath.Join(b.dir, file)
	if err := os.WriteFile(source, job, 0o600); err != nil {
		return "", err
	}
	classes = filepath.Join(jars, "*") + ":" + b.dir
	if said, err := exec.CommandContext(b.ctx, "javac", "-cp", classes, "-d", b.dir, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("javac, which a JDK of 17 or later has: %w\n%s", err, said)
	}
	return classes, nil
}

func (b *bench) close() (err error) {
	if b.client != nil {
		b.client.Close()
	}
	if b.broker != nil {
		err = b.broker.Remove()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// note prints a line of the report, progress a line about it.
func (b *bench) note(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// name is a new one, for a job, an application or a directory.
func (b *bench) name(kind string) string {
	b.runs++
	return fmt.Sprintf("%s-%d", kind, b.runs)
}

// topics makes topics and returns when the broker tells of them, which is a moment later.
func (b *bench) topics(partitions int32, names ...string) error {
	made, err := b.admin.CreateTopics(b.ctx, partitions, 1, nil, names...)
	if err == nil {
		err = made.Error()
	}
	for err == nil {
		var listed kadm.TopicDetails
		if listed, err = b.admin.ListTopics(b.ctx, names...); err == nil && listed.Error() == nil {
			return nil
		}
	}
	return err
}

// processor is the model that this machine names.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown processor"
}
