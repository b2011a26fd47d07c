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

// wallClock are the ways to lose the monotonic part of a time, or to hand the clock on, and clocks those to ask for one at all.
var (
	clocks    = regexp.MustCompile(`time\.(Now|Since|Until)\b`)
	wallClock = regexp.MustCompile(`time\.Now([^(]|\(\)\.(Unix|UTC|Local|Round|Truncate|In|Format|String|Year|Date|Clock|Marshal|Append))|\.Round\(0\)|UnixNano\(`)
)

// askers may ask the wall clock, each for a reason that decides nothing.
var askers = map[string]string{
	"internal/kafka/client/clock.go":          "record timestamps until the broker has told its time",
	"hung.go":                                 "to tell one moment from another",
	"cmd/tidemark/lineprotocol.go":            "the time of a line that has none, for produce",
	"cmd/tidemark/internal/embedded/serve.go": "lines of the embedded broker's log",
	"internal/proof/trial/shaped.go":          "verify makes readings of the present",
	"internal/proof/trial/generated.go":       "verify makes readings of the present",
}

// TestW20WhoAsksTheClock: what decides results asks no clock at all (I11), so no step of it can change one; and the
// product asks the wall clock in no place but those named, where nothing is measured by it. That this is enough is held by
// TestW20ClockJumps, TestW20NothingIsMeasuredByTheClock and TestW20OnKafka, which set the clock of a program that runs.
func TestW20WhoAsksTheClock(t *testing.T) {
	pure := []string{"reading", "window", "aggregate", "internal/record", "internal/task", "internal/job"}
	tests := []string{"integration", "bench", "tools", "tidemarktest", "internal/kafka/conformance"} // and what is for tests alone
	asked := map[string]bool{}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		dir := path.Dir(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains(tests, name) || path.Base(name) == "testdata" || strings.HasPrefix(name, ".git")):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if found := clocks.Find(text); found != nil {
			asked[name] = true
			if slices.Contains(pure, dir) {
				t.Errorf("%s asks the clock: %s", name, found)
			}
		}
		switch found := wallClock.Find(text); {
		case found == nil && askers[name] != "":
			t.Errorf("%s does not ask the wall clock any more", name)
		case found != nil && askers[name] == "":
			t.Errorf("%s loses the monotonic part of a time: %s", name, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"health.go", "saver.go", "internal/kafka/readahead.go", "cmd/tidemark/demo.go"} {
		if !asked[name] {
			t.Errorf("%s is not among the %d files that ask a clock: this looks at the wrong ones", name, len(asked))
		}
	}
}
