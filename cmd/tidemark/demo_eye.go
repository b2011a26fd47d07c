package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
	"github.com/tidemark-streams/tidemark/internal/record"
)

// demoEye sees what the tasks do without asking the worker: it reads the commit records in the changelog, and how long
// the input is. One goroutine uses it.
type demoEye struct {
	tasks []demoTask
}

// demoTask is what was seen of one task.
type demoTask struct {
	input, changelog kafka.Log

	produced int64                    // records in its input partition
	next     int64                    // changelog offset to read next
	open     bool                     // a transaction was open at the last look
	commit   *record.Commit           // the last one
	digests  map[uint64]record.Digest // of every commit, by its number

	mark   record.InputPosition // where the task stood when mark was called
	worked int64                // broker time in ms of the first commit beyond it; 0 before there is one
}

// newDemoEye opens the topics, which must exist.
func newDemoEye(addr, input, changelog string) (*demoEye, error) {
	cluster, err := client.New(client.Options{Brokers: []string{addr}})
	if err != nil {
		return nil, err
	}
	y := &demoEye{tasks: make([]demoTask, demoPartitions)}
	for p := range y.tasks {
		t := &y.tasks[p]
		t.digests = map[uint64]record.Digest{}
		if t.input, err = cluster.Log(input, int32(p)); err == nil {
			t.changelog, err = cluster.Log(changelog, int32(p))
		}
		if err != nil {
			y.close()
			return nil, err
		}
	}
	return y, nil
}

func (y *demoEye) close() {
	for i := range y.tasks {
		if y.tasks[i].input != nil {
			y.tasks[i].input.Close()
		}
		if y.tasks[i].changelog != nil {
			y.tasks[i].changelog.Close()
		}
	}
}

// look reads everything that is committed by now. Where a transaction is open it reads up to it and does not wait.
func (y *demoEye) look(ctx context.Context) error {
	for i := range y.tasks {
		if err := y.tasks[i].look(ctx); err != nil {
			return fmt.Errorf("watch task %d: %w", i, err)
		}
	}
	return nil
}

func (t *demoTask) look(ctx context.Context) error {
	offsets, err := t.changelog.Offsets(ctx)
	if err != nil {
		return err
	}
	t.open = offsets.Stable < offsets.HighWatermark
	for t.next < offsets.Stable {
		fetched, err := t.changelog.Fetch(ctx, t.next, fetchBytes, fetchWait)
		if err != nil {
			return err
		}
		for i := range fetched.Records {
			if err := t.take(&fetched.Records[i]); err != nil {
				return err
			}
		}
		t.next = fetched.Next
	}
	input, err := t.input.Offsets(ctx) // afterwards: never less than what is committed
	t.produced = input.HighWatermark
	return err
}

// take notes one record of the changelog. Only commit records count.
func (t *demoTask) take(r *kafka.Record) error {
	if kind, ok := record.KindOf(r.Key); !ok || kind != record.KindCommit {
		return nil
	}
	commit, err := record.ParseCommit(r.Value)
	if err != nil {
		return err
	}
	t.commit = commit
	t.digests[commit.Number] = commit.Digest
	if t.worked == 0 && commit.Position > t.mark {
		t.worked = r.Timestamp
	}
	return nil
}

// mark begins to wait for the next commit of each task that takes readings in.
func (y *demoEye) mark() {
	for i := range y.tasks {
		t := &y.tasks[i]
		t.mark, t.worked = t.position(), 0
	}
}

// position is the input offset up to which everything is committed.
func (t *demoTask) position() record.InputPosition {
	if t.commit == nil {
		return 0
	}
	return t.commit.Position
}

// openTransactions returns the tasks that had a transaction open at the last look.
func (y *demoEye) openTransactions() []int {
	open := []int{}
	for i := range y.tasks {
		if y.tasks[i].open {
			open = append(open, i)
		}
	}
	return open
}

// committing tells whether a task is in the middle of a commit at this moment.
func (y *demoEye) committing(ctx context.Context) (bool, error) {
	for i := range y.tasks {
		offsets, err := y.tasks[i].changelog.Offsets(ctx)
		if err != nil || offsets.Stable < offsets.HighWatermark {
			return err == nil, err
		}
	}
	return false, nil
}

// demoFigures are sums over all tasks.
type demoFigures struct {
	produced  int64 // readings in the input
	committed int64 // readings that a commit has taken in
	live      int64 // open windows
	results   int64 // windows closed
	late      int64 // windows missed by late readings
	dead      int64 // dead letters
}

func (y *demoEye) figures() demoFigures {
	var f demoFigures
	for i := range y.tasks {
		t := &y.tasks[i]
		f.produced += t.produced
		f.committed += int64(t.position())
		if t.commit == nil {
			continue
		}
		f.live += int64(t.commit.Live)
		f.dead += int64(t.commit.Counters.DeadLettered)
		for _, a := range t.commit.Aggregations {
			f.results += int64(a.Results)
			f.late += int64(a.Late)
		}
	}
	return f
}

// waiting returns how many readings of the input no commit has taken in.
func (f demoFigures) waiting() int64 { return f.produced - f.committed }

// working tells whether every task has committed readings since mark.
func (y *demoEye) working() bool {
	return !slices.ContainsFunc(y.tasks, func(t demoTask) bool { return t.worked == 0 })
}
