package recovery

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// Each test carries the number of the case it closes, as far as an in-memory cluster carries it.

// tampered is the cluster as a faulty broker or a narrow network shows it.
type tampered struct {
	kafka.Cluster
	maxBytes int                  // of a fetch of the changelog, 0 for no limit
	fetched  func(*kafka.Fetched) // may be nil
}

type tamperedLog struct {
	kafka.Log
	by *tampered
}

func (c *tampered) Log(topic string, partition int32) (kafka.Log, error) {
	log, err := c.Cluster.Log(topic, partition)
	if topic == logTopic && err == nil {
		log = tamperedLog{log, c}
	}
	return log, err
}

func (l tamperedLog) Fetch(ctx context.Context, position int64, maxBytes int, wait time.Duration) (kafka.Fetched, error) {
	if l.by.maxBytes > 0 {
		maxBytes = l.by.maxBytes
	}
	f, err := l.Log.Fetch(ctx, position, maxBytes, wait)
	if l.by.fetched != nil && err == nil {
		l.by.fetched(&f)
	}
	return f, err
}

func TestS01OpenTransactionOfACrashedWriter(t *testing.T) {
	newWorld(t).openTransaction()
}

func TestS04StaleCheckpointBringsNothingBack(t *testing.T) {
	limit := time.Duration(ageLimit(7200000)) * time.Millisecond
	stale := func(t *testing.T, brokerTime func(now int64) int64) (*world, string) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "old=1", "w1=1", "w2=1", "w3=1")
		path := w.checkpoint(r, func(h *store.Header) { h.BrokerTime = brokerTime(h.BrokerTime) })
		w.commit(r, "w1", "w2", "w3")
		w.commit(r, "filler=1")
		w.crash(r)
		return w, path
	}
	same := func(now int64) int64 { return now }
	gone := func(w *world) { // the cleaner takes the tombstones
		w.Compact(logTopic, w.partition)
		w.Advance(2*time.Hour + time.Second)
		w.Compact(logTopic, w.partition)
		for _, r := range w.Committed(logTopic, w.partition) {
			if r.Value == nil {
				t.Fatal("a tombstone is left: the case is not there")
			}
		}
	}
	t.Run("refused", func(t *testing.T) {
		w, path := stale(t, same)
		gone(w)
		r := w.start()
		w.wantAside(r.Report, path, "tombstones after it may be gone")
	})
	t.Run("a second below the limit", func(t *testing.T) {
		w, path := stale(t, same)
		w.Advance(limit - time.Second)
		if r := w.start(); r.Report.Checkpoint != path {
			t.Fatalf("report %+v", r.Report)
		}
	})
	t.Run("a second above the limit", func(t *testing.T) {
		w, path := stale(t, same)
		w.Advance(limit + time.Second)
		r := w.start()
		w.wantAside(r.Report, path, "is 1h48m1.0")
	})
	t.Run("the broker's clock set back does not disable the rule", func(t *testing.T) {
		w, path := stale(t, same)
		gone(w)
		w.Advance(-5 * time.Hour)
		r := w.start()
		w.wantAside(r.Report, path, "clock went back")
	})
	t.Run("a header that lies about its age is found by the digest", func(t *testing.T) {
		w, path := stale(t, func(now int64) int64 { return now + 7200000 })
		gone(w)
		r := w.start()
		w.wantAside(r.Report, path, "the state is not that of commit 3")
		if r.Report.From != "full replay" || r.Report.Loaded != 4 {
			t.Fatalf("report %+v; want a full replay after a load of 4 entries", r.Report)
		}
	})
	t.Run("the smallest retention ever seen counts", func(t *testing.T) {
		w, path := stale(t, same)
		w.Advance(time.Hour)
		rec := w.recovery()
		rec.RetentionMS = 10 * minute
		r := w.started(rec)
		w.wantAside(r.Report, path, "delete.retention.ms 600000")
	})
	t.Run("though it is larger now", func(t *testing.T) {
		w := newWorld(t)
		rec := w.recovery()
		rec.RetentionMS = 10 * minute
		r := w.started(rec)
		w.commit(r, "x=1")
		path := w.checkpoint(r)
		w.commit(r, "x=2")
		w.crash(r)
		w.Advance(time.Hour)
		r = w.start()
		w.wantAside(r.Report, path, "delete.retention.ms 600000")
	})
	t.Run("nothing was committed since: usable at any age", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1", "y")
		path := w.checkpoint(r)
		w.crash(r)
		w.Advance(1000 * time.Hour)
		if r = w.start(); r.Report.Checkpoint != path {
			t.Fatalf("report %+v", r.Report)
		}
	})
}

