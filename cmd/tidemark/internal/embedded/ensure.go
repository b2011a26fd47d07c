package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Lease is one command's hold on the broker: an open connection. While there is one the broker does not end.
type Lease struct {
	Addr    string // host:port
	Started bool   // this call started the broker
	conn    net.Conn
}

// Close lets go. The broker ends by itself when nobody else uses it.
func (l *Lease) Close() { l.conn.Close() }

// answer bounds how long a running broker may take to answer; it is one thread and syncs every write.
const answer = 10 * time.Second

// Ensure returns a hold on the broker of a directory, which it starts when there is none. It returns when the broker
// has answered. Of any number of commands that call it at once, one starts the broker. o.Log hears what a person who
// waits should know.
//
// The broker is a child with a session of its own and no descriptor of ours, so it outlives this process and keeps
// nobody's pipe open (V15). The child is this executable, run as: broker --dir D --partitions N --linger L.
func Ensure(ctx context.Context, o Options) (*Lease, error) {
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, err
	}
	if conn, addr, err := call(ctx, o.Dir); err == nil {
		return &Lease{Addr: addr, conn: conn}, nil
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	starting, err := waitLock(ctx, filepath.Join(o.Dir, "start"))
	if err != nil {
		return nil, err
	}
	defer starting.release()
	if conn, addr, err := call(ctx, o.Dir); err == nil {
		return &Lease{Addr: addr, conn: conn}, nil
	}
	if err := starting.sign(); err != nil {
		return nil, err
	}
	return start(ctx, o)
}

// start runs the child and waits until it answers or is dead.
func start(ctx context.Context, o Options) (*Lease, error) {
	log, logged, err := openLog(o.Dir)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(executable, "broker", "--dir", o.Dir, "--partitions", strconv.Itoa(o.Partitions), "--linger", o.Linger.String())
	child.Dir = o.Dir
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	dead := make(chan error, 1)
	go func() { dead <- child.Wait() }()
	patience := time.NewTicker(5 * time.Second)
	defer patience.Stop()
	for begun := time.Now(); ; {
		conn, addr, err := call(ctx, o.Dir)
		if err == nil {
			fmt.Fprintf(o.Log, "started a broker at %s, data in %s; %s\n", addr, o.Dir, Warning)
			return &Lease{Addr: addr, Started: true, conn: conn}, nil
		}
		select {
		case state := <-dead:
			if conn, addr, err := call(ctx, o.Dir); err == nil {
				return &Lease{Addr: addr, conn: conn}, nil // somebody started one by hand just before
			}
			return nil, o.died(state, logged)
		case <-patience.C:
			fmt.Fprintf(o.Log, "waiting for the embedded broker to load its data, %s so far\n", time.Since(begun).Round(time.Second))
		default:
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("wait for the embedded broker in %s: %w", o.Dir, err)
		}
	}
}

// died explains the end of a child that never answered with what it logged.
func (o Options) died(state error, logged int64) error {
	path := filepath.Join(o.Dir, "log")
	content, _ := os.ReadFile(path)
	said := strings.TrimSpace(string(content[min(logged, int64(len(content))):]))
	if len(said) > 2000 {
		said = "..." + said[len(said)-2000:]
	}
	if state == nil {
		state = errors.New("exit status 0")
	}
	return fmt.Errorf("the embedded broker ended before it answered (%w); its log %s says:\n%s", state, path, said)
}

// call connects to the broker that the directory's files name and returns the connection when it is really that
// cluster that answers: after a kill the port may be anybody's.
func call(ctx context.Context, dir string) (net.Conn, string, error) {
	addr, id := read(filepath.Join(dir, "addr")), read(filepath.Join(dir, "id"))
	if addr == "" || id == "" {
		return nil, "", errors.New("no broker was here")
	}
	dialer := net.Dialer{Timeout: answer}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, "", err
	}
	got, err := askCluster(conn)
	if err == nil && got != id {
		err = fmt.Errorf("cluster %q answers at %s, not %q", got, addr, id)
	}
	if err != nil {
		conn.Close()
		return nil, "", err
	}
	return conn, addr, nil
}

// askCluster asks for the cluster's id with a metadata request that names no topic.
func askCluster(conn net.Conn) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(answer)); err != nil {
		return "", err
	}
	request := kmsg.NewPtrMetadataRequest()
	request.SetVersion(7)
	request.Topics = []kmsg.MetadataRequestTopic{}
	const correlation = 1
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("tidemark")).AppendRequest(nil, request, correlation)
	if _, err := conn.Write(frame); err != nil {
		return "", err
	}
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return "", err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > 1<<20 || binary.BigEndian.Uint32(head[4:]) != correlation {
		return "", fmt.Errorf("no Kafka broker answers at %s", conn.RemoteAddr())
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(conn, body); err != nil {
		return "", err
	}
	response := request.ResponseKind()
	if err := response.ReadFrom(body); err != nil {
		return "", err
	}
	id := response.(*kmsg.MetadataResponse).ClusterID
	if id == nil {
		return "", errors.New("the broker names no cluster id")
	}
	return *id, conn.SetDeadline(time.Time{})
}
