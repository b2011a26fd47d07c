package tidemark

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// board is what a runner shows of its task, so that it can be judged from outside without its help: a task that hangs
// answers no question (I12). Each field has one writer and is replaced, never changed; showing takes no lock, and
// whoever looks holds nobody up.
type board struct {
	app       *App
	partition int32

	// Written by the task's goroutine.
	account    atomic.Pointer[account]
	facts      atomic.Pointer[facts] // nil before the first recovery
	image      atomic.Pointer[image] // the newest checkpoint; nil for none
	report     atomic.Pointer[RecoveryReport]
	trouble    atomic.Pointer[trouble]
	waiting    atomic.Pointer[status.Wait] // for the group or for a turn
	lastError  atomic.Pointer[status.Failure]
	saveFailed atomic.Pointer[status.Failure]
	refusals   atomic.Pointer[refusals]
	recoveries recoveries
	used       atomic.Int64 // bytes of the state
	mapped     atomic.Int64
	input      atomic.Pointer[watchedLog] // that the task reads
	changelog  atomic.Pointer[watchedLog] // of the last recovery
	work       op                         // of the task itself

	disk    op                          // written by the goroutine of the checkpoint
	holder  atomic.Pointer[culprit]     // written by App.watch: who holds the last stable offset that is waited for
	lost    atomic.Pointer[status.Wait] // written by the App and by App.watch: the task went with the seat in the group
	mu      sync.Mutex
	clients []*op // of the logs and writers that are open
	// answered is when a request was last answered, as of tick().
	answered atomic.Int64
}

// account is what a task says of itself.
type account struct {
	state    status.State // Recovering, Running or Stopped
	since    time.Time
	why      string        // Stopped
	step     recovery.Step // Recovering
	stepped  time.Time     // when the step began
	progress *recovery.Progress
	moved    time.Time // when progress last moved
	blocked  time.Time // since when progress.Waiting stands; zero while nothing is in the way
}

// facts are a task between two commits.
type facts struct {
	commit   *record.Commit
	at       time.Time // of the commit; zero for one that was found
	took     time.Duration
	position record.InputPosition // past markers
	log      record.ChangelogPosition
	moved    time.Time // when commit or position last changed
	due      int
	open     int
	clocks   int
	next     []int64 // by aggregation: end of the first open window, record.NoTime for none
}

// image is the newest checkpoint of a task.
type image struct {
	path    string
	bytes   record.Bytes
	entries record.Count
	begin   record.ChangelogPosition
	commit  uint64
	at      time.Time // when it began, by this clock, from the broker's
}

// trouble is a run of failures without a success between them.
type trouble struct {
	since time.Time
	err   error
}

// culprit is a transaction that holds a last stable offset.
type culprit struct {
	topic    string
	offset   int64
	producer int64
}

// recoveries counts by where they began.
type recoveries struct{ birth, live, checkpoint, full atomic.Int64 }

func (r *recoveries) add(from string) {
	switch from {
	case "birth":
		r.birth.Add(1)
	case "live base":
		r.live.Add(1)
	case "checkpoint":
		r.checkpoint.Add(1)
	default:
		r.full.Add(1)
	}
}

func (r *recoveries) counts() status.Recoveries {
	return status.Recoveries{Birth: r.birth.Load(), LiveBase: r.live.Load(), Checkpoint: r.checkpoint.Load(), FullReplay: r.full.Load()}
}

func newBoard(app *App, partition int32) *board {
	b := &board{app: app, partition: partition}
	b.refusals.Store(&refusals{})
	b.work.place = fmt.Sprintf("task %d", partition)
	b.disk.place = fmt.Sprintf("a checkpoint of task %d", partition)
	b.recovering()
	return b
}

// recovering shows the beginning of a recovery.
func (b *board) recovering() {
	now := time.Now()
	b.account.Store(&account{state: status.Recovering, since: now, stepped: now, moved: now})
}

// step shows the next step of a recovery.
func (b *board) step(step recovery.Step) {
	a := *b.account.Load()
	a.step, a.stepped, a.progress, a.blocked = step, time.Now(), nil, time.Time{}
	a.moved = a.stepped
	b.account.Store(&a)
}

