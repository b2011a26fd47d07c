package recovery

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// canned is a changelog that has been fetched and decoded already, so that only the replay is measured.
type canned struct {
	kafka.Log
	fetches []kafka.Fetched
	starts  map[int64]int
}

func (c *canned) Fetch(ctx context.Context, position int64, _ int, _ time.Duration) (kafka.Fetched, error) {
	at, ok := c.starts[position]
	if !ok {
		<-ctx.Done()
		return kafka.Fetched{}, ctx.Err()
	}
	return c.fetches[at], nil
}

const (
	benchRecords = 1 << 20
	benchKeys    = benchRecords * 4 / 5
	benchFence   = record.FenceID(7)
)

// newCanned makes a changelog of updates of 29-byte keys and 29-byte values, in commits of 20,000, in fetches of 8 MiB.
func newCanned() (c *canned, end int64) {
	random := rand.New(rand.NewPCG(1, 2))
	c = &canned{starts: map[int64]int{}}
	var f kafka.Fetched
	offset := int64(0)
	flush := func() {
		f.Next = offset
		c.starts[f.Records[0].Offset] = len(c.fetches)
		c.starts[f.Records[0].Offset-1] = len(c.fetches) // behind a marker
		c.fetches = append(c.fetches, f)
		f = kafka.Fetched{}
	}
	add := func(key, value []byte) {
		f.Records = append(f.Records, kafka.Record{Offset: offset, Key: key, Value: value})
		f.Bytes += len(key) + len(value) + 8
		if offset++; f.Bytes > replayBytes {
			flush()
		}
	}
	birth := record.Commit{Birth: 1, Fence: benchFence, Anchor: record.Anchor{Offset: -1}, SetterOffset: -1}
	arena := make([]byte, 0, benchRecords*64)
	updates := 0
	for n := range benchRecords {
		if n%20_000 == 0 {
			birth.Records = record.Count(updates)
			add(record.CommitKey, birth.Append(nil))
			offset++ // its marker
			birth.Number++
			updates = 0
		}
		at := len(arena)
		arena = record.AppendStart(record.AppendField(record.EntryPrefix(arena, "hourly"), fmt.Appendf(nil, "device-%07d", random.IntN(benchKeys))), 1_700_000_000_000)
		key := arena[at:len(arena):len(arena)]
		at = len(arena)
		for range 3 {
			arena = binary.BigEndian.AppendUint64(arena, random.Uint64())
		}
		add(key, arena[at:len(arena):len(arena)])
		updates++
	}
	end = offset
	birth.Records = record.Count(updates)
	add(record.CommitKey, birth.Append(nil))
	flush()
	for i := range c.fetches {
		c.fetches[i].Offsets = kafka.Offsets{Stable: offset, HighWatermark: offset}
	}
	return c, end
}

// BenchmarkReplay replays a million updates of 0.8 million keys; ns/op is per record.
func BenchmarkReplay(b *testing.B) {
	c, end := newCanned()
	log := &changelog{log: c, topic: logTopic}
	replay := func(b *testing.B, to applier) {
		p := &replayer{ledger: newLedger(log, 0, nil, 1), to: to, end: end}
		if err := p.run(context.Background(), func(kafka.Offsets) {}); err != nil {
			b.Fatal(err)
		}
	}
	perRecord := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
	}
	b.Run("checks only", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			replay(b, discard{})
		}
		perRecord(b)
	})
	b.Run("empty store", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := store.NewMemory(benchKeys)
			replay(b, bulk{m})
			if err := m.Close(); err != nil {
				b.Fatal(err)
			}
		}
		perRecord(b)
	})
	b.Run("live base", func(b *testing.B) {
		b.ReportAllocs()
		m := store.NewMemory(benchKeys)
		for b.Loop() {
			replay(b, &onto{Live: &Live{Store: m}})
		}
		perRecord(b)
	})
}

type discard struct{}

func (discard) touch([]uint64) uint64            { return 0 }
func (discard) put(uint64, []byte, []byte) error { return nil }
func (discard) remove(uint64, []byte) error      { return nil }
