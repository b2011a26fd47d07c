package tidemark

import (
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/status"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// totals count what this process has done, over all the tasks it has had. Tasks add to them without a lock.
type totals struct {
	records     atomic.Int64
	commits     atomic.Int64
	in          atomic.Int64
	accepted    atomic.Int64
	dead        atomic.Int64
	filtered    atomic.Int64
	skipped     atomic.Int64
	repeated    atomic.Int64
	ahead       atomic.Int64
	untimed     atomic.Int64
	duplicates  atomic.Int64
	inexact     atomic.Int64 // values, not readings
	replayed    atomic.Int64
	unproved    atomic.Int64
	saved       atomic.Int64
	saveFailed  atomic.Int64
	recoveries  recoveries
	failures    [kafka.ClassCorrupt + 1]atomic.Int64
	latency     latency
	letters     letters
	heldBack    atomic.Bool                          // ahead is a large share, and that was told
	toldInexact atomic.Bool                          // there were inexact values, and that was told
	aggregation atomic.Pointer[[]*aggregationTotals] // in the Processor's order; nil before there is one
}

// aggregationTotals are the totals of one aggregation.
type aggregationTotals struct {
	name                                     string
	folded, partlyLate, late, missed, result atomic.Int64
}

// know takes the names of the aggregations from the first Processor; those of all tasks are the same.
func (t *totals) know(aggregations []Aggregation) {
	if t.aggregation.Load() != nil {
		return
	}
	all := make([]*aggregationTotals, len(aggregations))
	for i, a := range aggregations {
		all[i] = &aggregationTotals{name: a.Name}
	}
	t.aggregation.CompareAndSwap(nil, &all)
}

// committed adds what a commit has changed.
func (t *totals) committed(before, after *record.Commit, records int, took time.Duration) {
	t.commits.Add(1)
	t.records.Add(int64(records))
	t.latency.observe(took)
	b, a := &before.Counters, &after.Counters
	t.in.Add(int64(a.In - b.In))
	t.accepted.Add(int64(a.Accepted - b.Accepted))
	t.dead.Add(int64(a.DeadLettered - b.DeadLettered))
	t.filtered.Add(int64(a.Filtered - b.Filtered))
	t.skipped.Add(int64(a.Skipped - b.Skipped))
	t.repeated.Add(int64(a.Repeated - b.Repeated))
	t.ahead.Add(int64(a.Ahead - b.Ahead))
	t.untimed.Add(int64(a.Untimed - b.Untimed))
	t.duplicates.Add(int64(a.Duplicates - b.Duplicates))
	t.inexact.Add(int64(a.Inexact - b.Inexact))
	for i, g := range *t.aggregation.Load() {
		b, a := &before.Aggregations[i], &after.Aggregations[i]
		g.folded.Add(int64(a.Folded - b.Folded))
		g.partlyLate.Add(int64(a.PartlyLate - b.PartlyLate))
		g.late.Add(int64(a.Late - b.Late))
		g.missed.Add(int64(a.Missed - b.Missed))
		g.result.Add(int64(a.Results - b.Results))
	}
}

// holdBack tells, once, that more than 1 % of the readings accepted are later than their records (section 7): each of them
// could have moved the stream time further. A few readings make no share.
func (t *totals) holdBack() bool {
	const enough = 1000
	accepted := t.accepted.Load()
	return accepted >= enough && t.ahead.Load() > accepted/100 && t.heldBack.CompareAndSwap(false, true)
}

// warn says once each what users should know of their readings.
func (t *totals) warn(log *slog.Logger) {
	if t.holdBack() {
		log.Warn("record timestamps hold stream time back: more than 1 % of the readings accepted are later than their records, "+
			"and windows close by the earlier of the two", "ahead_of_record", t.ahead.Load(), "accepted", t.accepted.Load())
	}
	if t.roundsOff() {
		log.Warn("values that no double holds were taken as the nearest one: above 2^53 the last digits are others, and what is too small is 0; "+
			"input.numbers: int64 takes whole numbers as they are", "inexact_values", t.inexact.Load())
	}
}

// roundsOff tells, once, that there were values which are another number than the one written (C03).
func (t *totals) roundsOff() bool {
	return t.inexact.Load() > 0 && t.toldInexact.CompareAndSwap(false, true)
}

// letters count dead letters by reason. A commit that has any takes the lock once.
type letters struct {
	mu sync.Mutex
	of map[job.Reason]int64
}

// otherReason is that of letters of a program of one's own that gives none of ours: the series are bounded (I13).
const otherReason job.Reason = "other"

// reasons are all that letters are counted by.
var reasons = append(job.Reasons(), otherReason)

// add counts the dead letters of a commit.
func (l *letters) add(messages []task.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[job.Reason]int64{}
	}
	for i := range messages {
		if messages[i].Sink == task.SinkDead {
			l.of[reasonOf(&messages[i])]++
		}
	}
}

func reasonOf(m *task.Message) job.Reason {
	if reason := job.Reason(record.HeaderOf(m.Headers, job.HeaderReason)); slices.Contains(reasons, reason) {
		return reason
	}
	return otherReason
}

// told is all reasons with their counts.
func (l *letters) told() []status.Letters {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]status.Letters, len(reasons))
	for i, reason := range reasons {
		all[i] = status.Letters{Reason: string(reason), Letters: l.of[reason]}
	}
	return all
}

// recovered adds a recovery.
func (t *totals) recovered(r *RecoveryReport) {
	t.recoveries.add(r.From)
	t.replayed.Add(int64(r.Records))
	if r.Anchor == "unproved" {
		t.unproved.Add(1)
	}
}

