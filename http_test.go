package tidemark

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// served runs a job with its page until the test ends, and returns the page's address once all is committed.
func (w *world) served() (d *daemon, addr string) {
	w.t.Helper()
	d = w.start(w.dir, func(o *Options) { o.Listen = "127.0.0.1:0" })
	d.until("partition 0", recoveredOn(0))
	d.until("partition 1", recoveredOn(1))
	text, err := os.ReadFile(filepath.Join(w.dir, addrFile))
	if err != nil {
		w.t.Fatal(err)
	}
	return d, strings.TrimSpace(string(text))
}

// get asks and returns code, headers and body.
func get(t *testing.T, req *http.Request) (int, http.Header, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

// TestPageIsServed: the address is in the state directory while the process runs, readable by its owner only, and every
// answer is what it is described to be.
func TestPageIsServed(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(100)
	d, addr := w.served()
	file := filepath.Join(w.dir, addrFile)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%s: %v, %v", file, info, err)
	}
	for path, c := range map[string]struct {
		code int
		kind string
		says string
	}{
		"/":             {200, "text/html; charset=utf-8", "<h2>Tasks</h2>"},
		"/livez":        {200, "application/json", `"live": true`},
		"/readyz":       {200, "application/json", `"reasons": []`},
		"/status":       {200, "application/json", `"format": 1`},
		"/metrics":      {200, "text/plain", "tidemark_ready 1"},
		"/debug/pprof/": {404, "", ""},
		"/nothing":      {404, "", ""},
	} {
		req, _ := http.NewRequest(http.MethodGet, "http://"+addr+path, nil)
		code, header, body := get(t, req)
		if code != c.code || !strings.HasPrefix(header.Get("Content-Type"), c.kind) || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s\n%s", path, code, header.Get("Content-Type"), body)
		}
		if header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: headers %v", path, header)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		req, _ := http.NewRequest(method, "http://"+addr+"/status", nil)
		if code, _, _ := get(t, req); code != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered with %d", method, code)
		}
	}
	for host, want := range map[string]int{"evil.example": 421, "evil.example:80": 421, "10.0.0.1": 421, "localhost:1": 200, "[::1]:1": 200, "127.0.0.1": 200} {
		req, _ := http.NewRequest(http.MethodGet, "http://"+addr+"/status", nil)
		req.Host = host
		if code, _, _ := get(t, req); code != want {
			t.Errorf("under the name %s: %d, want %d", host, code, want)
		}
	}
	s, raw, err := FetchStatus(t.Context(), w.dir)
	if err != nil || s.Job != "job" || !json.Valid(raw) || s.PID != os.Getpid() || !filepath.IsAbs(s.StateDir) {
		t.Errorf("%+v, %v", s, err)
	}
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s after a clean stop: %v", file, err)
	}
}

// TestPageWhileBrokersAreAway: the answers come although nothing else does, and say why (D06).
func TestPageWhileBrokersAreAway(t *testing.T) {
	w := newWorld(t, 2)
	d, addr := w.served()
	w.cluster.Inject(func(kafkatest.Call) kafkatest.Verdict { return kafkatest.Fail(errAway) })
	w.produce(2)
	d.until("a failure", func(e Event) bool { return e.Kind == EventFailed })
	req, _ := http.NewRequest(http.MethodGet, "http://"+addr+"/readyz", nil)
	code, _, body := get(t, req)
	var answer status.Answer
	if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 503 || answer.Ready || !answer.Live || answer.Reasons[0].Partition == nil {
		t.Errorf("readyz: %d %s", code, body)
	}
	req, _ = http.NewRequest(http.MethodGet, "http://"+addr+"/livez", nil)
	if code, _, body := get(t, req); code != 200 {
		t.Errorf("livez: %d %s", code, body)
	}
	w.cluster.Inject(nil)
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
}

