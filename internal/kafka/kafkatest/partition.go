package kafkatest

import (
	"sort"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// State tells what became of an entry of a partition's log.
type State uint8

// The states of an entry.
const (
	Committed State = iota // delivered: written outside a transaction, or its commit marker is in the log
	Open                   // of a transaction whose marker is not in the log
	Aborted                // never delivered
	Marker                 // a control record: occupies an offset, never delivered
	Emptied                // the last batch of a cleaning round, kept without its record
)

// Entry is one occupied offset of a partition's log, as a test sees it. Offsets without an Entry are holes.
type Entry struct {
	kafka.Record
	State    State
	Producer int64 // producer id, -1 outside transactions
	Commit   bool  // of a marker: commit, not abort

	txn     int64 // number of the transaction within this partition, 0 for none
	horizon int64 // of tombstones and markers: when a cleaning may drop them; 0 before their first cleaning
}

// partition is one log. Its entries are ascending by offset.
type partition struct {
	start, end int64 // log start and high watermark
	epoch      int32
	entries    []Entry
	open       map[int64]*openTxn // by producer id
	txns       int64              // transactions ever begun here
	leaky      bool               // see Cluster.Leak
}

// openTxn is a transaction of one producer in one partition. A marker ends all of it, whatever the epoch.
type openTxn struct {
	number int64
	first  int64
	data   []int64 // offsets
}

func newPartition() *partition { return &partition{open: map[int64]*openTxn{}} }

// append adds one record and returns its offset; producer is -1 outside transactions.
func (p *partition) append(r kafka.Record, producer int64) int64 {
	r.Offset, r.Epoch = p.end, p.epoch
	e := Entry{Record: r, Producer: producer}
	if producer >= 0 {
		t := p.open[producer]
		if t == nil {
			p.txns++
			t = &openTxn{number: p.txns, first: r.Offset}
			p.open[producer] = t
		}
		t.data = append(t.data, r.Offset)
		e.State, e.txn = Open, t.number
	}
	p.entries = append(p.entries, e)
	p.end++
	return r.Offset
}

// mark ends what the producer has open here by a marker; without anything open it writes none.
func (p *partition) mark(producer int64, commit bool, now int64) {
	t := p.open[producer]
	if t == nil {
		return
	}
	state := Aborted
	if commit {
		state = Committed
	}
	for _, offset := range t.data {
		if i := p.find(offset); i < len(p.entries) && p.entries[i].Offset == offset {
			p.entries[i].State = state
		}
	}
	delete(p.open, producer)
	p.entries = append(p.entries, Entry{
		Record:   kafka.Record{Offset: p.end, Epoch: p.epoch, Timestamp: now},
		State:    Marker,
		Producer: producer,
		Commit:   commit,
		txn:      t.number,
	})
	p.end++
}

// find returns the index of the first entry at or above offset.
func (p *partition) find(offset int64) int {
	return sort.Search(len(p.entries), func(i int) bool { return p.entries[i].Offset >= offset })
}

// offsets are log start, last stable offset and high watermark.
func (p *partition) offsets() kafka.Offsets {
	o := kafka.Offsets{Start: p.start, Stable: p.end, HighWatermark: p.end}
	for _, t := range p.open {
		o.Stable = min(o.Stable, t.first)
	}
	return o
}

// overhead is what a record costs on the wire besides key, value and headers.
const overhead = 16

// fetch reads committed records from position on, up to the last stable offset. Next passes markers, aborted records
// and holes that lie below an entry; beyond the last entry there is nothing that could move it, as on a real broker.
func (p *partition) fetch(position int64, maxBytes int) kafka.Fetched {
	f := kafka.Fetched{Next: position, Offsets: p.offsets()}
	for i := p.find(position); i < len(p.entries) && (p.entries[i].Offset < f.Stable || p.leaky); i++ {
		e := &p.entries[i]
		if f.Bytes >= maxBytes && f.Bytes > 0 {
			break
		}
		f.Bytes += overhead + len(e.Key) + len(e.Value)
		if e.State == Committed || e.State == Open {
			f.Records = append(f.Records, e.Record)
		}
		f.Next = e.Offset + 1
	}
	return f
}

// truncate cuts the log at offset, as an unclean election does: the leader epoch rises, and transactions that lost
// their marker are open again.
func (p *partition) truncate(offset int64) {
	p.entries = p.entries[:p.find(offset)]
	p.end = min(p.end, max(offset, p.start))
	p.epoch++
	ended := map[int64]bool{}
	for _, e := range p.entries {
		if e.State == Marker {
			ended[e.txn] = true
		}
	}
	p.open = map[int64]*openTxn{}
	for i := range p.entries {
		e := &p.entries[i]
		if e.txn == 0 || e.State == Marker || ended[e.txn] {
			continue
		}
		e.State = Open
		t := p.open[e.Producer]
		if t == nil {
			t = &openTxn{number: e.txn, first: e.Offset}
			p.open[e.Producer] = t
		}
		t.data = append(t.data, e.Offset)
	}
}

// deleteBefore moves the log start.
func (p *partition) deleteBefore(offset int64) {
	offset = min(offset, p.end)
	if offset <= p.start {
		return
	}
	p.entries = append([]Entry(nil), p.entries[p.find(offset):]...)
	p.start = offset
}

// clean compacts all entries below bound, which is not above the last stable offset: of each key the last committed
// record stays; aborted records go; tombstones, and markers whose records are all gone, go once their horizon has
// passed, which their first cleaning sets. The last entry of the round keeps its offset, emptied.
func (p *partition) clean(bound, now, deleteRetention int64) {
	last := map[string]int64{}
	for _, e := range p.entries[:p.find(bound)] {
		if e.State == Committed {
			last[string(e.Key)] = e.Offset
		}
	}
	alive := map[int64]bool{} // transactions that keep a record
	expired := func(e *Entry) bool {
		if e.horizon == 0 {
			e.horizon = now + deleteRetention
		}
		return now > e.horizon
	}
	drop := make([]bool, p.find(bound))
	for i := range drop {
		e := &p.entries[i]
		switch e.State {
		case Committed:
			drop[i] = e.Key != nil && last[string(e.Key)] != e.Offset || e.Value == nil && expired(e)
			alive[e.txn] = alive[e.txn] || !drop[i]
		case Aborted, Emptied:
			drop[i] = true
		}
	}
	kept := p.entries[:0:0]
	for i := range p.entries {
		e := &p.entries[i]
		inRound := i < len(drop)
		gone := inRound && (drop[i] || e.State == Marker && !alive[e.txn] && expired(e))
		switch {
		case !gone:
			kept = append(kept, *e)
		case i == len(drop)-1:
			kept = append(kept, Entry{Record: kafka.Record{Offset: e.Offset}, State: Emptied, Producer: -1})
		}
	}
	p.entries = kept
}
