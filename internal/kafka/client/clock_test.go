package client

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// W20, W25: records bear the time of the broker, as its last answer for a topic that takes it has told, and what has passed
// since. An answer for a topic that takes the producer's time tells nothing, and before the first that does it is this
// machine's.
func TestW20RecordsBearTheBrokersTime(t *testing.T) {
	out, err := newOutbox(CompressionNone, &sync.Pool{New: func() any { return new([]byte) }})
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{out: out}
	stamp := func(appended int64) int64 {
		w.out.fill([]kafka.Message{{Topic: "t", Value: []byte("v")}}, w.clock.now())
		p := w.out.parts[0]
		at := int64(binary.BigEndian.Uint64((*p.batches[0].buf)[27:]))
		partition := kmsg.NewProduceResponseTopicPartition()
		partition.BaseOffset, partition.LogAppendTime = 7, appended
		d := delivery{writer: w, ctx: context.Background()}
		resp := &kmsg.ProduceResponse{Version: 12, Topics: []kmsg.ProduceResponseTopic{{Topic: "t", Partitions: []kmsg.ProduceResponseTopicPartition{partition}}}}
		if moved, err := d.judge(&answer{parts: []*part{p}, resp: resp}); !moved || err != nil {
			t.Fatal(moved, err)
		}
		return at
	}
	const broker = int64(12_345_678_901) // in 1970: far from this machine's clock
	begun := time.Now()
	for i, step := range []struct{ appended, least int64 }{
		{-1, begun.UnixMilli()}, {broker, begun.UnixMilli()}, {-1, broker}, {broker - 5000, broker}, {-1, broker - 5000},
	} {
		at := stamp(step.appended)
		if most := step.least + time.Since(begun).Milliseconds() + 1; at < step.least || at > most {
			t.Errorf("record %d bears %d, want %d to %d", i, at, step.least, most)
		}
	}
}
