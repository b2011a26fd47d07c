package client

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// This file turns the messages of one Send into record batches of format 2, the inverse of batch.go.

// maxBatch bounds the records of one batch before compression, below the default of a topic's max.message.bytes
// (1,048,588). A larger record makes a batch of its own, and the broker judges it.
const maxBatch = 1_000_000

// outbox holds what one Send writes, by partition. Messages are copied into it.
type outbox struct {
	parts    []*part
	index    map[partKey]*part
	slots    []slot // of each message
	compress kgo.Compressor
	scratch  bytes.Buffer
	buffers  *sync.Pool // of *[]byte
}

type partKey struct {
	topic     string
	partition int32
}

// part is one partition that the writer has written to.
type part struct {
	partKey
	id       record.TopicID // of the first answer; another one later is another topic
	leader   int32          // -1 when it has to be asked for
	sequence int32          // of the next batch in this epoch
	enlisted bool           // in the open transaction; kept with protocol 1 only

	batches []outBatch // of this Send
	acked   int        // that many of them are acknowledged
}

// outBatch is one batch. Its bytes do not change once it is sealed: sent again they are the same batch to the broker,
// which drops what it has already (sequence numbers), so a lost answer does no harm.
type outBatch struct {
	buf     *[]byte // head and records
	count   int32
	largest int // bytes of key, value and headers of its largest record
	sealed  bool
	base    int64 // offset of its first record, when acknowledged
}

// slot says where a message went.
type slot struct {
	part  *part
	batch int32
	delta int32
}

func newOutbox(codec Compression, buffers *sync.Pool) (outbox, error) {
	o := outbox{index: map[partKey]*part{}, buffers: buffers}
	pack := codec.codec()
	var err error
	if pack == kgo.Lz4Compression() {
		o.compress, err = newFrames()
	} else {
		o.compress, err = kgo.DefaultCompressor(pack)
	}
	return o, err
}

// begin starts a transaction. Sequence numbers begin at 0 with each epoch, and with protocol 2 each commit ends one.
func (o *outbox) begin(epoch bool) {
	for _, p := range o.parts {
		p.enlisted = false
		if epoch {
			p.sequence = 0
		}
	}
}

// fill takes the messages of one Send.
func (o *outbox) fill(messages []kafka.Message, now int64) {
	o.clear()
	var p *part
	for i := range messages {
		m := &messages[i]
		if p == nil || p.partition != m.Partition || p.topic != m.Topic { // mostly it is the same as before
			p = o.part(partKey{m.Topic, m.Partition})
		}
		size := recordBytes(m)
		b := p.room(size, o.buffers)
		if b.count == 0 {
			putTime(*b.buf, now)
		}
		*b.buf = appendRecord(*b.buf, b.count, m)
		b.largest = max(b.largest, size)
		o.slots = append(o.slots, slot{p, int32(len(p.batches) - 1), b.count})
		b.count++
	}
}

func (o *outbox) part(key partKey) *part {
	if p := o.index[key]; p != nil {
		return p
	}
	p := &part{partKey: key, leader: -1}
	o.index[key] = p
	o.parts = append(o.parts, p)
	return p
}

// room returns the batch that a record of about size bytes goes into.
func (p *part) room(size int, buffers *sync.Pool) *outBatch {
	if n := len(p.batches); n > 0 {
		b := &p.batches[n-1]
		if len(*b.buf)+size+recordOverhead <= batchHead+maxBatch {
			return b
		}
	}
	buf := buffers.Get().(*[]byte)
	*buf = append((*buf)[:0], make([]byte, batchHead)...)
	p.batches = append(p.batches, outBatch{buf: buf})
	return &p.batches[len(p.batches)-1]
}

// clear gives the buffers of the last Send back. It is not called when that one failed: a request that is still being
// given up may hold them.
func (o *outbox) clear() {
	for _, p := range o.parts {
		for i := range p.batches {
			o.buffers.Put(p.batches[i].buf)
			p.batches[i] = outBatch{}
		}
		p.batches, p.acked = p.batches[:0], 0
	}
	o.slots = o.slots[:0]
}

