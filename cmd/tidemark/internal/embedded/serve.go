package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Warning is what the broker says at every start.
const Warning = "this broker is for trying out: one machine, not crash-safe, never for data you need"

// takeover is how long a broker that is ending may keep the directory from the next one.
const takeover = 30 * time.Second

// Options are the options of a broker.
type Options struct {
	Dir        string        // made when missing
	Partitions int           // of topics that are created without a number
	Linger     time.Duration // ends when nobody was connected for so long; 0: never by itself
	Log        io.Writer     // one line per event
}

// Serve hosts the broker of a directory until the context ends or nobody has used it for the linger time, then flushes
// everything and returns nil. ready is called once with the address, when clients can connect.
//
// It fails when a broker already runs there.
func Serve(ctx context.Context, o Options, ready func(addr string)) error {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	lock, err := own(ctx, o.Dir)
	if err != nil {
		return err
	}
	defer lock.release()
	port := lastPort(o.Dir)
	if err := os.Remove(filepath.Join(o.Dir, "addr")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	id, err := clusterID(o.Dir)
	if err != nil {
		return err
	}
	var guests *crowd
	log := &brokerLog{to: o.Log}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.Ports(port),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			listener, err := listen(network, address)
			if err != nil {
				return nil, err
			}
			guests = newCrowd(listener)
			return guests, nil
		}),
		kfake.ClusterID(id),
		kfake.DataDir(filepath.Join(o.Dir, "data")),
		kfake.SyncWrites(),
		kfake.DefaultNumPartitions(o.Partitions),
		kfake.BrokerConfigs(settings),
		kfake.WithLogger(log),
	)
	if err != nil {
		return fmt.Errorf("embedded broker in %s: %w", o.Dir, err)
	}
	addr := guests.Addr().String()
	if err := write(filepath.Join(o.Dir, "addr"), addr); err != nil {
		cluster.Close()
		return err
	}
	if o.Linger > 0 {
		guests.watch(o.Linger)
	}
	ready(addr)
	select {
	case <-ctx.Done():
	case <-guests.idle:
	}
	cluster.Close()
	if err := log.failure(); err != nil {
		return fmt.Errorf("embedded broker in %s: %w", o.Dir, err)
	}
	return nil
}

// settings are the broker's. The cleaner would start after an hour and is not crash-safe (R1): its first round is ten
// years away, which also keeps retention from deleting a trial's readings.
var settings = map[string]string{
	"log.cleaner.backoff.ms":     strconv.FormatInt((10 * 365 * 24 * time.Hour).Milliseconds(), 10),
	"default.replication.factor": "1",
}

// own takes the broker's lock. One that is ending is waited for; one that answers is there to stay.
func own(ctx context.Context, dir string) (*fileLock, error) {
	path := filepath.Join(dir, "lock")
	wait, cancel := context.WithTimeoutCause(ctx, takeover, errors.New("it neither answers nor ends"))
	defer cancel()
	for {
		lock, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			return lock, lock.sign()
		}
		if conn, addr, err := call(ctx, dir); err == nil {
			conn.Close()
			return nil, fmt.Errorf("a broker already runs in %s: process %s at %s", dir, read(path), addr)
		}
		if err := pause(wait); err != nil {
			return nil, fmt.Errorf("another broker, process %s, holds %s: %w", read(path), path, err)
		}
	}
}

// lastPort returns the port of the directory's last broker, 0 for any.
func lastPort(dir string) int {
	_, port, _ := net.SplitHostPort(read(filepath.Join(dir, "addr")))
	n, _ := strconv.Atoi(port)
	return n
}

// listen takes the wanted port, or any when somebody else has it by now.
func listen(network, address string) (net.Listener, error) {
	listener, err := net.Listen(network, address)
	if err == nil {
		return listener, nil
	}
	host, _, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return nil, err
	}
	return net.Listen(network, net.JoinHostPort(host, "0"))
}

// brokerLog writes kfake's warnings and errors, and remembers the first error: kfake reports a failed write to disk
// nowhere else.
type brokerLog struct {
	to io.Writer

	mu    sync.Mutex
	first error
}

// Level is the least severe level that is wanted.
func (*brokerLog) Level() kfake.LogLevel { return kfake.LogLevelWarn }

// Logf writes one line.
func (l *brokerLog) Logf(level kfake.LogLevel, format string, args ...any) {
	if level > l.Level() {
		return
	}
	line := fmt.Sprintf(format, args...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if level == kfake.LogLevelError && l.first == nil {
		l.first = errors.New(line)
	}
	fmt.Fprintf(l.to, "%s %s\n", time.Now().UTC().Format(time.RFC3339), line)
}

func (l *brokerLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

// Volatile hosts a broker of this process that keeps everything in memory and is gone with stop. It is for trials, which
// bring their own data and take it away again.
func Volatile(partitions int) (addr string, stop func(), err error) {
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.Ports(0),
		kfake.DefaultNumPartitions(partitions),
		kfake.BrokerConfigs(settings),
	)
	if err != nil {
		return "", nil, fmt.Errorf("broker in memory: %w", err)
	}
	return cluster.ListenAddrs()[0], cluster.Close, nil
}
