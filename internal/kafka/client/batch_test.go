package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// history is a made-up partition: what was written, by whom, and how each transaction ended. Its bytes are made by
// kmsg's encoder, not by ours.
type history struct {
	start   int64
	bytes   []byte
	ends    []int // byte position after each batch
	next    []int64
	records []told
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
}

// told is one record, and whether a reader of committed records may see it.
type told struct {
	offset  int64
	value   string
	visible bool
}

// batchOf encodes one batch with kmsg.
func batchOf(first int64, lastDelta int32, attrs int16, producer int64, values map[int32][2]string) []byte {
	rb := kmsg.RecordBatch{
		FirstOffset: first, PartitionLeaderEpoch: 7, Magic: 2, Attributes: attrs, LastOffsetDelta: lastDelta,
		FirstTimestamp: 1000, MaxTimestamp: 2000, ProducerID: producer, NumRecords: int32(len(values)),
	}
	for _, delta := range slices.Sorted(func(yield func(int32) bool) {
		for d := range values {
			if !yield(d) {
				return
			}
		}
	}) {
		kv := values[delta]
		r := kmsg.Record{OffsetDelta: delta, TimestampDelta64: 5, Key: []byte(kv[0]), Value: []byte(kv[1])}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // a length of 0 takes one byte
		rb.Records = r.AppendTo(rb.Records)
	}
	b := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func (h *history) add(next int64, b []byte) {
	h.bytes = append(h.bytes, b...)
	h.ends = append(h.ends, len(h.bytes))
	h.next = append(h.next, next)
}

// tell makes a history of producers that write, commit and abort by chance, with plain batches and holes in between.
func tell(r *rand.Rand) *history {
	h := &history{}
	first := map[int64]int64{}         // of each open transaction
	pending := map[int64][]int{}       // indexes of its records
	offset := int64(r.IntN(3)) * 1_000 // a log does not always begin at 0
	h.start = offset
	producers := int64(1 + r.IntN(3))
	for range 5 + r.IntN(20) {
		id := 100 + r.Int64N(producers)
		switch _, open := first[id]; {
		case open && r.IntN(3) == 0:
			outcome := r.IntN(2)
			marker := string([]byte{0, 0, 0, byte(outcome)})
			if outcome == abortMarker {
				h.aborted = append(h.aborted, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: id, FirstOffset: first[id]})
			}
			for _, i := range pending[id] {
				h.records[i].visible = outcome == 1
			}
			delete(first, id)
			delete(pending, id)
			h.add(offset+1, batchOf(offset, 0, attrTxn|attrControl, id, map[int32][2]string{0: {marker, "\x00\x00\x00\x00\x00\x00"}}))
			offset++
		default:
			txn := r.IntN(4) != 0
			values, last := map[int32][2]string{}, int32(r.IntN(5))
			for d := range last + 1 {
				if r.IntN(5) == 0 { // compacted away
					continue
				}
				v := fmt.Sprintf("%d-%d", id, offset+int64(d))
				values[d] = [2]string{"k", v}
				h.records = append(h.records, told{offset + int64(d), v, !txn})
				if txn {
					pending[id] = append(pending[id], len(h.records)-1)
				}
			}
			var attrs int16
			if txn {
				attrs = attrTxn
				if !open {
					first[id] = offset
				}
			} else {
				id = -1
			}
			h.add(offset+int64(last)+1, batchOf(offset, last, attrs, id, values))
			offset += int64(last) + 1
		}
	}
	for id, at := range first { // what is still open is beyond the stable offset in real life; here it aborts unseen
		h.aborted = append(h.aborted, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: id, FirstOffset: at})
	}
	return h
}

