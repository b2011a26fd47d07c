package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/tidemark-streams/tidemark/internal/job"
	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/recovery"
	"github.com/tidemark-streams/tidemark/internal/repair"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/task"
)

// sweepLife is one process.
type sweepLife struct {
	*sweepWorld
	fs        vfs.FS
	pid       int64
	machine   int
	blow      blow
	meanwhile func() error // what happens while it sleeps; nil for a death
	disturbed error        // of meanwhile
	struck    bool
	dead      bool
	effects   int      // so far
	names     []string // of them
	doing     string
	fence     int // which of the world's fences was its last

	accept    recovery.Accept
	dir       *store.Dir
	recovered *recovery.Recovered
	task      *task.Task
	writer    kafka.Writer
	position  record.ChangelogPosition
	log       kafka.Log
	next      int64
	pending   []kafka.Record
	commits   int
}

// run is an ordinary process: it recovers, and works until nothing is left to do.
func (l *sweepLife) run() error {
	if err := l.recover(); err != nil {
		return err
	}
	if err := l.work(); err != nil {
		return err
	}
	l.doing = "end"
	return l.effect("done")
}

// recovery is what a process makes that has just started.
func (l *sweepLife) recovery() (*recovery.Recovery, *job.Job, error) {
	l.doing = "start"
	admin, _ := l.cluster.Admin()
	found, err := admin.Topics(context.Background(), sweepIn, sweepLog, sweepOut, sweepLate, sweepDead)
	if err != nil {
		return nil, nil, err
	}
	if l.dir, err = store.OpenDir(l.fs, "state/job/p0"); err != nil {
		return nil, nil, err
	}
	proc, err := job.New(l.scene.job(), 0, 1, job.Limits{Changelog: 1 << 20, Result: 1 << 20, Late: 1 << 20, DeadLetter: 1 << 20})
	if err != nil {
		return nil, nil, err
	}
	r := &recovery.Recovery{
		Cluster: l.cluster, Job: "job", Identity: record.Identity{ClusterID: "cluster", Input: found[sweepIn].Topic,
			Changelog: found[sweepLog].Topic, Outputs: []record.Topic{found[sweepOut].Topic}},
		RetentionMS: 7_200_000, Host: "host", PID: l.pid, Version: "test",
		Ask: func(context.Context) (bool, error) { return true, nil },
		GroupOffset: func(ctx context.Context) (kafka.GroupOffset, bool, error) {
			offsets, err := admin.GroupOffsets(ctx, "job", sweepIn)
			o, ok := offsets[0]
			return o, ok, err
		},
		Start:       func(context.Context) (record.InputPosition, error) { return 0, nil },
		Checkpoints: l.dir, Random: l.random.Uint64, Now: func() time.Duration { return 0 },
		At: func(step recovery.Step) error {
			l.doing = string(step)
			return l.alive()
		},
	}
	for _, a := range proc.Aggregations() {
		r.Aggregations = append(r.Aggregations, record.AggregationState{Name: a.Name, Fingerprint: a.Fingerprint, ClosedEnd: record.NoTime})
	}
	return r, proc, nil
}

func (l *sweepLife) recover() error {
	rec, proc, err := l.recovery()
	if err != nil {
		return err
	}
	rec.Accept = l.accept
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	rec.Progress = func(p recovery.Progress) {
		if p.Waiting >= 0 {
			stop(fmt.Errorf("%s waits at offset %d for a transaction that no fence has ended", p.Step, p.Waiting))
		}
	}
	if l.recovered, err = rec.Run(ctx); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	if err := l.whole(); err != nil {
		return err
	}
	if _, err := repair.AcceptLoss(ctx, rec, l.recovered, "anna: accepted"); err != nil {
		return err
	}
	if l.task, err = task.New(l.recovered.Store, proc, l.recovered.Commit, task.Options{Job: "job", MaxRecords: 7, MaxBytes: 1 << 20}); err != nil {
		return err
	}
	l.task.Fenced(l.recovered.Fence.ID, 7_200_000, l.recovered.Commit.OutputHash)
	l.writer, l.position, l.next = l.recovered.Writer, l.recovered.Position, int64(l.recovered.Commit.Position)
	l.log, err = l.cluster.Log(sweepIn, 0)
	return err
}

