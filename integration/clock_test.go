package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/integration/wrongclock"
	"github.com/tidemark-streams/tidemark/internal/proof"
	"github.com/tidemark-streams/tidemark/internal/status"
)

const wholeDay = 24 * time.Hour

// wrongClocks are what W20 sets a machine's clock to, as differences from the right time: 1970 at boot and then the right time, days
// and years in both directions, and as little as a timer may be early by.
var wrongClocks = []time.Duration{-time.Duration(time.Now().UnixNano()) + time.Hour, 0, wholeDay, -wholeDay, -5 * time.Millisecond, 30 * 365 * wholeDay, -30 * 365 * wholeDay}

// wrongClock makes a clock and the program that goes by it. Compiling it takes a minute, so the tests run when
// TIDEMARK_TEST_CLOCK is set, as make clock and make test do.
func wrongClock(t *testing.T, commands ...string) *wrongclock.Clock {
	t.Helper()
	if os.Getenv("TIDEMARK_TEST_CLOCK") == "" {
		fmt.Println("a machine's clock is not set: TIDEMARK_TEST_CLOCK is not there")
		return nil
	}
	binary, err := buildWrongClock()
	if err != nil {
		t.Fatal(err)
	}
	c, err := wrongclock.New(t.TempDir(), binary, commands...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var buildWrongClock = sync.OnceValues(func() (string, error) { return wrongclock.Build("..") })

// TestW20ClockJumps sets the clock of a machine by days and years, back and forth, many times a second, also between a crash and the
// next start, while a fleet sends and SIGKILLs hit the job: results, state, late readings, dead letters and counters are those
// of the oracle, which knows no clock. Once it is the job's machine alone, and once the broker's and the producer's too, whose record timestamps then jump
// as well.
func TestW20ClockJumps(t *testing.T) {
	for name, commands := range map[string][]string{"the job's": {"run"}, "everybody's": {"run", "broker", "produce"}} {
		t.Run(name, func(t *testing.T) {
			clock := wrongClock(t, commands...)
			if clock == nil {
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			seed := seed(t)
			job := newJob(t, proof.FleetConfig(2))
			job.Binary = clock.Program
			reader := startBroker(ctx, t, job)
			jumping, stop := context.WithCancel(ctx)
			jumps := make(chan int)
			go func() { jumps <- jump(jumping, clock, seed) }()
			loop := proof.KillLoop{Job: job, Reader: reader, Feed: proof.NewFleet(seed, 300).Next, Rate: 2000, Seed: seed, Useful: 5, Wipe: true, Log: t.Logf}
			kills, err := loop.Run(ctx)
			stop()
			jumped := <-jumps
			if err != nil {
				t.Fatalf("%v: %v", kills, err)
			}
			if err := clock.Set(wrongClocks[2]); err != nil {
				t.Fatal(err)
			}
			sight := rest(ctx, t, job, reader)
			years := yearsLogged(t, job)
			t.Logf("%v; the clock was set %d times, the logs tell of the years %v; %d results equal the oracle's", kills, jumped, years, len(sight.Results))
			if jumped < 20 || len(years) < 2 {
				t.Errorf("the clock was set %d times, and the logs tell of the years %v: this proves little", jumped, years)
			}
		})
	}
}

// jump sets the clock to any of wrongClocks, many times a second, until it is told to stop, and returns how often.
func jump(ctx context.Context, clock *wrongclock.Clock, seed uint64) (times int) {
	random := rand.New(rand.NewPCG(seed, 20))
	for tick := time.NewTicker(70 * time.Millisecond); ; times++ {
		if clock.Set(wrongClocks[random.IntN(len(wrongClocks))]) != nil {
			return times
		}
		select {
		case <-ctx.Done():
			return times
		case <-tick.C:
		}
	}
}

var loggedYear = regexp.MustCompile(`\btime"?[=:]"?(\d{4})-`)

// yearsLogged are the years that the runs of a job took for the present.
func yearsLogged(t *testing.T, job *proof.Job) map[string]int {
	t.Helper()
	logs, err := filepath.Glob(job.Path("logs", "*.err"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	years := map[string]int{}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range loggedYear.FindAllSubmatch(text, -1) {
			years[string(m[1])]++
		}
	}
	return years
}

// TestW20NothingIsMeasuredByTheClock sets the clock of the machine of a running job by days and years: readings go on being committed, checkpoints being
// written and told a right age, health stays as it is, and silence ticks as often as real time has passed.
func TestW20NothingIsMeasuredByTheClock(t *testing.T) {
	clock := wrongClock(t, "run")
	if clock == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	config := proof.FleetConfig(1)
	config.Aggregations = config.Aggregations[1:2] // hours: windows are open all the time, so that silence ticks
	job := newJob(t, config)
	job.Binary, job.Idle = clock.Program, time.Second
	if err := job.WriteConfig(); err != nil {
		t.Fatal(err)
	}
	reader := startBroker(ctx, t, job)
	if err := clock.Set(wrongClocks[0]); err != nil {
		t.Fatal(err)
	}
	instance, err := job.StartInstance("daemon")
	if err != nil {
		t.Fatal(err)
	}
	w := &clockWatch{t: t, ctx: ctx, job: job, instance: instance}
	fleet := proof.NewFleet(seed(t), 20)
	for _, by := range wrongClocks {
		if err := clock.Set(by); err != nil {
			t.Fatal(err)
		}
		var lines [][]byte
		for range 100 {
			lines = append(lines, fleet.Next())
		}
		if _, err := job.Produce(ctx, proof.Lines(lines)); err != nil {
			t.Fatal(err)
		}
		w.sent += int64(len(lines))
		s := w.await(fmt.Sprintf("everything to be committed after the clock was set by %s", by), func(s *status.Task) bool { return s.Readings.In == w.sent })
		w.await(fmt.Sprintf("a checkpoint of it after the clock was set by %s", by), func(now *status.Task) bool {
			return now.Checkpoint != nil && now.Checkpoint.Commit >= s.Commit.Number
		})
	}
	begun, first := time.Now(), w.await("the stream time", func(s *status.Task) bool { return s.StreamTime != nil })
	for i, by := range []time.Duration{wholeDay, -wholeDay, -30 * 365 * wholeDay, 30 * 365 * wholeDay} {
		if err := clock.Set(by); err != nil {
			t.Fatal(err)
		}
		least := *first.StreamTime + int64(i+1)*job.Idle.Milliseconds()
		s := w.await(fmt.Sprintf("silence to tick after the clock was set by %s", by), func(s *status.Task) bool { return *s.StreamTime >= least })
		if most := time.Since(begun) + 2*job.Idle; *s.StreamTime-*first.StreamTime > most.Milliseconds() {
			t.Errorf("the clock was set by %s, and silence has moved the stream time by %d ms in %s", by, *s.StreamTime-*first.StreamTime, most-job.Idle)
		}
	}
	if err := instance.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := clock.Set(0); err != nil {
		t.Fatal(err)
	}
	want, err := job.Expect(ctx, reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.Prove(ctx, reader, want); err != nil {
		t.Error(err)
	}
	if years := yearsLogged(t, job); years["1970"] == 0 {
		t.Errorf("no line of the log is of 1970 (%v): the clock was not wrong", years)
	}
}

// clockWatch looks at a job whose clock is set.
type clockWatch struct {
	t        *testing.T
	ctx      context.Context
	job      *proof.Job
	instance *proof.Instance
	sent     int64
}

// await looks until what is wanted is so, and at everything that a wrong clock could show.
func (w *clockWatch) await(what string, is func(*status.Task) bool) *status.Task {
	w.t.Helper()
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		if s := w.look(); s != nil && len(s.Tasks) == 1 && s.Tasks[0].Commit != nil {
			task := &s.Tasks[0]
			if c := task.Checkpoint; c != nil && (c.Age < -1 || c.Age > 60) {
				w.t.Fatalf("%s: a checkpoint of %.0f s, with one a second", what, c.Age)
			}
			if s.Health == status.Red || !s.Live || task.SinceProgress > 30 || task.SinceProgress < 0 {
				w.t.Fatalf("%s: %s, live %t, %.0f s without progress: %+v", what, s.Health, s.Live, task.SinceProgress, s.Reasons)
			}
			for _, r := range s.Reasons {
				if age := s.At.Sub(r.Since); age < 0 || age > time.Minute {
					w.t.Fatalf("%s: %s is said to hold for %s", what, r.Code, age)
				}
			}
			if up := s.At.Sub(s.Started); up < 0 || up > time.Hour {
				w.t.Fatalf("%s: the process is said to be up for %s", what, up)
			}
			if is(task) {
				return task
			}
		}
		select {
		case <-w.ctx.Done():
			w.t.Fatalf("waited in vain for %s", what)
		case <-w.instance.Done():
			w.t.Fatalf("%s: the process has ended: %v", what, w.instance.Failure())
		case <-tick.C:
		}
	}
}

// look asks the process for its status, nil while it does not answer.
func (w *clockWatch) look() *status.Status {
	addr, err := os.ReadFile(filepath.Join(w.job.StateDir(), "http.addr"))
	if err != nil {
		return nil
	}
	request, err := http.NewRequestWithContext(w.ctx, http.MethodGet, "http://"+strings.TrimSpace(string(addr))+"/status", http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var s status.Status
	var text bytes.Buffer
	if _, err := text.ReadFrom(answer.Body); err != nil || json.Unmarshal(text.Bytes(), &s) != nil {
		return nil
	}
	return &s
}
