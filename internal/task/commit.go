package task

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/defect"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// Effect is one thing that the driver must do for the commit in flight, in this order and no other (section 4):
//
//	Begin          close due windows, encode every dirty entry once, freeze the batch       (nothing outside happens)
//	EffectSend     write the batch into the task's transaction, its commit record last; every message acknowledged (I3)
//	EffectEnd      end the transaction. Only its success merges the overlay into the base  (I1, I2)
//	EffectOffset   tell the group where we stand, for lag tools; a failure is ignored       (V4)
//
// After any other outcome of Send or End nothing is known: the driver calls Drop and recovers (I8).
type Effect uint8

// The effects of a commit.
const (
	EffectNone Effect = iota
	EffectSend
	EffectEnd
	EffectOffset
)

// String is the effect in one word.
func (e Effect) String() string { return [...]string{"none", "send", "end", "offset"}[e] }

// Message is one record of a commit. Changelog messages with a nil Value are tombstones.
type Message struct {
	Sink        Sink
	Aggregation int // for SinkResult
	Key         []byte
	Value       []byte
	Headers     []Header
}

// Batch is a commit on its way. Messages stay unchanged until the task is told that EffectEnd is done, or to Drop.
type Batch struct {
	Messages []Message // changelog, outputs, and last the commit record
	Commit   *record.Commit
	Inputs   int // records consumed
	Closed   int // windows closed
	Waiting  int // due windows left for later commits
	next     Effect
}

// Begin makes the commit of what the open overlay holds, with as many due windows as it may take, and freezes it as the
// commit in flight: the next records go to a fresh overlay. It must not be called while a commit is in flight.
func (t *Task) Begin() (*Batch, error) {
	if t.view.flight != nil {
		return nil, fmt.Errorf("task: commit %d begun while %d is in flight", t.committed.Number+2, t.committed.Number+1)
	}
	closed, err := t.closeSlice()
	if err == nil {
		err = t.view.tell()
	}
	if err == nil {
		err = t.view.tidy()
	}
	if err = cmp.Or(err, t.view.overfull); err != nil {
		return nil, err
	}
	o := t.view.open
	o.meta.Number = t.committed.Number + 1
	o.meta.Mark, o.meta.Note = record.MarkNone, "" // they were the last commit's, if that was a repair
	if err := t.encode(o); err != nil {
		return nil, err
	}
	if defect.DueTwice && t.view.due.waiting > 0 {
		t.messages = slices.DeleteFunc(t.messages, func(m Message) bool { return m.Sink == SinkChangelog && m.Value == nil })
	}
	t.holdInput = t.view.due.waiting > t.waiting && t.view.due.waiting >= 4*t.options.MaxRecords/2
	t.waiting = t.view.due.waiting
	t.batch = Batch{Messages: t.messages, Commit: &o.meta, Inputs: o.inputs, Closed: closed, Waiting: t.waiting,
		next: EffectSend}
	t.view.flight, t.view.open, t.spare = o, t.spare, nil
	t.view.open.reset()
	t.view.open.meta = *o.meta.Clone()
	t.lowered = false
	return &t.batch, nil
}

// closeSlice closes due windows up to the limits of a commit (R2).
func (t *Task) closeSlice() (closed int, err error) {
	o := t.view.open
	for o.records() < t.options.MaxRecords && o.bytes < t.options.MaxBytes {
		if closed%aheadMax == 0 {
			t.view.touchAll(t.view.due.ahead(t.view.ahead.hashes[:]))
		}
		more, err := t.view.closeNext()
		if err != nil || !more {
			return closed, err
		}
		closed++
	}
	return closed, nil
}

// encode makes the messages of an overlay: the full value of every dirty entry once or its tombstone, the outputs, the
// commit record. It carries digest and live count on.
func (t *Task) encode(o *overlay) error {
	t.messages = t.messages[:0]
	m := &o.meta
	m.Records = 0
	for i := range o.entries {
		d := &o.entries[i]
		if !d.write() {
			continue
		}
		m.Records++
		msg := Message{Sink: SinkChangelog, Key: o.key(d)}
		if d.deleted {
			m.Digest, m.Live = m.Digest.Sub(d.old), m.Live-1
		} else if err := t.encodeEntry(o, d, Slot(i)); err != nil {
			return err
		}
		t.messages = append(t.messages, msg)
	}
	t.attachValues(o)
	t.addOutputs(o)
	m.Anchor = t.anchor(m.Anchor)
	if err := m.Check(); err != nil {
		return fmt.Errorf("commit %d: %w", m.Number, err)
	}
	t.record = m.Append(t.record[:0])
	t.messages = append(t.messages, Message{Sink: SinkChangelog, Key: record.CommitKey, Value: t.record})
	return nil
}