func TestS09CheckpointOfAnotherChangelog(t *testing.T) {
	lived := func(t *testing.T) (*world, []kafka.Record) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1", "y=2")
		w.checkpoint(r)
		w.crash(r)
		return w, w.Committed(logTopic, w.partition)
	}
	recreated := func(t *testing.T, refill func(old []kafka.Record) []kafka.Record) *world {
		w, old := lived(t)
		w.DeleteTopic(logTopic)
		w.createChangelog()
		w.Append(logTopic, w.partition, refill(old)...)
		return w
	}
	t.Run("a empty", func(t *testing.T) {
		w := recreated(t, func([]kafka.Record) []kafka.Record { return nil })
		w.refused(w.recovery(), kafka.ClassLost, "no commit record", "this task has lived before")
	})
	t.Run("b refilled with something else", func(t *testing.T) {
		w := recreated(t, func([]kafka.Record) []kafka.Record {
			return []kafka.Record{{Key: []byte("user-1"), Value: []byte("{}")}}
		})
		w.refused(w.recovery(), kafka.ClassPermanent, "offset 0", "of no kind")
	})
	t.Run("c refilled with what it was, and more", func(t *testing.T) {
		var was record.TopicID
		w := recreated(t, func(old []kafka.Record) []kafka.Record {
			f, err := record.ParseFence(old[0].Value)
			if err != nil {
				t.Fatal(err)
			}
			was = f.Identity.Changelog.ID
			return append(old, old...)
		})
		is := w.identity().Changelog.ID
		w.refused(w.recovery(), kafka.ClassLost, fmt.Sprintf("id of changelog topic %s was %v, is %v", logTopic, was, is))
	})
	t.Run("another cluster", func(t *testing.T) {
		w, _ := lived(t)
		w.SetID("cluster-b")
		w.refused(w.recovery(), kafka.ClassLost, `cluster id was "cluster-a", is "cluster-b"`)
	})
	t.Run("another input, the fence record far back", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		for i := range 40 {
			w.commit(r, fmt.Sprintf("x=%d", i), "y=1", "z=1")
		}
		w.crash(r)
		w.AddPartitions(inTopic, 6)
		w.refused(w.recovery(), kafka.ClassLost, "input topic readings had 2 partitions, has 6")
	})
}

func TestS17GroupOffsetIsNeverJudged(t *testing.T) {
	for name, change := range map[string]func(*world){
		"gone":    func(w *world) { w.DeleteGroupOffset(job, w.partition) },
		"lower":   func(w *world) { w.SetGroupOffset(job, w.partition, kafka.GroupOffset{Next: 0}) },
		"higher":  func(w *world) { w.SetGroupOffset(job, w.partition, kafka.GroupOffset{Next: 1000, Metadata: "by hand"}) },
		"foreign": func(w *world) { w.setGroup(12345, 99) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.start()
			w.commit(r, "x=1")
			w.crash(r)
			change(w)
			w.crash(w.start())
		})
	}
	t.Run("a later commit of this birth is gone", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		w.crash(r)
		w.setGroup(w.last.Birth, 900)
		w.refused(w.recovery(), kafka.ClassLost, "knows commit 900", "ends with commit 1", "899 commits are gone")
	})
	t.Run("a result knows a later commit", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		end := w.Offsets(logTopic, w.partition).HighWatermark
		w.commit(r, "x=2")
		w.crash(r)
		w.Truncate(logTopic, w.partition, end)
		w.setGroup(w.last.Birth, 1)
		w.refused(w.recovery(), kafka.ClassLost, "the result at offset", "knows commit 2", "ends with commit 1")
	})
	t.Run("a trace of an unborn task", func(t *testing.T) {
		w := newWorld(t)
		w.SetGroupOffset(job, w.partition, kafka.GroupOffset{Next: 5, Metadata: "by hand"})
		w.refused(w.recovery(), kafka.ClassLost, "the group's offset 5 of readings/1", "by hand")
	})
}

