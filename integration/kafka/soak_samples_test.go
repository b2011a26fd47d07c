package kafka

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// sample is what a process takes at one moment.
type sample struct {
	at         time.Duration // since the soak began
	memory     int64         // resident, bytes
	files      int64         // open
	goroutines int64
	disk       int64 // bytes of its state directory; what was set aside is left out, for it is kept for ever
}

// samples are those of one process, in order.
type samples struct {
	mu  sync.Mutex
	all []sample
}

// sampleEvery is short enough for a soak of a minute to have a few.
const sampleEvery = 2 * time.Second

// watch samples an instance until the returned function is called. A moment at which it does not answer, because it is
// paused, is left out.
func (s *soak) watch(i *instance) (stop func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if one, err := take(ctx, i); err == nil {
				one.at = time.Since(s.began)
				s.samples.mu.Lock()
				s.samples.all = append(s.samples.all, one)
				s.samples.mu.Unlock()
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// take looks at a process.
func take(ctx context.Context, i *instance) (one sample, err error) {
	proc := filepath.Join("/proc", strconv.Itoa(i.PID()))
	statm, err := os.ReadFile(filepath.Join(proc, "statm"))
	if err != nil {
		return one, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(statm), &size, &resident); err != nil {
		return one, err
	}
	one.memory = resident * int64(os.Getpagesize())
	open, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return one, err
	}
	one.files = int64(len(open))
	if one.disk, err = diskOf(i.job.StateDir()); err != nil {
		return one, err
	}
	one.goroutines, err = goroutinesOf(ctx, i.job.StateDir())
	return one, err
}

// diskOf is the size of a state directory. Files come and go while it is looked at.
func diskOf(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".damaged") {
			return nil //nolint:nilerr // it has gone meanwhile
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum, err
}

// goroutinesOf asks the process by its metrics.
func goroutinesOf(ctx context.Context, stateDir string) (int64, error) {
	addr, err := os.ReadFile(filepath.Join(stateDir, "http.addr"))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+strings.TrimSpace(string(addr))+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.ParseInt(text, 10, 64)
		}
	}
	return 0, fmt.Errorf("no go_goroutines at %s", addr)
}

// part returns the medians of the samples taken in a part of the run, from 0 to 1.
func (s *samples) part(from, to float64) (median sample, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return sample{}, 0
	}
	end := float64(s.all[len(s.all)-1].at)
	var in []sample
	for _, one := range s.all {
		if at := float64(one.at) / end; at >= from && at <= to {
			in = append(in, one)
		}
	}
	middle := func(of func(sample) int64) int64 {
		var values []int64
		for _, one := range in {
			values = append(values, of(one))
		}
		slices.Sort(values)
		if len(values) == 0 {
			return 0
		}
		return values[len(values)/2]
	}
	return sample{
		memory:     middle(func(s sample) int64 { return s.memory }),
		files:      middle(func(s sample) int64 { return s.files }),
		goroutines: middle(func(s sample) int64 { return s.goroutines }),
		disk:       middle(func(s sample) int64 { return s.disk }),
	}, len(in)
}

// grown says what has grown from the second to the last quarter of the run: by more than a fifth and by more than what
// comes and goes with a task more or less.
func (s *samples) grown() (faults []string) {
	before, n := s.part(0.25, 0.5)
	after, m := s.part(0.75, 1)
	if n == 0 || m == 0 {
		return []string{"there are no samples"}
	}
	for _, c := range []struct {
		what          string
		before, after int64
		slack         int64
	}{
		{"resident memory", before.memory, after.memory, 24 << 20},
		{"open files", before.files, after.files, 16},
		{"goroutines", before.goroutines, after.goroutines, 40},
		{"disk", before.disk, after.disk, 1 << 20},
	} {
		if c.after > c.before+c.before/5+c.slack {
			faults = append(faults, fmt.Sprintf("%s: %d in the second quarter of the run, %d in the last", c.what, c.before, c.after))
		}
	}
	return faults
}

// TestSamplesGrow shows that growth is noticed, and what comes and goes is not.
func TestSamplesGrow(t *testing.T) {
	run := func(at func(n int64) sample) []string {
		s := &samples{}
		for n := range int64(100) {
			one := at(n)
			one.at = time.Duration(n) * time.Second
			s.all = append(s.all, one)
		}
		return s.grown()
	}
	if faults := run(func(n int64) sample {
		return sample{memory: 100<<20 + n%10<<20, files: 30 + n%7, goroutines: 100 + n%20, disk: 1 << 20}
	}); len(faults) != 0 {
		t.Errorf("flat: %q", faults)
	}
	if faults := run(func(n int64) sample {
		return sample{memory: 100<<20 + n<<21, files: 30 + n, goroutines: 100 + 2*n, disk: 1<<20 + n<<16}
	}); len(faults) != 4 {
		t.Errorf("everything grows, noticed is %q", faults)
	}
	if faults := (&samples{}).grown(); len(faults) != 1 {
		t.Errorf("no samples: %q", faults)
	}
}
