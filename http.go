package tidemark

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-streams/tidemark/internal/status"
)

// addrFile is the file of the state directory that holds the address of the process that runs there.
const addrFile = "http.addr"

// Bounds of the server: nobody can hold more of it than this, so slow or hostile clients cost the tasks nothing (D25).
const (
	maxConnections = 128
	maxHeader      = 8 << 10
	requestTime    = 10 * time.Second
	maxAnswer      = 64 << 20 // bytes of a status: more than 10,000 tasks have
)

// pageServer answers requests about the job.
type pageServer struct {
	server *http.Server
	file   string
	ended  chan struct{}
	closed context.CancelFunc
	told   chan struct{} // closed when the address is written down, or nobody tries any more
}

// serve listens, writes the address into the state directory and answers until closed. Only loopback addresses are
// listened on: nothing here asks who is there (R38).
func (a *App) serve() (*pageServer, error) {
	host, _, err := net.SplitHostPort(a.options.Listen)
	if ip := net.ParseIP(host); err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		err = errors.New("other machines can reach it, which is not yet supported: use a loopback address, as 127.0.0.1:8080")
	}
	if err != nil {
		return nil, fmt.Errorf("http.listen %q: %w", a.options.Listen, err)
	}
	listener, err := net.Listen("tcp", a.options.Listen)
	if err != nil {
		return nil, fmt.Errorf("http.listen: %w: choose another port, or leave it empty for a free one", err)
	}
	addr := listener.Addr().String()
	ctx, closed := context.WithCancel(context.Background())
	p := &pageServer{file: filepath.Join(a.dir.path, addrFile), ended: make(chan struct{}), closed: closed, told: make(chan struct{}), server: &http.Server{
		Handler: status.Handler(a.Status), ReadHeaderTimeout: requestTime / 2, ReadTimeout: requestTime, WriteTimeout: requestTime,
		IdleTimeout: 3 * requestTime, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}}
	go func() {
		defer close(p.ended)
		if err := p.server.Serve(&boundedListener{Listener: listener, free: make(chan struct{}, maxConnections)}); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("the status page is not served any more", "error", err)
		}
	}()
	a.log.Info("status page", "url", "http://"+addr+"/")
	if err := p.tell(addr); err != nil { // a full disk stops no job (S34)
		a.log.Warn("tidemark status does not find this process: its address could not be written down, which is tried again", "address", addr, "error", err)
		go p.tellLater(ctx, addr, a.log)
	} else {
		close(p.told)
	}
	return p, nil
}

func (p *pageServer) tell(addr string) error { return writeFile(p.file, []byte(addr+"\n")) }

// tellLater writes the address down when the disk takes it again.
func (p *pageServer) tellLater(ctx context.Context, addr string, log *slog.Logger) {
	defer close(p.told)
	for wait(ctx, lookoutAgain) {
		if p.tell(addr) == nil {
			log.Info("tidemark status finds this process again: its address is written down", "address", addr)
			return
		}
	}
}

// close ends the server and removes the address: nobody runs here any more.
func (p *pageServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.server.Shutdown(ctx) != nil {
		_ = p.server.Close() // whoever was slow is cut off
	}
	<-p.ended
	p.closed()
	select {
	case <-p.told:
	case <-ctx.Done(): // a disk that hangs holds up no stop
	}
	if err := os.Remove(p.file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("state directory: %w", err)
	}
	return nil
}

// boundedListener accepts as many connections as may be open at a time; the others wait in the system's queue.
type boundedListener struct {
	net.Listener
	free chan struct{}
}

// Accept implements net.Listener.
func (l *boundedListener) Accept() (net.Conn, error) {
	l.free <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &boundedConn{Conn: conn, free: l.free}, nil
}

// boundedConn gives its place back when it is closed.
type boundedConn struct {
	net.Conn
	free chan struct{}
	once sync.Once
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	c.once.Do(func() { <-c.free })
	return c.Conn.Close()
}

// ErrNotRunning is returned by FetchStatus when no process runs the job in the state directory.
var ErrNotRunning = errors.New("no job runs here")

// FetchStatus asks the process that runs in a state directory on this machine for its status. The raw answer is the JSON
// of /status as it came. A file http.addr that a crash has left behind is noticed: nobody answers there, or somebody else.
func FetchStatus(ctx context.Context, stateDir string) (s *Status, raw []byte, err error) {
	file := filepath.Join(stateDir, addrFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w: there is no %s", ErrNotRunning, file)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("state directory: %w", err)
	}
	addr := strings.TrimSpace(string(text))
	stale := func(why string) error {
		return fmt.Errorf("%w: %s names %s, where %s: a process was killed and left the file behind", ErrNotRunning, file, addr, why)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/status", nil)
	if err != nil {
		return nil, nil, stale("nobody can listen")
	}
	resp, err := (&http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}).Do(req)
	var refused *net.OpError
	switch {
	case errors.As(err, &refused) && refused.Op == "dial":
		return nil, nil, stale("nobody listens")
	case err != nil:
		return nil, nil, fmt.Errorf("the process at %s does not answer: %w", addr, err)
	}
	raw, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, nil, fmt.Errorf("the process at %s does not answer: %w", addr, err)
	}
	s = &Status{}
	if resp.StatusCode != http.StatusOK || json.Unmarshal(raw, s) != nil {
		return nil, nil, stale("somebody else listens")
	}
	own, err := readIdentity(stateDir)
	if err != nil || s.Instance != own.UUID {
		return nil, nil, stale(fmt.Sprintf("the process of state directory %q listens", s.StateDir))
	}
	if s.Format > status.Format {
		return nil, nil, fmt.Errorf("the process at %s speaks status format %d, this program knows %d: use its version, %s", addr, s.Format, status.Format, s.Version)
	}
	return s, raw, nil
}
