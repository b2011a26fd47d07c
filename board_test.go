package tidemark

import (
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// TestShowingIsCheap: what a task shows at every round, and a reader at every fetch that found nothing, allocates
// nothing.
func TestShowingIsCheap(t *testing.T) {
	b := newBoard(&App{}, 3)
	l := &watchedLog{board: b, op: b.open("in/3")}
	l.see(kafka.Offsets{HighWatermark: 7}, 7)
	for what, do := range map[string]func(){
		"a round of work": func() { b.work.begin(&opWork, -1); b.work.end() },
		"a request":       func() { l.op.begin(&opFetch, 7); b.answer(l.op) },
		"nothing new":     func() { l.see(kafka.Offsets{HighWatermark: 7}, 7) },
		"a commit's time": func() { b.app.totals.latency.observe(30 * time.Millisecond) },
	} {
		if n := testing.AllocsPerRun(100, do); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
}

// TestOpsComeAndGo: only what is under way is a sign, with its place and offset.
func TestOpsComeAndGo(t *testing.T) {
	b := newBoard(&App{}, 3)
	a, c := b.open("in/3"), b.open("changelog-3")
	a.begin(&opFetch, 12)
	c.begin(&opCommit, -1)
	c.end()
	account := &account{state: status.Running}
	signs := b.signs(account, &status.Task{}, false)
	if len(signs) != 1 || signs[0].What != "fetch in/3 from offset 12" || signs[0].Limit != status.Watchdog || time.Since(signs[0].Since) > time.Minute {
		t.Errorf("%+v", signs)
	}
	b.close(a)
	b.close(a)
	if signs := b.signs(account, &status.Task{}, false); len(signs) != 0 || len(b.clients) != 1 {
		t.Errorf("%+v, %d clients", signs, len(b.clients))
	}
}

// BenchmarkShow is what a round of work costs to show.
func BenchmarkShow(b *testing.B) {
	o := &op{place: "task 3"}
	b.ReportAllocs()
	for b.Loop() {
		o.begin(&opWork, -1)
		o.end()
	}
}
