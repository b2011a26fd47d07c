package crash

import (
	"context"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/kafka"
	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
	"github.com/tidemark-streams/tidemark/internal/store/storetest"
)

// Step is Options.At of the root package.
func (p *Plan) Step(_ context.Context, partition int32, step string) error {
	return p.At(partition, step)
}

// Sent is told of each request that has been written to a broker, by the name the protocol gives it.
func (p *Plan) Sent(request string) {
	if point, ok := requests[request]; ok {
		_ = p.At(NoPartition, point) // a request that is on its way cannot fail here
	}
}

var requests = map[string]string{
	"Produce": "wire.produce", "EndTxn": "wire.end-txn", "InitProducerID": "wire.init-producer-id", "Fetch": "wire.fetch",
	"ListOffsets": "wire.list-offsets", "JoinGroup": "wire.join-group", "SyncGroup": "wire.sync-group", "Heartbeat": "wire.heartbeat",
	"OffsetCommit": "wire.offset-commit", "LeaveGroup": "wire.leave-group",
}

// Files puts the points of checkpoint files around the operations of a file system.
func (p *Plan) Files(fs store.FS) store.FS {
	return storetest.Hook(fs, func(op storetest.Op, do func() error) error {
		before, after := filePoint(op)
		if before == "" {
			return do()
		}
		partition := partitionOf(op.Path)
		if err := p.At(partition, before); err != nil {
			return err
		}
		err := do()
		if err == nil && after != "" {
			err = p.At(partition, after)
		}
		return err
	})
}

// filePoint names the points before and after an operation; "" is none.
func filePoint(op storetest.Op) (before, after string) {
	tmp, whole := strings.HasSuffix(op.Path, ".tmp"), strings.HasSuffix(op.Path, ".checkpoint")
	switch {
	case op.Kind == "mkdir":
		return "checkpoint.make-dir", "checkpoint.made-dir"
	case op.Kind == "create":
		return "checkpoint.create", "checkpoint.created"
	case op.Kind == "write":
		return "checkpoint.write", ""
	case op.Kind == "sync" && tmp:
		return "checkpoint.sync", "checkpoint.synced"
	case op.Kind == "sync" && ofTask(op.Path):
		return "checkpoint.sync-dir", "checkpoint.synced-dir"
	case op.Kind == "sync":
		return "checkpoint.sync-parent", ""
	case op.Kind == "rename" && tmp:
		return "checkpoint.rename", "checkpoint.renamed"
	case op.Kind == "rename":
		return "checkpoint.set-aside", "checkpoint.is-aside"
	case op.Kind == "remove" && tmp:
		return "checkpoint.sweep", "checkpoint.swept"
	case op.Kind == "remove" && whole:
		return "checkpoint.remove-old", "checkpoint.removed-old"
	case op.Kind == "read":
		return "checkpoint.read", ""
	}
	return "", ""
}

// ofTask tells whether a path is the directory of a task.
func ofTask(path string) bool {
	_, ok := number(path[strings.LastIndexByte(path, '/')+1:])
	return ok
}

// partitionOf finds the task in the path of a file or directory of it.
func partitionOf(path string) int32 {
	for name := range strings.SplitSeq(path[strings.LastIndexByte(path[:max(0, strings.LastIndexByte(path, '/'))], '/')+1:], "/") {
		if n, ok := number(name); ok {
			return n
		}
	}
	return NoPartition
}

// number reads p<N>, the name of a task's directory.
func number(name string) (int32, bool) {
	digits, ok := strings.CutPrefix(name, "p")
	n, err := strconv.ParseInt(digits, 10, 32)
	return int32(n), ok && err == nil && n >= 0
}

// Cluster puts the points of commits and of the group around the parts of a cluster.
func (p *Plan) Cluster(c kafka.Cluster) kafka.Cluster { return cluster{c, p} }

type cluster struct {
	kafka.Cluster
	plan *Plan
}

// Writer has the point in the middle of a commit.
func (c cluster) Writer(transactionalID string) (kafka.Writer, error) {
	w, err := c.Cluster.Writer(transactionalID)
	return &writer{Writer: w, plan: c.plan}, err
}

type writer struct {
	kafka.Writer
	plan    *Plan
	offsets []int64
}

// Send sends a commit in pieces, if something is to happen between them.
func (w *writer) Send(ctx context.Context, messages []kafka.Message) ([]int64, error) {
	n := len(messages)
	w.offsets = w.offsets[:0]
	for _, cut := range []struct {
		point string
		at    int
	}{{pointHalf, n / 2}, {pointRecord, n - 1}} {
		if sent := len(w.offsets); n < 2 || cut.at <= sent || !w.plan.has(cut.point) {
			continue
		} else if err := w.send(ctx, messages[sent:cut.at]); err != nil {
			return nil, err
		}
		next := &messages[cut.at]
		if err := w.plan.At(next.Partition, cut.point); err != nil && cut.point == pointRecord {
			return nil, &kafka.Error{Class: kafka.ClassTransient, Op: "send", Topic: next.Topic, Partition: next.Partition, Offset: -1, Err: err}
		} else if err != nil {
			return nil, err
		}
	}
	if len(w.offsets) == 0 {
		return w.Writer.Send(ctx, messages)
	}
	err := w.send(ctx, messages[len(w.offsets):])
	return w.offsets, err
}

func (w *writer) send(ctx context.Context, messages []kafka.Message) error {
	offsets, err := w.Writer.Send(ctx, messages)
	w.offsets = append(w.offsets, offsets...)
	return err
}

// Commit has a point that, when it fails, takes the writer along, as any failed commit does.
func (w *writer) Commit(ctx context.Context) error {
	if err := w.plan.At(NoPartition, pointRefused); err != nil {
		w.Close()
		return err
	}
	return w.Writer.Commit(ctx)
}

// Group has the points of the group.
func (c cluster) Group(o kafka.GroupOptions) (kafka.Group, error) {
	if err := c.plan.At(NoPartition, "group.join"); err != nil {
		return nil, err
	}
	joined := o.Joined
	o.Joined = func(id string) {
		_ = c.plan.At(NoPartition, "group.joined") // it has joined: that cannot fail any more
		if joined != nil {
			joined(id)
		}
	}
	g, err := c.Cluster.Group(o)
	return &group{g, c.plan}, err
}

type group struct {
	kafka.Group
	plan *Plan
}

// Ask has points before and after.
func (g *group) Ask(ctx context.Context, partition int32) (ours bool, err error) {
	err = g.around(partition, "group.ask", "group.asked", func() (err error) {
		ours, err = g.Group.Ask(ctx, partition)
		return err
	})
	return ours, err
}

// SetOffset has points before and after.
func (g *group) SetOffset(ctx context.Context, partition int32, next record.InputPosition, metadata string) error {
	return g.around(partition, "group.offset", "group.offset-set", func() error {
		return g.Group.SetOffset(ctx, partition, next, metadata)
	})
}

// Leave has points before and after.
func (g *group) Leave(ctx context.Context) error {
	return g.around(NoPartition, "group.leave", "group.left", func() error { return g.Group.Leave(ctx) })
}

// around goes through the point before a call, and after one that succeeded through the point after it.
func (g *group) around(partition int32, before, after string, call func() error) error {
	if err := g.plan.At(partition, before); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return g.plan.At(partition, after)
}
