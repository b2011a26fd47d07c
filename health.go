package tidemark

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/status"
)

// Status is a job's process as seen from outside; see docs/reference/status.md.
type Status = status.Status

// Health is a verdict in one word.
type Health = status.Health

// The verdicts.
const (
	Green = status.Green
	Amber = status.Amber
	Red   = status.Red
)

// inputHeld is how long the input's last stable offset may stand before it counts as held: a transactional producer
// has a transaction open most of the time.
const inputHeld = 10 * time.Second

// diskRate is a reading rate that any disk reaches: it stretches the time that a step may take whose end only depends
// on the size of the state.
const diskRate = 10 << 20 // bytes a second

// task is what the board shows, judged.
func (b *board) task(now time.Time) status.Task {
	a, f := b.account.Load(), b.facts.Load()
	t := status.Task{Partition: b.partition, Aggregations: []status.Aggregation{}, MemoryUsed: b.used.Load(), Recoveries: b.recoveries.counts(),
		LastError: b.lastError.Load(), SaveFailed: b.saveFailed.Load(), Anchor: "none"}
	if a.state == status.Recovering {
		t.Recovery = a.recovery()
	}
	if r := b.report.Load(); r != nil {
		t.Anchor = r.Anchor
		t.Recovered = &status.Recovered{From: r.From, Why: r.Why, Seconds: total(&r.Phases) / 1000, Loaded: int64(r.Loaded), Replayed: int64(r.Records)}
	}
	if i := b.image.Load(); i != nil {
		t.Checkpoint = &status.Checkpoint{Path: i.path, Bytes: int64(i.bytes), Commit: i.commit, Age: now.Sub(i.at).Seconds()}
	}
	if f != nil {
		f.tell(&t)
	}
	b.tellInput(&t)
	t.EstimatedRecovery, t.EstimateMeasured = b.app.rates.estimate(b)
	account := status.Account{State: a.state, Since: a.since, Error: a.why, Waits: b.waits(a)}
	account.Signs = b.signs(a, &t, len(account.Waits) > 0)
	account.Refused, account.DeadLetters = b.refusals.Load().share(slotNow()), b.app.options.DeadLetter
	t.Judge(account, now)
	return t
}

// recovery is how far the recovery is.
func (a *account) recovery() *status.Recovery {
	r := &status.Recovery{Step: string(a.step), Since: a.since}
	if p := a.progress; p != nil {
		r.Done, r.Total, r.Rate = p.Done, p.Total, p.Rate()
		if left, ok := p.Left(); ok {
			s := left.Seconds()
			r.Left = &s
		}
	}
	return r
}

// tell fills in what the last commit says.
func (f *facts) tell(t *status.Task) {
	c := f.commit
	t.Birth, t.LiveEntries, t.OpenWindows, t.DueWindows, t.KeyClocks = c.Birth.String(), int64(c.Live), int64(f.open), int64(f.due), int64(f.clocks)
	t.Readings = readings(&c.Counters)
	if c.StreamTime != record.NoTime {
		t.StreamTime = &c.StreamTime
		t.Setter = &status.Setter{Key: status.Text(c.SetterKey), Offset: c.SetterOffset}
	}
	t.Commit = &status.Commit{Number: c.Number}
	if !f.at.IsZero() {
		at, took := f.at, f.took.Seconds()
		t.Commit.At, t.Commit.Latency = &at, &took
	}
	for i, end := range f.next {
		g := &c.Aggregations[i]
		told := status.Aggregation{Name: g.Name, Folded: int64(g.Folded), PartlyLate: int64(g.PartlyLate), Late: int64(g.Late),
			Missed: int64(g.Missed), Results: int64(g.Results)}
		if g.ClosedEnd != record.NoTime {
			closed := g.ClosedEnd
			told.ClosedEnd = &closed
			if end != record.NoTime && c.StreamTime != record.NoTime {
				at := end + c.StreamTime - closed // closed end follows stream time at a fixed distance, the grace
				told.NextClose = &at
			}
		}
		t.Aggregations = append(t.Aggregations, told)
	}
}