func (w *world) setGroup(birth record.BirthID, number uint64) {
	w.SetGroupOffset(job, w.partition, kafka.GroupOffset{Next: 1, Metadata: record.Metadata(birth, number)})
}

func TestS19RecordsFromBeforeThePosition(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1")
	w.checkpoint(r)
	w.commit(r, "x=2")
	w.crash(r)
	stale := w.Committed(logTopic, w.partition)[2]
	rec := w.recovery()
	rec.Cluster = &tampered{Cluster: w.Cluster, fetched: func(f *kafka.Fetched) {
		if len(f.Records) > 0 && f.Records[0].Offset > stale.Offset {
			f.Records = append([]kafka.Record{stale}, f.Records...)
		}
	}}
	w.failed(rec, kafka.ClassPermanent, "delivered that lies outside", fmt.Sprintf("offset %d", stale.Offset))
}

func TestS21RecordBeyondTheStableOffset(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1")
	w.open(w.fenced("another"), "x")
	stable := w.Offsets(logTopic, w.partition).Stable
	w.commit(r, "x=2")
	w.crash(r)
	w.Leak(logTopic, w.partition)
	w.failed(w.recovery(), kafka.ClassPermanent, fmt.Sprintf("offset %d", stable), "last stable offset")
}

func TestS23CompactionPastTheCheckpoint(t *testing.T) {
	for _, keep := range []bool{true, false} {
		w := newWorld(t)
		r := w.start()
		var changes []string
		for k := range 20 {
			changes = append(changes, fmt.Sprintf("k%d=0", k))
		}
		w.commit(r, changes...)
		path := w.checkpoint(r)
		for i := range 100 {
			for k := range changes {
				changes[k] = fmt.Sprintf("k%d=%d", k, i)
			}
			w.commit(r, changes...)
		}
		w.crash(r)
		w.Compact(logTopic, w.partition)
		if n := len(w.Committed(logTopic, w.partition)); n > 30 {
			t.Fatalf("%d records are left after compaction", n)
		}
		if !keep {
			if err := w.fs.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		r = w.start()
		if (r.Report.Checkpoint != "") != keep || len(r.Report.Aside) > 0 {
			t.Fatalf("report %+v", r.Report)
		}
		w.crash(r)
	}
}

// The log start moves while a replay is under way, three times: what had been built is thrown away, for it holds a key
// whose tombstone was deleted.
func TestS24LogStartMovesUnderTheReplay(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1", "gone=1")
	w.checkpoint(r)
	w.commit(r, "gone", "x=2")
	for i := range 20 {
		w.commit(r, fmt.Sprintf("x=%d", i), "y=2", "z=3")
	}
	w.crash(r)
	starts := []int64{20, 40, 60}
	moved := 0
	w.Inject(func(c kafkatest.Call) kafkatest.Verdict {
		start := w.Offsets(logTopic, w.partition).Start
		if c.Op == kafkatest.OpFetch && c.Topic == logTopic && c.Position > start && c.Position < start+15 && moved < len(starts) {
			w.DeleteRecords(logTopic, w.partition, starts[moved])
			moved++
		}
		return kafkatest.Verdict{}
	})
	rec := w.recovery()
	rec.Cluster = &tampered{Cluster: w.Cluster, maxBytes: 100}
	got := w.started(rec)
	if moved != len(starts) || got.Report.From != "full replay" || !strings.Contains(got.Report.Why, "log start 60 >") {
		t.Fatalf("log start moved %d times; report %+v", moved, got.Report)
	}
}

// The same between the question for the offsets and the first fetch.
func TestS24LogStartMovesUnderTheTailRead(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1")
	w.commit(r, "x=2", "y=1")
	w.crash(r)
	for _, step := range []Step{StepIdentify, StepReplay} {
		moved := false
		now := Step("")
		w.at = func(s Step) error { now = s; return nil }
		w.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			if c.Op == kafkatest.OpFetch && c.Topic == logTopic && now == step && !moved {
				moved = true
				w.DeleteRecords(logTopic, w.partition, w.Offsets(logTopic, w.partition).Start+3)
			}
			return kafkatest.Verdict{}
		})
		w.crash(w.start())
		if !moved {
			t.Fatalf("the log start did not move in %s", step)
		}
	}
}

