package recovery

import (
	"context"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// prove is I7: digest and number of entries, recomputed from the entries, must be those of the last commit record. On a
// live base the running digest, which the replay has carried on, is compared instead: milliseconds, not O(state).
func (s *sequence) prove(context.Context) error {
	var digest record.Digest
	var live record.Count
	if s.source != nil && s.source.live {
		digest, live = s.store.Digest(), s.store.Live()
	} else {
		digest, live = s.store.Prove()
	}
	c := s.end.last
	if digest == c.Digest && live == c.Live || defect.DigestUnchecked {
		return nil
	}
	return s.fail(kafka.ClassCorrupt, "prove", s.end.lastAt, "if the changelog is to be trusted as it is, tidemark reseal writes the recomputed values down",
		"the state is not that of commit %d: digest %v of %d entries, the commit record says %v of %d", c.Number, digest, live, c.Digest, c.Live)
}

// proveInput checks that the input still is the log that the state was made of, and that nothing is gone from where it
// goes on: the position lies in the log, and the record at the anchor's offset has the anchor's bytes (R16, V24).
func (s *sequence) proveInput(ctx context.Context) error {
	c := s.end.last
	log, err := s.Cluster.Log(s.Identity.Input.Name, s.Partition)
	if err != nil {
		return err
	}
	defer log.Close()
	o, err := log.Offsets(ctx)
	if err != nil {
		return err
	}
	switch position := int64(c.Position); {
	case c.Position == record.NoInput:
	case position < o.Start:
		err = s.loseInput(position, o.Start, "the state goes on at offset %d, the log starts at %d: %d offsets are gone", position, o.Start, o.Start-position)
	case position > o.HighWatermark:
		err = s.loseInput(position, o.HighWatermark, "the state goes on at offset %d, the log ends at %d: the last %d offsets are gone",
			position, o.HighWatermark, position-o.HighWatermark)
	}
	if err != nil {
		return err
	}
	s.report.Anchor = "none"
	if c.Anchor.Offset < 0 {
		return nil
	}
	s.report.Anchor = "unproved"
	if c.Anchor.Offset >= o.Start { // else it is deleted, and what is said of its epoch means nothing
		if err := s.proveEpoch(ctx, log); err != nil {
			return err
		}
	}
	f, err := look(ctx, log, c.Anchor.Offset, 1)
	if kafka.ClassOf(err) == kafka.ClassLost {
		return nil // below the log start: not retained any more
	}
	if err != nil || len(f.Records) == 0 || f.Records[0].Offset != c.Anchor.Offset {
		return err
	}
	hash, _ := record.AnchorHash(nil, f.Records[0].Key, f.Records[0].Value)
	if hash != c.Anchor.Hash {
		s.report.Anchor = "other"
		return s.loseInput(c.Anchor.Offset, int64(s.goesOn()), "the record there has hash %v, the one consumed had %v: the input is another log", hash, c.Anchor.Hash)
	}
	s.report.Anchor = "proved"
	return nil
}

// proveEpoch asks the leader where the epoch of the last record consumed ends in its log. An end at or before that record
// means that a change of leader has cut it off and the log was filled again, maybe with the same bytes (R16).
func (s *sequence) proveEpoch(ctx context.Context, log kafka.Log) error {
	c := s.end.last
	end, known, err := log.EpochEnd(ctx, c.Epoch)
	if err != nil || !known || end > c.Anchor.Offset {
		return err
	}
	s.report.Anchor = "other"
	return s.loseInput(end, int64(s.goesOn()), "the state has consumed offset %d of leader epoch %d, and that epoch ends at offset %d: "+
		"%d offsets were cut off at a change of leader, and the log has gone on without them", c.Anchor.Offset, c.Epoch, end, c.Anchor.Offset-end+1)
}
