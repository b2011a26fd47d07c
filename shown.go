package tidemark

import (
	"time"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// What a life shows on its board, and when: at the end of its recovery, after each commit, and when it has passed
// markers with nothing to commit.

// showRecovered shows what the recovery has made.
func (l *life) showRecovered() {
	b, report := l.r.board, l.recovered.Report
	if b.image.Load() == nil || len(report.Aside) > 0 {
		b.image.Store(l.newest())
	}
	b.recovered(&report)
	l.r.app.rates.learn(&report)
	l.r.app.totals.recovered(&report)
	l.show()
}

// show shows where the task stands.
func (l *life) show() {
	c, f := l.r.held.committed, &l.shown
	position := l.settled
	if position == record.NoInput {
		position = c.Position
	}
	if f.commit == nil || f.commit.Number != c.Number || f.position != position {
		f.moved = time.Now()
	}
	f.commit, f.position, f.log = l.task.Committed(), position, l.r.held.position
	f.due, f.open, f.clocks = l.task.Waiting(), l.task.Open(), l.task.Clocks()
	f.next = make([]int64, len(l.task.Processor().Aggregations()))
	for i := range f.next {
		f.next[i] = l.task.NextEnd(i)
	}
	shown := *f
	l.r.board.facts.Store(&shown)
	l.r.board.use(l.r.held.store.Usage())
}

// showEnd shows that trouble is over when there is nothing left to commit, for no commit will show it.
func (l *life) showEnd() {
	b := l.r.board
	if b.trouble.Load() == nil {
		return
	}
	if s := l.log.(*watchedLog).seen.Load(); s != nil && int64(l.task.Position()) >= s.HighWatermark {
		b.trouble.Store(nil)
	}
}

// newest returns the newest checkpoint of the task that this program can read, nil for none.
func (l *life) newest() *image {
	info := l.r.newest()
	if info == nil {
		return nil
	}
	now := time.Now()
	age := time.Duration(l.brokerTime(now)-info.BrokerTime) * time.Millisecond
	return &image{path: info.Path, bytes: info.Length, entries: info.Image.Live, begin: info.Begin, commit: info.Commit.Number, at: now.Add(-age)}
}

func (r *runner) newest() *store.Info {
	if r.dir == nil {
		return nil
	}
	files, err := r.dir.List()
	if err != nil {
		return nil // recovery has said so
	}
	for _, file := range files {
		if file.Err == nil {
			return file.Info
		}
	}
	return nil
}

// roomFor refuses to load a checkpoint that does not fit.
func (r *runner) roomFor(step recovery.Step) error {
	if step != recovery.StepLoad || r.held != nil {
		return nil
	}
	info := r.newest()
	if info == nil {
		return nil
	}
	return r.board.room("load "+info.Path, int64(info.Length))
}

// wait shows that a named thing is waited for, until what it returns is called.
func (b *board) wait(what, name string) (done func()) {
	b.waiting.Store(&status.Wait{For: what, What: name, Since: time.Now()})
	return func() { b.waiting.Store(nil) }
}
