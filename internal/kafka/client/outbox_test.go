package client

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

var (
	update = flag.Bool("update", false, "write the golden files anew")
	pool   = sync.Pool{New: func() any { return new([]byte) }}
)

// chance makes messages of all shapes.
func chance(r *rand.Rand, n int) []kafka.Message {
	some := func(most int) []byte {
		switch r.IntN(6) {
		case 0:
			return nil
		case 1:
			return []byte{}
		case 2: // cannot be packed
			b := make([]byte, r.IntN(most))
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			return b
		}
		return bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(most))
	}
	m := make([]kafka.Message, n)
	for i := range m {
		m[i] = kafka.Message{Topic: []string{"a", "b"}[r.IntN(2)], Partition: int32(r.IntN(3)), Key: some(300), Value: some(4_000)}
		for range r.IntN(3) {
			m[i].Headers = append(m[i].Headers, kafka.Header{Key: string(some(20)), Value: some(70)})
		}
	}
	return m
}

// What the outbox writes, the decoder reads, in every compression; the head is judged by kmsg's reader.
func TestOutboxRoundTrip(t *testing.T) {
	r := seeded(t)
	for _, codec := range []Compression{CompressionDefault, CompressionNone, CompressionLZ4, CompressionSnappy, CompressionZstd} {
		o, err := newOutbox(codec, &pool)
		if err != nil {
			t.Fatal(err)
		}
		sequence := map[partKey]int32{}
		for range 8 {
			messages := chance(r, r.IntN(400))
			o.fill(messages, 1234)
			got := map[partKey][]kafka.Record{}
			for _, p := range o.parts {
				for p.acked < len(p.batches) {
					b := o.seal(p, kafka.Producer{ID: 77, Epoch: 3})
					wire := bytes.Clone(*b.buf)
					if again := o.seal(p, kafka.Producer{ID: 78}); !bytes.Equal(*again.buf, wire) {
						t.Fatal("a sealed batch changed")
					}
					var head kmsg.RecordBatch
					if err := head.ReadFrom(wire); err != nil {
						t.Fatal(err)
					}
					if head.ProducerID != 77 || head.ProducerEpoch != 3 || head.FirstSequence != sequence[p.partKey] || head.NumRecords != b.count ||
						head.LastOffsetDelta != b.count-1 || int(head.Length) != len(wire)-12 || head.Attributes&attrTxn == 0 || head.FirstTimestamp != 1234 || head.MaxTimestamp != 1234 {
						t.Fatalf("head %+v, want sequence %d, %d records", head, sequence[p.partKey], b.count)
					}
					if b.count > 1 && len(wire) > batchHead+maxBatch {
						t.Fatalf("batch of %d bytes", len(wire))
					}
					d := newDecoder()
					records, next, err := d.decode(wire, nil, 0, math.MaxInt64)
					if err != nil || next != int64(b.count) {
						t.Fatalf("%v, next %d of %d", err, next, b.count)
					}
					got[p.partKey] = append(got[p.partKey], records...)
					p.accept(1000 + int64(sequence[p.partKey]))
					sequence[p.partKey] += b.count
				}
			}
			offsets := o.offsets(nil)
			for i, m := range messages {
				key := partKey{m.Topic, m.Partition}
				if len(got[key]) == 0 {
					t.Fatalf("message %d is missing", i)
				}
				g := got[key][0]
				got[key] = got[key][1:]
				if fmt.Sprintf("%#v%#v%#v", g.Key, g.Value, g.Headers) != fmt.Sprintf("%#v%#v%#v", m.Key, m.Value, m.Headers) || g.Timestamp != 1234 {
					t.Fatalf("message %d: %+v, want %+v", i, g, m)
				}
				if offsets[i] < 1000 {
					t.Fatalf("message %d has offset %d", i, offsets[i])
				}
			}
			for key, rest := range got {
				if len(rest) > 0 {
					t.Fatalf("%v has %d records too many", key, len(rest))
				}
			}
		}
		o.begin(true)
		for _, p := range o.parts {
			if p.sequence != 0 {
				t.Fatal("a new transaction does not begin at sequence 0")
			}
		}
	}
}

