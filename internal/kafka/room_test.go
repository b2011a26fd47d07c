package kafka_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// packedLog is a log of which each fetch unpacks to so many bytes, within its reader's share. It tells what is held.
type packedLog struct {
	script
	bytes  int64
	waited atomic.Int32 // fetches that found no room
}

func (l *packedLog) Fetch(ctx context.Context, position int64, _ int, _ time.Duration) (kafka.Fetched, error) {
	share := kafka.ShareOf(ctx)
	if !share.Enter(ctx, time.Second) {
		l.waited.Add(1)
		return kafka.Fetched{Next: position}, ctx.Err()
	}
	return kafka.Fetched{Records: make([]kafka.Record, 1), Next: position + 1, Bytes: 1, Held: share.Leave(l.bytes)}, nil
}

// D15, I13: reads whose batches unpack to far more than they asked for wait for each other: what all hold together is bounded by
// the room, and by one batch of each processor. Given back, it lets others in; a reader that stops gives all back.
func TestRoomIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asked, batch = 100, 1000
		room := kafka.NewRoom(3 * batch)
		var logs []*packedLog
		var readers []*kafka.ReadAhead
		for range 200 {
			l := &packedLog{bytes: 2*asked + batch}
			logs = append(logs, l)
			readers = append(readers, kafka.NewReadAhead(l, 0, kafka.Pace{MaxBytes: func() int { return asked }, Room: room}))
		}
		<-time.After(10 * time.Second)
		held, waited := 0, 0
		var got []*kafka.Read
		for i, r := range readers {
			select {
			case read := <-r.Reads():
				if len(read.Records) > 0 {
					held++
					got = append(got, read)
				}
			default:
			}
			waited += int(logs[i].waited.Load())
		}
		if most := 3 + runtime.GOMAXPROCS(0); held == 0 || held > most || waited == 0 {
			t.Errorf("%d batches were read, want 1 to %d; %d fetches found no room", held, most, waited)
		}
		seen := map[*kafka.ReadAhead]bool{}
		for len(seen) < len(readers) && !t.Failed() {
			before := len(seen)
			for _, read := range got {
				read.Served()
			}
			got = got[:0]
			<-time.After(3 * time.Second)
			for _, r := range readers {
				select {
				case read := <-r.Reads():
					if len(read.Records) > 0 {
						seen[r] = true
						got = append(got, read)
					}
				default:
				}
			}
			if len(seen) == before && len(got) == 0 {
				t.Errorf("nobody reads any more, after %d of %d", len(seen), len(readers))
			}
		}
		for _, r := range readers {
			r.Stop()
		}
		for _, read := range got {
			read.Served()
			read.Served() // once is enough
		}
		alone := kafka.NewReadAhead(&packedLog{bytes: 5 * batch}, 0, kafka.Pace{MaxBytes: func() int { return asked }, Room: room})
		if read := <-alone.Reads(); len(read.Records) != 1 {
			t.Errorf("not all was given back: %+v", read)
		}
		alone.Stop()
	})
}
