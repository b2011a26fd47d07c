package recovery

import (
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// ledger checks that what is replayed is a changelog as its owners wrote it. Records may be missing at any time, for
// compaction runs while we read, so every check that depends on completeness asks first whether all offsets are
// accounted for: a delivered record, or the one marker that follows a commit or fence record. Producer ids and epochs
// are never compared (V3).
type ledger struct {
	c       *changelog
	birth   record.BirthID // of the last commit in the log
	last    record.Commit  // the last commit record passed; valid with known
	scratch record.Commit
	known   bool
	lastAt  int64 // offset of last, -1 when it was not passed here
	fence   record.FenceID
	expect  int64        // the next offset if nothing is missing
	whole   bool         // nothing is missing since the last commit record
	owned   bool         // nothing is missing since fence was set
	updates record.Count // since the last commit record
	damaged error        // a record before the life that counts cannot be read; it is history if that life began by a reset
}

// newLedger begins at position. commit is the one in force there, nil at the log start; birth is that of the last commit
// in the log, which is the life that counts.
func newLedger(c *changelog, position int64, commit *record.Commit, birth record.BirthID) *ledger {
	l := &ledger{c: c, birth: birth, lastAt: -1, expect: position, whole: commit != nil || position == 0}
	if commit != nil {
		// The record before a position is a commit or fence record, and its marker comes next. Which of the two is not
		// known, so neither is the fence in force.
		l.last, l.known = *commit.Clone(), true
		l.expect = position + 1
	}
	return l
}

// passed notes the offset of a delivered record.
func (l *ledger) passed(offset int64) {
	if offset != l.expect {
		l.whole, l.owned = false, false
	}
	l.expect = offset + 1
}

// passFence notes a fence record: the commits after it are its writer's.
func (l *ledger) passFence(r *kafka.Record) error {
	l.passed(r.Offset)
	f, err := record.ParseFence(r.Value)
	if err != nil {
		return l.unreadable(r, err)
	}
	l.fence, l.owned = f.ID, true
	l.expect++ // its marker
	return nil
}

// passCommit checks a commit record against all that came before it.
func (l *ledger) passCommit(r *kafka.Record) error {
	l.passed(r.Offset)
	c := &l.scratch
	if err := c.Decode(r.Value); err != nil {
		return l.unreadable(r, err)
	}
	if l.damaged != nil && c.Birth == l.birth {
		if c.Mark != record.MarkReset {
			return l.damaged
		}
		l.damaged = nil
	}
	if err := l.compare(r, c); err != nil {
		return err
	}
	l.last, l.scratch = l.scratch, l.last // both are reused: no allocation per commit
	l.known, l.lastAt = true, r.Offset
	l.fence, l.whole, l.owned, l.updates = l.last.Fence, true, true, 0
	l.expect++ // its marker
	return nil
}

// unreadable notes a record that cannot be read. A reset has left it behind, in a log that keeps it until it is compacted
// away, if the life that counts begins with that reset after it; otherwise it is a stop.
func (l *ledger) unreadable(r *kafka.Record, err error) error {
	stop := l.c.unreadable(r, err)
	if newerFormat(err) || l.known && l.last.Birth == l.birth {
		return stop
	}
	if l.damaged == nil {
		l.damaged = stop
	}
	l.whole, l.owned, l.updates = false, false, 0
	return nil
}

func (l *ledger) compare(r *kafka.Record, c *record.Commit) error {
	if c.Birth != l.birth && (!l.known || l.last.Birth != l.birth) {
		return nil // of a life that was ended, maybe because its commits contradict each other
	}
	switch {
	case c.Mark == record.MarkPart:
		return l.broken(r, "commit %d is marked as a %v, which no changelog holds", c.Number, c.Mark)
	case l.owned && c.Fence != l.fence:
		return l.broken(r, "commit %d was written under fence %v, but the fence record in force is %v", c.Number, c.Fence, l.fence)
	case !l.known && l.whole && c.Number != 0:
		return l.broken(r, "the first commit has number %d, not 0", c.Number)
	case l.whole && c.Records != l.updates && !takesAll(c.Mark):
		return l.broken(r, "commit %d has %d records, %d are there and no offset is missing", c.Number, c.Records, l.updates)
	case !l.known:
		return nil
	case c.Birth != l.last.Birth:
		if l.whole && (c.Number != 0 || c.Mark != record.MarkReset && c.Mark != record.MarkLoss) {
			return l.broken(r, "birth %v follows birth %v without a reset or an accepted loss", c.Birth, l.last.Birth)
		}
		return nil
	case c.Number <= l.last.Number:
		return l.broken(r, "commit number %d follows %d", c.Number, l.last.Number)
	case l.whole && c.Number != l.last.Number+1:
		return l.broken(r, "commit number %d follows %d and no offset is missing between them", c.Number, l.last.Number)
	case c.Number == l.last.Number+1 && l.updates > c.Records && !takesAll(c.Mark):
		return l.broken(r, "commit %d has %d records, but %d came after commit %d", c.Number, c.Records, l.updates, l.last.Number)
	}
	return nil
}

// takesAll tells whether a commit stands for all that lies before it, whoever wrote that: it ends a life, or takes the
// state over as it is.
func takesAll(m record.Mark) bool {
	return m == record.MarkReseal || m == record.MarkResetting || m == record.MarkReset
}

func (l *ledger) broken(r *kafka.Record, format string, args ...any) error {
	return l.c.fail(kafka.ClassCorrupt, "replay", r.Offset, "", format, args...)
}
