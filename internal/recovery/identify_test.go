package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/kafkatest"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// A panic in what is asked side by side ends this recovery and not the process (I8).
func TestPanicAmongTraces(t *testing.T) {
	w := newWorld(t)
	w.crash(w.start())
	r := w.recovery()
	r.GroupOffset = func(context.Context) (kafka.GroupOffset, bool, error) { panic("poisoned") }
	_, err := r.Run(t.Context())
	var p *kafka.Panic
	if !errors.As(err, &p) || kafka.ClassOf(err) != kafka.ClassCorrupt {
		t.Errorf("told as %v", err)
	}
	w.crash(w.start())
}

// A configuration that is not this job's never fences (I4, R8).
func TestForeignConfigurationsAreRefusedBeforeTheFence(t *testing.T) {
	lived := func(t *testing.T) *world {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		w.crash(r)
		return w
	}
	t.Run("fingerprint", func(t *testing.T) {
		w := lived(t)
		r := w.recovery()
		r.Aggregations[0].Fingerprint = 8
		w.refused(r, kafka.ClassPermanent, `aggregation "a" means something else`, "0000000000000008", "0000000000000007")
	})
	t.Run("added aggregation", func(t *testing.T) {
		w := lived(t)
		r := w.recovery()
		r.Aggregations = append(r.Aggregations, record.AggregationState{Name: "b", Fingerprint: 9})
		w.crash(w.started(r))
	})
	t.Run("another job on this changelog", func(t *testing.T) {
		w := lived(t)
		r := w.recovery()
		r.Job = "copy"
		w.refused(r, kafka.ClassPermanent, `belongs to job "job" partition 1, this is job "copy"`)
	})
	t.Run("another job, the fence record far behind", func(t *testing.T) { // R8: nothing but the commit record is read
		w := newWorld(t)
		r := w.start()
		for n := range 300 {
			w.commit(r, fmt.Sprintf("x=%d", n))
		}
		w.crash(r)
		other := w.recovery()
		other.Job = "copy"
		w.refused(other, kafka.ClassPermanent, `belongs to job "job" partition 1, this is job "copy"`)
	})
	t.Run("topic without an id", func(t *testing.T) {
		w := lived(t)
		r := w.recovery()
		r.Identity.Changelog.ID = record.TopicID{}
		w.refused(r, kafka.ClassPermanent, logTopic, "no id")
	})
	t.Run("unfinished reset", func(t *testing.T) {
		w := lived(t)
		r := w.start()
		w.last.Mark, w.last.Note = record.MarkResetting, "by anna: wrong unit"
		w.commit(r, "x")
		w.crash(r)
		w.refused(w.recovery(), kafka.ClassPermanent, "a reset was begun", "by anna")
	})
	t.Run("copied job with another changelog", func(t *testing.T) {
		w := lived(t)
		w.CreateTopic("other-changelog", 2, nil)
		r := w.recovery()
		r.Checkpoints = nil
		a, _ := w.Admin()
		infos, _ := a.Topics(context.Background(), "other-changelog")
		r.Identity.Changelog = infos["other-changelog"].Topic
		w.refused(r, kafka.ClassLost, "the group's offset 1 of readings/1", "has lived before")
		w.DeleteGroupOffset(job, w.partition)
		w.refused(r, kafka.ClassLost, "the result at offset 0 of hourly/1", "has lived before")
	})
}

// Another output is only a warning, which names both (D17).
func TestOtherOutputsAreAWarning(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	for range 40 {
		w.commit(r, "x=1", "y=2", "z=3")
	}
	w.crash(r)
	w.AddPartitions(outTopic, 8)
	r = w.start()
	if len(r.Report.Warnings) != 1 || !strings.Contains(r.Report.Warnings[0], "2 partitions), are hourly") || !strings.Contains(r.Report.Warnings[0], "8 partitions)") {
		t.Fatalf("warnings %q", r.Report.Warnings)
	}
}

// Results of others in our output partition are no trace of ours.
func TestResultsOfOthersAreNoTrace(t *testing.T) {
	w := newWorld(t)
	for _, o := range []record.Origin{{Job: "another", Partition: w.partition}, {Job: job, Partition: w.partition + 2}} {
		w.Append(outTopic, w.partition, kafka.Record{Headers: []kafka.Header{{Key: "trace"}, {Key: record.OriginHeader, Value: o.Append(nil)}}})
	}
	w.Append(outTopic, w.partition, kafka.Record{Headers: []kafka.Header{{Key: record.OriginHeader, Value: []byte("odd")}}})
	w.lifeGoesOn("results of others")
}