func seeded(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("TIDEMARK_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with TIDEMARK_SEED=%d go test ./internal/kafka/client -run '^%s$'", seed, t.Name())
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// S20, S21, R9: whatever the order and repetitions of the aborted list, wherever the fetch begins and is cut, exactly
// the committed records are delivered and the position passes all that was whole.
func TestDecodeHistories(t *testing.T) {
	r := seeded(t)
	for range 800 {
		h := tell(r)
		at := r.IntN(len(h.ends)) // the fetch begins with this batch
		from := 0
		if at > 0 {
			from = h.ends[at-1]
		}
		low := h.start
		if at > 0 {
			low = h.next[at-1]
		}
		position := low + r.Int64N(h.next[at]-low+1)
		end := from + r.IntN(len(h.bytes)-from+1)
		stable := int64(math.MaxInt64)
		if r.IntN(2) == 0 {
			stable = position + r.Int64N(20)
		}
		want, next := h.seen(from, end, position, stable)

		aborted := h.relevant(at)
		if r.IntN(2) == 0 { // repeated
			aborted = append(aborted, aborted...)
		}
		r.Shuffle(len(aborted), func(i, j int) { aborted[i], aborted[j] = aborted[j], aborted[i] })
		d := newDecoder()
		got, gotNext, err := d.decode(h.bytes[from:end], aborted, position, stable)
		if err != nil {
			t.Fatal(err)
		}
		if gotNext != next || fmt.Sprint(texts(got)) != fmt.Sprint(want) {
			t.Fatalf("from %d, %d bytes, stable %d: got %v and position %d, want %v and %d", position, end-from, stable, texts(got), gotNext, want, next)
		}
	}
}

// relevant is the aborted list of a fetch that begins with batch at: transactions whose end is in it or after it.
func (h *history) relevant(at int) []kmsg.FetchResponseTopicPartitionAbortedTransaction {
	var list []kmsg.FetchResponseTopicPartitionAbortedTransaction
	for _, a := range h.aborted {
		for i := at; i < len(h.ends); i++ {
			from := 0
			if i > 0 {
				from = h.ends[i-1]
			}
			b := h.bytes[from:h.ends[i]]
			if producer := int64(binary.BigEndian.Uint64(b[43:])); producer == a.ProducerID {
				if firstOf, _ := h.ending(a); firstOf >= at {
					list = append(list, a)
				}
				break
			}
		}
	}
	return list
}

// ending is the batch that ends an aborted transaction; beyond the last one when none does.
func (h *history) ending(a kmsg.FetchResponseTopicPartitionAbortedTransaction) (int, bool) {
	for i := range h.ends {
		from := 0
		if i > 0 {
			from = h.ends[i-1]
		}
		b := h.bytes[from:h.ends[i]]
		control := binary.BigEndian.Uint16(b[21:])&attrControl != 0
		if control && int64(binary.BigEndian.Uint64(b[43:])) == a.ProducerID && int64(binary.BigEndian.Uint64(b)) >= a.FirstOffset {
			return i, true
		}
	}
	return len(h.ends), false
}

// seen is what a reader should get from the bytes from to end.
func (h *history) seen(from, end int, position, stable int64) ([]string, int64) {
	next, low := position, h.start
	var top int64 = -1
	for i, e := range h.ends {
		if e <= from {
			low = h.next[i]
			continue
		}
		if e > end || low >= stable {
			break
		}
		next = max(next, min(h.next[i], stable))
		top, low = h.next[i], h.next[i]
	}
	var want []string
	for _, r := range h.records {
		if r.visible && r.offset >= position && r.offset < min(top, stable) {
			want = append(want, fmt.Sprintf("%d:%s", r.offset, r.value))
		}
	}
	return want, next
}

func texts(records []kafka.Record) []string {
	var s []string
	for _, r := range records {
		s = append(s, fmt.Sprintf("%d:%s", r.Offset, r.Value))
	}
	return s
}

// The same bytes through franz-go's decoder, as a second opinion on fields and positions.
func TestDecodeAgreesWithFranz(t *testing.T) {
	r := seeded(t)
	for range 200 {
		h := tell(r)
		rp := kmsg.FetchResponseTopicPartition{RecordBatches: h.bytes, AbortedTransactions: slices.Clone(h.aborted)}
		o := kgo.ProcessFetchPartitionOpts{IsolationLevel: kgo.ReadCommitted(), Topic: "t"}
		want, next := kgo.ProcessFetchPartition(o, &rp, kgo.DefaultDecompressor(), nil)
		d := newDecoder()
		got, gotNext, err := d.decode(h.bytes, h.aborted, 0, math.MaxInt64)
		if err != nil || want.Err != nil || gotNext != next || len(got) != len(want.Records) {
			t.Fatalf("%v, %v: %d records to %d, franz-go %d to %d", err, want.Err, len(got), gotNext, len(want.Records), next)
		}
		for i, w := range want.Records {
			g := got[i]
			if g.Offset != w.Offset || g.Epoch != w.LeaderEpoch || g.Timestamp != w.Timestamp.UnixMilli() || !bytes.Equal(g.Key, w.Key) || !bytes.Equal(g.Value, w.Value) {
				t.Fatalf("record %d: %+v, franz-go %+v", i, g, w)
			}
		}
	}
}

func TestDecodeTimes(t *testing.T) {
	d := newDecoder()
	for attrs, want := range map[int16]int64{0: 1005, attrAppendTime: 2000} {
		got, _, err := d.decode(batchOf(0, 0, attrs, -1, map[int32][2]string{0: {"k", "v"}}), nil, 0, 10)
		if err != nil || len(got) != 1 || got[0].Timestamp != want || got[0].Epoch != 7 {
			t.Errorf("attributes %x: %+v, %v, want time %d", attrs, got, err, want)
		}
	}
}

// Any flipped bit that the checksum covers is noticed; one that it does not cover does no harm worse than an error.
func TestDecodeFlippedBits(t *testing.T) {
	whole := batchOf(5, 2, 0, -1, map[int32][2]string{0: {"a", "1"}, 1: {"b", "2"}, 2: {"c", "3"}})
	for i := range len(whole) * 8 {
		b := bytes.Clone(whole)
		b[i/8] ^= 1 << (i % 8)
		d := newDecoder()
		got, next, err := d.decode(b, nil, 5, 100)
		var broken *damage
		switch {
		case err != nil && !errors.As(err, &broken):
			t.Errorf("bit %d of byte %d: %v", i%8, i/8, err)
		case err == nil && i/8 >= 17:
			t.Errorf("bit %d of byte %d: not noticed, %v to %d", i%8, i/8, texts(got), next)
		}
	}
}

// A count that the records do not bear out is damage, not a skip: passing it would lose records in silence.
func TestDecodeWrongCounts(t *testing.T) {
	for name, change := range map[string]func(b []byte){
		"more":     func(b []byte) { binary.BigEndian.PutUint32(b[57:], 3) },
		"negative": func(b []byte) { binary.BigEndian.PutUint32(b[57:], 1<<31) },
		"huge":     func(b []byte) { binary.BigEndian.PutUint32(b[57:], 1<<30); binary.BigEndian.PutUint32(b[23:], 1<<30) },
		"backward": func(b []byte) { binary.BigEndian.PutUint32(b[23:], 1<<31) },
		"beyond":   func(b []byte) { binary.BigEndian.PutUint32(b[23:], 0); binary.BigEndian.PutUint32(b[57:], 1) },
	} {
		b := batchOf(5, 2, 0, -1, map[int32][2]string{1: {"a", "1"}, 2: {"b", "2"}})
		change(b)
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
		d := newDecoder()
		if got, next, err := d.decode(b, nil, 5, 100); err == nil {
			t.Errorf("%s: %v to %d, no error", name, texts(got), next)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(batchOf(5, 2, 0, -1, map[int32][2]string{0: {"a", "1"}, 2: {"c", "3"}}), int64(5), int64(100))
	f.Add(batchOf(5, 0, attrTxn|attrControl, 9, map[int32][2]string{0: {"\x00\x00\x00\x00", ""}}), int64(0), int64(6))
	f.Fuzz(func(t *testing.T, in []byte, position, stable int64) {
		if position < 0 || stable < 0 {
			return
		}
		if len(in) >= batchHead { // get past the checksum
			if size := int(binary.BigEndian.Uint32(in[8:])) + 12; size >= batchHead && size <= len(in) {
				in = bytes.Clone(in)
				binary.BigEndian.PutUint32(in[17:], crc32.Checksum(in[21:size], castagnoli))
			}
		}
		d := newDecoder()
		records, next, err := d.decode(in, []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 9, FirstOffset: 3}}, position, stable)
		if err != nil && (len(records) > 0 || next != position) {
			t.Fatalf("an error and yet %d records to %d", len(records), next)
		}
		for _, r := range records {
			if r.Offset < position || r.Offset >= next || r.Offset >= stable {
				t.Fatalf("record at %d out of [%d, %d), stable %d", r.Offset, position, next, stable)
			}
		}
		if next < position {
			t.Fatalf("back from %d to %d", position, next)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	o, err := newOutbox(CompressionNone, &pool)
	if err != nil {
		b.Fatal(err)
	}
	var messages []kafka.Message
	for i := range 10_000 {
		messages = append(messages, kafka.Message{Topic: "t", Key: fmt.Appendf(nil, "key-of-29-bytes-%013d", i), Value: make([]byte, 29)})
	}
	o.fill(messages, 1)
	in := *o.seal(o.parts[0], kafka.Producer{}).buf
	d := newDecoder()
	b.ReportAllocs()
	for b.Loop() {
		if got, _, err := d.decode(in, nil, 0, math.MaxInt64); err != nil || len(got) != 10_000 {
			b.Fatal(len(got), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/record")
}