func TestS26LogStartAndTheStoredPosition(t *testing.T) {
	for past := range int64(2) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1", "y=2")
		path := w.checkpoint(r)
		begin := int64(r.Position)
		w.commit(r, "x=3")
		w.crash(r)
		w.DeleteRecords(logTopic, w.partition, begin+past)
		if past == 0 {
			if r = w.start(); r.Report.Checkpoint != path {
				t.Fatalf("report %+v; want the checkpoint at the log start", r.Report)
			}
			continue
		}
		for range 2 { // the second start says the same and wipes nothing
			w.failed(w.recovery(), kafka.ClassPermanent, "the state is not that of commit 2", fmt.Sprintf("the log starts at offset %d, not 0", begin+1))
		}
	}
}

func TestS27InputPositionNotRetained(t *testing.T) {
	lived := func(t *testing.T) *world {
		w := newWorld(t)
		r := w.start()
		for i := range 10 {
			w.commit(r, fmt.Sprintf("x=%d", i))
		}
		w.crash(r)
		return w
	}
	t.Run("below the log start", func(t *testing.T) {
		w := lived(t)
		w.DeleteRecords(inTopic, w.partition, 25)
		w.failed(w.recovery(), kafka.ClassLost, "readings/1", "offset 10", "starts at 25", "15 offsets are gone")
	})
	t.Run("at the log start: the anchor is gone and not proved", func(t *testing.T) {
		w := lived(t)
		w.DeleteRecords(inTopic, w.partition, 10)
		if r := w.start(); r.Report.Anchor != "unproved" {
			t.Fatalf("anchor %q", r.Report.Anchor)
		}
	})
	t.Run("beyond the end", func(t *testing.T) {
		w := lived(t)
		w.Truncate(inTopic, w.partition, 7)
		w.failed(w.recovery(), kafka.ClassLost, "offset 10", "ends at 7", "last 3 offsets are gone")
	})
	t.Run("other bytes at the anchor", func(t *testing.T) {
		w := lived(t)
		w.Overwrite(inTopic, w.partition, 9, []byte("refilled"))
		w.failed(w.recovery(), kafka.ClassLost, "offset 9", "the input is another log")
	})
	t.Run("cut off and filled again with the same bytes", func(t *testing.T) {
		w := lived(t)
		again := w.Committed(inTopic, w.partition)[7:]
		w.Truncate(inTopic, w.partition, 7)
		for _, r := range again {
			w.Append(inTopic, w.partition, kafka.Record{Key: r.Key, Value: r.Value})
		}
		w.failed(w.recovery(), kafka.ClassLost, "readings/1 at offset 7", "consumed offset 9 of leader epoch 0", "ends at offset 7", "3 offsets were cut off")
	})
	t.Run("another leader whose log is the same", func(t *testing.T) {
		w := lived(t)
		w.Truncate(inTopic, w.partition, 50) // nothing is cut off: only the epoch rises
		w.Append(inTopic, w.partition, kafka.Record{Key: []byte("k"), Value: []byte("v")})
		if r := w.start(); r.Report.Anchor != "proved" {
			t.Fatalf("anchor %q", r.Report.Anchor)
		}
	})
	t.Run("the anchor compacted away", func(t *testing.T) {
		w := lived(t)
		w.Remove(inTopic, w.partition, 9, 10)
		if r := w.start(); r.Report.Anchor != "unproved" {
			t.Fatalf("anchor %q", r.Report.Anchor)
		}
	})
	t.Run("group offsets expired", func(t *testing.T) {
		w := lived(t)
		w.DeleteGroupOffset(job, w.partition)
		if r := w.start(); r.Commit.Position != 10 {
			t.Fatalf("goes on at %d, want the state's own 10", r.Commit.Position)
		}
	})
}

