package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/proof/oracle"
)

// Reading is one record for the input topic.
type Reading struct {
	Key, Value []byte
	Headers    []oracle.Header
	Time       int64 // of the record, ms; 0 for now
	Partition  int32
}

// Source gives readings, one after the other; ok is false at its end. It is used by one goroutine.
type Source func() (r Reading, ok bool)

// feeder writes a source to the input topic at a steady rate.
type feeder struct {
	client *kgo.Client
	topic  string
	source Source
	rate   int
	stop   context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex // held while a portion is written
	paused bool
	ended  bool // the source is at its end
	acked  int64
	err    error
}

// feedTick is how often readings are handed on.
const feedTick = 20 * time.Millisecond

// startFeeder makes a feeder that is paused.
func startFeeder(ctx context.Context, client *kgo.Client, topic string, source Source, rate int) *feeder {
	ctx, stop := context.WithCancel(ctx)
	f := &feeder{client: client, topic: topic, source: source, rate: rate, stop: stop, done: make(chan struct{}), paused: true}
	go func() {
		defer close(f.done)
		ticker := time.NewTicker(feedTick)
		defer ticker.Stop()
		for {
			f.write(ctx)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
	return f
}

// write writes one portion, unless the flow is paused.
func (f *feeder) write(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused || f.ended || f.err != nil {
		return
	}
	var records []*kgo.Record
	for range max(1, f.rate*int(feedTick/time.Millisecond)/1000) {
		r, ok := f.source()
		if !ok {
			f.ended = true
			break
		}
		record := &kgo.Record{Topic: f.topic, Partition: r.Partition, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader(h))
		}
		if r.Time > 0 {
			record.Timestamp = time.UnixMilli(r.Time)
		}
		records = append(records, record)
	}
	if len(records) == 0 {
		return
	}
	if err := f.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		if ctx.Err() == nil {
			f.err = fmt.Errorf("write readings to %s: %w", f.topic, err)
		}
		return
	}
	f.acked += int64(len(records))
}

// pause stops the flow; what was written is acknowledged when it returns. resume lets it go on.
func (f *feeder) pause(paused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = paused
}

// written is how many readings are in the topic.
func (f *feeder) written() (n int64, ended bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acked, f.ended, f.err
}

func (f *feeder) close() {
	f.stop()
	<-f.done
}

// Own is a source of records that somebody has already: each keeps its partition, its bytes, its time and its headers, but
// for those that tidemark has given it: here it comes for the first time.
func Own(partitions [][]oracle.Message) Source {
	at := make([]int, len(partitions))
	return func() (Reading, bool) {
		best := -1
		for p, messages := range partitions {
			if at[p] < len(messages) && (best < 0 || messages[at[p]].Timestamp < partitions[best][at[best]].Timestamp) {
				best = p
			}
		}
		if best < 0 {
			return Reading{}, false
		}
		m := partitions[best][at[best]]
		at[best]++
		headers := slices.DeleteFunc(slices.Clone(m.Headers), func(h oracle.Header) bool { return strings.HasPrefix(h.Key, "tidemark.") })
		return Reading{Key: m.Key, Value: m.Value, Headers: headers, Time: m.Timestamp, Partition: int32(best)}, true
	}
}

var errNoReadings = errors.New("the source of readings is empty")