// TestStaleAddress: what a killed process left behind is not taken for a running job.
func TestStaleAddress(t *testing.T) {
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	foreign := httptest.NewServer(status.Handler(func() *Status { return &Status{Format: 1, Instance: "another", StateDir: "/elsewhere"} }))
	defer foreign.Close()
	newer := httptest.NewServer(status.Handler(func() *Status { return &Status{Format: 99, Instance: "ours", Version: "9"} }))
	defer newer.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := gone.Addr().String()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		addr       string
		says       string
		notRunning bool
	}{
		"no file":            {"", "there is no ", true},
		"nobody":             {nobody, "nobody listens", true},
		"no address":         {"what is this", "nobody can listen", true},
		"another program":    {other.Listener.Addr().String(), "somebody else listens", true},
		"another directory":  {foreign.Listener.Addr().String(), `"/elsewhere" listens`, true},
		"of a newer version": {newer.Listener.Addr().String(), "format 99", false},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, idFile), []byte(`{"uuid":"ours"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if c.addr != "" {
			if err := os.WriteFile(filepath.Join(dir, addrFile), []byte(c.addr+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, _, err := FetchStatus(t.Context(), dir)
		if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrNotRunning) != c.notRunning {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// TestListenRefusesOtherMachines: without a token nobody else may look (R38, D25).
func TestListenRefusesOtherMachines(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "192.0.2.1:80", "example.com:80", "[::]:0", "nonsense"} {
		w := newWorld(t, 2)
		o := w.options()
		o.Listen = listen
		app, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := app.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "http.listen") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

// TestConnectionsAreBounded: those beyond the limit wait without being taken (D25).
func TestConnectionsAreBounded(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bounded := &boundedListener{Listener: listener, free: make(chan struct{}, 2)}
	defer bounded.Close()
	accepted := make(chan net.Conn, 8)
	go func() {
		for {
			conn, err := bounded.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	for range 3 {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first, second := <-accepted, <-accepted
	select {
	case <-accepted:
		t.Fatal("a third connection was taken with room for two")
	case <-time.After(50 * time.Millisecond):
	}
	if err := errors.Join(first.Close(), first.Close()); err == nil {
		t.Error("closed twice without an error")
	}
	third := <-accepted
	_ = errors.Join(second.Close(), third.Close())
}

// TestServerIsBounded: every phase of a request has its longest time.
func TestServerIsBounded(t *testing.T) {
	w := newWorld(t, 2)
	a := &App{options: Options{Listen: "127.0.0.1:0"}, log: w.options().Log, dir: &stateDir{path: w.dir}}
	page, err := a.serve()
	if err != nil {
		t.Fatal(err)
	}
	s := page.server
	for what, d := range map[string]time.Duration{"headers": s.ReadHeaderTimeout, "request": s.ReadTimeout, "answer": s.WriteTimeout, "idle": s.IdleTimeout} {
		if d <= 0 || d > time.Minute {
			t.Errorf("%s may take %s", what, d)
		}
	}
	if s.MaxHeaderBytes != maxHeader {
		t.Errorf("headers may have %d bytes", s.MaxHeaderBytes)
	}
	if err := page.close(); err != nil {
		t.Fatal(err)
	}
}

// S34: a process that could not write its address down, for the disk was full at its start, does so when it can: else nobody
// would find its status for as long as it lives.
func TestAddressIsWrittenDownLater(t *testing.T) {
	w := newWorld(t, 2)
	w.produce(100)
	inTheWay := filepath.Join(w.dir, addrFile+".tmp")
	if err := os.Mkdir(inTheWay, 0o700); err != nil { // the failed attempt removes it
		t.Fatal(err)
	}
	said := &bytes.Buffer{}
	d := w.start(w.dir, func(o *Options) {
		o.Listen, o.Log = "127.0.0.1:0", slog.New(slog.NewTextHandler(said, nil))
	})
	d.until("partition 0", recoveredOn(0))
	for began := time.Now(); ; {
		if _, err := os.Stat(filepath.Join(w.dir, addrFile)); err == nil {
			break
		} else if time.Since(began) > 30*time.Second {
			t.Fatal(err)
		}
		wait(t.Context(), 10*time.Millisecond)
	}
	if err := d.end(); err != nil {
		t.Fatal(err)
	}
	if text := said.String(); !strings.Contains(text, "does not find this process") || !strings.Contains(text, "finds this process again") {
		t.Errorf("the log says\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(w.dir, addrFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the address of a process that has ended: %v", err)
	}
}
