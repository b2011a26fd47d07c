package recovery

import (
	"errors"
	"fmt"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// Audit reads one changelog partition as a recovery from nothing would, but goes on at each fault instead of stopping,
// so that one pass tells them all. It fences nobody and writes nothing. It is used by one goroutine.
//
// The owner delivers every record from the log start on to Take, and asks Prove at the end. What Prove says is final only
// when nothing was written meanwhile: compaction may have taken values that newer ones beyond the end replaced (R27).
type Audit struct {
	changelog
	job    string
	check  func(key, value []byte) error
	start  int64
	ledger *ledger
	base   *store.Memory

	records record.Count
	commits record.Count
	behind  int64 // offset of the first update behind the last commit record, -1
	former  map[record.BirthID]bool
	faults  []error
	more    int // faults beyond those kept
}

// maxFaults is how many faults of one partition are kept; the others are counted (I13).
const maxFaults = 100

// NewAudit begins an audit of a partition of a job's changelog at the log start. check is called with key and value of
// each update that is no tombstone, and says what is wrong with them; it must not keep them.
func NewAudit(job, topic string, partition int32, start int64, check func(key, value []byte) error) *Audit {
	a := &Audit{changelog: changelog{topic: topic, partition: partition}, job: job, check: check, start: start,
		base: store.NewMemory(0), behind: -1, former: map[record.BirthID]bool{}}
	a.ledger = newLedger(&a.changelog, start, nil, 0)
	return a
}

// Close frees the state.
func (a *Audit) Close() error { return a.base.Close() }

// Take takes records that were delivered in order. It keeps nothing of them.
func (a *Audit) Take(records []kafka.Record) {
	for i := range records {
		a.records++
		a.note(a.take(&records[i]))
	}
}

func (a *Audit) note(err error) {
	switch {
	case err == nil:
	case len(a.faults) < maxFaults:
		a.faults = append(a.faults, err)
	default:
		a.more++
	}
}

func (a *Audit) take(r *kafka.Record) error {
	kind, ok := record.KindOf(r.Key)
	switch {
	case !ok:
		a.ledger.passed(r.Offset)
		return a.unknownKind(r)
	case kind == record.KindCommit:
		return a.takeCommit(r)
	case kind == record.KindFence:
		return a.takeFence(r)
	}
	a.ledger.passed(r.Offset)
	a.ledger.updates++
	if a.behind < 0 {
		a.behind = r.Offset
	}
	return a.takeUpdate(r)
}

// takeUpdate folds an update, and looks at its bytes.
func (a *Audit) takeUpdate(r *kafka.Record) error {
	if len(r.Key) > record.MaxKeyBytes || len(r.Value) > store.MaxValueBytes {
		return a.fault(r, "key of %d and value of %d bytes, limits %d and %d", len(r.Key), len(r.Value), record.MaxKeyBytes, store.MaxValueBytes)
	}
	if r.Value == nil {
		a.base.Unset(record.Hash(r.Key), r.Key)
	} else {
		a.base.Set(record.Hash(r.Key), r.Key, r.Value)
	}
	_, err := record.ParseEntryKey(r.Key)
	if err == nil && r.Value != nil {
		err = a.check(r.Key, r.Value)
	}
	if err != nil {
		return a.fault(r, "%w", err)
	}
	return nil
}

func (a *Audit) takeFence(r *kafka.Record) error {
	f, err := record.ParseFence(r.Value)
	if err != nil {
		a.ledger.passed(r.Offset)
		return a.unreadable(r, err)
	}
	if err := a.ledger.passFence(r); err != nil {
		return err
	}
	if f.Job != a.job || f.Partition != a.partition {
		return a.fault(r, "the fence record is of job %q partition %d, this is job %q partition %d", f.Job, f.Partition, a.job, a.partition)
	}
	return nil
}

// takeCommit compares a commit record with all that came before it. After a fault it is believed, so that one fault is
// told once. What contradicts itself in a life that was ended since is history: resets and accepted losses end lives for
// such reasons.
func (a *Audit) takeCommit(r *kafka.Record) error {
	a.commits++
	l := a.ledger
	c, err := record.ParseCommit(r.Value)
	if err != nil {
		l.passed(r.Offset)
		l.whole, l.owned = false, false
		a.behind = -1
		return a.unreadable(r, err)
	}
	before, known := l.last, l.known
	l.birth = c.Birth
	err = l.passCommit(r)
	switch {
	case err != nil:
	case a.former[c.Birth]:
		delete(a.former, c.Birth) // told once
		err = a.fault(r, "commit %d is of birth %v, which birth %v had ended", c.Number, c.Birth, before.Birth)
	case known && c.Birth != before.Birth:
		a.faults, a.more = nil, 0
	case known:
		err = a.follows(r, &before, c)
	}
	if err == nil {
		err = a.balanced(r, c)
	}
	if known && c.Birth != before.Birth {
		a.former[before.Birth] = true
	}
	l.last, l.known, l.lastAt = *c, true, r.Offset
	l.fence, l.whole, l.owned, l.updates = c.Fence, true, true, 0
	l.expect = r.Offset + 2 // behind its marker
	a.behind = -1
	return err
}

// follows checks that nothing went back that never does, unless a repair says so.
func (a *Audit) follows(r *kafka.Record, before, c *record.Commit) error {
	if c.Mark == record.MarkLoss || c.Mark == record.MarkTime || c.Mark == record.MarkResetting {
		return nil
	}
	if c.Position < before.Position {
		return a.fault(r, "commit %d is at input position %d, commit %d was at %d", c.Number, c.Position, before.Number, before.Position)
	}
	if c.StreamTime < before.StreamTime {
		return a.fault(r, "commit %d has stream time %d, commit %d had %d", c.Number, c.StreamTime, before.Number, before.StreamTime)
	}
	for i := range c.Aggregations {
		for j := range before.Aggregations {
			now, then := &c.Aggregations[i], &before.Aggregations[j]
			if now.Name == then.Name && now.ClosedEnd < then.ClosedEnd {
				return a.fault(r, "aggregation %q is closed up to %d at commit %d, was up to %d at commit %d",
					now.Name, now.ClosedEnd, c.Number, then.ClosedEnd, before.Number)
			}
		}
	}
	return nil
}

// balanced holds the counters of a commit to the equations of I9.
func (a *Audit) balanced(r *kafka.Record, c *record.Commit) error {
	n := &c.Counters
	if sum := n.Accepted + n.DeadLettered + n.Filtered + n.Skipped + n.Duplicates; n.In != sum {
		return a.fault(r, "commit %d counts %d readings in, but %d accepted, %d dead letters, %d filtered, %d skipped and %d duplicates are %d (I9)",
			c.Number, n.In, n.Accepted, n.DeadLettered, n.Filtered, n.Skipped, n.Duplicates, sum)
	}
	for i := range c.Aggregations {
		g := &c.Aggregations[i]
		if sum := g.Folded + g.PartlyLate + g.Late; n.Accepted-g.Since != sum {
			return a.fault(r, "commit %d counts %d readings accepted since aggregation %q began, but %d folded, %d partly late and %d late are %d (I9)",
				c.Number, n.Accepted-g.Since, g.Name, g.Folded, g.PartlyLate, g.Late, sum)
		}
	}
	return nil
}

func (a *Audit) fault(r *kafka.Record, format string, args ...any) error {
	return a.fail(kafka.ClassCorrupt, "verify changelog", r.Offset, "", format, args...)
}

// Prove compares what the log folds to with what its last commit record says. More records may be taken afterwards.
func (a *Audit) Prove() error {
	digest, live := a.base.Prove()
	c := &a.ledger.last
	fail := func(at int64, format string, args ...any) error {
		return a.fail(kafka.ClassCorrupt, "verify changelog", at, "", format, args...)
	}
	switch {
	case !a.ledger.known && a.start > 0:
		return fail(a.start, "there is no commit record and the log starts at offset %d, not 0: records were deleted", a.start)
	case !a.ledger.known && a.behind >= 0:
		return fail(a.behind, "there is an update but no commit record: the changelog is not whole")
	case !a.ledger.known:
		return nil
	case a.behind >= 0:
		return fail(a.behind, "there is an update behind the last commit record at offset %d: it is not ours", a.ledger.lastAt)
	case c.Mark == record.MarkResetting:
		return fail(a.ledger.lastAt, "a reset was begun and not finished: %s", c.Note)
	case c.Digest != digest || c.Live != live:
		return fail(a.ledger.lastAt, "the log folds to %d entries with digest %v, commit %d recorded %d with digest %v",
			live, digest, c.Number, c.Live, c.Digest)
	}
	return nil
}

// Within tells whether the records taken end within a commit: with an update behind the last commit record.
func (a *Audit) Within() bool { return a.behind >= 0 }

// Audited is what an audit has read.
type Audited struct {
	Records record.Count // updates, commit and fence records
	Commits record.Count // commit records that compaction has left
	Live    record.Count // entries that the log folds to
	Last    *record.Commit
}

// Read says what was read. Prove comes before.
func (a *Audit) Read() Audited {
	_, live := a.base.Prove()
	read := Audited{Records: a.records, Commits: a.commits, Live: live}
	if a.ledger.known {
		read.Last = a.ledger.last.Clone()
	}
	return read
}

// Faults are the faults of the records taken, nil for none: each an error that names topic, partition and offset.
func (a *Audit) Faults() error {
	all := a.faults[:len(a.faults):len(a.faults)]
	if a.more > 0 {
		all = append(all, fmt.Errorf("changelog %s/%d: %d more faults", a.topic, a.partition, a.more))
	}
	return errors.Join(all...)
}