func TestS31DamagedCheckpoints(t *testing.T) {
	damages := map[string]func(w *world, path string){
		"payload": func(w *world, path string) { w.damage(path, -100) },
		"header":  func(w *world, path string) { w.damage(path, 60) },
		"trailer": func(w *world, path string) { w.damage(path, -1) },
		"empty":   func(w *world, path string) { w.replace(path, nil) },
		"directory": func(w *world, path string) {
			if err := w.fs.Remove(path); err != nil {
				w.t.Fatal(err)
			}
			if err := w.fs.MkdirAll(path, 0o700); err != nil {
				w.t.Fatal(err)
			}
		},
	}
	for name, damage := range damages {
		for _, both := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, both=%v", name, both), func(t *testing.T) {
				w := newWorld(t)
				r := w.start()
				w.commit(r, "x=1", "y=2")
				older := w.checkpoint(r)
				w.commit(r, "x=3")
				newest := w.checkpoint(r)
				w.commit(r, "x=4", "y")
				w.crash(r)
				damage(w, newest)
				want := older
				if both {
					damage(w, older)
					want = ""
				}
				r = w.start()
				if r.Report.Checkpoint != want || len(r.Report.Aside) == 0 {
					t.Fatalf("report %+v; want %q", r.Report, want)
				}
				w.commit(r, "v=5")
				w.crash(r)
				w.crash(w.start())
			})
		}
	}
	t.Run("a wrong one, whole in form: none is trusted", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1", "y=2")
		w.checkpoint(r)
		w.commit(r, "z=3")
		w.merge(r.Store, "y=damage") // memory goes bad before the file is written
		path := w.checkpoint(r)
		w.crash(r)
		r = w.start()
		w.wantAside(r.Report, path, "the state is not that of commit 2")
		if r.Report.From != "full replay" || !strings.Contains(r.Report.Why, "the state is not that of commit 2") {
			t.Fatalf("report %+v", r.Report)
		}
	})
	t.Run("of another partition", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		path := w.checkpoint(r, func(h *store.Header) { h.Fence.Partition = 0 })
		w.crash(r)
		r = w.start()
		w.wantAside(r.Report, path, "partition 0, not of job")
	})
}

func TestS41MarkerAtTheTailRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, checkpoint := range []bool{false, true} {
			w := newWorld(t)
			r := w.start()
			w.commit(r, "x=1", "y=2")
			if checkpoint {
				w.checkpoint(r)
			}
			w.crash(r)
			end := w.Offsets(logTopic, w.partition).HighWatermark
			w.Remove(logTopic, w.partition, end-1, end)
			begin := time.Now()
			w.crash(w.start())
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
			w.crash(w.start())
		}
	})
}

func TestS42TailsWithoutARecord(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1")
	a, b := w.fenced("a"), w.fenced("b")
	w.open(a, "x")
	w.open(b, "x")
	w.AbortTransaction("a")
	w.AbortTransaction("b") // two markers of two producers
	w.crash(r)
	w.crash(w.start())

	w = newWorld(t)
	w.open(w.fenced("a"), "x")
	w.AbortTransaction("a")
	w.Compact(logTopic, w.partition) // nothing but a marker: the task is unborn
	w.lifeGoesOn("only markers")
}

func TestS44HoleAtTheResumeOffset(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1", "y=1")
	path := w.checkpoint(r)
	begin := int64(r.Position)
	for range 50 {
		w.commit(r, "x=2", "y=3")
	}
	w.commit(r, "z=1")
	w.open(r.Writer, "x", "y", "z")
	w.crash(r)
	w.AbortTransaction(TransactionalID(logTopic, w.partition))
	w.Compact(logTopic, w.partition)
	w.Advance(time.Hour)
	for _, e := range w.Entries(logTopic, w.partition) {
		if e.Offset > begin && e.Offset < begin+100 && e.State == kafkatest.Committed {
			t.Fatalf("offset %d is still there: no hole", e.Offset)
		}
	}
	if r = w.start(); r.Report.Checkpoint != path {
		t.Fatalf("report %+v", r.Report)
	}
	w.crash(r)
	if err := w.fs.Remove(path); err != nil {
		t.Fatal(err)
	}
	w.crash(w.start())
}

func TestS63RecordsOfANewerProgram(t *testing.T) {
	for name, tc := range map[string]struct {
		key  []byte
		want []string
	}{
		"commit record": {record.CommitKey, []string{"commit record: written by format 255, this program reads up to 1"}},
		"fence record":  {record.FenceKey, []string{"fence record: written by format 255, this program reads up to 1"}},
		"kind of key":   {[]byte{0x7e, 1}, []string{"key 7e01 is of no kind that changelog format 1 knows"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.start()
			w.commit(r, "x=1")
			w.crash(r)
			at := w.Append(logTopic, w.partition, kafka.Record{Key: tc.key, Value: []byte{255, 1, 2, 3}})
			w.refused(w.recovery(), kafka.ClassPermanent, append(tc.want, fmt.Sprintf("offset %d", at))...)
		})
	}
}