// whole checks that nothing was wrong with the checkpoints of the machine, however the power failed, and that there is one
// if one was ever published: a recovery goes on without, so its result does not tell (C1, C2, I6).
func (l *sweepLife) whole() error {
	if aside := l.recovered.Report.Aside; len(aside) > 0 && !l.careful {
		return fmt.Errorf("%v was set aside, and nobody damaged it", aside)
	}
	if !l.durable[l.machine] || l.careful {
		return nil
	}
	all, err := l.dir.List()
	if err == nil && len(all) == 0 {
		err = errors.New("a checkpoint was published, and none is there")
	}
	return err
}

// work commits until all input is consumed and nothing is due, with batch n+1 folded before commit n is known, and a
// checkpoint after every second commit.
func (l *sweepLife) work() error {
	for {
		if err := l.fold(); err != nil {
			return err
		}
		if !l.task.Dirty() {
			return nil
		}
		batch, err := l.task.Begin()
		if err != nil {
			return err
		}
		if err := l.fold(); err != nil {
			return err
		}
		if err := l.commit(batch); err != nil {
			return err
		}
		if l.commits++; l.commits%2 == 0 {
			if err := l.checkpoint(); err != nil {
				return err
			}
		}
	}
}

// fold reads and folds what there is until the batch is full.
func (l *sweepLife) fold() error {
	for !l.task.Full() {
		if len(l.pending) == 0 {
			f, err := l.log.Fetch(context.Background(), l.next, sweepFetch, 0)
			if err != nil || f.Next == l.next {
				return err
			}
			l.pending, l.next = f.Records, f.Next
		}
		n, err := l.task.Fold(l.pending)
		if err != nil {
			return err
		}
		if l.pending = l.pending[n:]; len(l.pending) == 0 {
			l.task.PassMarkers(record.InputPosition(l.next))
		}
	}
	return nil
}

// commit carries the effects out.
func (l *sweepLife) commit(batch *task.Batch) error {
	ctx := context.Background()
	messages := make([]kafka.Message, len(batch.Messages))
	topics := map[task.Sink]string{task.SinkChangelog: sweepLog, task.SinkResult: sweepOut, task.SinkLate: sweepLate, task.SinkDead: sweepDead}
	for i, m := range batch.Messages {
		messages[i] = kafka.Message{Topic: topics[m.Sink], Key: m.Key, Value: m.Value, Headers: m.Headers}
	}
	for effect := l.task.Next(); effect != task.EffectNone; effect = l.task.Next() {
		l.doing = "commit"
		switch effect {
		case task.EffectSend:
			offsets, err := l.writer.Send(ctx, messages)
			if err != nil {
				return err
			}
			l.position = record.ChangelogPosition(offsets[len(offsets)-1] + 1)
		case task.EffectEnd:
			if err := l.writer.Commit(ctx); err != nil {
				return err
			}
			if err := l.effect("ended, not merged"); err != nil {
				return err
			}
		case task.EffectOffset:
			if err := l.effect("offset"); err != nil {
				return err
			}
			c := l.task.Committed()
			l.cluster.SetGroupOffset("job", 0, kafka.GroupOffset{Next: c.Position, Metadata: record.Metadata(c.Birth, c.Number)})
		}
		if err := l.task.Did(effect); err != nil {
			return err
		}
	}
	return nil
}

// checkpoint writes one. Each operation on a file is an effect.
func (l *sweepLife) checkpoint() error {
	l.doing = "checkpoint"
	held := l.recovered.Store
	w, err := l.dir.Create(&store.Header{Begin: l.position, BrokerTime: l.recovered.FenceMS, Fence: l.recovered.Fence, Commit: *l.task.Committed()})
	if err != nil {
		return err
	}
	scan := held.StartScan()
	for done := false; !done; {
		var piece []byte
		piece, done = scan.Next(nil)
		if err := w.WriteBlock(piece); err != nil {
			return err
		}
	}
	_, err = w.Publish(l.position, store.Sum{Digest: held.Digest(), Live: held.Live()}, scan.Delta())
	if err == nil {
		l.durable[l.machine] = true
	}
	return errors.Join(err, l.alive())
}
