package status

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// The answers. Nothing changes anything, so nothing but GET and HEAD is answered, and nothing needs a token on a
// loopback address (R38).
//
//	/livez    200 while every task moves, waits for a named thing or restores with growing position; else 503
//	/readyz   200 while everything is green; else 503, with the reasons
//	/status   a Status as JSON
//	/metrics  in the form of Prometheus
//	/         a page for people

// Answer is what /livez and /readyz say.
type Answer struct {
	Health  Health   `json:"health"`
	Live    bool     `json:"live"`
	Ready   bool     `json:"ready"`
	Reasons []Reason `json:"reasons"` // of /livez: only those for which it fails
}

// Handler answers requests with what now gives, which must be safe for concurrent use. It answers only requests that
// name this machine by a loopback address: a web page elsewhere that has its own name resolve to 127.0.0.1 is given
// nothing.
func Handler(now func() *Status) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		s := now()
		a := Answer{s.Health, s.Live, s.Ready, []Reason{}}
		for _, r := range s.Reasons {
			if !r.Live {
				a.Reasons = append(a.Reasons, r)
			}
		}
		writeJSON(w, code(s.Live), a)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		s := now()
		writeJSON(w, code(s.Ready), Answer{s.Health, s.Live, s.Ready, s.Reasons})
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, now()) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { writePage(w, now()) })
	mux.Handle("GET /metrics", metricsHandler(now))
	return guard(mux)
}

// metricsHandler answers scrapes with the job's metrics and those of the process: memory, descriptors, the collector.
func metricsHandler(now func() *Status) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&collector{now}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 5 * time.Second})
}

// guard refuses foreign names and tells browsers to load and to keep nothing.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src '"+styleHash+"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		if !local(r.Host) {
			http.Error(w, "this address answers only under a name of this machine, such as 127.0.0.1", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// local tells whether a Host header names the loopback interface.
func local(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	if len(name) > 2 && name[0] == '[' && name[len(name)-1] == ']' {
		name = name[1 : len(name)-1]
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

func code(ok bool) int {
	if ok {
		return http.StatusOK
	}
	return http.StatusServiceUnavailable
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // whoever asked has gone; there is nobody to tell
}
