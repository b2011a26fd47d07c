package kafkatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// producer is what the transaction coordinator knows of one transactional id.
type producer struct {
	id    int64
	epoch int16
	open  []place // partitions of the open transaction, in the order of first use
}

// place is one partition of one topic.
type place struct {
	topic     string
	partition int32
}

// heldMarkers is a transaction that was answered and whose markers are not in the log yet.
type heldMarkers struct {
	owner    *producer
	producer int64 // the owner's id in that transaction
	commit   bool
	places   []place
}

func (p *producer) uses(pl place) {
	for _, o := range p.open {
		if o == pl {
			return
		}
	}
	p.open = append(p.open, pl)
}

func (p *producer) forgetTopic(name string) {
	kept := p.open[:0]
	for _, o := range p.open {
		if o.topic != name {
			kept = append(kept, o)
		}
	}
	p.open = kept
}

// bump gives the producer its next epoch, or a new id when epochs are exhausted.
func (c *Cluster) bump(p *producer) {
	if p.epoch == math.MaxInt16-1 {
		p.id, p.epoch = c.nextProducer, 0
		c.nextProducer++
		return
	}
	p.epoch++
}

// endLocked writes the markers of the producer's open transaction, or holds them back.
func (c *Cluster) endLocked(p *producer, commit bool) {
	h := heldMarkers{owner: p, producer: p.id, commit: commit, places: p.open}
	p.open = nil
	if c.holdMarkers {
		c.held = append(c.held, h)
		return
	}
	c.markLocked(h)
}

func (c *Cluster) markLocked(h heldMarkers) {
	for _, pl := range h.places {
		if t := c.topics[pl.topic]; t != nil {
			t.partitions[pl.partition].mark(h.producer, h.commit, c.tickLocked())
		}
	}
	c.wakeLocked()
}

// releaseLocked writes the held markers that want chooses.
func (c *Cluster) releaseLocked(want func(heldMarkers) bool) {
	var rest []heldMarkers
	for _, h := range c.held {
		if want(h) {
			c.markLocked(h)
		} else {
			rest = append(rest, h)
		}
	}
	c.held = rest
}

// HoldMarkers makes the end of each following transaction be answered before its markers are in the log, as real
// coordinators do; false ends that. ReleaseMarkers writes what is held; so do the same transactional id's next fence and
// next send.
func (c *Cluster) HoldMarkers(hold bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holdMarkers = hold
}

// ReleaseMarkers writes the markers that are held back.
func (c *Cluster) ReleaseMarkers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked(func(heldMarkers) bool { return true })
}

// AbortTransaction ends the open transaction of a transactional id as its timeout does: abort markers, and an epoch
// that the owner does not have. It reports whether anything was open.
func (c *Cluster) AbortTransaction(transactionalID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.producers[transactionalID]
	if p == nil || len(p.open) == 0 {
		return false
	}
	c.bump(p)
	c.endLocked(p, false)
	return true
}

// writer is one kafka.Writer.
type writer struct {
	cluster *Cluster
	id      string
	fenced  bool  // Fence has succeeded
	open    bool  // Send has succeeded since the last Commit
	spent   error // why only Close may follow
	holds   kafka.Producer
	topics  map[string]record.TopicID
	offsets []int64
}

// Fence implements kafka.Writer: InitProducerID.
func (w *writer) Fence(ctx context.Context) (kafka.Producer, error) {
	c := w.cluster
	if w.spent != nil || w.fenced {
		return kafka.Producer{}, w.refused("fence")
	}
	err := c.pass(ctx, Call{Op: OpFence, TransactionalID: w.id}, func(int) error {
		p := c.producers[w.id]
		if p == nil {
			p = &producer{id: c.nextProducer, epoch: -1}
			c.nextProducer++
			c.producers[w.id] = p
		}
		if len(p.open) > 0 {
			c.bump(p)
			c.endLocked(p, false)
		}
		c.releaseLocked(func(h heldMarkers) bool { return h.owner == p })
		c.bump(p)
		w.holds = kafka.Producer{ID: p.id, Epoch: p.epoch}
		return nil
	})
	w.spent, w.fenced = err, err == nil
	return w.holds, err
}

