package client

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// This file reads what a fetch returns: record batches of format 2. It decodes straight into kafka.Record, for the
// detour over kgo.Record costs more than everything else of a replay (DESIGN.md, Measured).

// The fixed head of a batch, and the bits of its attributes.
const (
	batchHead      = 61
	smallestRecord = 7 // length, attributes, time, offset, key, value, headers: a byte each
	attrCodec      = 0x07
	attrAppendTime = 0x08
	attrTxn        = 0x10
	attrControl    = 0x20
	abortMarker    = 0
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one record batch's head, with the bytes that follow it.
type batch struct {
	first     int64
	last      int64
	epoch     int32
	attrs     uint16
	firstTime int64
	maxTime   int64
	producer  int64
	count     int32
	body      []byte // records, compressed as attrs say
}

// noLast stands for the last offset of a batch whose head does not tell it.
const noLast = -1

// damage is what a batch that contradicts itself yields. Reading it again may help (bad memory or cable on the way);
// when it does not, the log is damaged.
type damage struct {
	first int64
	last  int64 // as the batch's head says, which may be damaged too; below first when it says nothing
	what  string
}

func (d *damage) Error() string {
	if d.last < d.first {
		return fmt.Sprintf("damaged batch at offset %d: %s", d.first, d.what)
	}
	return fmt.Sprintf("damaged batch of offsets %d to %d: %s", d.first, d.last, d.what)
}

// cut takes the next whole batch off in. A batch cut off at the end of a fetch is normal: ok is false.
func cut(in []byte) (b batch, rest []byte, ok bool, err error) {
	if len(in) < batchHead {
		return batch{}, nil, false, nil
	}
	b.first = int64(binary.BigEndian.Uint64(in))
	size := int64(int32(binary.BigEndian.Uint32(in[8:]))) + 12
	if magic := in[16]; magic != 2 {
		return b, nil, false, &damage{b.first, noLast, fmt.Sprintf("message format %d, only format 2 (Kafka 0.11 and later) is read", magic)}
	}
	if size < batchHead {
		return b, nil, false, &damage{b.first, noLast, fmt.Sprintf("length %d is below a batch's head of %d", size, batchHead)}
	}
	if size > int64(len(in)) {
		return batch{}, nil, false, nil
	}
	whole := in[:size]
	delta := int32(binary.BigEndian.Uint32(whole[23:]))
	b.last = b.first + int64(delta)
	if want, have := binary.BigEndian.Uint32(whole[17:]), crc32.Checksum(whole[21:], castagnoli); want != have {
		return b, nil, false, &damage{b.first, b.last, fmt.Sprintf("checksum %08x, computed %08x", want, have)}
	}
	b.epoch = int32(binary.BigEndian.Uint32(whole[12:]))
	b.attrs = binary.BigEndian.Uint16(whole[21:])
	b.firstTime = int64(binary.BigEndian.Uint64(whole[27:]))
	b.maxTime = int64(binary.BigEndian.Uint64(whole[35:]))
	b.producer = int64(binary.BigEndian.Uint64(whole[43:]))
	b.count = int32(binary.BigEndian.Uint32(whole[57:]))
	b.body = whole[batchHead:]
	if b.first < 0 || delta < 0 || b.last < b.first || b.last == math.MaxInt64 || b.count < 0 || int64(b.count) > int64(delta)+1 {
		return b, nil, false, &damage{b.first, b.last, fmt.Sprintf("%d records in offsets %d to %d", b.count, b.first, b.last)}
	}
	if b.attrs&attrCodec == 0 && int(b.count) > len(b.body)/smallestRecord {
		return b, nil, false, &damage{b.first, b.last, fmt.Sprintf("%d records in %d bytes", b.count, len(b.body))}
	}
	return b, in[size:], true, nil
}

func (b *batch) control() bool { return b.attrs&attrControl != 0 }

// aborts tells which producers' batches to leave out while the batches of a fetch are walked in order. The list may
// come in any order, with repetitions, and with transactions that began before the fetch (S20).
type aborts struct {
	list   []kmsg.FetchResponseTopicPartitionAbortedTransaction // ascending by first offset, from next on not yet begun
	next   int
	active []int64 // producers inside an aborted transaction
}

func newAborts(list []kmsg.FetchResponseTopicPartitionAbortedTransaction) aborts {
	slices.SortFunc(list, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		switch {
		case a.FirstOffset < b.FirstOffset:
			return -1
		case a.FirstOffset > b.FirstOffset:
			return 1
		}
		return 0
	})
	return aborts{list: list}
}

// hides tells whether a data batch belongs to an aborted transaction. Every batch has to be shown to it, in order.
func (a *aborts) hides(b *batch) bool {
	if b.attrs&attrTxn == 0 || len(a.list) == 0 {
		return false
	}
	for ; a.next < len(a.list) && a.list[a.next].FirstOffset <= b.last; a.next++ {
		if id := a.list[a.next].ProducerID; !slices.Contains(a.active, id) {
			a.active = append(a.active, id)
		}
	}
	i := slices.Index(a.active, b.producer)
	if i < 0 {
		return false
	}
	if b.control() && b.marker() == abortMarker {
		a.active = slices.Delete(a.active, i, i+1)
	}
	return true
}