// progress shows how far a step is.
func (b *board) progress(p *recovery.Progress) {
	a, now := *b.account.Load(), time.Now()
	if a.progress == nil || p.Done != a.progress.Done || p.Kept != a.progress.Kept {
		a.moved = now
	}
	switch {
	case p.Waiting < 0:
		a.blocked = time.Time{}
	case a.blocked.IsZero() || a.progress != nil && a.progress.Waiting != p.Waiting:
		a.blocked = now
	}
	a.progress = p
	b.account.Store(&a)
	if p.Used > 0 {
		b.use(store.Usage{Used: p.Used, Mapped: p.Used})
	}
}

// recovered shows the end of a recovery.
func (b *board) recovered(report *RecoveryReport) {
	b.account.Store(&account{state: status.Running, since: time.Now()})
	b.report.Store(report)
	b.recoveries.add(report.From)
}

// failed shows what ended a life, and that the trouble goes on.
func (b *board) failed(err error) {
	now := time.Now()
	b.lastError.Store(&status.Failure{At: now, Class: kafka.ClassOf(err).String(), What: err.Error()})
	t := &trouble{since: now, err: err}
	if old := b.trouble.Load(); old != nil {
		t.since = old.since
	}
	b.trouble.Store(t)
}

// stopped shows that the task will not go on by itself.
func (b *board) stopped(err error) {
	b.account.Store(&account{state: status.Stopped, since: time.Now(), why: err.Error()})
}

// use shows what the state takes.
func (b *board) use(u store.Usage) {
	b.app.used.Add(int64(u.Used) - b.used.Swap(int64(u.Used)))
	b.mapped.Store(int64(u.Mapped))
}

// saved shows the outcome of an attempt to write a checkpoint: the image that is there now, or the failure.
func (b *board) saved(i *image, err error) {
	if err != nil {
		b.saveFailed.Store(&status.Failure{At: time.Now(), Class: store.KindOf(err).String(), What: err.Error()})
		return
	}
	b.saveFailed.Store(nil)
	b.image.Store(i)
}

// open adds a thing that may hang until close.
func (b *board) open(place string) *op {
	o := &op{place: place}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clients = append(b.clients, o)
	return o
}

func (b *board) close(o *op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.clients {
		if b.clients[i] == o {
			b.clients = append(b.clients[:i:i], b.clients[i+1:]...)
			return
		}
	}
}

// seatLost shows that the task was given up because the group, or the way to it, is gone: nobody has said yet whose it
// is. A list of the group ends that.
func (b *board) seatLost(lost bool) {
	switch {
	case !lost:
		b.lost.Store(nil)
	case b.lost.Load() == nil:
		b.lost.Store(&status.Wait{For: status.ForGroup, What: "the group to take this process in again", Since: time.Now()})
	}
}

// answer ends a request.
func (b *board) answer(o *op) {
	o.end()
	b.answered.Store(tick())
}

// op is one thing at a time that somebody must answer: a broker, a disk, the job's own code. To begin and to end it are
// a few atomic stores.
type op struct {
	place string
	what  atomic.Pointer[string]
	at    atomic.Int64 // offset, -1 for none
	since atomic.Int64 // as of tick(); 0 while there is nothing to answer
}

// The things that are asked for.
var (
	opFetch   = "fetch"
	opOffsets = "ask for the offsets of"
	opFence   = "fence"
	opSend    = "send the records of"
	opCommit  = "commit the transaction of"
	opWork    = "work on"
	opEnd     = "let go of the last life of"
	opCreate  = "make the file of"
	opWrite   = "write"
	opPublish = "publish"
)

func (o *op) begin(what *string, at int64) {
	o.what.Store(what)
	o.at.Store(at)
	o.since.Store(tick())
}

func (o *op) end() { o.since.Store(0) }

// sign returns what is under way, if anything is.
func (o *op) sign(limit time.Duration) (s status.Sign, ok bool) {
	since := o.since.Load()
	what := o.what.Load()
	if since == 0 || what == nil {
		return s, false
	}
	s = status.Sign{What: *what + " " + o.place, Since: moment(since), Limit: limit}
	if at := o.at.Load(); at >= 0 {
		s.What += fmt.Sprintf(" from offset %d", at)
	}
	return s, true
}