// A result far from the end is still found.
func TestOldResultIsATrace(t *testing.T) {
	w := newWorld(t)
	o := record.Origin{Job: job, Partition: w.partition}
	w.Append(outTopic, w.partition, kafka.Record{Headers: []kafka.Header{{Key: record.OriginHeader, Value: o.Append(nil)}}})
	w.Append(outTopic, w.partition, make([]kafka.Record, resultOffsets-1)...)
	w.refused(w.recovery(), kafka.ClassLost, "the result at offset 0", "has lived before")
	w.Append(outTopic, w.partition, kafka.Record{})
	w.crash(w.start())
}

func TestChangelogThatIsNotWhole(t *testing.T) {
	t.Run("updates without a commit record", func(t *testing.T) {
		w := newWorld(t)
		w.Append(logTopic, w.partition, kafka.Record{Key: entryKey("x"), Value: []byte("1")})
		w.refused(w.recovery(), kafka.ClassLost, "offset 0", "an update but no commit record")
	})
	t.Run("log start above 0 and no commit record", func(t *testing.T) {
		w := newWorld(t)
		w.Append(logTopic, w.partition, kafka.Record{Key: entryKey("x"), Value: []byte("1")})
		w.DeleteRecords(logTopic, w.partition, 1)
		w.refused(w.recovery(), kafka.ClassLost, "log starts at offset 1, not 0")
	})
	t.Run("an update behind the last commit record", func(t *testing.T) {
		for _, at := range []Step{StepIdentify, StepFence} {
			w := newWorld(t)
			r := w.start()
			w.commit(r, "x=1")
			w.crash(r)
			w.at = func(s Step) error {
				if s == at {
					w.Append(logTopic, w.partition, kafka.Record{Key: entryKey("x"), Value: []byte("9")})
				}
				return nil
			}
			w.failed(w.recovery(), kafka.ClassPermanent, "an update behind the last commit record", "it is not ours")
		}
	})
	t.Run("another digest", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1", "y=2")
		path := w.checkpoint(r)
		w.commit(r, "z=3")
		w.crash(r)
		for _, rec := range w.Committed(logTopic, w.partition) {
			if string(rec.Value) == "3" {
				w.Overwrite(logTopic, w.partition, rec.Offset, []byte("4"))
			}
		}
		w.failed(w.recovery(), kafka.ClassPermanent, "digest", "of 3 entries", w.last.Digest.String(), "tidemark reseal")
		if _, err := w.fs.Stat(path); err == nil {
			t.Fatal("the checkpoint was not set aside before the full replay")
		}
	})
	t.Run("an entry lost from the middle", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1", "y=2")
		at := w.Offsets(logTopic, w.partition).HighWatermark
		w.commit(r, "z=3", "v=4")
		w.crash(r)
		w.Remove(logTopic, w.partition, at, at+1)
		w.failed(w.recovery(), kafka.ClassPermanent, "of 3 entries", "of 4")
	})
}

// EndTxn is answered before its markers are visible. A trace may know of such a commit, and it is not gone (V8).
func TestCommitAnsweredButNotVisible(t *testing.T) {
	w := newWorld(t)
	r := w.start()
	w.commit(r, "x=1")
	w.HoldMarkers(true)
	w.commit(r, "x=2", "y=3")
	w.HoldMarkers(false)
	if o := w.Offsets(logTopic, w.partition); o.Stable == o.HighWatermark {
		t.Fatal("the markers are visible: the case is not there")
	}
	w.checkpoint(r)
	w.crash(r)
	w.crash(w.start()) // its fence makes them visible
}

// The same with the very first commit: the birth is known to the group before it is visible. Nobody is fenced until it
// is known whose changelog this is.
func TestBirthAnsweredButNotVisible(t *testing.T) {
	w := newWorld(t)
	w.at = func(s Step) error {
		w.HoldMarkers(s == StepBirthCommit)
		return nil
	}
	r := w.start()
	w.at = nil
	w.setGroup(r.Commit.Birth, 0)
	w.crash(r)
	w.refused(w.recovery(), kafka.ClassTransient, "waiting for its end", "group's offset")
	w.ReleaseMarkers()
	w.crash(w.start())
}

