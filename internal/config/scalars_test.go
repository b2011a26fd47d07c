package config

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/reading"
	"github.com/tidemark-streams/tidemark/window"
)

// good and bad hold a spec to texts that it must take and texts that it must refuse; a refusal names the text.
func good[T comparable](t *testing.T, what string, sp spec[T], cases map[string]T) {
	t.Helper()
	for text, want := range cases {
		if got, w := sp.parse(text); w != nil || got != want {
			t.Errorf("%s %q: %v, %+v, want %v", what, text, got, w, want)
		}
	}
}

func bad[T any](t *testing.T, what string, sp spec[T], texts ...string) {
	t.Helper()
	for _, text := range texts {
		got, w := sp.parse(text)
		if w == nil {
			t.Errorf("%s %q: taken as %v", what, text, got)
		} else if text != "" && !strings.Contains(w.what, strings.Trim(shown(text), `."`)) {
			t.Errorf("%s %q: the fault does not show it: %s", what, text, w.what)
		}
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("n", maxName)
	good(t, "name", name("job"), map[string]string{"a": "a", "1": "1", "Boiler-room_2.x": "Boiler-room_2.x", long: long})
	bad(t, "name", name("job", stateFiles...), "", ".", "..", "-a", "_a", ".a", "a b", "a/b", "ä", "a\n", long+"n", "id", "LOCK", "http.addr", "Broker")
	topicName := strings.Repeat("t", maxTopic)
	good(t, "topic", topic, map[string]string{"a": "a", "-": "-", "_a": "_a", "...": "...", topicName: topicName})
	bad(t, "topic", topic, "", ".", "..", "a b", "a/b", "ö", "a:b", "__x", topicName+"t")
	good(t, "late topic", topicOrEmpty, map[string]string{"": "", "a": "a"})
	bad(t, "late topic", topicOrEmpty, "..")
}

func TestNumbers(t *testing.T) {
	good(t, "number", whole(0, 100), map[string]int{"0": 0, "7": 7, "100": 100})
	bad(t, "number", whole(0, 100), "", "101", "-1", "+1", "01", "1.0", "1e1", "1_0", "0x1", " 1", "ten", "99999999999999999999")
	good(t, "size", size(0, math.MaxInt64), map[string]int64{
		"0": 0, "1": 1, "10B": 10, "1KiB": 1 << 10, "16MiB": 16 << 20, "3GiB": 3 << 30, "2TiB": 2 << 40,
		"9223372036854775807": math.MaxInt64, "99999999999999999999999": math.MaxInt64,
	})
	bad(t, "size", size(1, 1<<40), "", "0", "-1", "1.5MiB", "16MB", "16 MiB", "16mib", "MiB", "1025GiB", "99999999TiB", "1_000")
	for bytes, want := range map[int64]string{0: "0B", 1: "1B", 1023: "1023B", 1 << 10: "1KiB", 1536: "1536B", 16 << 20: "16MiB", 5 << 40: "5TiB"} {
		if got := formatSize(bytes); got != want {
			t.Errorf("formatSize(%d) = %s, want %s", bytes, got, want)
		}
	}
	good(t, "max_bytes", maxBytes, map[string]int64{"auto": 0, "1MiB": 1 << 20})
	bad(t, "max_bytes", maxBytes, "0", "Auto", "1KiB")
}

func TestTimes(t *testing.T) {
	good(t, "min", earliestTime, map[string]int64{
		"2000-01-01": reading.DefaultMin, "1970-01-01T01:00:00+01:00": 0, "0000-01-01": -62167219200000, "2000-01-01T00:00:00.0015Z": reading.DefaultMin + 1,
	})
	bad(t, "min", earliestTime, "", "2000", "2000-1-1", "2000-02-30", "2000-01-01T00:00:00", "2000-01-01 00:00:00Z", "10000-01-01", "now", "-0001-01-01")
	day := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	good(t, "start", start, map[string]Start{"earliest": {}, "latest": {Latest: true}, "2026-01-31": {Time: day}, "2026-01-31T01:00:00+01:00": {Time: day}})
	bad(t, "start", start, "", "Latest", "1969-12-31", "1600000000000")
	good(t, "max_ahead", maxAhead, map[string]time.Duration{
		"off": reading.NoMaxAhead, "0": 0, "5m": 5 * time.Minute, "1000000h": 1_000_000 * time.Hour})
	bad(t, "max_ahead", maxAhead, "", "Off", "-1s", "1000001h", "5", "1us")
	good(t, "duration", duration(window.Sizes), map[string]int64{"1ms": 1, "1h30m": 5_400_000, "1d": 86_400_000})
}

func TestAddresses(t *testing.T) {
	good(t, "broker", address(1), map[string]string{"a:1": "a:1", "[::1]:65535": "[::1]:65535", "10.0.0.1:9092": "10.0.0.1:9092"})
	bad(t, "broker", address(1), "", "a", "a:", ":1", "a:0", "a:65536", "a:01", "a:b", "::1:9092", "http://a:1", "u@a:1", "a b:1", "a:1,b:1")
	good(t, "listen", listen, map[string]string{"": "", "127.0.0.1:0": "127.0.0.1:0", "127.9.9.9:80": "127.9.9.9:80", "localhost:8080": "localhost:8080", "[::1]:1": "[::1]:1"})
	bad(t, "listen", listen, ":8080", "0.0.0.0:8080", "[::]:80", "10.0.0.1:80", "example.org:80", "127.0.0.1", "8080")
}

func TestTimeouts(t *testing.T) {
	if err := DefaultTimeouts().Check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Timeouts){
		"heartbeat (6s) must be less than session (6s)":      func(t *Timeouts) { t.Heartbeat = t.Session },
		"delivery (15s) must be less than transaction (15s)": func(t *Timeouts) { t.Delivery = t.Transaction },
		"transaction (20s) must be less than watchdog (20s)": func(t *Timeouts) { t.Transaction = t.Watchdog },
		"0 (0s) must be less than restore (0s)":              func(t *Timeouts) { t.Restore = 0 },
		"0 (0s) must be less than heartbeat (-1ns)":          func(t *Timeouts) { t.Heartbeat = -1 },
		"0 (0s) must be less than delivery (0s)":             func(t *Timeouts) { t.Delivery = 0 },
	} {
		table := DefaultTimeouts()
		spoil(&table)
		if err := table.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
	}
}
