package client

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// C19: what producers have packed by any of the codecs is read.
func TestC19EveryCodec(t *testing.T) {
	broker, l := reader(t)
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic("log"), kgo.ProducerBatchCompression(codec))
		if err != nil {
			t.Fatal(err)
		}
		var records []*kgo.Record
		for i := range 3 {
			records = append(records, &kgo.Record{Value: fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", 1000))})
		}
		err = producer.ProduceSync(t.Context(), records...).FirstErr()
		producer.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for position := int64(4); position < 4+15; {
		f, err := l.Fetch(t.Context(), position, 1<<20, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range f.Records {
			if want := fmt.Sprintf("%d %s", n%3, strings.Repeat("x", 1000)); string(r.Value) != want {
				t.Fatalf("offset %d holds %.20q", r.Offset, r.Value)
			}
			n++
		}
		position = f.Next
	}
	if n != 15 {
		t.Errorf("%d records, want 15", n)
	}
}

// C19: a batch whose checksum is right and that cannot be unpacked all the same, by any codec, one of a codec that there is
// not, and one that holds fewer records than it says, is damage with its place, not a fetch that is tried for ever.
func TestC19BatchThatCannotBeUnpacked(t *testing.T) {
	for codec := int16(0); codec <= 5; codec++ {
		t.Run(fmt.Sprint("codec ", codec), func(t *testing.T) {
			broker, l := reader(t)
			batch := batchOf(0, 2, codec, -1, map[int32][2]string{0: {"k", "v"}, 1: {"k", "v"}})
			binary.BigEndian.PutUint32(batch[57:], 3) // records
			binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
			broker.ControlKey(kmsg.Fetch.Int16(), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				broker.KeepControl()
				req := kreq.(*kmsg.FetchRequest)
				resp := req.ResponseKind().(*kmsg.FetchResponse)
				p := kmsg.NewFetchResponseTopicPartition()
				p.HighWatermark, p.LastStableOffset = 4, 4
				p.RecordBatches = batch
				topic := kmsg.NewFetchResponseTopic()
				topic.Topic, topic.TopicID = "log", req.Topics[0].TopicID
				topic.Partitions = append(topic.Partitions, p)
				resp.Topics = append(resp.Topics, topic)
				return resp, nil, true
			})
			_, err := l.Fetch(t.Context(), 0, 1<<20, 0)
			if kafka.ClassOf(err) != kafka.ClassCorrupt || !strings.Contains(err.Error(), "log/0 at offset 0: ") || !strings.Contains(err.Error(), "of offsets 0 to 2: ") {
				t.Fatal(err)
			}
		})
	}
}

// C19: snappy is written in two ways: as one block, and, by Java clients, as framed blocks. Both are read.
func TestC19FramedSnappy(t *testing.T) {
	snappy, err := kgo.DefaultCompressor(kgo.SnappyCompression())
	if err != nil {
		t.Fatal(err)
	}
	pack := func(body []byte) []byte {
		packed, codec := snappy.Compress(new(bytes.Buffer), body)
		if codec != kgo.CodecSnappy {
			t.Fatalf("codec %v", codec)
		}
		return bytes.Clone(packed)
	}
	plain := batchOf(0, 2, 0, -1, map[int32][2]string{0: {"a", "1"}, 1: {"b", "2"}, 2: {"c", "3"}})
	body := plain[batchHead:]
	half := len(body) / 2
	framed := append([]byte("\x82SNAPPY\x00"), 0, 0, 0, 1, 0, 0, 0, 1)
	for _, part := range [][]byte{body[:half], body[half:]} {
		block := pack(part)
		framed = append(binary.BigEndian.AppendUint32(framed, uint32(len(block))), block...)
	}
	for name, packed := range map[string][]byte{"a block": pack(body), "framed": framed} {
		b := append(bytes.Clone(plain[:batchHead]), packed...)
		binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
		binary.BigEndian.PutUint16(b[21:], uint16(kgo.CodecSnappy))
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
		d := newDecoder()
		got, next, err := d.decode(b, nil, 0, 10)
		if want := []string{"0:1", "1:2", "2:3"}; err != nil || next != 3 || !slices.Equal(texts(got), want) {
			t.Errorf("%s: %v to %d, %v; want %v", name, texts(got), next, err, want)
		}
	}
}