// Between the first look and the fence another owner may do anything.
func TestAnotherOwnerBetweenTheSteps(t *testing.T) {
	// other runs once before a step of ours; steps of its own are nobody's business.
	other := func(w *world, at Step, do func()) {
		done := false
		w.at = func(s Step) error {
			if s == at && !done {
				done = true
				do()
			}
			return nil
		}
	}
	t.Run("born meanwhile", func(t *testing.T) {
		w := newWorld(t)
		other(w, StepFence, func() {
			r := w.start()
			w.commit(r, "x=1")
			w.crash(r)
		})
		w.crash(w.start())
	})
	t.Run("gone on meanwhile", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		other(w, StepFence, func() { w.commit(r, "x=2", "y=3") })
		w.crash(w.start())
	})
	for _, at := range []Step{StepTail, StepReplay} {
		t.Run("our fence record replaced before "+string(at), func(t *testing.T) {
			w := newWorld(t)
			r := w.start()
			w.commit(r, "x=1")
			w.crash(r)
			other(w, at, func() {
				r := w.start()
				w.commit(r, "x=2")
				w.crash(r)
				w.Compact(logTopic, w.partition)
			})
			w.failed(w.recovery(), kafka.ClassFenced, "is not there: a newer owner's has replaced it")
		})
	}
	t.Run("born meanwhile as something else", func(t *testing.T) {
		w := newWorld(t)
		other(w, StepFence, func() { w.crash(w.start()) })
		rec := w.recovery()
		rec.Aggregations[0].Fingerprint = 8
		w.failed(rec, kafka.ClassPermanent, "means something else")
	})
	t.Run("a trace meanwhile", func(t *testing.T) {
		w := newWorld(t)
		other(w, StepFence, func() { w.setGroup(77, 5) })
		w.failed(w.recovery(), kafka.ClassLost, "has lived before")
	})
	t.Run("our fence record gone", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		w.crash(r)
		other(w, StepTail, func() {
			end := w.Offsets(logTopic, w.partition).HighWatermark
			w.Remove(logTopic, w.partition, end-2, end-1) // its marker is there, and nothing behind it
		})
		w.failed(w.recovery(), kafka.ClassFenced, "our fence record", "is not there")
	})
	t.Run("another fence record in place of ours", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		w.crash(r)
		other(w, StepTail, func() {
			f := record.Fence{ID: 99, Job: job, Partition: w.partition}
			w.Overwrite(logTopic, w.partition, w.Offsets(logTopic, w.partition).HighWatermark-2, f.Append(nil))
		})
		w.failed(w.recovery(), kafka.ClassFenced, "our fence record", "is not there")
	})
	t.Run("an unborn task whose fence record is gone is not born", func(t *testing.T) {
		w := newWorld(t)
		other(w, StepTail, func() { w.Remove(logTopic, w.partition, 0, 1) })
		w.failed(w.recovery(), kafka.ClassFenced, "our fence record")
		if n := w.Calls(kafkatest.OpCommit); n != 1 {
			t.Fatalf("%d commits, want that of the fence record alone", n)
		}
	})
	t.Run("the last commit record gone before the replay", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		w.commit(r, "x=1")
		w.crash(r)
		other(w, StepReplay, func() { w.Remove(logTopic, w.partition, int64(r.Position)-1, int64(r.Position)) })
		w.failed(w.recovery(), kafka.ClassFenced, "the last commit record", "is not there")
	})
	t.Run("the last commit record changed before the replay", func(t *testing.T) {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		first := int64(r.Position)
		w.commit(r, "x=1")
		w.crash(r)
		other(w, StepReplay, func() {
			c := w.last.Clone()
			c.Number = 5
			w.Remove(logTopic, w.partition, first-2, first+1) // a hole, so that the numbers may jump
			w.Overwrite(logTopic, w.partition, int64(r.Position)-1, c.Append(nil))
		})
		w.failed(w.recovery(), kafka.ClassPermanent, "the replay ends with commit 5", "the tail read found commit 2")
	})
	t.Run("fenced before the fence record", func(t *testing.T) {
		w := newWorld(t)
		w.crash(w.start())
		other(w, StepFenceSend, func() { w.fenced(TransactionalID(logTopic, w.partition)) })
		w.failed(w.recovery(), kafka.ClassFenced, "PRODUCER_EPOCH")
	})
}