// The bytes of one batch, for ever.
func TestOutboxGolden(t *testing.T) {
	o, err := newOutbox(CompressionNone, &pool)
	if err != nil {
		t.Fatal(err)
	}
	o.fill([]kafka.Message{
		{Topic: "t", Key: []byte("key"), Value: []byte("value")},
		{Topic: "t", Key: []byte{}, Value: nil},
		{Topic: "t", Key: nil, Value: []byte{}, Headers: []kafka.Header{{Key: "tidemark", Value: []byte("job")}, {Key: "n", Value: nil}}},
		{Topic: "t", Key: []byte("long"), Value: bytes.Repeat([]byte("x"), 200)},
	}, 1_700_000_000_000)
	o.parts[0].sequence = 9
	got := hex.Dump(*o.seal(o.parts[0], kafka.Producer{ID: 0x0102030405060708, Epoch: 0x090a}).buf)
	golden := filepath.Join("testdata", "batch.hex")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A large Send is cut into batches, a record larger than a batch is alone in one.
func TestOutboxCuts(t *testing.T) {
	o, err := newOutbox(CompressionNone, &pool)
	if err != nil {
		t.Fatal(err)
	}
	value := make([]byte, 400_000)
	messages := make([]kafka.Message, 5)
	for i := range messages {
		messages[i] = kafka.Message{Topic: "t", Value: value}
	}
	messages[2].Value = make([]byte, 3*maxBatch)
	o.fill(messages, 0)
	var counts []int32
	for _, b := range o.parts[0].batches {
		counts = append(counts, b.count)
	}
	if fmt.Sprint(counts) != "[2 1 2]" {
		t.Errorf("batches of %v records, want [2 1 2]", counts)
	}
}

func TestOutboxAllocatesNothing(t *testing.T) {
	o, err := newOutbox(CompressionLZ4, &pool)
	if err != nil {
		t.Fatal(err)
	}
	messages := chance(rand.New(rand.NewPCG(1, 2)), 100)
	var offsets []int64
	send := func() {
		o.begin(true)
		o.fill(messages, 1)
		for _, p := range o.parts {
			for p.acked < len(p.batches) {
				o.seal(p, kafka.Producer{})
				p.accept(0)
			}
		}
		offsets = o.offsets(offsets[:0])
	}
	send()
	// Buffers that the pool has dropped are made again, so the bound is not 0; but nothing is made for each message.
	if n := testing.AllocsPerRun(50, send); n >= float64(len(messages)) {
		t.Errorf("%v allocations for 100 messages", n)
	}
}

func BenchmarkOutbox(b *testing.B) {
	for _, codec := range []Compression{CompressionNone, CompressionLZ4} {
		b.Run(fmt.Sprint(codec), func(b *testing.B) {
			o, err := newOutbox(codec, &pool)
			if err != nil {
				b.Fatal(err)
			}
			messages := make([]kafka.Message, 10_000)
			for i := range messages {
				messages[i] = kafka.Message{Topic: "t", Key: fmt.Appendf(nil, "key-of-29-bytes-%013d", i), Value: fmt.Appendf(nil, "value-of-29-bytes-%011d", i*i)}
			}
			b.ReportAllocs()
			for b.Loop() {
				o.begin(true)
				o.fill(messages, 1)
				for _, p := range o.parts {
					for p.acked < len(p.batches) {
						o.seal(p, kafka.Producer{})
						p.accept(0)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/record")
		})
	}
}

// A batch is packed in blocks of 64 KiB without checksums: the frame's head says so (LZ4 frame format 1.6: version 1, blocks
// that stand alone; the size of blocks; the head's own checksum).
func TestFramesAreOfSmallBlocks(t *testing.T) {
	o, err := newOutbox(CompressionDefault, &pool)
	if err != nil {
		t.Fatal(err)
	}
	o.fill([]kafka.Message{{Topic: "t", Value: make([]byte, 300_000)}}, 0)
	body := (*o.seal(o.parts[0], kafka.Producer{}).buf)[batchHead:]
	if got := hex.EncodeToString(body[:7]); got != "04224d18604082" {
		t.Errorf("the frame begins with %s, want 04224d18604082", got)
	}
}
