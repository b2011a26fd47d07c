package conformance

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

const plenty = 8 << 20

var logTests = map[string]func(*suite){
	"Empty": func(s *suite) {
		l := s.log(s.topic(1), 0)
		if o := must[kafka.Offsets](s)(l.Offsets(s.ctx)); o != (kafka.Offsets{}) {
			s.Fatalf("offsets of an empty log: %+v", o)
		}
		f := must[kafka.Fetched](s)(l.Fetch(s.ctx, 0, plenty, time.Millisecond))
		if len(f.Records) != 0 || f.Next != 0 || f.Offsets != (kafka.Offsets{}) {
			s.Fatalf("fetch of an empty log: %+v", f)
		}
	},

	// I5, restore rows 1 to 3: the end is a marker, and the position reaches it.
	"EndsInMarkers": func(s *suite) {
		topic, id := s.topic(1), s.name("txn")
		l := s.log(topic, 0)
		w := s.writer(id)
		s.write(w, topic, 0, 3)
		s.until(l, "the commit marker", func(o kafka.Offsets) bool { return o == kafka.Offsets{Start: 0, Stable: 4, HighWatermark: 4} })
		s.expect(s.read(l, 0, 4, plenty), "0:v0", "1:v1", "2:v2")
		if n := len(s.read(l, 3, 4, plenty)); n != 0 {
			s.Fatalf("%d records in a tail of one marker", n)
		}

		must[[]int64](s)(w.Send(s.ctx, messages(topic, 0, 10, 2)))
		s.writer(id) // aborts them
		s.until(l, "the abort marker", func(o kafka.Offsets) bool { return o.HighWatermark == 7 && o.Stable == 7 })
		s.expect(s.read(l, 0, 7, plenty), "0:v0", "1:v1", "2:v2")
		if n := len(s.read(l, 4, 7, plenty)); n != 0 {
			s.Fatalf("%d records in an aborted tail", n)
		}
	},

	// S21, restore row 4: an open transaction holds the reader back, whoever commits after it.
	"OpenTransactionPins": func(s *suite) {
		topic := s.topic(1)
		l := s.log(topic, 0)
		p, q := s.writer(s.name("txn")), s.writer(s.name("txn"))
		s.write(p, topic, 0, 1)                                    // 0, marker 1
		must[[]int64](s)(q.Send(s.ctx, messages(topic, 0, 50, 2))) // 2, 3, open
		s.write(p, topic, 1, 1)                                    // 4, marker 5
		s.until(l, "the second commit", func(o kafka.Offsets) bool { return o.HighWatermark == 6 && o.Stable == 2 })
		s.expect(s.read(l, 0, 2, plenty), "0:v0")
		f := must[kafka.Fetched](s)(l.Fetch(s.ctx, 2, plenty, 50*time.Millisecond))
		if len(f.Records) != 0 || f.Next != 2 || f.Stable != 2 || f.HighWatermark != 6 {
			s.Fatalf("fetch at the stable offset: %+v", f)
		}
		s.ok(q.Commit(s.ctx)) // marker 6
		s.until(l, "the commit", func(o kafka.Offsets) bool { return o.Stable == 7 })
		s.expect(s.read(l, 0, 7, plenty), "0:v0", "2:v50", "3:v51", "4:v1")
	},

	// S20: producers interleaved, some aborted, one of them before the fetch begins.
	"Interleaved": func(s *suite) {
		topic := s.topic(1)
		l := s.log(topic, 0)
		ids := []string{s.name("txn"), s.name("txn"), s.name("txn")}
		w := []kafka.Writer{s.writer(ids[0]), s.writer(ids[1]), s.writer(ids[2])}
		for round := range 3 {
			for i := range w {
				must[[]int64](s)(w[i].Send(s.ctx, messages(topic, 0, 100*round+10*i, 2)))
			}
			// 0 2 4 are the first offsets of round 0; each round has six records and three markers.
			s.ok(w[1].Commit(s.ctx))
			w[0], w[2] = s.writer(ids[0]), s.writer(ids[2]) // both abort
		}
		s.until(l, "the last marker", func(o kafka.Offsets) bool { return o.Stable == 27 && o.HighWatermark == 27 })
		want := []string{"2:v10", "3:v11", "11:v110", "12:v111", "20:v210", "21:v211"}
		for from := range int64(27) {
			var rest []string
			for _, v := range want {
				var at int64
				_, err := fmt.Sscanf(v, "%d:", &at)
				s.ok(err)
				if at >= from {
					rest = append(rest, v)
				}
			}
			s.expect(s.read(l, from, 27, plenty), rest...)
			s.expect(s.read(l, from, 27, 1), rest...)
		}
	},

	"Content": func(s *suite) {
		topic := s.topic(1)
		l, w := s.log(topic, 0), s.writer(s.name("txn"))
		before := time.Now().Add(-time.Minute).UnixMilli()
		want := []kafka.Message{
			{Key: nil, Value: nil},
			{Key: []byte{}, Value: []byte{}},
			{Key: []byte("k"), Value: nil},
			{Key: []byte("k\x00\xff"), Value: bytes.Repeat([]byte("v"), 70_000)},
			{Key: []byte("h"), Value: []byte("v"), Headers: []kafka.Header{{Key: "tidemark", Value: []byte{1, 0, 2}}, {Key: "", Value: nil}, {Key: "tidemark", Value: []byte{}}}},
		}
		for i := range want {
			want[i].Topic = topic
		}
		must[[]int64](s)(w.Send(s.ctx, want))
		s.ok(w.Commit(s.ctx))
		got := s.read(l, 0, 6, plenty)
		if len(got) != len(want) {
			s.Fatalf("%d records, want %d", len(got), len(want))
		}
		for i, r := range got {
			m := want[i]
			if !same(r.Key, m.Key) || !same(r.Value, m.Value) || len(r.Headers) != len(m.Headers) {
				s.Errorf("record %d: %q=%q %v, want %q=%q %v", i, r.Key, r.Value, r.Headers, m.Key, m.Value, m.Headers)
			}
			for j := range min(len(r.Headers), len(m.Headers)) {
				if r.Headers[j].Key != m.Headers[j].Key || !same(r.Headers[j].Value, m.Headers[j].Value) {
					s.Errorf("record %d header %d: %v, want %v", i, j, r.Headers[j], m.Headers[j])
				}
			}
			now := s.AnyClock || r.Timestamp >= before && r.Timestamp <= time.Now().Add(time.Minute).UnixMilli()
			if r.Offset != int64(i) || r.Epoch < 0 || !now {
				s.Errorf("record %d: offset %d, epoch %d, time %d", i, r.Offset, r.Epoch, r.Timestamp)
			}
		}
	},

	// The present epoch ends with the log; of one that is not known nothing is said.
	"EpochEnd": func(s *suite) {
		topic := s.topic(1)
		l, w := s.log(topic, 0), s.writer(s.name("txn"))
		s.write(w, topic, 0, 10)
		got := s.read(l, 0, 11, plenty)
		end, known, err := l.EpochEnd(s.ctx, got[0].Epoch)
		if s.ok(err); !known || end != 11 {
			s.Errorf("epoch %d ends at %d, known %v, want 11", got[0].Epoch, end, known)
		}
		if end, known, err := l.EpochEnd(s.ctx, -1); known || err != nil {
			s.Errorf("the unknown epoch ends at %d, known %v, %v", end, known, err)
		}
	},

	// Any start and any size of fetch gives every record once, in order.
	"AnyStartAnySize": func(s *suite) {
		topic := s.topic(1)
		l, w := s.log(topic, 0), s.writer(s.name("txn"))
		for i := range 5 {
			s.write(w, topic, 200*i, 200)
		}
		s.until(l, "the last commit", func(o kafka.Offsets) bool { return o.Stable == 1005 })
		for _, from := range []int64{0, 1, 199, 200, 201, 777, 1003, 1004} {
			for _, size := range []int{1, 1000, plenty} {
				next := from
				for _, r := range s.read(l, from, 1005, size) {
					if next%201 == 200 { // a marker
						next++
					}
					if want := fmt.Sprintf("v%d", next/201*200+next%201); r.Offset != next || string(r.Value) != want {
						s.Fatalf("from %d with %d bytes: %d:%s, want %d:%s", from, size, r.Offset, r.Value, next, want)
					}
					next++
				}
				if next < 1004 {
					s.Fatalf("from %d with %d bytes: the last record was %d", from, size, next-1)
				}
			}
		}
	},

	// A waiting fetch is woken by the commit, not by its time.
	"WaitsForData": func(s *suite) {
		topic := s.topic(1)
		l, w := s.log(topic, 0), s.writer(s.name("txn"))
		must[[]int64](s)(w.Send(s.ctx, messages(topic, 0, 0, 1)))
		got := make(chan kafka.Fetched, 1)
		go func() {
			f, err := l.Fetch(s.ctx, 0, plenty, time.Minute)
			if err != nil {
				s.Error(err)
			}
			got <- f
		}()
		s.ok(w.Commit(s.ctx))
		began := time.Now()
		select {
		case f := <-got:
			s.expect(f.Records, "0:v0")
			s.Logf("woken %v after the commit", time.Since(began))
		case <-time.After(limit):
			s.Fatal("the fetch was not woken")
		}
	},

	"CancelledWhileWaiting": func(s *suite) {
		l := s.log(s.topic(1), 0)
		must[kafka.Offsets](s)(l.Offsets(s.ctx))
		ctx, cancel := context.WithTimeout(s.ctx, 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := l.Fetch(ctx, 0, plenty, time.Minute)
		if took := time.Since(began); !isTransient(err) || took > 5*time.Second {
			s.Fatalf("after %v: %v", took, err)
		}
	},

	"NoSuchTopic": func(s *suite) {
		ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
		defer cancel()
		if _, err := s.log(s.name("none"), 0).Fetch(ctx, 0, plenty, 0); !isTransient(err) {
			s.Fatal(err)
		}
	},

	// R16: never a reset.
	"BeyondTheEnd": func(s *suite) {
		topic := s.topic(1)
		l, w := s.log(topic, 0), s.writer(s.name("txn"))
		s.write(w, topic, 0, 3)
		s.until(l, "the commit", func(o kafka.Offsets) bool { return o.HighWatermark == 4 })
		_, err := l.Fetch(s.ctx, 100, plenty, 0)
		s.fails(err, kafka.ClassLost)
		if text := err.Error(); !strings.Contains(text, "100") || !strings.Contains(text, "[0, 4)") || !strings.Contains(text, topic) {
			s.Errorf("the error does not name position and bounds: %v", err)
		}
		s.expect(s.read(l, 1, 4, plenty), "1:v1", "2:v2") // the log is still good
	},
}

func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

var deletionTests = map[string]func(*suite){
	"BeforeTheStart": func(s *suite) {
		topic := s.topic(1)
		l, w := s.log(topic, 0), s.writer(s.name("txn"))
		for i := range 4 {
			s.write(w, topic, i, 1) // 0 2 4 6
		}
		s.until(l, "the commits", func(o kafka.Offsets) bool { return o.Stable == 8 })
		s.ok(s.DeleteRecords(s.ctx, topic, 0, 4))
		s.until(l, "the new start", func(o kafka.Offsets) bool { return o.Start == 4 })
		_, err := l.Fetch(s.ctx, 3, plenty, 0)
		s.fails(err, kafka.ClassLost)
		if text := err.Error(); !strings.Contains(text, "position 3") || !strings.Contains(text, "[4, 8)") {
			s.Errorf("the error does not name position and bounds: %v", err)
		}
		s.expect(s.read(l, 4, 8, plenty), "4:v2", "6:v3")
		s.ok(s.DeleteRecords(s.ctx, topic, 0, 8)) // start == end: nothing to read, and no error
		s.until(l, "the new start", func(o kafka.Offsets) bool { return o == kafka.Offsets{Start: 8, Stable: 8, HighWatermark: 8} })
		if f := must[kafka.Fetched](s)(l.Fetch(s.ctx, 8, plenty, 0)); f.Next != 8 || len(f.Records) != 0 {
			s.Fatalf("fetch of an emptied log: %+v", f)
		}
	},

	// S10: another topic of the same name is another topic.
	"Recreated": func(s *suite) {
		topic := s.topic(1)
		l, w := s.log(topic, 0), s.writer(s.name("txn"))
		s.write(w, topic, 0, 3)
		s.expect(s.read(l, 0, 4, plenty), "0:v0", "1:v1", "2:v2")
		admin := must[kafka.Admin](s)(s.Cluster.Admin())
		defer admin.Close()
		old := must[map[string]kafka.TopicInfo](s)(admin.Topics(s.ctx, topic))[topic]
		s.ok(s.DeleteTopic(s.ctx, topic))
		s.ok(admin.Create(s.ctx, kafka.TopicSpec{Name: topic, Partitions: 1, ReplicationFactor: 1}))
		fresh := must[map[string]kafka.TopicInfo](s)(admin.Topics(s.ctx, topic))[topic]
		s.write(s.writer(s.name("txn")), topic, 0, 5)
		_, err := l.Fetch(s.ctx, 4, plenty, time.Second)
		s.fails(err, kafka.ClassLost)
		if text := err.Error(); !strings.Contains(text, old.ID.String()) || !strings.Contains(text, fresh.ID.String()) || !strings.Contains(text, topic) {
			s.Errorf("the error does not name topic and both ids %v and %v: %v", old.ID, fresh.ID, err)
		}
	},
}
