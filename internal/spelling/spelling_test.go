package spelling

import (
	"fmt"
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	words := []string{"interval", "max_records", "max_bytes", "grace", "job"}
	for word, want := range map[string]string{
		"intervall": "interval", "intreval": "interval", "max_record": "max_records", "maxbytes": "max_bytes", "Grace": "grace", "grce": "grace",
		"jobs": "job", "topic": "", "x": "", "": "", "interval_between_commits": "", strings.Repeat("x", 10_000): "",
	} {
		if got := Nearest(word, words); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", word, got, want)
		}
	}
}

// The nearest wins, whatever the order.
func TestNearestOfSeveral(t *testing.T) {
	for _, names := range [][]string{{"sensor-readings", "sensor-reading-1", "sensors"}, {"sensors", "sensor-reading-1", "sensor-readings"}} {
		if got := Nearest("sensor-reading", names); got != "sensor-readings" {
			t.Errorf("%q of %q", got, names)
		}
	}
}

func BenchmarkNearest(b *testing.B) {
	var names []string
	for i := range 10_000 {
		names = append(names, fmt.Sprintf("plant-%d-temperatures", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		Nearest("plant-77-temperature", names)
	}
}