// Every request of a recovery fails once, before it took effect and after: the next recovery has the state.
func TestLostRequestsOfARecovery(t *testing.T) {
	for name, verdict := range map[string]func(error) kafkatest.Verdict{"before": kafkatest.Fail, "after": kafkatest.ApplyThenFail} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for met := true; met; {
				n++
				w := newWorld(t)
				r := w.start()
				w.commit(r, "x=1", "y=2")
				w.checkpoint(r)
				w.commit(r, "x", "z=3")
				w.open(r.Writer, "u")
				w.crash(r)
				met = w.runWithLost(n, verdict)
				w.crash(w.start())
			}
			if n < 12 {
				t.Fatalf("only %d requests", n)
			}
		})
	}
}

// A request that hangs ends with the caller's context, wherever it is.
func TestHangingRequestsEndWithTheContext(t *testing.T) {
	for n := 1; ; n++ {
		met := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			r := w.start()
			w.commit(r, "x=1")
			w.crash(r)
			rec := w.recovery()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			calls := 0
			w.Inject(func(c kafkatest.Call) kafkatest.Verdict {
				if calls++; calls == n && c.Op != kafkatest.OpJoin {
					met = true
					cancel()
					return kafkatest.Hang()
				}
				return kafkatest.Verdict{}
			})
			got, err := rec.Run(ctx)
			if err == nil { // only what was read ahead hung
				w.crash(got)
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("request %d hung: %v", n, err)
			}
		})
		if !met {
			if n < 10 {
				t.Fatalf("only %d requests", n)
			}
			return
		}
	}
}

// Tail reads grow their window until the commit record is there, however much was aborted after it.
func TestTailBehindALargeAbortedCommit(t *testing.T) {
	for _, aborted := range []int{0, 1, 63, 64, 65, 400, 2000} {
		w := newWorld(t)
		r := w.start()
		w.commit(r, "x=1")
		for i := range aborted {
			w.open(r.Writer, fmt.Sprint(i))
		}
		w.crash(r)
		w.AbortTransaction(TransactionalID(logTopic, w.partition))
		step, fetches, at := Step(""), 0, int64(r.Position)-1
		w.at = func(s Step) error { step = s; return nil }
		w.Inject(func(c kafkatest.Call) kafkatest.Verdict {
			if c.Op == kafkatest.OpFetch && c.Topic == logTopic && step != StepReplay {
				fetches++
				if step == StepTail && c.Position <= at {
					t.Errorf("the second tail read begins at %d, the first one found the commit record at %d", c.Position, at)
				}
			}
			return kafkatest.Verdict{}
		})
		w.crash(w.start())
		if fetches > 10 {
			t.Fatalf("%d aborted records: %d fetches of the changelog", aborted, fetches)
		}
	}
}

// Before the fence the former owner may still be at work: it commits while the log is read, and compaction takes away the
// commit record that the read had not come to yet. That is no damage; the next attempt finds the newer one. An update that no
// commit follows is none of the owner's, however the log grows.
func TestCompactionUnderALook(t *testing.T) {
	for name, c := range map[string]struct {
		foreign bool // somebody else writes, before and while the log is read
		class   kafka.Class
		says    string
	}{
		"a commit and compaction": {false, kafka.ClassTransient, "there is a commit behind offset"},
		"somebody else's updates": {true, kafka.ClassPermanent, "it is not ours"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			owner := w.start()
			w.commit(owner, "x=1")
			w.commit(owner, "y=1")
			another := func() {
				w.Append(logTopic, w.partition, kafka.Record{Key: entryKey("x"), Value: []byte("9")})
			}
			if c.foreign {
				another()
			}
			rec := w.recovery()
			moved := false
			rec.Cluster = &tampered{Cluster: w.Cluster, maxBytes: 1, fetched: func(f *kafka.Fetched) {
				if !moved && slices.ContainsFunc(f.Records, func(r kafka.Record) bool { return bytes.Equal(r.Key, entryKey("x")) }) {
					if moved = true; c.foreign {
						another()
						return
					}
					w.commit(owner, "z=1")
					w.Compact(logTopic, w.partition)
				}
			}}
			w.failed(rec, c.class, c.says)
			if !moved {
				t.Fatal("nothing has happened while the log was read")
			}
			if !c.foreign {
				w.start()
			}
		})
	}
}