func readings(c *record.Counters) status.Readings {
	return status.Readings{In: int64(c.In), Accepted: int64(c.Accepted), DeadLettered: int64(c.DeadLettered), Filtered: int64(c.Filtered),
		Skipped: int64(c.Skipped), Repeated: int64(c.Repeated), Ahead: int64(c.Ahead), Untimed: int64(c.Untimed),
		Duplicates: int64(c.Duplicates)}
}

// tellInput fills in where the task stands in its input: nothing where it is not known (D27).
func (b *board) tellInput(t *status.Task) {
	if f := b.facts.Load(); f != nil && f.position != record.NoInput {
		at := int64(f.position)
		t.Position = &at
	}
	log := b.input.Load()
	if log == nil {
		return
	}
	if s := log.seen.Load(); s != nil {
		end := s.HighWatermark
		t.End = &end
		if t.Position != nil {
			lag := max(0, end-*t.Position)
			t.Lag = &lag
		}
	}
}

// waits are the named things that the task waits for, the most telling one first.
func (b *board) waits(a *account) (waits []status.Wait) {
	if a.state == status.Stopped {
		return nil
	}
	if w := b.lost.Load(); w != nil {
		return []status.Wait{*w}
	}
	if w := b.waiting.Load(); w != nil {
		waits = append(waits, *w)
	}
	if !a.blocked.IsZero() {
		waits = append(waits, b.held(b.app.options.Changelog.Topic, a.progress.Waiting, a.blocked))
	}
	moving := a.state == status.Recovering && (a.step == recovery.StepLoad || a.step == recovery.StepReplay || a.step == recovery.StepProve)
	if t := b.trouble.Load(); t != nil && !moving {
		switch kafka.ClassOf(t.err) {
		case kafka.ClassTransient:
			waits = append(waits, status.Wait{For: status.ForBroker, What: b.app.short(b.partition) + "the brokers: " + t.err.Error(), Since: t.since})
		case kafka.ClassFenced:
			waits = append(waits, status.Wait{For: status.ForGroup, What: "the group to say whose the partition is: " + t.err.Error(), Since: t.since})
		default:
			waits = append(waits, status.Wait{For: status.ForRetry, What: "the next try after: " + t.err.Error(), Since: t.since})
		}
	}
	if s := b.inputHeld(a); s != nil {
		waits = append(waits, b.held(b.app.options.Input, s.Stable, s.held))
	}
	return waits
}

