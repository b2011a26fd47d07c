package tidemark

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// W20: nothing that is measured starts from the wall clock, which somebody may set, and which stands still while a machine
// sleeps: a moment that the watchdog measures from has a monotonic part.
func TestW20WatchdogIsMonotonic(t *testing.T) {
	o := &op{place: "in/0"}
	o.begin(&opFetch, 0)
	sign, ok := o.sign(time.Second)
	if !ok || !strings.Contains(sign.Since.String(), " m=") {
		t.Errorf("under way since %s, which has no monotonic part", sign.Since)
	}
	if age := time.Since(sign.Since); age < 0 || age > time.Minute {
		t.Errorf("begun %s ago", age)
	}
	b := &board{}
	b.answered.Store(tick())
	if at := b.lastAnswer(time.Time{}); !strings.Contains(at.String(), " m=") {
		t.Errorf("answered at %s, which has no monotonic part", at)
	}
}

// wallClock are the ways to lose the monotonic part of a time, and clocks those to ask for one at all.
var (
	clocks    = regexp.MustCompile(`time\.(Now|Since|Until)\(`)
	wallClock = regexp.MustCompile(`time\.Now\(\)\.(Unix|UTC|Local|Round|Truncate|In)|\.Round\(0\)|time\.Unix\(0|UnixNano\(`)
)

// TestW20WhoAsksTheClock: what decides results asks no clock at all (I11), so no step of it can change one; and the
// engine asks the wall clock in no place but those named, where nothing is measured by it.
func TestW20WhoAsksTheClock(t *testing.T) {
	pure := []string{"reading", "window", "aggregate", "internal/record", "internal/task", "internal/job"}
	engine := []string{".", "internal/store", "internal/recovery", "internal/repair", "internal/kafka", "internal/kafka/client", "internal/status"}
	allowed := []string{
		"internal/kafka/client/writer.go", // record timestamps, where the topic takes the producer's
		"hung.go",                         // to tell one moment from another
	}
	asked := 0
	for _, dir := range slices.Concat(pure, engine) {
		files, err := fs.Glob(os.DirFS(dir), "*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			name := path.Join(dir, file)
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if found := clocks.Find(text); found != nil {
				asked++
				if slices.Contains(pure, dir) {
					t.Errorf("%s asks the clock: %s", name, found)
				}
			}
			if found := wallClock.Find(text); found != nil && !slices.Contains(allowed, name) {
				t.Errorf("%s loses the monotonic part of a time: %s", name, found)
			}
		}
	}
	if asked < 5 {
		t.Errorf("only %d files ask a clock: this looks at the wrong ones", asked)
	}
}