// refused is the answer to a call that the writer's state does not allow.
func (w *writer) refused(op string) error {
	switch {
	case errors.Is(w.spent, kafka.ErrClosed):
		return fail(kafka.ClassPermanent, op, "", 0, -1, kafka.ErrClosed)
	case w.spent != nil:
		return fail(kafka.ClassOf(w.spent), op, "", 0, -1, fmt.Errorf("%w: %w", kafka.ErrAbandoned, w.spent))
	}
	return fail(kafka.ClassPermanent, op, "", 0, -1, errOrder)
}

// owned returns the coordinator's view of this writer, or the error that a fenced one gets.
func (w *writer) owned(op string, stale error) (*producer, error) {
	p := w.cluster.producers[w.id]
	if p.id != w.holds.ID || p.epoch != w.holds.Epoch {
		return nil, fail(kafka.ClassFenced, op, "", 0, -1, fmt.Errorf("%w: %s has producer %d epoch %d, the broker %d epoch %d",
			stale, w.id, w.holds.ID, w.holds.Epoch, p.id, p.epoch))
	}
	return p, nil
}

// Send implements kafka.Writer.
func (w *writer) Send(ctx context.Context, messages []kafka.Message) ([]int64, error) {
	c := w.cluster
	call := Call{Op: OpSend, TransactionalID: w.id, Messages: messages}
	if len(messages) > 0 {
		call.Topic, call.Partition = messages[0].Topic, messages[0].Partition
	}
	if w.spent != nil || !w.fenced {
		return nil, w.refused("send")
	}
	w.offsets = w.offsets[:0]
	err := c.pass(ctx, call, func(part int) error {
		p, err := w.owned("send", errProducerEpoch)
		if err != nil {
			return err
		}
		c.releaseLocked(func(h heldMarkers) bool { return h.owner == p })
		if part < 0 || part > len(messages) {
			part = len(messages)
		}
		for _, m := range messages[:part] {
			if err := w.append(p, m); err != nil {
				return err
			}
		}
		c.wakeLocked()
		return nil
	})
	if err != nil {
		w.spent = err
		return nil, err
	}
	w.open = w.open || len(messages) > 0
	return w.offsets, nil
}

// append writes one message of an open transaction.
func (w *writer) append(p *producer, m kafka.Message) error {
	c := w.cluster
	part, id, err := c.findLocked("send", m.Topic, m.Partition)
	if err != nil {
		return err
	}
	if known, ok := w.topics[m.Topic]; ok && known != id {
		return fail(kafka.ClassLost, "send", m.Topic, m.Partition, -1, fmt.Errorf("%w: had %v, is %v", errTopicID, known, id))
	}
	w.topics[m.Topic] = id
	size := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		size += len(h.Key) + len(h.Value)
	}
	if limit := c.topics[m.Topic].intConfig("max.message.bytes"); int64(size+overhead) > limit {
		return &kafka.Error{Class: kafka.ClassPermanent, Op: "send", Topic: m.Topic, Partition: m.Partition, Offset: -1, Size: size,
			Err: fmt.Errorf("MESSAGE_TOO_LARGE: the topic takes batches of %d bytes", limit)}
	}
	r := kafka.Record{Timestamp: c.tickLocked(), Key: bytes.Clone(m.Key), Value: bytes.Clone(m.Value)}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, kafka.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	p.uses(place{m.Topic, m.Partition})
	w.offsets = append(w.offsets, part.append(r, p.id))
	return nil
}

// Commit implements kafka.Writer: EndTxn(commit). As under transaction.version 2 each commit raises the epoch.
func (w *writer) Commit(ctx context.Context) error {
	c := w.cluster
	if w.spent != nil || !w.open {
		return w.refused("commit")
	}
	err := c.pass(ctx, Call{Op: OpCommit, TransactionalID: w.id}, func(int) error {
		p, err := w.owned("commit", errFenced)
		if err != nil {
			return err
		}
		c.endLocked(p, true)
		c.bump(p)
		w.holds = kafka.Producer{ID: p.id, Epoch: p.epoch}
		return nil
	})
	w.spent, w.open = err, false
	return err
}

// Close implements kafka.Writer. An open transaction stays open.
func (w *writer) Close() {
	if w.spent == nil {
		w.spent = kafka.ErrClosed
	}
}