// short names what the task's partitions lack, as the last look at the topics found it, for the answer to the last request
// may be about what follows from it: a marker that cannot be written is told as CONCURRENT_TRANSACTIONS. "" for nothing.
func (a *App) short(partition int32) string {
	known := a.topics()
	if known == nil {
		return ""
	}
	var lacks []string
	for _, name := range a.topicNames() {
		t, ok := known.found[name]
		if !ok || t.Partitions == 0 {
			continue
		}
		p := partition % t.Partitions
		least, _ := strconv.Atoi(t.Configs["min.insync.replicas"])
		switch {
		case slices.Contains(t.Leaderless, p):
			lacks = append(lacks, fmt.Sprintf("a leader of %s/%d", name, p))
		case name != a.options.Input && int(p) < len(t.InSync) && t.InSync[p] < least:
			lacks = append(lacks, fmt.Sprintf("replicas of %s/%d: %d in sync, min.insync.replicas is %d", name, p, t.InSync[p], least))
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	return strings.Join(lacks, "; ") + "; "
}

// inputHeld returns where the input stands when a transaction holds back its reader.
func (b *board) inputHeld(a *account) *seen {
	log := b.input.Load()
	if log == nil || a.state != status.Running {
		return nil
	}
	s := log.seen.Load()
	if s == nil || s.next < s.Stable || s.Stable >= s.HighWatermark || time.Since(s.held) < inputHeld {
		return nil
	}
	return s
}

// held names the transaction that holds a last stable offset, with its producer when App.watch has found it out.
func (b *board) held(topic string, stable int64, since time.Time) status.Wait {
	who := "an open transaction of another producer"
	if c := b.holder.Load(); c != nil && c.topic == topic && c.offset == stable {
		who = fmt.Sprintf("the open transaction of producer id %d", c.producer)
	}
	return status.Wait{For: status.ForTransaction, Since: since, What: fmt.Sprintf("the end of %s, which holds %s/%d at offset %d",
		who, topic, b.partition, stable)}
}

// signs are the things under way.
func (b *board) signs(a *account, t *status.Task, waiting bool) (signs []status.Sign) {
	add := func(o *op, limit time.Duration) {
		if s, ok := o.sign(limit); ok {
			signs = append(signs, s)
		}
	}
	add(&b.work, status.Watchdog)
	add(&b.disk, status.Disk)
	b.mu.Lock()
	for _, o := range b.clients {
		add(o, status.Watchdog)
	}
	asked := len(signs) > 0
	b.mu.Unlock()
	if b.lost.Load() != nil {
		return signs
	}
	size := b.used.Load()
	if i := b.image.Load(); i != nil {
		size = max(size, int64(i.bytes))
	}
	switch {
	case a.state == status.Running && t.Lag != nil && *t.Lag > 0 && !waiting:
		since := b.facts.Load().moved
		if s := b.input.Load().seen.Load(); s.behind.After(since) {
			since = s.behind
		}
		signs = append(signs, status.Sign{What: fmt.Sprintf("input %s/%d from offset %d, with %d records to come", b.app.options.Input,
			b.partition, *t.Position, *t.Lag), Since: since, Limit: status.Restore})
	case a.state == status.Recovering && a.step == recovery.StepReplay && a.blocked.IsZero():
		signs = append(signs, status.Sign{What: fmt.Sprintf("replay of %s/%d", b.app.options.Changelog.Topic, b.partition), Since: a.moved, Limit: status.Restore})
	case a.state == status.Recovering && !waiting && !asked:
		limit := status.Restore + time.Duration(size/diskRate)*time.Second
		signs = append(signs, status.Sign{What: "recovery step " + string(a.step), Since: b.lastAnswer(a.stepped), Limit: limit})
	}
	return signs
}

// lastAnswer is when a broker last answered something for the task, or t if that is later.
func (b *board) lastAnswer(t time.Time) time.Time {
	if at := b.answered.Load(); at != 0 && moment(at).After(t) {
		return moment(at)
	}
	return t
}

// await shows what the process as a whole waits for.
func (a *App) await(what, name string) {
	w := &status.Wait{For: what, What: name, Since: time.Now()}
	if old := a.waiting.Load(); old != nil && old.For == what {
		w.Since = old.Since
	}
	a.waiting.Store(w)
}

// here is where and since when the process runs, known once its state directory is open.
type here struct {
	started        time.Time
	instance, path string
	limit          maxState
}

// Status tells how the job's process stands, judged at this moment. It is safe to call at any time, and disturbs no task.
func (a *App) Status() *Status {
	now := time.Now()
	o := &a.options
	s := &Status{Format: status.Format, Job: o.Job, Version: o.Version, Host: hostname(), PID: os.Getpid(), At: now,
		Input: o.Input, Changelog: o.Changelog.Topic, Waiting: a.waiting.Load(), Totals: a.totals.told(), Tasks: []status.Task{}}
	if h := a.here.Load(); h != nil {
		s.Instance, s.StateDir, s.Started, s.Memory.Max, s.Memory.From = h.instance, h.path, h.started, h.limit.bytes, h.limit.from
	}
	all := a.shown()
	longest, together := 0.0, 0.0
	for _, b := range all {
		t := b.task(now)
		s.Tasks = append(s.Tasks, t)
		longest, together = max(longest, t.EstimatedRecovery), together+t.EstimatedRecovery
		s.Memory.Mapped += b.mapped.Load()
	}
	s.EstimatedRecovery = max(longest, together/maxLoads)
	s.Memory.Used = a.used.Load()
	s.Judge()
	s.Rebase()
	return s
}

// shown are the boards by partition.
func (a *App) shown() []*board {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*board, 0, len(a.boards))
	for _, p := range slices.Sorted(maps.Keys(a.boards)) {
		all = append(all, a.boards[p])
	}
	return all
}

// How often the tasks are looked at by the process itself, and how often a task that stays red is told again.
const (
	lookEvery = time.Second
	tellEvery = 30 * time.Second
)

// watch looks at the tasks from outside until what it returns is called: it finds out whose transactions are waited
// for, and says in the log what is red, once and then now and then, and when it is not any more (I12).
func (a *App) watch() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() {
		red := map[int32]time.Time{} // when it was told
		still := map[*board]still{}
		for wait(ctx, lookEvery) {
			s := a.Status()
			a.tellRed(red, s)
			a.giveUpHung(still, a.shown(), s)
		}
	})
	both.Go(func() { // brokers that do not answer hold up no verdict
		for wait(ctx, lookEvery) {
			all := a.shown()
			for _, b := range all {
				b.findHolder(ctx)
			}
			a.findBrokers(ctx, all)
		}
	})
	return func() {
		cancel()
		both.Wait()
	}
}