// marker is the type of a control batch: the second int16 of its only record's key; -1 for an unknown one.
func (b *batch) marker() int {
	r := cursor{in: b.body}
	r.varint() // length
	r.skip(1)
	r.varint()
	r.varint()
	key := r.bytes()
	if r.bad || len(key) < 4 {
		return -1
	}
	return int(binary.BigEndian.Uint16(key[2:]))
}

// decoder turns fetched bytes into records. It keeps header keys, which repeat, from being allocated again.
type decoder struct {
	inflate kgo.Decompressor
	keys    map[string]string
	shown   []batch // of the present fetch

	unpacked int64 // bytes of the last fetch's records
}

// inflate is shared by all decoders of the process: it keeps buffers as large as the largest batch, and one for each processor
// is enough (D15).
var inflate = kgo.DefaultDecompressor()

func newDecoder() decoder {
	return decoder{inflate: inflate, keys: map[string]string{}}
}

// decode returns the records of in from position on that are committed, and the position after all that was whole:
// past markers, aborted batches and holes. Nothing at or beyond stable is delivered or passed, whatever the broker sent
// (S21): it is simply fetched again once it is stable. The records share in's memory, or that of its decompression.
func (d *decoder) decode(in []byte, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction, position, stable int64) ([]kafka.Record, int64, error) {
	d.shown, d.unpacked = d.shown[:0], 0
	defer func() { clear(d.shown) }() // they hold the fetch's memory
	next, count, ab := position, 0, newAborts(aborted)
	for len(in) > 0 {
		b, rest, ok, err := cut(in)
		if err != nil {
			return nil, position, err
		}
		if !ok || b.first >= stable {
			break
		}
		in = rest
		if !ab.hides(&b) && !b.control() && b.last >= position && b.count > 0 {
			d.shown = append(d.shown, b)
			count += int(b.count)
		}
		next = max(next, min(b.last+1, stable))
	}
	if count == 0 {
		return nil, next, nil
	}
	// A count that its compressed bytes cannot bear out is met below; until then it must not cost memory.
	records := make([]kafka.Record, 0, min(count, 1<<20))
	for i := range d.shown {
		var err error
		if records, err = d.records(records, &d.shown[i], position, stable); err != nil {
			return nil, position, err
		}
	}
	return records, next, nil
}

// records appends the records of one batch that lie in [position, stable).
func (d *decoder) records(to []kafka.Record, b *batch, position, stable int64) ([]kafka.Record, error) {
	body := b.body
	if codec := kgo.CompressionCodecType(b.attrs & attrCodec); codec != kgo.CodecNone {
		plain, err := d.inflate.Decompress(body, codec)
		if err != nil {
			return to, &damage{b.first, b.last, err.Error()}
		}
		body = plain
	}
	d.unpacked += int64(len(body))
	r, floor := cursor{in: body}, b.first
	for i := range b.count {
		size := r.varint()
		end := len(r.in) - int(size)
		if r.bad || size < 0 || end < 0 {
			return to, &damage{b.first, b.last, fmt.Sprintf("record %d of %d is cut off", i, b.count)}
		}
		r.skip(1)
		timestamp := b.firstTime + r.varint()
		if b.attrs&attrAppendTime != 0 {
			timestamp = b.maxTime
		}
		offset := b.first + r.varint()
		rec := kafka.Record{Offset: offset, Epoch: b.epoch, Timestamp: timestamp, Key: r.bytes(), Value: r.bytes()}
		if headers := r.varint(); headers > 0 {
			rec.Headers = d.headers(&r, headers)
		}
		if r.bad || len(r.in) != end || offset < floor || offset > b.last {
			return to, &damage{b.first, b.last, fmt.Sprintf("record %d of %d does not fit its length or its batch's offsets", i, b.count)}
		}
		floor = offset + 1
		if offset >= position && offset < stable {
			to = append(to, rec)
		}
	}
	return to, nil
}

func (d *decoder) headers(r *cursor, n int64) []kafka.Header {
	if n > int64(len(r.in))/2 { // each takes two bytes at least
		r.bad = true
		return nil
	}
	headers := make([]kafka.Header, n)
	for i := range headers {
		key := r.bytes()
		known, ok := d.keys[string(key)]
		if !ok {
			known = string(key)
			if len(d.keys) < 64 {
				d.keys[known] = known
			}
		}
		headers[i] = kafka.Header{Key: known, Value: r.bytes()}
	}
	return headers
}

// cursor reads the variable-length numbers and byte strings of records. After a fault it is bad and yields zeros.
type cursor struct {
	in  []byte
	bad bool
}

// varint reads a zigzag number of up to 64 bits.
func (r *cursor) varint() int64 {
	if len(r.in) > 0 && r.in[0] < 0x80 { // most are one byte
		u := r.in[0]
		r.in = r.in[1:]
		return int64(u>>1) ^ -int64(u&1)
	}
	u, n := binary.Uvarint(r.in)
	if n <= 0 {
		r.in, r.bad = nil, true
		return 0
	}
	r.in = r.in[n:]
	return int64(u>>1) ^ -int64(u&1)
}

// bytes reads a length and so many bytes; a negative length is nil.
func (r *cursor) bytes() []byte {
	n := r.varint()
	if n < 0 {
		return nil
	}
	if n > int64(len(r.in)) {
		r.in, r.bad = nil, true
		return nil
	}
	b := r.in[:n:n]
	r.in = r.in[n:]
	return b
}

func (r *cursor) skip(n int) {
	if n > len(r.in) {
		r.in, r.bad = nil, true
		return
	}
	r.in = r.in[n:]
}
