package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Bounds of the search for a smaller reproduction: of all of it, and how often a list is tried before it counts as one that
// shows nothing.
const (
	searchTime  = 45 * time.Second
	searchTries = 2
)

// smallest looks for the shortest list of strikes after which a new job shows an anomaly too, by leaving out one after the
// other. The list that was found first is the whole of what was done since the last comparison that found nothing.
func (t *Trial) smallest(ctx context.Context, f *Found) {
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	n := 0
	shows := func(list []Strike) bool {
		for range searchTries {
			if n++; ctx.Err() != nil {
				return false
			}
			t.note(f.Chapter, fmt.Sprintf("looking for a smaller reproduction: %s", StrikesText(list)), func(*Summary) {})
			if t.again(ctx, list, f.Seed, filepath.Join(t.Dir, fmt.Sprintf("again-%d", n))) {
				return true
			}
		}
		return false
	}
	list := f.Strikes
	if shows([]Strike{}) { // no kill is needed at all
		list = []Strike{}
	} else if f.Shown = shows(list); !f.Shown {
		return
	}
	for i := 0; i < len(list) && len(list) > 1; {
		if shorter := slices.Delete(slices.Clone(list), i, i+1); shows(shorter) {
			list = shorter
		} else {
			i++
		}
	}
	f.Shown, f.Strikes = true, list
}

// again does the strikes to a new job with the readings of a seed, and tells whether it shows an anomaly.
func (t *Trial) again(ctx context.Context, list []Strike, seed uint64, dir string) bool {
	o := t.Options
	o.Strikes, o.Seed, o.Dir, o.Kills, o.Duration, o.Parallel, o.Tell, o.Points = list, seed-1, dir, 1, 0, 1, nil, nil
	tried, _ := run(ctx, o) // a try that could not be carried out shows nothing
	return os.RemoveAll(dir) == nil && len(tried.now().Anomalies) > 0
}
