package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

var writerTests = map[string]func(*suite){
	// The partitions of one topic lie between those of another, as a relay writes them.
	"OffsetsOfEveryMessage": func(s *suite) {
		a, b := s.topic(2), s.topic(1)
		w := s.writer(s.name("txn"))
		var batch []kafka.Message
		for i := range 30 {
			batch = append(batch, messages([]string{a, b, a}[i%3], int32(i%3/2), i, 1)...)
		}
		for round := range int64(2) {
			offsets := must[[]int64](s)(w.Send(s.ctx, batch))
			for i, o := range offsets {
				if want := round*11 + int64(i/3); o != want { // ten records and a marker each
					s.Fatalf("round %d, message %d: offset %d, want %d", round, i, o, want)
				}
			}
			s.ok(w.Commit(s.ctx))
		}
		for i, r := range s.read(s.log(a, 1), 0, 22, plenty) {
			if want := fmt.Sprintf("v%d", i%10*3+2); string(r.Value) != want {
				s.Fatalf("record %d is %s, want %s", i, r.Value, want)
			}
		}
	},

	// Many sends make one transaction.
	"SendsAddUp": func(s *suite) {
		topic := s.topic(1)
		w := s.writer(s.name("txn"))
		for i := range 5 {
			if o := must[[]int64](s)(w.Send(s.ctx, messages(topic, 0, i, 1))); len(o) != 1 || o[0] != int64(i) {
				s.Fatalf("send %d: offsets %v", i, o)
			}
		}
		s.ok(w.Commit(s.ctx))
		s.expect(s.read(s.log(topic, 0), 0, 6, plenty), "0:v0", "1:v1", "2:v2", "3:v3", "4:v4")
	},

	"NothingToSend": func(s *suite) {
		topic := s.topic(1)
		w := s.writer(s.name("txn"))
		if o := must[[]int64](s)(w.Send(s.ctx, nil)); len(o) != 0 {
			s.Fatal(o)
		}
		if err := w.Commit(s.ctx); err == nil {
			s.Fatal("a commit without a transaction succeeded")
		}
		s.write(w, topic, 0, 1) // neither did harm
	},

	// I4: fencing ends the open transaction, and its marker is in the log when Fence returns.
	"FenceOverOpenTransaction": func(s *suite) {
		topic, id := s.topic(1), s.name("txn")
		l := s.log(topic, 0)
		old := s.writer(id)
		must[[]int64](s)(old.Send(s.ctx, messages(topic, 0, 0, 10)))
		if o := must[kafka.Offsets](s)(l.Offsets(s.ctx)); o.Stable != 0 || o.HighWatermark != 10 {
			s.Fatalf("before: %+v", o)
		}
		began := time.Now()
		w := s.writer(id)
		took := time.Since(began)
		if o := must[kafka.Offsets](s)(l.Offsets(s.ctx)); o.Stable != 11 || o.HighWatermark != 11 {
			s.Fatalf("after: %+v", o)
		}
		s.Logf("fenced in %v", took)
		_, err := old.Send(s.ctx, messages(topic, 0, 90, 1))
		s.fails(err, kafka.ClassFenced)
		s.write(w, topic, 1, 1)
		s.expect(s.read(l, 0, 13, plenty), "11:v1")
	},

	"FencedCommit": func(s *suite) {
		topic, id := s.topic(1), s.name("txn")
		old := s.writer(id)
		must[[]int64](s)(old.Send(s.ctx, messages(topic, 0, 0, 3)))
		w := s.writer(id)
		s.fails(old.Commit(s.ctx), kafka.ClassFenced)
		s.write(w, topic, 7, 1)
		s.expect(s.read(s.log(topic, 0), 0, 6, plenty), "4:v7")
	},

	"FencedWhileIdle": func(s *suite) {
		topic, id := s.topic(1), s.name("txn")
		old := s.writer(id)
		s.write(old, topic, 0, 1)
		w := s.writer(id)
		_, err := old.Send(s.ctx, messages(topic, 0, 90, 1))
		s.fails(err, kafka.ClassFenced)
		s.write(w, topic, 1, 1)
		// 0 v0, 1 marker, then nothing of the old one.
		s.expect(s.read(s.log(topic, 0), 0, 4, plenty), "0:v0", "2:v1")
	},

	// I8: after any error only Close is left, and the old words are not taken for new ones.
	"NothingAfterAnError": func(s *suite) {
		topic, id := s.topic(1), s.name("txn")
		old := s.writer(id)
		s.write(old, topic, 0, 1)
		s.writer(id)
		_, first := old.Send(s.ctx, messages(topic, 0, 90, 1))
		s.fails(first, kafka.ClassFenced)
		_, again := old.Send(s.ctx, messages(topic, 0, 90, 1))
		_, fence := old.Fence(s.ctx)
		for _, err := range []error{again, old.Commit(s.ctx), fence} {
			if !errors.Is(err, kafka.ErrAbandoned) {
				s.Errorf("%v is not %v", err, kafka.ErrAbandoned)
			}
		}
		old.Close()
		old.Close()
	},

	"UseBeforeFence": func(s *suite) {
		w := must[kafka.Writer](s)(s.Cluster.Writer(s.name("txn")))
		if _, err := w.Send(s.ctx, messages(s.topic(1), 0, 0, 1)); err == nil {
			s.Error("sent without a fence")
		}
		w.Close()
		if _, err := w.Fence(s.ctx); !errors.Is(err, kafka.ErrClosed) {
			s.Errorf("fenced a closed writer: %v", err)
		}
	},

	// Close leaves an open transaction to the next fence.
	"CloseDoesNotAbort": func(s *suite) {
		topic, id := s.topic(1), s.name("txn")
		l, w := s.log(topic, 0), s.writer(id)
		must[[]int64](s)(w.Send(s.ctx, messages(topic, 0, 0, 2)))
		w.Close()
		if o := must[kafka.Offsets](s)(l.Offsets(s.ctx)); o.Stable != 0 || o.HighWatermark != 2 {
			s.Fatalf("after Close: %+v", o)
		}
		s.writer(id)
		if o := must[kafka.Offsets](s)(l.Offsets(s.ctx)); o.Stable != 3 {
			s.Fatalf("after the next fence: %+v", o)
		}
	},

	// S14: one refused record among good ones fails the Send, with its size, at whatever place it stands.
	"RefusedRecord": func(s *suite) {
		topic := s.topic(1)
		big := make([]byte, 3<<20)
		r := rand.NewChaCha8([32]byte{1})
		_, _ = r.Read(big)
		for _, at := range []int{0, 50, 99} {
			w := s.writer(s.name("txn"))
			batch := messages(topic, 0, 0, 100)
			batch[at].Value = big
			_, err := w.Send(s.ctx, batch)
			s.fails(err, kafka.ClassPermanent)
			var e *kafka.Error
			if size := len(big) + len(batch[at].Key); !errors.As(err, &e) || e.Topic != topic || e.Size != size || !strings.Contains(err.Error(), fmt.Sprint(size)) {
				s.Errorf("the error does not name topic and size %d: %v", size, err)
			}
			if !errors.Is(w.Commit(s.ctx), kafka.ErrAbandoned) {
				s.Error("a commit after a refused record was tried")
			}
		}
		l := s.log(topic, 0)
		if o := must[kafka.Offsets](s)(l.Offsets(s.ctx)); o.Stable > 0 {
			s.expect(s.read(l, 0, o.Stable, plenty))
		}
	},

	"NoSuchTopic": func(s *suite) {
		w := s.writer(s.name("txn"))
		ctx, cancel := context.WithTimeout(s.ctx, 200*time.Millisecond)
		defer cancel()
		topic, began := s.name("none"), time.Now()
		_, err := w.Send(ctx, messages(topic, 0, 0, 1))
		if !isTransient(err) || !strings.Contains(err.Error(), topic) || time.Since(began) > limit {
			s.Fatalf("after %v: %v", time.Since(began), err)
		}
	},

	// Every answered commit is there: many small ones, then a large one.
	"ManyCommits": func(s *suite) {
		topic := s.topic(1)
		w := s.writer(s.name("txn"))
		for i := range 200 {
			s.write(w, topic, i, 1)
		}
		const large = 50_000
		offsets := must[[]int64](s)(w.Send(s.ctx, messages(topic, 0, 200, large)))
		for i, o := range offsets {
			if o != 400+int64(i) {
				s.Fatalf("message %d has offset %d, want %d", i, o, 400+i)
			}
		}
		s.ok(w.Commit(s.ctx))
		got := s.read(s.log(topic, 0), 0, 400+large+1, plenty)
		if len(got) != 200+large {
			s.Fatalf("%d records, want %d", len(got), 200+large)
		}
		for i, r := range got {
			if want := fmt.Sprintf("v%d", i); string(r.Value) != want {
				s.Fatalf("record %d is %s, want %s", i, r.Value, want)
			}
		}
	},
}
