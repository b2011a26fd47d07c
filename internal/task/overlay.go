package task

import (
	"bytes"
	"math/bits"

	"github.com/tidemark-streams/tidemark/internal/record"
)

// dirty is one entry of an overlay: a key that was touched, what was below it, and after encoding its new value.
//
// What a look-up needs comes first: one line of the processor's cache.
type dirty struct {
	hash     uint64
	keyOff   uint32
	keyLen   uint32
	place    Place
	record   uint32 // the last one of the batch that touched the entry, counted from 1
	existed  bool   // an entry with this key lives below this overlay
	deleted  bool
	gone     bool   // deleted without a result; an update before may have told it
	bucket   uint32 // where the table points to this entry
	valueOff uint32
	valueLen uint32
	below    Place         // of the entry below this overlay, when there is one
	old      record.Digest // of the entry below this overlay, when there is one
	fresh    record.Digest // of the encoded entry
}

// write tells whether the commit of this overlay writes a changelog record for the entry: all but those born and
// deleted within it.
func (d *dirty) write() bool { return d.existed || !d.deleted }

// output is one record for another topic than the changelog.
type output struct {
	sink        Sink
	aggregation int32
	keyOff      uint32
	keyLen      uint32
	valueOff    uint32
	valueLen    uint32
	noKey       bool // a null key, not an empty one
	noValue     bool
	headers     []Header
}

// overlay is a delta of the whole task on top of what is below it: entries, deletions, outputs and, in meta, everything
// else that a commit moves: stream time, closed ends, counters, position, anchor. Dropping it leaves no trace (V10).
type overlay struct {
	table   []uint64 // open addressing, in the order of hashes: low half of the hash, index of the entry + 1
	shift   uint8    // of a hash, to its home in the table
	entries []dirty
	keys    []byte
	values  []byte // filled by encode
	outputs []output
	outText []byte
	meta    record.Commit
	inputs  int // records consumed
	ticks   int // moves of the stream time by silence
	writes  int // changelog records this overlay would write
	updates int // updates that its commit would tell
	bytes   int // rough size of what would be written
}

const (
	minTable = 64
	lowHalf  = 1<<32 - 1
)

// find returns the index of a key's entry, or -1.
func (o *overlay) find(hash uint64, key []byte) int {
	if len(o.entries) == 0 {
		return -1
	}
	mask := uint64(len(o.table) - 1)
	for i := hash >> o.shift; ; i = (i + 1) & mask {
		word := o.table[i]
		if word == 0 {
			return -1
		}
		if word>>32 == hash&lowHalf {
			at := int(uint32(word)) - 1
			if d := &o.entries[at]; d.hash == hash && bytes.Equal(o.key(d), key) {
				return at
			}
		}
	}
}

// each calls fn with every entry that has this hash until fn returns false.
func (o *overlay) each(hash uint64, fn func(at int) bool) {
	if len(o.entries) == 0 {
		return
	}
	mask := uint64(len(o.table) - 1)
	for i := hash >> o.shift; o.table[i] != 0; i = (i + 1) & mask {
		word := o.table[i]
		if word>>32 != hash&lowHalf {
			continue
		}
		if at := int(uint32(word)) - 1; o.entries[at].hash == hash && !fn(at) {
			return
		}
	}
}

// insert adds an entry for a key that is not there.
func (o *overlay) insert(hash uint64, key []byte) int {
	if 2*(len(o.entries)+1) > len(o.table) {
		o.grow()
	}
	at := len(o.entries)
	o.entries = append(o.entries, dirty{hash: hash, keyOff: uint32(len(o.keys)), keyLen: uint32(len(key))})
	o.keys = append(o.keys, key...)
	o.link(at)
	return at
}

func (o *overlay) link(at int) {
	d := &o.entries[at]
	mask := uint64(len(o.table) - 1)
	i := d.hash >> o.shift
	for o.table[i] != 0 {
		i = (i + 1) & mask
	}
	o.table[i] = d.hash<<32 | uint64(at+1)
	d.bucket = uint32(i)
}

func (o *overlay) grow() {
	o.table = make([]uint64, max(minTable, 2*len(o.table)))
	o.shift = uint8(64 - bits.TrailingZeros(uint(len(o.table))))
	for at := range o.entries {
		o.link(at)
	}
}

func (o *overlay) key(d *dirty) []byte   { return o.keys[d.keyOff:][:d.keyLen:d.keyLen] }
func (o *overlay) value(d *dirty) []byte { return o.values[d.valueOff:][:d.valueLen:d.valueLen] }

// emit keeps a copy of an output until the commit has sent it.
func (o *overlay) emit(sink Sink, aggregation int, key, value []byte, headers []Header) {
	if o.outText == nil {
		o.outText = []byte{} // so that an empty text in it is not null
	}
	out := output{sink: sink, aggregation: int32(aggregation), headers: headers, noKey: key == nil, noValue: value == nil,
		keyOff: uint32(len(o.outText)), keyLen: uint32(len(key))}
	o.outText = append(o.outText, key...)
	out.valueOff, out.valueLen = uint32(len(o.outText)), uint32(len(value))
	o.outText = append(o.outText, value...)
	o.outputs = append(o.outputs, out)
	o.bytes += len(key) + len(value) + recordOverhead
	for i := range headers {
		o.bytes += len(headers[i].Key) + len(headers[i].Value)
	}
}

// outputKey and outputValue are an output's bytes; null stays null.
func (o *overlay) outputKey(out *output) []byte {
	if out.noKey {
		return nil
	}
	return o.outText[out.keyOff:][:out.keyLen:out.keyLen]
}

func (o *overlay) outputValue(out *output) []byte {
	if out.noValue {
		return nil
	}
	return o.outText[out.valueOff:][:out.valueLen:out.valueLen]
}

// records is the number of records the commit of this overlay would write, its commit record included.
func (o *overlay) records() int { return o.writes + o.updates + len(o.outputs) + 1 }

// empty tells whether nothing would be lost with this overlay.
func (o *overlay) empty() bool {
	return o.inputs == 0 && o.ticks == 0 && len(o.entries) == 0 && len(o.outputs) == 0
}

// reset empties the overlay for another batch; meta is set by the caller. Few entries in a large table are unlinked one
// by one, so that a small commit after a large one costs no more than its size.
func (o *overlay) reset() {
	if 8*len(o.entries) < len(o.table) {
		for i := range o.entries {
			o.table[o.entries[i].bucket] = 0
		}
	} else {
		clear(o.table)
	}
	clear(o.outputs) // headers hold pointers
	o.entries, o.keys, o.values = o.entries[:0], o.keys[:0], o.values[:0]
	o.outputs, o.outText = o.outputs[:0], o.outText[:0]
	o.inputs, o.ticks, o.writes, o.updates, o.bytes = 0, 0, 0, 0, 0
}