// offsets appends each message's offset.
func (o *outbox) offsets(to []int64) []int64 {
	for _, s := range o.slots {
		to = append(to, s.part.batches[s.batch].base+int64(s.delta))
	}
	return to
}

// seal makes the part's next batch ready to be sent: compressed, numbered, with checksum.
func (o *outbox) seal(p *part, producer kafka.Producer) *outBatch {
	b := &p.batches[p.acked]
	if b.sealed {
		return b
	}
	buf := *b.buf
	codec := kgo.CodecNone
	if o.compress != nil {
		o.scratch.Reset()
		if out, used := o.compress.Compress(&o.scratch, buf[batchHead:]); used != kgo.CodecError && len(out) < len(buf)-batchHead {
			buf = append(buf[:batchHead], out...)
			codec = used
		}
	}
	binary.BigEndian.PutUint64(buf, 0) // the broker sets the offset
	binary.BigEndian.PutUint32(buf[8:], uint32(len(buf)-12))
	binary.BigEndian.PutUint32(buf[12:], 0xffffffff) // and the leader epoch
	buf[16] = 2
	binary.BigEndian.PutUint16(buf[21:], uint16(codec)|attrTxn)
	binary.BigEndian.PutUint32(buf[23:], uint32(b.count-1))
	binary.BigEndian.PutUint64(buf[43:], uint64(producer.ID))
	binary.BigEndian.PutUint16(buf[51:], uint16(producer.Epoch))
	binary.BigEndian.PutUint32(buf[53:], uint32(p.sequence))
	binary.BigEndian.PutUint32(buf[57:], uint32(b.count))
	binary.BigEndian.PutUint32(buf[17:], crc32.Checksum(buf[21:], castagnoli))
	*b.buf = buf
	b.sealed = true
	return b
}

// accept notes the acknowledgement of the part's next batch.
func (p *part) accept(base int64) {
	b := &p.batches[p.acked]
	b.base = base
	p.sequence += b.count
	p.acked++
}

func putTime(head []byte, now int64) {
	binary.BigEndian.PutUint64(head[27:], uint64(now))
	binary.BigEndian.PutUint64(head[35:], uint64(now))
}

// recordOverhead is the most that the framing of a record without headers takes; each header adds less than twice as
// much, which recordBytes counts.
const recordOverhead = 32

// recordBytes is the size of a message's key, value and headers.
func recordBytes(m *kafka.Message) int {
	n := len(m.Key) + len(m.Value)
	for i := range m.Headers {
		n += len(m.Headers[i].Key) + len(m.Headers[i].Value)
	}
	return n
}

// appendRecord appends one record with its length. Its time is the batch's.
func appendRecord(to []byte, delta int32, m *kafka.Message) []byte {
	size := 1 + 1 + varintSize(int64(delta)) + bytesSize(m.Key) + bytesSize(m.Value) + varintSize(int64(len(m.Headers)))
	for i := range m.Headers {
		size += varintSize(int64(len(m.Headers[i].Key))) + len(m.Headers[i].Key) + bytesSize(m.Headers[i].Value)
	}
	to = binary.AppendVarint(to, int64(size))
	to = append(to, 0, 0) // attributes, time delta
	to = binary.AppendVarint(to, int64(delta))
	to = appendBytes(to, m.Key)
	to = appendBytes(to, m.Value)
	to = binary.AppendVarint(to, int64(len(m.Headers)))
	for i := range m.Headers {
		to = binary.AppendVarint(to, int64(len(m.Headers[i].Key)))
		to = append(to, m.Headers[i].Key...)
		to = appendBytes(to, m.Headers[i].Value)
	}
	return to
}

// appendBytes appends a length and so many bytes; nil is the length -1.
func appendBytes(to, b []byte) []byte {
	if b == nil {
		return append(to, 1)
	}
	return append(binary.AppendVarint(to, int64(len(b))), b...)
}

func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

// varintSize is the size of a zigzag number.
func varintSize(v int64) int {
	n := 1
	for u := uint64(v<<1) ^ uint64(v>>63); u >= 0x80; u >>= 7 {
		n++
	}
	return n
}