// findBrokers finds out why the seat was lost: an answer of any broker means that it is for the group to say.
func (a *App) findBrokers(ctx context.Context, all []*board) {
	lost := slices.DeleteFunc(slices.Clone(all), func(b *board) bool { return b.lost.Load() == nil })
	if len(lost) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, session)
	defer cancel()
	_, _, err := a.admin.Cluster(ctx)
	for _, b := range lost {
		was := b.lost.Load()
		if was == nil {
			continue
		}
		now := status.Wait{For: status.ForGroup, What: "the group to take this process in again", Since: was.Since}
		if err != nil {
			now.For, now.What = status.ForBroker, "the brokers: "+err.Error()
		}
		b.lost.CompareAndSwap(was, &now)
	}
}

func (a *App) tellRed(told map[int32]time.Time, s *Status) {
	here := map[int32]bool{}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		here[t.Partition] = true
		at, was := told[t.Partition]
		switch {
		case t.Health == status.Red && (!was || s.At.Sub(at) >= tellEvery):
			told[t.Partition] = s.At
			a.log.Warn("task is red", "partition", t.Partition, "state", string(t.State), "reason", t.Reasons[0].Code, "what", t.Reasons[0].What,
				"since", t.Reasons[0].Since)
		case t.Health == status.Green && was:
			delete(told, t.Partition)
			a.log.Info("task is green again", "partition", t.Partition)
		}
	}
	maps.DeleteFunc(told, func(p int32, _ time.Time) bool { return !here[p] })
}

// findHolder finds out who holds the last stable offset that the task waits for, once for each offset.
func (b *board) findHolder(ctx context.Context) {
	a := b.account.Load()
	topic, offset := b.app.options.Changelog.Topic, int64(-1)
	if !a.blocked.IsZero() {
		offset = a.progress.Waiting
	} else if s := b.inputHeld(a); s != nil {
		topic, offset = b.app.options.Input, s.Stable
	}
	if c := b.holder.Load(); offset < 0 || c != nil && c.topic == topic && c.offset == offset {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, heartbeat*10)
	defer cancel()
	open, err := b.app.admin.OpenTransactions(ctx, topic, b.partition)
	if err != nil {
		b.app.log.Debug("holder of the last stable offset not found, asked again", "topic", topic, "partition", b.partition, "error", err)
		return
	}
	for _, t := range open {
		if t.Start == offset {
			b.holder.Store(&culprit{topic, offset, t.ID})
		}
	}
}