func (t *Task) encodeEntry(o *overlay, d *dirty, slot Slot) error {
	before := len(o.values)
	o.values = t.view.proc.Encode(slot, o.values)
	if err := t.view.fits("values", before, len(o.values)-before); err != nil {
		return fmt.Errorf("entry %s: %w", describe(o.key(d)), err)
	}
	d.valueOff, d.valueLen = uint32(before), uint32(len(o.values)-before)
	t.view.text = append(append(t.view.text[:0], o.key(d)...), o.value(d)...)
	m := &o.meta
	d.fresh = record.EntryDigest(t.view.text, int(d.keyLen))
	m.Digest = m.Digest.Add(d.fresh)
	if d.existed {
		m.Digest = m.Digest.Sub(d.old)
	} else {
		m.Live++
	}
	return nil
}

// attachValues points the changelog messages to their values, which moved while their arena grew.
func (t *Task) attachValues(o *overlay) {
	at := 0
	for i := range o.entries {
		d := &o.entries[i]
		if !d.write() {
			continue
		}
		if !d.deleted {
			t.messages[at].Value = o.value(d)
		}
		at++
	}
}

func (t *Task) addOutputs(o *overlay) {
	if len(o.outputs) == 0 {
		return
	}
	origin := record.Origin{Job: t.options.Job, Birth: o.meta.Birth, Partition: t.options.Partition, Number: o.meta.Number}
	t.origin = []Header{{Key: record.OriginHeader, Value: origin.Append(nil)}}
	for i := range o.outputs {
		out := &o.outputs[i]
		headers := out.headers
		if out.sink == SinkResult && headers == nil {
			headers = t.origin
		}
		t.messages = append(t.messages, Message{
			Sink: out.sink, Aggregation: int(out.aggregation), Headers: headers,
			Key: o.outputKey(out), Value: o.outputValue(out),
		})
	}
}

// Next returns the effect that is due for the commit in flight, EffectNone when there is none.
func (t *Task) Next() Effect { return t.batch.next }

// Did tells that the effect Next named has succeeded. After EffectEnd the batch is committed: its overlay is merged
// into the base and the messages are free again.
func (t *Task) Did(effect Effect) error {
	if effect != t.batch.next || effect == EffectNone {
		return fmt.Errorf("task: effect %s reported while %s is due", effect, t.batch.next)
	}
	switch effect {
	case EffectSend:
		t.batch.next = EffectEnd
	case EffectEnd:
		t.batch.next = EffectOffset
		return t.merge()
	case EffectOffset:
		t.batch.next = EffectNone
	}
	return nil
}

// merge moves the committed overlay into the base (I1) and checks the base against the commit record it stands for.
func (t *Task) merge() error {
	o := t.view.flight
	for i := range o.entries {
		if i%aheadMax == 0 {
			t.view.touchBase(o.entries[i:min(i+aheadMax, len(o.entries))])
		}
		d := &o.entries[i]
		switch {
		case !d.write():
		case d.deleted:
			t.view.base.Delete(d.hash, o.key(d), record.Digest{}.Sub(d.old))
		default:
			diff := d.fresh
			if d.existed {
				diff = diff.Sub(d.old)
			}
			t.view.base.Put(d.hash, o.key(d), o.value(d), diff)
		}
	}
	t.committed = o.meta.Clone()
	t.view.flight, t.spare = nil, o
	if live, digest := t.view.base.Live(), t.view.base.Digest(); live != t.committed.Live || digest != t.committed.Digest {
		return fmt.Errorf("task: after commit %d the base holds %d entries with digest %s, the commit record says %d with %s",
			t.committed.Number, live, digest, t.committed.Live, t.committed.Digest)
	}
	return nil
}

// Drop forgets the open overlay and the commit in flight: after an unknown outcome (I8), or when the task is given up.
// The base is untouched; it is exactly the state at the last commit known to have succeeded (R25).
func (t *Task) Drop() {
	if t.view.flight != nil {
		t.spare = &overlay{}
	}
	t.view.drop(t.committed)
	t.batch = Batch{}
	t.lastIn = t.lastIn[:0]
	t.holdInput, t.waiting, t.lowered = false, t.view.due.waiting, false
}