// failed adds a failure.
func (t *totals) failed(err error) {
	if class := int(kafka.ClassOf(err)); class < len(t.failures) {
		t.failures[class].Add(1)
	}
}

// told is what is shown of them.
func (t *totals) told() status.Totals {
	s := status.Totals{
		Records: t.records.Load(), Commits: t.commits.Load(), Replayed: t.replayed.Load(), Unproved: t.unproved.Load(),
		Checkpoints: t.saved.Load(), CheckpointFailures: t.saveFailed.Load(), CommitSeconds: t.latency.told(), Recoveries: t.recoveries.counts(),
		Readings: status.Readings{In: t.in.Load(), Accepted: t.accepted.Load(), DeadLettered: t.dead.Load(), Filtered: t.filtered.Load(),
			Skipped: t.skipped.Load(), Repeated: t.repeated.Load(), Ahead: t.ahead.Load(), Untimed: t.untimed.Load(),
			Duplicates: t.duplicates.Load()}, Inexact: t.inexact.Load(),
		Failures: status.Failures{Transient: t.failures[kafka.ClassTransient].Load(), Fenced: t.failures[kafka.ClassFenced].Load(),
			Permanent: t.failures[kafka.ClassPermanent].Load(), Lost: t.failures[kafka.ClassLost].Load(), Corrupt: t.failures[kafka.ClassCorrupt].Load()},
		Aggregations: []status.AggregationTotals{}, DeadLetters: t.letters.told(),
	}
	if all := t.aggregation.Load(); all != nil {
		for _, g := range *all {
			s.Aggregations = append(s.Aggregations, status.AggregationTotals{Name: g.name, Folded: g.folded.Load(), PartlyLate: g.partlyLate.Load(),
				Late: g.late.Load(), Missed: g.missed.Load(), Results: g.result.Load()})
		}
	}
	return s
}

// bounds of the latency of commits: the last one is the watchdog.
var bounds = [...]time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	10 * time.Second, status.Watchdog}

// latency counts durations up to each of bounds, and above the last one.
type latency struct {
	counts [len(bounds) + 1]atomic.Int64
	sum    atomic.Int64 // ns
}

func (l *latency) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	l.counts[i].Add(1)
	l.sum.Add(int64(d))
}

func (l *latency) told() status.Distribution {
	var d status.Distribution
	for i := range l.counts {
		d.Count += l.counts[i].Load()
		if i < len(bounds) {
			d.Bounds, d.AtMost = append(d.Bounds, bounds[i].Seconds()), append(d.AtMost, d.Count)
		}
	}
	d.Sum = time.Duration(l.sum.Load()).Seconds()
	return d
}

// rates are how fast this process has loaded and replayed, for the estimate of the next recovery.
type rates struct {
	load, replay atomic.Uint64 // bits of a float64: entries, records a second; 0 before anything was measured
	fixed        atomic.Int64  // ns that a recovery takes whatever the size of the state
}

// What is assumed before anything was measured, on the careful side of what one core does, and how much makes a
// measurement.
const (
	assumedLoad   = 1e6
	assumedReplay = 1e6
	assumedFixed  = 500 * time.Millisecond
	measurable    = 10_000
)

// learn measures a recovery. Proving belongs to the load: it goes over all entries.
func (r *rates) learn(report *RecoveryReport) {
	p := &report.Phases
	if report.From == "live base" {
		return // a restart has none
	}
	if ms := p.Load + p.Prove; report.Loaded >= measurable && ms > 0 {
		r.load.Store(math.Float64bits(float64(report.Loaded) / ms * 1000))
	}
	if report.Records >= measurable && p.Replay > 0 {
		r.replay.Store(math.Float64bits(float64(report.Records) / p.Replay * 1000))
	}
	r.fixed.Store(int64((p.Join + p.Identify + p.Ask + p.Fence + p.FenceRecord + p.Tail + p.Anchor) * float64(time.Millisecond)))
}

// estimate is how long a recovery of a task would take if the process were killed now, in seconds: its newest
// checkpoint loaded and all replayed that was written since, or everything. Measured tells that no rate is assumed.
func (r *rates) estimate(b *board) (seconds float64, measured bool) {
	f, i := b.facts.Load(), b.image.Load()
	load, replay := math.Float64frombits(r.load.Load()), math.Float64frombits(r.replay.Load())
	measured = replay > 0 && (i == nil || load > 0)
	if load == 0 {
		load = assumedLoad
	}
	if replay == 0 {
		replay = assumedReplay
	}
	fixed := time.Duration(r.fixed.Load())
	if fixed == 0 {
		fixed = assumedFixed
	}
	seconds = fixed.Seconds()
	if f == nil {
		return seconds, measured
	}
	from := record.ChangelogPosition(0)
	if i != nil {
		from = i.begin
		seconds += float64(i.entries) / load
	} else if log := b.changelog.Load(); log != nil {
		if s := log.seen.Load(); s != nil {
			from = record.ChangelogPosition(s.Start)
		}
	}
	return seconds + float64(max(0, f.log-from))/replay, measured
}

// total is how long a recovery took, in ms: up to its first commit where there was one.
func total(p *recovery.Phases) float64 {
	if p.FirstCommit > 0 {
		return p.FirstCommit
	}
	return p.Identify + p.Ask + p.Fence + p.FenceRecord + p.Tail + p.Load + p.Replay + p.Prove + p.Anchor + p.Birth
}
